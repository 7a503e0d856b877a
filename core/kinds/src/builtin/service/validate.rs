//! Validation of services.

use std::collections::BTreeSet;

use api::Gate;
use api::field::{Error, Path};
use api::{json, names, probe_rules};
use serde_json::Value;

use super::{HEADLESS, NODE_PORTS, is_external_name, type_of, wants_node_ports};
use crate::builtin::Context;
use crate::builtin::check::{Errors, between, cidr, each, ip, one_of, required_one_of, required_shaped, shaped};
use crate::builtin::meta::validate_labels;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: [&str; 2] = ["Cluster", "Local"];
/// A client is remembered for a day at most.
const AFFINITY_SECONDS_MAX: i64 = 86_400;

/// Returns whether traffic from outside the cluster may reach a service.
pub(super) fn is_external(service: &Value) -> bool {
    matches!(type_of(service), "NodePort" | "LoadBalancer") || !json::items(service, &["spec", "externalIPs"]).is_empty()
}

fn is_headless(service: &Value) -> bool {
    json::text(service, &["spec", "clusterIP"]) == HEADLESS
}

/// Judges a service.
pub(in crate::builtin) fn validate(service: &Value, ctx: &Context<'_>, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = &service["spec"];
    let external_name = is_external_name(service);
    if json::items(spec, &["ports"]).is_empty() && !is_headless(service) && !external_name {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    required_one_of(spec, "type", &TYPES, &path, errors);
    match type_of(service) {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {} services", type_of(service));
            errors.push(Error::invalid(&path.child("clusterIPs").index(0), HEADLESS, detail));
        }
        "ExternalName" => validate_external_name(spec, &path, errors),
        _ => {}
    }
    validate_ports(service, &path, errors);
    validate_labels(spec.get("selector"), &path.child("selector"), errors);
    validate_affinity(spec, &path, errors);
    validate_addresses(spec, &path, errors);
    validate_external_ips(spec, ctx, &path, errors);
    validate_policies(service, ctx, &path, errors);
    validate_balancer(service, &path, errors);
}

/// A name that stands for another name has no address of its own.
fn validate_external_name(spec: &Value, path: &Path, errors: &mut Errors) {
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if json::get(spec, key).is_some_and(|value| value != "" && value.as_array().is_none_or(|list| !list.is_empty())) {
            errors.push(Error::forbidden(&path.child(key), "may not be set for ExternalName services"));
        }
    }
    let name = json::text(spec, &["externalName"]);
    if name.is_empty() {
        errors.push(Error::required(&path.child("externalName"), ""));
    } else if let Some(broken) = names::dns1123_subdomain(name.strip_suffix('.').unwrap_or(name)) {
        errors.push(Error::invalid(&path.child("externalName"), name, broken));
    }
}

fn validate_ports(service: &Value, path: &Path, errors: &mut Errors) {
    let spec = &service["spec"];
    let several = json::items(spec, &["ports"]).len() > 1;
    let (mut known, mut numbers, mut on_nodes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (port, path) in each(spec, "ports", path) {
        let (name, protocol) = (json::text(port, &["name"]), json::text(port, &["protocol"]));
        if several {
            required_shaped(port, "name", names::dns1123_label, &path, errors);
        } else {
            shaped(port, "name", names::dns1123_label, &path, errors);
        }
        if !name.is_empty() && !known.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        let number = json::int(port, &["port"]).unwrap_or(0);
        if let Some(broken) = names::port_number(number) {
            errors.push(Error::invalid(&path.child("port"), number, broken));
        }
        required_one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
        // A target that is only the default repeats the mistake of the port.
        if json::get(port, "targetPort") != json::get(port, "port") {
            errors.extend(probe_rules::validate_port(json::get(port, "targetPort"), &path.child("targetPort")));
        }
        shaped(port, "appProtocol", names::qualified_name, &path, errors);
        if !numbers.insert((protocol, number)) {
            errors.push(Error::duplicate(&path, format!("{protocol}/{number}")));
        }
        validate_node_port(service, port, &mut on_nodes, &path, errors);
    }
}

fn validate_node_port<'a>(
    service: &Value,
    port: &'a Value,
    taken: &mut BTreeSet<(&'a str, i64)>,
    path: &Path,
    errors: &mut Errors,
) {
    let Some(number) = json::int(port, &["nodePort"]).filter(|number| *number != 0) else { return };
    let path = path.child("nodePort");
    if !wants_node_ports(service) && type_of(service) != "LoadBalancer" {
        errors.push(Error::forbidden(&path, format!("may not be used when `type` is '{}'", type_of(service))));
    } else if !NODE_PORTS.contains(&number) {
        let detail = format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            NODE_PORTS.start(),
            NODE_PORTS.end()
        );
        errors.push(Error::invalid(&path, number, detail));
    }
    if !taken.insert((json::text(port, &["protocol"]), number)) {
        errors.push(Error::duplicate(&path, number));
    }
}

fn validate_affinity(spec: &Value, path: &Path, errors: &mut Errors) {
    required_one_of(spec, "sessionAffinity", &["ClientIP", "None"], path, errors);
    if let Some(client) = json::at(spec, &["sessionAffinityConfig", "clientIP"]) {
        let path = path.child("sessionAffinityConfig").child("clientIP");
        between(client, "timeoutSeconds", 1, AFFINITY_SECONDS_MAX, &path, errors);
    }
}

fn validate_addresses(spec: &Value, path: &Path, errors: &mut Errors) {
    let addresses = json::items(spec, &["clusterIPs"]);
    let list = path.child("clusterIPs");
    if addresses.len() > 1 {
        errors.push(Error::invalid(&list, addresses.to_vec(), "this cluster is not configured for dual-stack services"));
    }
    for (index, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        if address != HEADLESS
            && let Some(broken) = ip(address)
        {
            errors.push(Error::invalid(&list.index(index), address, broken));
        }
    }
    if let Some(first) = addresses.first()
        && first != json::text(spec, &["clusterIP"])
    {
        errors.push(Error::invalid(&list, addresses.to_vec(), "first value must match `clusterIP`"));
    }
    for (family, path) in each(spec, "ipFamilies", path) {
        match family.as_str().unwrap_or_default() {
            "IPv4" => {}
            "IPv6" => errors.push(Error::invalid(&path, "IPv6", "not configured on this cluster")),
            other => errors.push(Error::not_supported(&path, other, &["IPv4", "IPv6"])),
        }
    }
    one_of(spec, "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], path, errors);
    if json::text(spec, &["ipFamilyPolicy"]) == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&path.child("ipFamilyPolicy"), "RequireDualStack", detail));
    }
}

fn validate_external_ips(spec: &Value, ctx: &Context<'_>, path: &Path, errors: &mut Errors) {
    for (address, path) in each(spec, "externalIPs", path) {
        let text = address.as_str().unwrap_or_default();
        let broken = match api::ip::parse(text) {
            None => ip(text),
            Some(address) => api::ip::check_endpoint(address, ctx.allow_loopback_endpoints),
        };
        errors.extend(broken.map(|broken| Error::invalid(&path, text, broken)));
    }
}

fn validate_policies(service: &Value, ctx: &Context<'_>, path: &Path, errors: &mut Errors) {
    let spec = &service["spec"];
    if is_external(service) {
        one_of(spec, "externalTrafficPolicy", &POLICIES, path, errors);
    } else if let Some(policy) = json::get(spec, "externalTrafficPolicy").filter(|policy| *policy != "") {
        let detail = "may only be set for externally-accessible services";
        errors.push(Error::invalid(&path.child("externalTrafficPolicy"), policy.clone(), detail));
    }
    one_of(spec, "internalTrafficPolicy", &POLICIES, path, errors);
    let all = ["PreferClose", "PreferSameNode", "PreferSameZone"];
    let same = ctx.gates.enabled(Gate::PreferSameTrafficDistribution);
    one_of(spec, "trafficDistribution", if same { &all } else { &all[..1] }, path, errors);
}

fn validate_balancer(service: &Value, path: &Path, errors: &mut Errors) {
    let spec = &service["spec"];
    for (network, path) in each(spec, "loadBalancerSourceRanges", path) {
        let network = network.as_str().unwrap_or_default();
        errors.extend(cidr(network.trim()).map(|broken| Error::invalid(&path, network, broken)));
    }
    if type_of(service) == "LoadBalancer" {
        shaped(spec, "loadBalancerClass", names::qualified_name, path, errors);
        return;
    }
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges"] {
        if json::get(spec, key).is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
            errors.push(Error::forbidden(&path.child(key), "may only be used when `type` is 'LoadBalancer'"));
        }
    }
}

/// Judges what an update may change: the address stays while the service has one.
pub(in crate::builtin) fn validate_change(new: &Value, old: &Value, errors: &mut Errors) {
    if is_external_name(new) || is_external_name(old) {
        return;
    }
    let path = Path::new("spec");
    for (single, list) in [("clusterIP", "clusterIPs"), ("", "ipFamilies")] {
        let first = |service| {
            let text = json::text(service, &["spec", single]);
            if text.is_empty() { json::items(service, &["spec", list]).first().and_then(Value::as_str) } else { Some(text) }
        };
        if first(old).is_some() && first(new) != first(old) {
            let value = json::at(new, &["spec", list]).cloned().unwrap_or(Value::Null);
            errors.push(Error::invalid(&path.child(list).index(0), value, "may not change once set"));
        }
    }
}

/// Returns what is accepted and has no effect.
pub(in crate::builtin) fn warnings(service: &Value, ctx: &Context<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if !json::items(service, &["spec", "externalIPs"]).is_empty() {
        let why = if is_external_name(service) {
            "is ignored when spec.type is \"ExternalName\""
        } else {
            "is deprecated and may no longer be implemented in some clusters"
        };
        warnings.push(format!("spec.externalIPs {why}"));
    }
    if ctx.allow_loopback_endpoints && type_of(service) == "LoadBalancer" {
        warnings.push("spec.type LoadBalancer: there is nobody here who gives it an address; its node ports work".to_owned());
    }
    if is_headless(service) && json::text(service, &["spec", "sessionAffinity"]) == "ClientIP" {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
    if !json::text(service, &["spec", "loadBalancerIP"]).is_empty() {
        warnings.push("spec.loadBalancerIP is ignored: there is no load balancer to ask for an address".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::service::default;
    use crate::builtin::tests::context;
    use serde_json::json;

    fn errors(spec: Value) -> Vec<(String, &'static str)> {
        let mut service = json!({ "spec": spec });
        default(&mut service);
        let mut errors = Vec::new();
        validate(&service, &context(), &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn good_services_pass() {
        for spec in [
            json!({"ports": [{"port": 80}]}),
            json!({"ports": [{"port": 80, "targetPort": "http"}], "publishNotReadyAddresses": true, "selector": {"a": "b"}}),
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            json!({"type": "ExternalName", "externalName": "example.com."}),
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}),
            json!({"type": "LoadBalancer", "ports": [{"port": 80}], "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local"}),
            json!({"ports": [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}], "trafficDistribution": "PreferSameZone"}),
        ] {
            assert_eq!(errors(spec.clone()), [], "{spec}");
        }
    }

    #[test]
    fn ports_are_required_named_and_different() {
        assert_eq!(errors(json!({"selector": {"a": "b"}})), owned(&[("spec.ports", "Required")]));
        let expected = [("spec.ports[0].name", "Required"), ("spec.ports[1].name", "Required")];
        assert_eq!(errors(json!({"ports": [{"port": 80}, {"port": 81}]})), owned(&expected));
        assert_eq!(errors(json!({"ports": [{"port": 70000}]})), owned(&[("spec.ports[0].port", "Invalid")]));
        let ports = json!([{"name": "a", "port": 80}, {"name": "a", "port": 81}, {"name": "b", "port": 80, "targetPort": 0.5}]);
        let expected = [("spec.ports[1].name", "Duplicate"), ("spec.ports[2]", "Duplicate")];
        let found = errors(json!({ "ports": ports }));
        assert!(expected.iter().all(|(path, kind)| found.contains(&((*path).to_owned(), kind))), "{found:?}");
    }

    #[test]
    fn node_ports_are_in_range_and_only_where_they_work() {
        let with = |type_: &str, node_port: i64| errors(json!({"type": type_, "ports": [{"port": 80, "nodePort": node_port}]}));
        assert_eq!(with("NodePort", 80), owned(&[("spec.ports[0].nodePort", "Invalid")]));
        assert_eq!(with("ClusterIP", 30080), owned(&[("spec.ports[0].nodePort", "Forbidden")]));
    }

    #[test]
    fn a_name_for_another_name_has_no_address() {
        let expected = [("spec.clusterIP", "Forbidden"), ("spec.externalName", "Required")];
        assert_eq!(errors(json!({"type": "ExternalName", "clusterIP": "10.0.0.1"})), owned(&expected));
        assert_eq!(
            errors(json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]})),
            owned(&[("spec.clusterIPs[0]", "Invalid")])
        );
    }

    #[test]
    fn enumerations_and_addresses_are_judged() {
        let spec = json!({
            "type": "Odd", "ports": [{"port": 1}], "sessionAffinity": "Sticky", "clusterIP": "x", "ipFamilies": ["IPv6"],
            "ipFamilyPolicy": "RequireDualStack", "externalIPs": ["0.0.0.0"], "internalTrafficPolicy": "Near",
            "trafficDistribution": "Anywhere", "loadBalancerClass": "a/b",
        });
        let expected = [
            ("spec.type", "NotSupported"),
            ("spec.sessionAffinity", "NotSupported"),
            ("spec.clusterIPs[0]", "Invalid"),
            ("spec.ipFamilies[0]", "Invalid"),
            ("spec.ipFamilyPolicy", "Invalid"),
            ("spec.externalIPs[0]", "Invalid"),
            ("spec.internalTrafficPolicy", "NotSupported"),
            ("spec.trafficDistribution", "NotSupported"),
            ("spec.loadBalancerClass", "Forbidden"),
        ];
        assert_eq!(errors(spec), owned(&expected));
    }

    #[test]
    fn the_address_stays() {
        let change = |new: Value, old: Value| {
            let mut errors = Vec::new();
            validate_change(&json!({ "spec": new }), &json!({ "spec": old }), &mut errors);
            errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
        };
        let old = json!({"clusterIP": "127.96.0.9", "clusterIPs": ["127.96.0.9"]});
        assert!(change(old.clone(), old.clone()).is_empty());
        assert_eq!(change(json!({"clusterIP": "None", "clusterIPs": ["None"]}), old.clone()), ["spec.clusterIPs[0]"]);
        assert!(change(json!({"type": "ExternalName"}), old).is_empty());
    }
}
