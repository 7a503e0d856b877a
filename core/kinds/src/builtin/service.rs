//! Services: defaults, and the fields that the server allocates (cluster IP, node ports) across changes of type.
//!
//! Allocation itself is not done here: `services` asks [`wants_cluster_ip`] and [`ports_without_node_port`], takes what is
//! free and hands it to [`assign_service`]. One address family: this server has one range.

pub(super) mod validate;

use std::collections::BTreeMap;

use api::ip::Family;
use api::json;
use serde_json::{Map, Value, json};

use super::fill::{copy, drop_zeros, each_mut, fill, inner};

/// The value of `clusterIP` by which a service has no address of its own.
pub const HEADLESS: &str = "None";
/// The ports that a service may have on nodes; Kubernetes default.
pub const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Seconds that a client is remembered by default: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

fn type_of(service: &Value) -> &str {
    match json::text(service, &["spec", "type"]) {
        "" => "ClusterIP",
        type_ => type_,
    }
}

fn is_external_name(service: &Value) -> bool {
    type_of(service) == "ExternalName"
}

/// Returns whether the server has to find a cluster IP for a service.
pub fn wants_cluster_ip(service: &Value) -> bool {
    !is_external_name(service) && json::text(service, &["spec", "clusterIP"]).is_empty()
}

/// Returns the cluster IP that a service occupies, if it has one.
pub fn cluster_ip(service: &Value) -> Option<&str> {
    let address = json::text(service, &["spec", "clusterIP"]);
    (!is_external_name(service) && !address.is_empty() && address != HEADLESS).then_some(address)
}

/// Gives a service its cluster IP, in all the fields that show it.
pub fn set_cluster_ip(service: &mut Value, address: &str) {
    let spec = json::object_mut(service, &["spec"]);
    spec.insert("clusterIP".to_owned(), address.into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
    default_families(spec);
}

/// Takes the cluster IP of a service away, in all the fields that show it.
pub fn clear_cluster_ip(service: &mut Value) {
    let spec = json::object_mut(service, &["spec"]);
    spec.remove("clusterIP");
    spec.remove("clusterIPs");
}

/// Returns whether the ports of a service are open on nodes too.
pub fn wants_node_ports(service: &Value) -> bool {
    match type_of(service) {
        "NodePort" => true,
        "LoadBalancer" => json::boolean(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(false),
        _ => false,
    }
}

/// Returns the indexes of the ports for which the server has to find a node port.
pub fn ports_without_node_port(service: &Value) -> Vec<usize> {
    if !wants_node_ports(service) {
        return Vec::new();
    }
    let ports = json::items(service, &["spec", "ports"]).iter().enumerate();
    ports.filter(|(_, port)| json::int(port, &["nodePort"]).unwrap_or(0) == 0).map(|(index, _)| index).collect()
}

/// Returns the node ports that a service occupies, with their protocols.
pub fn node_ports(service: &Value) -> Vec<(&str, i64)> {
    let ports = json::items(service, &["spec", "ports"]).iter();
    ports
        .filter_map(|port| Some((json::text(port, &["protocol"]), json::int(port, &["nodePort"]).filter(|port| *port != 0)?)))
        .collect()
}

/// Gives a port of a service its node port.
pub fn set_node_port(service: &mut Value, index: usize, node_port: i64) {
    let ports = json::items_mut(service, &["spec", "ports"]);
    if let Some(port) = ports.and_then(|ports| ports.get_mut(index)).and_then(Value::as_object_mut) {
        port.insert("nodePort".to_owned(), node_port.into());
    }
}

/// Gives a service, new or of a new type, the address and the node ports that it still wants, in order.
pub fn assign_service(service: &mut Value, address: Option<&str>, node_ports: &[i64]) {
    if let Some(address) = address.filter(|_| wants_cluster_ip(service)) {
        set_cluster_ip(service, address);
    }
    for (index, node_port) in ports_without_node_port(service).into_iter().zip(node_ports) {
        set_node_port(service, index, *node_port);
    }
}

/// Empties the status of a new service.
pub(super) fn prepare_create(service: &mut Value) {
    json::object_mut(service, &[]).insert("status".to_owned(), json!({"loadBalancer": {}}));
}

/// Fills in what the user left out of a service.
pub(super) fn default(service: &mut Value) {
    let spec = json::object_mut(service, &["spec"]);
    drop_zeros(spec, &["publishNotReadyAddresses", "clusterIP", "externalName", "loadBalancerIP", "healthCheckNodePort"]);
    fill(spec, "type", "ClusterIP");
    fill(spec, "sessionAffinity", "None");
    default_affinity(spec);
    for port in each_mut(spec, "ports") {
        drop_zeros(port, &["nodePort", "name"]);
        fill(port, "protocol", "TCP");
        let missing = port.get("targetPort").is_none_or(|target| target.is_null() || target == "" || target == 0);
        if let Some(number) = port.get("port").filter(|_| missing).cloned() {
            port.insert("targetPort".to_owned(), number);
        }
    }
    match spec.get("type").and_then(Value::as_str).unwrap_or_default() {
        "ExternalName" => return,
        "LoadBalancer" => {
            fill(spec, "allocateLoadBalancerNodePorts", true);
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        "NodePort" => fill(spec, "externalTrafficPolicy", "Cluster"),
        _ if spec.get("externalIPs").and_then(Value::as_array).is_some_and(|addresses| !addresses.is_empty()) => {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        _ => {}
    }
    fill(spec, "internalTrafficPolicy", "Cluster");
    let first = spec.get("clusterIPs").and_then(|list| list.get(0)).cloned();
    match (spec.get("clusterIP").cloned(), first) {
        (Some(single), None) => drop(spec.insert("clusterIPs".to_owned(), json!([single]))),
        (None, Some(first)) => drop(spec.insert("clusterIP".to_owned(), first)),
        _ => {}
    }
    default_families(spec);
}

fn default_affinity(spec: &mut Map<String, Value>) {
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => drop(spec.remove("sessionAffinityConfig")),
        Some("ClientIP") => {
            fill(spec, "sessionAffinityConfig", json!({}));
            let Some(config) = inner(spec, "sessionAffinityConfig") else { return };
            fill(config, "clientIP", json!({}));
            if let Some(client) = inner(config, "clientIP") {
                fill(client, "timeoutSeconds", AFFINITY_SECONDS);
            }
        }
        _ => {}
    }
}

fn default_families(spec: &mut Map<String, Value>) {
    let address = spec.get("clusterIP").and_then(Value::as_str).and_then(api::ip::parse);
    fill(spec, "ipFamilyPolicy", "SingleStack");
    if spec.get("ipFamilies").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let family = address.map_or(Family::IPv4, Family::of);
        spec.insert("ipFamilies".to_owned(), json!([family.name()]));
    }
}

/// Carries what the server allocated over to the next state, and drops what the new type cannot have.
///
/// A user who writes a service back without these fields, or changes only its type, does not mean to change them.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    if !is_external_name(old) {
        if is_external_name(new) {
            drop_unchanged(new, old, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
        } else {
            keep_cluster_ip(new, old);
        }
    } else if !is_external_name(new) {
        drop_unchanged(new, old, &["externalName"]);
    }
    match (wants_node_ports(old), wants_node_ports(new)) {
        (true, true) => each_node_port(new, old, fill_zero_node_port),
        (true, false) => each_node_port(new, old, |port, before| {
            if port.get("nodePort") == Some(before) {
                port.remove("nodePort");
            }
        }),
        _ => {}
    }
    if type_of(old) == "LoadBalancer" && type_of(new) != "LoadBalancer" {
        drop_unchanged(
            new,
            old,
            &[
                "allocateLoadBalancerNodePorts",
                "loadBalancerClass",
                "loadBalancerIP",
                "loadBalancerSourceRanges",
                "healthCheckNodePort",
            ],
        );
        json::object_mut(new, &[]).insert("status".to_owned(), json!({"loadBalancer": {}}));
    }
    if validate::is_external(old) && !validate::is_external(new) {
        drop_unchanged(new, old, &["externalTrafficPolicy", "healthCheckNodePort"]);
    }
}

fn keep_cluster_ip(new: &mut Value, old: &Value) {
    let address = |service: &Value| json::text(service, &["spec", "clusterIP"]).to_owned();
    let (is, was) = (address(new), address(old));
    let same_list = json::same_but_nils(json::at(new, &["spec", "clusterIPs"]), json::at(old, &["spec", "clusterIPs"]));
    let no_list = json::items(new, &["spec", "clusterIPs"]).is_empty();
    let spec = json::object_mut(new, &["spec"]);
    if is.is_empty() && (no_list || same_list) {
        copy(old.get("spec"), "clusterIP", spec);
        copy(old.get("spec"), "clusterIPs", spec);
    } else if is != was && same_list {
        // One of the two fields was changed; the other one follows, and validation tells what is wrong with the new value.
        spec.insert("clusterIPs".to_owned(), json!([is]));
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if spec.get(key).is_none_or(Value::is_null) {
            copy(old.get("spec"), key, spec);
        }
    }
}

fn drop_unchanged(new: &mut Value, old: &Value, keys: &[&str]) {
    let spec = json::object_mut(new, &["spec"]);
    for key in keys {
        if spec.get(*key) == json::at(old, &["spec", key]) {
            spec.remove(*key);
        }
    }
}

/// Calls `act` for every port that has a counterpart with a node port: the same number and protocol.
fn each_node_port(new: &mut Value, old: &Value, act: impl Fn(&mut Map<String, Value>, &Value)) {
    let identity = |port: &Value| {
        let protocol = Some(json::text(port, &["protocol"])).filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        (port.get("port").map(Value::to_string), protocol.to_owned())
    };
    let mut known = BTreeMap::new();
    for port in json::items(old, &["spec", "ports"]) {
        known.entry(identity(port)).or_insert(port);
    }
    for port in json::items_mut(new, &["spec", "ports"]).into_iter().flatten() {
        let before = known.get(&identity(port)).and_then(|port| json::get(port, "nodePort"));
        if let (Some(before), Some(port)) = (before, port.as_object_mut()) {
            act(port, before);
        }
    }
}

fn fill_zero_node_port(port: &mut Map<String, Value>, before: &Value) {
    drop_zeros(port, &["nodePort"]);
    fill(port, "nodePort", before.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(spec: Value) -> Value {
        let mut service = json!({ "spec": spec });
        default(&mut service);
        service
    }

    fn stored(spec: Value) -> Value {
        let mut service = defaulted(spec);
        assign_service(&mut service, Some("127.96.0.9"), &[30_000, 30_001]);
        service
    }

    #[test]
    fn a_service_gets_what_kubernetes_gives() {
        let mut service = json!({"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}, "status": {"x": 1}});
        prepare_create(&mut service);
        default(&mut service);
        assert!(wants_cluster_ip(&service));
        set_cluster_ip(&mut service, "127.96.0.9");
        let expected = json!({
            "spec": {
                "selector": {"a": "b"}, "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "clusterIP": "127.96.0.9", "clusterIPs": ["127.96.0.9"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            },
            "status": {"loadBalancer": {}},
        });
        assert_eq!(service, expected);
        assert!(!wants_cluster_ip(&service) && cluster_ip(&service) == Some("127.96.0.9"));
    }

    #[test]
    fn headless_and_external_services_want_no_address() {
        let headless = defaulted(json!({"clusterIP": "None"}));
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
        assert!(!wants_cluster_ip(&headless) && cluster_ip(&headless).is_none());
        let external = defaulted(json!({"type": "ExternalName", "externalName": "example.com"}));
        assert!(!wants_cluster_ip(&external));
        assert_eq!(external["spec"], json!({"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}));
    }

    #[test]
    fn node_ports_are_wanted_by_type() {
        let node = defaulted(json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2, "nodePort": 30001}]}));
        assert_eq!(ports_without_node_port(&node), [0]);
        assert_eq!(node_ports(&node), [("TCP", 30001)]);
        assert_eq!(node["spec"]["externalTrafficPolicy"], "Cluster");
        assert_eq!(defaulted(json!({"externalIPs": ["1.2.3.4"]}))["spec"]["externalTrafficPolicy"], "Cluster");
        assert_eq!(defaulted(json!({"externalIPs": []}))["spec"].get("externalTrafficPolicy"), None);
        let balancer =
            defaulted(json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}]}));
        assert!(!wants_node_ports(&balancer) && ports_without_node_port(&balancer).is_empty());
        assert!(wants_node_ports(&defaulted(json!({"type": "LoadBalancer"}))));
    }

    #[test]
    fn only_what_is_wanted_is_assigned() {
        let mut node = defaulted(
            json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1, "nodePort": 30_005}, {"port": 2}]}),
        );
        assign_service(&mut node, Some("127.96.0.9"), &[30_000, 30_001]);
        assert_eq!(node_ports(&node), [("TCP", 30_005), ("TCP", 30_000)]);
        assert_eq!(node["spec"]["clusterIP"], "None");
    }

    #[test]
    fn affinity_remembers_clients_for_three_hours() {
        let service = defaulted(json!({"sessionAffinity": "ClientIP"}));
        assert_eq!(service["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10_800);
        let service = defaulted(json!({"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 1}}}));
        assert_eq!(service["spec"].get("sessionAffinityConfig"), None);
    }

    #[test]
    fn an_update_without_allocated_fields_keeps_them() {
        let old = stored(json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "name": "b"}]}));
        let mut new =
            json!({"spec": {"type": "NodePort", "ports": [{"port": 81}, {"port": 82}, {"port": 80, "nodePort": 31000}]}});
        prepare_update(&mut new, &old);
        assert_eq!(cluster_ip(&new), Some("127.96.0.9"));
        assert_eq!(new["spec"]["clusterIPs"], json!(["127.96.0.9"]));
        let ports: Vec<_> = json::items(&new, &["spec", "ports"]).iter().map(|port| json::int(port, &["nodePort"])).collect();
        assert_eq!(ports, [Some(30_001), None, Some(31_000)]);
    }

    #[test]
    fn a_change_of_type_drops_what_the_new_type_cannot_have() {
        let old = stored(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
        let mut new = old.clone();
        new["spec"]["type"] = json!("ClusterIP");
        prepare_update(&mut new, &old);
        default(&mut new);
        assert_eq!(node_ports(&new), []);
        assert_eq!(new["spec"].get("externalTrafficPolicy"), None);
        assert_eq!(new["spec"].get("allocateLoadBalancerNodePorts"), None);
        assert_eq!(cluster_ip(&new), Some("127.96.0.9"));
        let mut new = old.clone();
        new["spec"]["type"] = json!("ExternalName");
        new["spec"]["externalName"] = json!("example.com");
        prepare_update(&mut new, &old);
        assert_eq!(new["spec"].get("clusterIP").or(new["spec"].get("clusterIPs")), None);
    }
}
