use super::*;
use kinds::resource::builtins;

fn of(group: &str) -> Value {
    let resources = builtins();
    let served: Vec<Served<'_>> = resources.iter().map(|resource| Served { resource, schema: None }).collect();
    document(group, "v1", &served, "v1.36.0")
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|parameter| parameter["name"].as_str().unwrap()).collect()
}

/// Returns every `$ref` in a document.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if let ("$ref", Value::String(name)) = (key.as_str(), value) {
                    found.insert(name);
                }
                references(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_patch_operation_takes_the_parameters_that_kubectl_looks_for() {
    for (group, _) in versions(&builtins().iter().map(|resource| Served { resource, schema: None }).collect::<Vec<_>>()) {
        let document = of(group);
        for (path, item) in document["paths"].as_object().unwrap() {
            let Some(patch) = item.get("patch") else { continue };
            let parameters = names(&patch["parameters"]);
            assert!(
                ["fieldValidation", "dryRun", "fieldManager", "force"].iter().all(|name| parameters.contains(name)),
                "{path}"
            );
            assert!(patch["parameters"].as_array().unwrap().iter().all(|parameter| parameter["in"] == "query"));
            let bodies = patch["requestBody"]["content"].as_object().unwrap();
            assert_eq!(bodies.len(), 4, "{path}");
        }
    }
}

#[test]
fn a_lease_can_be_patched() {
    let document = of("coordination.k8s.io");
    let item = &document["paths"]["/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"];
    let patch = &item["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"})
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(patch["operationId"], "patchCoordinationV1NamespacedLease");
    assert_eq!(names(&item["parameters"]), ["name", "namespace", "pretty"]);
    let lease = &document["components"]["schemas"]["io.k8s.api.coordination.v1.Lease"];
    assert_eq!(
        lease["x-kubernetes-group-version-kind"],
        json!([{"group": "coordination.k8s.io", "version": "v1", "kind": "Lease"}])
    );
    assert_eq!(lease["properties"]["spec"]["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.coordination.v1.LeaseSpec");
    assert!(document["components"]["schemas"]["io.k8s.api.coordination.v1.LeaseList"]["properties"]["items"].is_object());
}

#[test]
fn paths_follow_scope_and_verbs() {
    let core = of("");
    let methods = |path: &str| -> Vec<String> {
        let item = core["paths"][path].as_object().unwrap_or_else(|| panic!("no {path}"));
        item.keys().filter(|key| *key != "parameters").cloned().collect()
    };
    assert_eq!(methods("/api/v1/namespaces/{namespace}/pods"), ["delete", "get", "post"]);
    assert_eq!(methods("/api/v1/namespaces/{namespace}/pods/{name}"), ["delete", "get", "patch", "put"]);
    assert_eq!(methods("/api/v1/pods"), ["get"]);
    assert_eq!(methods("/api/v1/namespaces/{namespace}/pods/{name}/eviction"), ["post"]);
    assert_eq!(methods("/api/v1/namespaces/{namespace}/pods/{name}/log"), ["get"]);
    assert_eq!(methods("/api/v1/nodes/{name}/status"), ["get", "patch", "put"]);
    assert_eq!(methods("/api/v1/namespaces"), ["get", "post"]);
    assert_eq!(methods("/api/v1/namespaces/{name}/finalize"), ["put"]);
    assert_eq!(methods("/api/v1/namespaces/{namespace}/bindings"), ["post"]);
    assert!(core["paths"].get("/api/v1/namespaces/{namespace}/bindings/{name}").is_none());
    let eviction = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"];
    assert_eq!(eviction["x-kubernetes-group-version-kind"], json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
}

#[test]
fn operation_ids_are_unique() {
    for group in ["", "apps", "events.k8s.io", "apiextensions.k8s.io"] {
        let document = of(group);
        let items = document["paths"].as_object().unwrap().values().filter_map(Value::as_object);
        let ids: Vec<&str> =
            items.flat_map(|item| item.values()).filter_map(|operation| operation["operationId"].as_str()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}

#[test]
fn every_reference_leads_somewhere() {
    for group in [
        "",
        "apps",
        "events.k8s.io",
        "apiextensions.k8s.io",
        "authorization.k8s.io",
        "authentication.k8s.io",
        "discovery.k8s.io",
    ] {
        let document = of(group);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert!(schemas.values().all(Value::is_object));
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for name in found {
            assert!(schemas.contains_key(name.trim_start_matches("#/components/schemas/")), "{group}: {name}");
        }
    }
}

#[test]
fn schemas_carry_merge_keys_and_the_sub_second_fields() {
    let core = of("");
    let schema = |name: &str| &core["components"]["schemas"][format!("io.k8s.api.core.v1.{name}")];
    let containers = &schema("PodSpec")["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["items"]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Container");
    assert_eq!(schema("PodSpec")["properties"]["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(schema("Container")["properties"]["ports"]["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(schema("LocalObjectReference")["x-kubernetes-map-type"], "atomic");
    assert_eq!(schema("PodSpec")["required"], json!(["containers"]));
    let probe = &schema("Probe")["properties"];
    assert_eq!(probe["periodMilliseconds"]["type"], "integer");
    assert!(probe["httpGet"]["description"].as_str().unwrap().contains("HTTP"));
    let strategy = &of("apps")["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"];
    assert_eq!(strategy["x-kubernetes-patch-strategy"], "retainKeys");
    assert!(strategy["allOf"].is_array());
}

#[test]
fn custom_resources_bring_their_schema() {
    let mut gadgets = Resource::new("x.test", "v1", "gadgets", "gadget", "Gadget", true).status();
    gadgets.custom = true;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}, "metadata": {"type": "object"}}});
    let document = document("x.test", "v1", &[Served { resource: &gadgets, schema: Some(&schema) }], "v1.36.0");
    let gadget = &document["components"]["schemas"]["test.x.v1.Gadget"];
    assert_eq!(gadget["properties"]["spec"], json!({"type": "object"}));
    assert_eq!(
        gadget["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert_eq!(gadget["x-kubernetes-group-version-kind"], json!([{"group": "x.test", "version": "v1", "kind": "Gadget"}]));
    let patch = &document["paths"]["/apis/x.test/v1/namespaces/{namespace}/gadgets/{name}/status"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/merge-patch+json").is_some());
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    assert!(document["components"]["schemas"]["test.x.v1.GadgetList"].is_object());
}

#[test]
fn the_index_points_at_documents_by_hash() {
    let hashes = BTreeMap::from([("api/v1".to_owned(), hash(b"a")), ("apis/apps/v1".to_owned(), hash(b"b"))]);
    let index = index(&hashes);
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(url, format!("/openapi/v3/api/v1?hash={}", hash(b"a")));
    assert_ne!(hash(b"a"), hash(b"b"));
    assert_eq!(hash(b""), "6C62272E07BB014262B821756295C58D");
    assert!(hash(b"a").bytes().all(|digit| digit.is_ascii_digit() || (b'A'..=b'F').contains(&digit)));
}

#[test]
fn documents_stay_small() {
    let size = of("").to_string().len();
    assert!((50_000..300_000).contains(&size), "{size}");
}
