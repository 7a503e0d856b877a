use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use kinds::resource::builtins;

/// Returns the built-in resources and a custom one of two versions.
fn resources() -> Vec<Arc<Resource>> {
    let mut all = builtins();
    for version in ["v1alpha1", "v1"] {
        all.push(Arc::new(Resource::new("x.test", version, "gadgets", "gadget", "Gadget", true).status().scale()));
    }
    all
}

/// Returns the entry of a list whose member `key` is `name`.
fn entry<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[key] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn core_names_its_versions() {
    let versions = core_versions("127.0.0.1:6443");
    assert_eq!((&versions["kind"], &versions["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    assert_eq!(versions["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:6443");
}

#[test]
fn groups_keep_their_order_and_prefer_stable_versions() {
    let list = group_list(&resources());
    let names: Vec<&str> = list["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names.first(), Some(&"apps"));
    assert_eq!(names.last(), Some(&"x.test"));
    assert!(!names.contains(&""));
    let gadgets = group(&resources(), "x.test").unwrap();
    assert_eq!(gadgets["kind"], "APIGroup");
    assert_eq!(gadgets["preferredVersion"], json!({"groupVersion": "x.test/v1", "version": "v1"}));
    let versions =
        json!([{"groupVersion": "x.test/v1", "version": "v1"}, {"groupVersion": "x.test/v1alpha1", "version": "v1alpha1"}]);
    assert_eq!(gadgets["versions"], versions);
    assert_eq!(group(&resources(), "nosuch.test"), None);
    assert_eq!(group(&resources(), ""), None);
}

#[test]
fn legacy_lists_show_resources_and_subresources() {
    let core = resource_list(&resources(), "", "v1").unwrap();
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let core = &core["resources"];
    let pods = entry(core, "name", "pods");
    assert_eq!((&pods["singularName"], &pods["kind"], &pods["namespaced"]), (&json!("pod"), &json!("Pod"), &json!(true)));
    assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
    let status = entry(core, "name", "pods/status");
    assert_eq!((&status["singularName"], &status["verbs"]), (&json!(""), &json!(["get", "patch", "update"])));
    assert_eq!(entry(core, "name", "pods/binding")["kind"], "Binding");
    assert_eq!(entry(core, "name", "pods/binding").get("group"), None);
    let eviction = entry(core, "name", "pods/eviction");
    assert_eq!(
        (&eviction["group"], &eviction["version"], &eviction["kind"]),
        (&json!("policy"), &json!("v1"), &json!("Eviction"))
    );
    assert_eq!(entry(core, "name", "nodes")["namespaced"], false);
    assert_eq!(entry(core, "name", "secrets").get("shortNames"), None);
    let apps = resource_list(&resources(), "apps", "v1").unwrap();
    let scale = entry(&apps["resources"], "name", "deployments/scale");
    assert_eq!((&scale["group"], &scale["version"], &scale["kind"]), (&json!("autoscaling"), &json!("v1"), &json!("Scale")));
    assert_eq!(resource_list(&resources(), "apps", "v2"), None);
}

#[test]
fn the_aggregated_documents_hold_everything() {
    let core = aggregated(&resources(), Root::Core, "v2");
    assert_eq!((&core["kind"], &core["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
    assert_eq!(core["items"].as_array().unwrap().len(), 1);
    assert_eq!(core["items"][0]["metadata"], json!({}));
    let version = &core["items"][0]["versions"][0];
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    let pods = entry(&version["resources"], "resource", "pods");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "v1", "kind": "Pod"}));
    assert_eq!((&pods["scope"], &pods["singularResource"]), (&json!("Namespaced"), &json!("pod")));
    let eviction = entry(&pods["subresources"], "subresource", "eviction");
    assert_eq!(eviction["responseKind"], json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
    assert_eq!(entry(&version["resources"], "resource", "nodes")["scope"], "Cluster");

    let groups = aggregated(&resources(), Root::Groups, "v2beta1");
    assert_eq!(groups["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    let names: Vec<&Value> = groups["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!((names.first(), names.last()), (Some(&&json!("apps")), Some(&&json!("x.test"))));
    let gadgets = &groups["items"][names.len() - 1]["versions"];
    assert_eq!((&gadgets[0]["version"], &gadgets[1]["version"]), (&json!("v1"), &json!("v1alpha1")));
    assert_eq!(entry(&gadgets[0]["resources"], "resource", "gadgets")["subresources"].as_array().unwrap().len(), 2);
}

#[test]
fn versions_sort_by_stability_then_number() {
    let mut versions =
        ["v1alpha1", "v2beta2", "foo10", "v1", "v2beta10", "v10", "v2", "v1alpha10", "v0", "foo1", "v1beta", "v01"];
    versions.sort_by_cached_key(|version| version_order(version));
    assert_eq!(
        versions,
        ["v10", "v2", "v1", "v2beta10", "v2beta2", "v1alpha10", "v1alpha1", "foo1", "foo10", "v0", "v01", "v1beta"]
    );
}

#[test]
fn entity_tags_are_quoted_hexadecimal() {
    let tag = etag(b"x");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10);
    assert_ne!(etag(b"x"), etag(b"y"));
}

proptest! {
    #[test]
    fn any_version_name_has_a_place(text in "\\PC{0,12}", close in "v[0-9]{0,25}(alpha|beta)?[0-9]{0,25}") {
        prop_assert!(version_order(&text) == version_order(&text));
        prop_assert!(version_order(&close) == version_order(&close));
    }
}
