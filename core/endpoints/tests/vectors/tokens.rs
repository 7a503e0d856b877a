//! The notation of endpoints in reconcile.yaml and lifecycle.yaml: `NAME[..NAME][#UID][=ADDRESS][~][!]`.

use std::collections::BTreeMap;

use api::endpointslice::{CONTROLLER_NAME, Endpoint, EndpointConditions, EndpointPort, MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use api::{EndpointSlice, Node, ObjectReference, Pod, Service};
use serde_json::json;

pub(crate) const SERVICE_UID: &str = "service-uid";

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) pod: String,
    pub(crate) uid: String,
    pub(crate) address: String,
    pub(crate) serving: bool,
    pub(crate) terminating: bool,
}

/// Reads tokens and expands their ranges.
pub(crate) fn expand(tokens: &[String]) -> Vec<Token> {
    tokens.iter().flat_map(|token| expand_one(token)).collect()
}

fn expand_one(token: &str) -> Vec<Token> {
    let end = token.find(['#', '=', '~', '!']).unwrap_or(token.len());
    let (names, suffix) = token.split_at(end);
    let flags = suffix.trim_start_matches(|c| !matches!(c, '~' | '!'));
    let (serving, terminating) = (!flags.contains('!'), flags.contains('~'));
    let fields = &suffix[..suffix.len() - flags.len()];
    let (uid, address) = match fields.split_once('=') {
        Some((uid, address)) => (uid, Some(address.to_owned())),
        None => (fields, None),
    };
    let uid = if uid.is_empty() { "1" } else { uid.trim_start_matches('#') };
    let (first, last) = names.split_once("..").unwrap_or((names, names));
    let digits = first.find(|c: char| c.is_ascii_digit()).expect("a number in the name");
    let (prefix, width) = (&first[..digits], first.len() - digits);
    let number = |name: &str| name[digits..].parse::<u32>().expect("a number");
    (number(first)..=number(last))
        .map(|n| {
            let pod = format!("{prefix}{n:0width$}");
            let own = format!("10.{}.{}.{}", n / 65536, n / 256 % 256, n % 256);
            Token { uid: format!("{pod}-{uid}"), address: address.clone().unwrap_or(own), pod, serving, terminating }
        })
        .collect()
}

/// Reads a list of ports: numbers joined by commas.
fn numbers(ports: &str) -> Vec<i64> {
    ports.split(',').filter(|port| !port.trim().is_empty()).map(|port| port.trim().parse().expect("a port number")).collect()
}

pub(crate) fn endpoint_ports(ports: &str) -> Vec<EndpointPort> {
    let port = |(index, number): (usize, i64)| EndpointPort {
        name: format!("p{index}"),
        port: Some(number),
        protocol: "TCP".to_owned(),
        app_protocol: None,
    };
    numbers(ports).into_iter().enumerate().map(port).collect()
}

pub(crate) fn ports_text(ports: &[EndpointPort]) -> String {
    ports.iter().map(|port| port.port.expect("a number").to_string()).collect::<Vec<_>>().join(",")
}

/// The one Service of a case: its ports are found by name, so that pods can have different ones.
pub(crate) fn service(publish_not_ready: bool, deleting: bool) -> Service {
    let ports: Vec<_> =
        (0..4).map(|i| json!({"name": format!("p{i}"), "port": 1000 + i, "targetPort": format!("t{i}")})).collect();
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": SERVICE_UID, "creationTimestamp": "2031-05-01T12:00:01Z"},
        "spec": {
            "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "selector": {"app": "web"}, "ports": ports,
            "publishNotReadyAddresses": publish_not_ready,
        },
    });
    if deleting {
        service["metadata"]["deletionTimestamp"] = json!("2031-05-01T13:00:00Z");
    }
    serde_json::from_value(service).expect("a Service")
}

pub(crate) fn node() -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n1"}})).expect("a Node")
}

pub(crate) fn pod(token: &Token, ports: &str) -> Pod {
    let ports: Vec<_> =
        numbers(ports).iter().enumerate().map(|(i, n)| json!({"name": format!("t{i}"), "containerPort": n})).collect();
    let mut pod = json!({
        "metadata": {"name": token.pod, "namespace": "default", "uid": token.uid, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}]},
        "status": {
            "phase": "Running", "podIPs": [{"ip": token.address}],
            "conditions": [{"type": "Ready", "status": if token.serving { "True" } else { "False" }}],
        },
    });
    if token.terminating {
        pod["metadata"]["deletionTimestamp"] = json!("2031-05-01T12:30:00Z");
    }
    serde_json::from_value(pod).expect("a Pod")
}

pub(crate) fn pods(by_ports: &BTreeMap<String, Vec<String>>) -> Vec<Pod> {
    by_ports.iter().flat_map(|(ports, tokens)| expand(tokens).into_iter().map(move |token| pod(&token, ports))).collect()
}

pub(crate) fn endpoint(token: &Token) -> Endpoint {
    Endpoint {
        addresses: vec![token.address.clone()],
        conditions: EndpointConditions {
            ready: Some(token.serving && !token.terminating),
            serving: Some(token.serving),
            terminating: Some(token.terminating),
        },
        target_ref: Some(ObjectReference {
            kind: "Pod".to_owned(),
            namespace: "default".to_owned(),
            name: token.pod.clone(),
            uid: token.uid.clone(),
            ..ObjectReference::default()
        }),
        node_name: Some("n1".to_owned()),
        ..Endpoint::default()
    }
}

/// Reads back the token of an endpoint with all three conditions.
pub(crate) fn token(endpoint: &Endpoint) -> Token {
    let pod = endpoint.target_ref.as_ref().expect("a pod");
    Token {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        address: endpoint.addresses.join(","),
        serving: endpoint.conditions.is_serving(),
        terminating: endpoint.conditions.is_terminating(),
    }
}

/// Returns a slice of the Service with right labels and owner.
pub(crate) fn slice(name: &str, ports: &str, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let mut slice =
        EndpointSlice { address_type: "IPv4".to_owned(), ports: endpoint_ports(ports), endpoints, ..EndpointSlice::default() };
    slice.metadata.name = name.to_owned();
    slice.metadata.namespace = "default".to_owned();
    slice.metadata.uid = format!("{name}-uid");
    slice.metadata.resource_version = "1".to_owned();
    slice.metadata.generation = 1;
    slice.metadata.owner_references = vec![endpoints::labels::owner_reference("web", SERVICE_UID)];
    slice.metadata.labels.insert(SERVICE_NAME_LABEL.to_owned(), "web".to_owned());
    slice.metadata.labels.insert(MANAGED_BY_LABEL.to_owned(), CONTROLLER_NAME.to_owned());
    slice
}
