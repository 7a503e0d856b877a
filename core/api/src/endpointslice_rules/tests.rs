use super::*;
use serde_json::json;

fn found(slice: Value) -> Vec<(String, &'static str)> {
    validate_endpoint_slice(&slice, None, false).into_iter().map(|error| (error.path, error.kind.name())).collect()
}

fn fqdn(address: &str) -> Vec<(String, &'static str)> {
    found(json!({"addressType": "FQDN", "endpoints": [{"addresses": [address]}]}))
}

#[test]
fn a_domain_name_has_two_labels_and_perhaps_a_trailing_dot() {
    assert!(["example.com", "example.com.", "a.b-c.d"].iter().all(|name| fqdn(name).is_empty()));
    for bad in ["example", "example.", ".", "a..b", "Example.com", "example.com..", &format!("{}.com", "a".repeat(64))] {
        assert_eq!(fqdn(bad), [("endpoints[0].addresses[0]".to_owned(), "Invalid")], "{bad}");
    }
    assert_eq!(fqdn(""), [("endpoints[0].addresses[0]".to_owned(), "Required")]);
}

#[test]
fn loopback_is_a_parameter() {
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["127.88.0.1"]}]});
    assert_eq!(validate_endpoint_slice(&slice, None, false).len(), 1);
    assert!(validate_endpoint_slice(&slice, None, true).is_empty());
}

#[test]
fn several_addresses_of_the_wrong_family_are_one_error() {
    let slice = json!({"addressType": "IPv6", "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"]}]});
    assert_eq!(found(slice), [("endpoints[0].addresses".to_owned(), "Invalid")]);
}

#[test]
fn node_hints_are_not_looked_at_when_there_are_too_many_zones() {
    let zones: Vec<Value> = (0..9).map(|n| json!({"name": format!("z{n}")})).collect();
    let with = |zones: &[Value]| json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": zones, "forNodes": [{"name": "N"}]}}]});
    assert_eq!(found(with(&zones)), [("endpoints[0].hints.forZones".to_owned(), "TooMany")]);
    assert_eq!(found(with(&zones[..8])), [("endpoints[0].hints.forNodes[0].name".to_owned(), "Invalid")]);
}

#[test]
fn a_changed_and_unknown_address_type_is_two_errors() {
    let (old, new) = (json!({"addressType": "IPv4"}), json!({"addressType": "IP"}));
    let kinds: Vec<_> = validate_endpoint_slice(&new, Some(&old), false).iter().map(|error| error.kind.name()).collect();
    assert_eq!(kinds, ["NotSupported", "Invalid"]);
}

#[test]
fn an_empty_protocol_is_not_defaulted() {
    let mut slice = json!({"addressType": "IPv4", "ports": [{"protocol": ""}, {"name": "b", "protocol": null}]});
    default_endpoint_slice(&mut slice);
    assert_eq!(slice["ports"], json!([{"name": "", "protocol": ""}, {"name": "b", "protocol": "TCP"}]));
    assert_eq!(found(slice), [("ports[0].protocol".to_owned(), "NotSupported")]);
}

#[test]
fn deprecated_topology_stays_only_while_the_endpoints_do() {
    let old = json!({"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": "b"}}], "ports": []});
    let gates = FeatureGates::default();
    let mut same = old.clone();
    drop_disabled_endpoint_fields(&mut same, Some(&old), &gates);
    assert_eq!(same, old);
    assert!(!raises_endpoint_slice_generation(&same, &old));
    for mut dropped in [old.clone(), json!({"endpoints": [{"addresses": ["10.0.0.2"], "deprecatedTopology": {"a": "b"}}]})] {
        let stored = if dropped == old { None } else { Some(&old) };
        drop_disabled_endpoint_fields(&mut dropped, stored, &gates);
        assert_eq!(dropped["endpoints"][0].get("deprecatedTopology"), None);
    }
}

#[test]
fn null_and_empty_lists_are_the_same_content() {
    let old = json!({"metadata": {"name": "a"}, "endpoints": null, "ports": []});
    let new = json!({"metadata": {"name": "a", "annotations": {"x": "y"}, "labels": {}}, "endpoints": []});
    assert!(!raises_endpoint_slice_generation(&new, &old));
    assert!(raises_endpoint_slice_generation(&json!({"metadata": {"labels": {"a": ""}}}), &old));
}

#[test]
fn warnings_name_the_canonical_address() {
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.01", "x"]}, {"addresses": ["FD00::1"]}]});
    let warnings = endpoint_slice_warnings(&slice, false);
    assert_eq!(warnings.len(), 2);
    assert!(
        warnings[0].starts_with("endpoints[0].addresses[1]: ") && warnings[0].ends_with("use \"10.0.0.1\""),
        "{}",
        warnings[0]
    );
    assert!(warnings[1].contains("(\"fd00::1\")"), "{}", warnings[1]);
    let mut managed = slice;
    managed["metadata"] = json!({"labels": {MANAGED_BY_LABEL: CONTROLLER_NAME}});
    assert!(endpoint_slice_warnings(&managed, true).is_empty());
    let fqdn = json!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]});
    assert_eq!(endpoint_slice_warnings(&fqdn, true), ["spec.addressType: FQDN endpoints are deprecated"]);
    assert!(endpoint_slice_warnings(&fqdn, false).is_empty());
}
