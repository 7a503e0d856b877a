//! The role of a node's agent: every verb on every resource and subresource that is served, own and foreign, over HTTP.

use apiserver::Role;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::plane::Plane;
use crate::raw::Raw;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// What node `n1` may do with its own objects, and with those of others. Whatever is not here is refused.
const TABLE: &[(&str, &str, &[&str], &[&str])] = &[
    ("", "nodes", &["get", "list", "watch", "create", "update", "patch"], &[]),
    ("", "nodes/status", &["get", "update", "patch"], &[]),
    ("", "pods", &["get", "list", "watch", "delete"], &[]),
    ("", "pods/status", &["get", "update", "patch"], &[]),
    ("", "pods/eviction", &["create"], &[]),
    ("", "secrets", &["get", "list", "watch"], &[]),
    ("", "configmaps", &["get", "list", "watch"], &[]),
    ("", "services", &["get", "list", "watch"], &["get", "list", "watch"]),
    ("discovery.k8s.io", "endpointslices", &["get", "list", "watch"], &["get", "list", "watch"]),
    ("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "update", "patch"], &[]),
    ("apps.kruise.io", "nodepodprobes", &["get", "list", "watch"], &[]),
    ("apps.kruise.io", "nodepodprobes/status", &["get", "update", "patch"], &[]),
    ("", "events", &["create", "update", "patch"], &["create", "update", "patch"]),
    ("events.k8s.io", "events", &["create", "update", "patch"], &["create", "update", "patch"]),
    ("node.k8s.io", "runtimeclasses", &["get", "list", "watch"], &["get", "list", "watch"]),
    ("storage.k8s.io", "csidrivers", &["get", "list", "watch"], &["get", "list", "watch"]),
    ("storage.k8s.io", "csinodes", &["get", "list", "watch", "create", "update", "patch", "delete"], &[]),
    ("resource.k8s.io", "resourceslices", &["list", "watch", "deletecollection"], &[]),
    ("authentication.k8s.io", "tokenreviews", &["create"], &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"], &["create"]),
    ("authorization.k8s.io", "localsubjectaccessreviews", &["create"], &["create"]),
    ("authorization.k8s.io", "selfsubjectaccessreviews", &["create"], &["create"]),
    ("authorization.k8s.io", "selfsubjectrulesreviews", &["create"], &["create"]),
    ("authentication.k8s.io", "selfsubjectreviews", &["create"], &["create"]),
];

/// Whose object a request is for, and how it says so.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ObjectOwner {
    Own,
    Foreign,
    /// Foreign, with a field selector that speaks of the own node.
    Disguised,
}

fn allowed(group: &str, resource: &str, verb: &str, owner: ObjectOwner) -> bool {
    if (group, resource, verb, owner) == ("", "pods", "watch", ObjectOwner::Disguised) {
        return true; // a watch of one pod that its selector also filters: it shows nothing of others
    }
    if (group, resource, verb, owner) == ("resource.k8s.io", "resourceslices", "deletecollection", ObjectOwner::Disguised) {
        return true; // its selector filters what is deleted
    }
    TABLE.iter().filter(|row| row.0 == group && row.1 == resource).any(|(.., own, foreign)| {
        let verbs = if owner == ObjectOwner::Own { own } else { foreign };
        verbs.contains(&verb)
    })
}

/// A resource or subresource as discovery lists it.
struct Served {
    base: String,
    group: String,
    resource: String,
    namespaced: bool,
}

async fn served(admin: &Raw) -> Vec<Served> {
    let read =
        async |path: String| -> Value { serde_json::from_str(&admin.send(Method::GET, &path, &[], "").await.1).unwrap() };
    let groups = read("/apis".into()).await;
    let mut bases = vec![("/api/v1".to_owned(), String::new())];
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            bases
                .push((format!("/apis/{}", version["groupVersion"].as_str().unwrap()), group["name"].as_str().unwrap().into()));
        }
    }
    let mut all = Vec::new();
    for (base, group) in bases {
        for resource in read(base.clone()).await["resources"].as_array().unwrap() {
            all.push(Served {
                base: base.clone(),
                group: group.clone(),
                resource: resource["name"].as_str().unwrap().to_owned(),
                namespaced: resource["namespaced"].as_bool().unwrap(),
            });
        }
    }
    all
}

impl Served {
    /// Returns the request for a verb; `None` if there is no such request.
    fn request(&self, verb: &str, owner: ObjectOwner) -> Option<(Method, String, &'static str, Value)> {
        let own = owner == ObjectOwner::Own;
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((self.resource.as_str(), ""));
        let name = match resource {
            "nodes" | "leases" | "nodepodprobes" | "csinodes" => {
                if own {
                    "n1"
                } else {
                    "n2"
                }
            }
            _ => {
                if own {
                    "own"
                } else {
                    "foreign"
                }
            }
        };
        let namespace = if resource == "leases" { "kube-node-lease" } else { "default" };
        let place = if self.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let collection = format!("{}{place}/{resource}", self.base);
        let object =
            if subresource.is_empty() { format!("{collection}/{name}") } else { format!("{collection}/{name}/{subresource}") };
        let by_node = matches!(resource, "pods" | "resourceslices");
        let field = if by_node { "spec.nodeName" } else { "metadata.name" };
        let value = if by_node { if own { "n1" } else { "n2" } } else { name };
        let selector = match owner {
            // Lists and watches of what is open to all nodes need none.
            ObjectOwner::Own | ObjectOwner::Foreign => format!("fieldSelector={field}%3D{value}"),
            ObjectOwner::Disguised => "fieldSelector=metadata.name%3Dn1%2Cspec.nodeName%3Dn1".to_owned(),
        };
        let on_object = if owner == ObjectOwner::Disguised { format!("&{selector}") } else { String::new() };
        let whole = subresource.is_empty();
        let mut named = json!({"metadata": {"name": name}});
        if self.resource == "pods/status" {
            // As it is stored: what a PUT leaves out, it removes.
            named["metadata"]["labels"] = json!({"app": "web"});
            named["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        Some(match verb {
            "get" => (Method::GET, format!("{object}?x=y{on_object}"), "", Value::Null),
            // Whoever selects his own may list: a disguise is none here.
            "list" if whole && owner != ObjectOwner::Disguised => {
                (Method::GET, format!("{collection}?{selector}"), "", Value::Null)
            }
            "watch" if whole && owner != ObjectOwner::Disguised => {
                (Method::GET, format!("{collection}?watch=true&timeoutSeconds=1&{selector}"), "", Value::Null)
            }
            "watch" if whole => {
                let path = collection.replacen(&self.base, &format!("{}/watch", self.base), 1);
                (Method::GET, format!("{path}/{name}?timeoutSeconds=1{on_object}"), "", Value::Null)
            }
            "create" if whole => (Method::POST, format!("{collection}?dryRun=All{on_object}"), JSON, named),
            "create" => (Method::POST, format!("{object}?dryRun=All{on_object}"), JSON, named),
            "update" => (Method::PUT, format!("{object}?dryRun=All{on_object}"), JSON, named),
            "patch" => (Method::PATCH, format!("{object}?dryRun=All{on_object}"), MERGE, json!({})),
            "delete" => (Method::DELETE, format!("{object}?dryRun=All{on_object}"), JSON, Value::Null),
            "deletecollection" if whole => (Method::DELETE, format!("{collection}?dryRun=All&{selector}"), JSON, Value::Null),
            _ => return None,
        })
    }
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "finalizers": ["example.com/hold"]},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "i", "args": ["decoy"], "envFrom": [{"configMapRef": {"name": name}}, {"secretRef": {"name": name}}]}],
            "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
        },
    })
}

/// Returns a plane with two nodes and a pod, Secret, ConfigMap, Lease and NodePodProbe of each.
pub(crate) async fn two_nodes() -> (Plane, Raw, Raw) {
    two_nodes_of(Plane::start()).await
}

async fn two_nodes_of(plane: Plane) -> (Plane, Raw, Raw) {
    let admin = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Admin))).await;
    let node = Raw::connect(plane.address(), Some(&plane.credentials(&Role::Node("n1".into())))).await;
    for (pods, name) in [("own", "n1"), ("foreign", "n2")] {
        admin.create("/api/v1/nodes", &json!({"metadata": {"name": name}})).await;
        admin.create("/api/v1/namespaces/default/pods", &pod(pods, name)).await;
        for kind in ["secrets", "configmaps"] {
            admin.create(&format!("/api/v1/namespaces/default/{kind}"), &json!({"metadata": {"name": pods}})).await;
        }
        admin
            .create("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", &json!({"metadata": {"name": name}}))
            .await;
        let probes = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {"name": name}});
        admin.create("/apis/apps.kruise.io/v1alpha1/nodepodprobes", &probes).await;
    }
    (plane, admin, node)
}

#[tokio::test]
async fn a_node_may_do_what_the_table_says_and_nothing_else() {
    // Kubelets are at home where others act on what is stored: they write a CSINode.
    let (_plane, admin, node) = two_nodes_of(Plane::with_external_controllers()).await;
    let served = served(&admin).await;
    let (mut tried, mut granted, mut wrong) = (0, 0, Vec::new());
    for resource in &served {
        for verb in VERBS {
            for owner in [ObjectOwner::Own, ObjectOwner::Foreign, ObjectOwner::Disguised] {
                let Some((method, path, type_, body)) = resource.request(verb, owner) else { continue };
                let code = node.code(method.clone(), &path, type_, &body).await;
                let expected = allowed(&resource.group, &resource.resource, verb, owner);
                // What may be done can still fail for another reason; what may not is 403, whether it exists or not, and
                // what nobody can do is 405.
                let refused = matches!(code, StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED);
                if refused == expected {
                    wrong.push(format!("{owner:?} {method} {path}: {code}, allowed: {expected}"));
                }
                tried += 1;
                granted += usize::from(expected);
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "{} of {tried} requests", wrong.len());
    assert!(tried > 300 && granted > 40, "{tried} requests, {granted} of them allowed");
    let known =
        |row: &(&str, &str, &[&str], &[&str])| served.iter().any(|served| served.group == row.0 && served.resource == row.1);
    assert!(TABLE.iter().all(known), "every row of the table is about something that is served");
}

#[tokio::test]
async fn a_node_gets_what_its_pods_refer_to_and_nothing_of_that_name() {
    let (_plane, admin, node) = two_nodes().await;
    // `decoy` stands in the pod as an argument, `settings` as a ConfigMap.
    for (kind, name) in [("secrets", "decoy"), ("secrets", "settings"), ("configmaps", "decoy"), ("configmaps", "settings")] {
        admin.create(&format!("/api/v1/namespaces/default/{kind}"), &json!({"metadata": {"name": name}})).await;
    }
    let get = async |path: &str| node.code(Method::GET, &format!("/api/v1/namespaces/default/{path}"), "", &Value::Null).await;
    assert_eq!(get("configmaps/settings").await, StatusCode::OK);
    assert_eq!(get("secrets/own").await, StatusCode::OK);
    for path in ["secrets/settings", "secrets/decoy", "configmaps/decoy", "secrets/foreign", "configmaps/foreign"] {
        assert_eq!(get(path).await, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn a_node_changes_neither_labels_nor_finalizers_of_a_pod_through_its_status() {
    let (_plane, admin, node) = two_nodes().await;
    let path = "/api/v1/namespaces/default/pods/own/status";
    let patch = async |change: Value| node.send(Method::PATCH, path, &[("content-type", MERGE)], &change.to_string()).await;
    for (metadata, what) in [
        (json!({"labels": {"app": "other"}}), "labels"),
        (json!({"labels": null}), "labels"),
        (json!({"finalizers": null}), "finalizers"),
    ] {
        let (code, text) = patch(json!({"metadata": metadata, "status": {"message": "x"}})).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{text}");
        assert!(text.contains(what), "{text}");
    }
    let whole = json!({"metadata": {"name": "own"}, "status": {"message": "x"}});
    assert_eq!(node.code(Method::PUT, path, JSON, &whole).await, StatusCode::FORBIDDEN, "a PUT without labels removes them");
    assert_eq!(patch(json!({"status": {"message": "x"}})).await.0, StatusCode::OK);
    let (_, stored) = admin.send(Method::GET, "/api/v1/namespaces/default/pods/own", &[], "").await;
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(
        (&stored["metadata"]["labels"]["app"], &stored["metadata"]["finalizers"][0]),
        (&json!("web"), &json!("example.com/hold"))
    );
    let labelled = json!({"metadata": {"labels": {"app": "marked"}}});
    assert_eq!(
        admin.code(Method::PATCH, path, MERGE, &labelled).await,
        StatusCode::OK,
        "others may mark a pod with its status"
    );
}

#[tokio::test]
async fn administrators_act_as_somebody_else_and_nobody_else_does() {
    let (_plane, admin, node) = two_nodes().await;
    for (header, path) in [
        ("impersonate-user", "/api/v1/nodes/n1"),
        ("impersonate-group", "/api"),
        ("impersonate-uid", "/version"),
        ("impersonate-extra-scopes", "/livez"),
    ] {
        let (code, text) = node.send(Method::GET, path, &[(header, "jane")], "").await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{header} {path}");
        assert!(text.contains("impersonate"), "{text}");
    }
    let path = "/api/v1/nodes/n1";
    let (code, text) = admin.send(Method::GET, path, &[("impersonate-user", "jane")], "").await;
    assert_eq!(code, StatusCode::FORBIDDEN, "jane has no rights, whoever speaks for her");
    assert!(text.contains("jane"), "{text}");
    let as_node = [("impersonate-user", "system:node:n1"), ("impersonate-group", "system:nodes")];
    assert_eq!(admin.send(Method::GET, path, &as_node, "").await.0, StatusCode::OK);
    assert_eq!(admin.send(Method::GET, "/api/v1/nodes/n2", &as_node, "").await.0, StatusCode::FORBIDDEN);
    assert_eq!(admin.send(Method::GET, path, &[("impersonate-group", "x")], "").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_watch_of_any_length_can_be_asked_for() {
    let (_plane, admin, _) = two_nodes().await;
    for seconds in ["18446744073709551615", "9223372036854775807", "0"] {
        let path = format!("/api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        assert_eq!(admin.code(Method::GET, &path, "", &Value::Null).await, StatusCode::OK, "{seconds}");
    }
    assert_eq!(admin.send(Method::GET, "/livez", &[], "").await.1, "ok");
}
