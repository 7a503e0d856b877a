//! The cells of the built-in kinds other than pods.

use api::json::{at, boolean, int, items, object, text};
use machine::Time;
use serde_json::Value;

use super::age;

/// How many items of a list a cell shows.
const LIST_MAX: usize = 3;

fn name(value: &Value) -> Value {
    text(value, &["metadata", "name"]).into()
}

/// Returns the cell with the age of an object.
pub(super) fn created(value: &Value, now: Time) -> Value {
    age(now, at(value, &["metadata", "creationTimestamp"])).into()
}

/// Returns the text, or `<none>`.
pub(super) fn or_none(text: &str) -> Value {
    or(text, "<none>")
}

fn or(text: &str, other: &str) -> Value {
    if text.is_empty() { other.into() } else { text.into() }
}

fn joined<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    parts.collect::<Vec<&str>>().join(",")
}

pub(super) fn node(node: &Value, now: Time) -> Vec<Value> {
    let ready = items(node, &["status", "conditions"]).iter().find(|condition| text(condition, &["type"]) == "Ready");
    let mut status = match ready.map(|condition| text(condition, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if boolean(node, &["spec", "unschedulable"]) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = items(node, &["status", "addresses"]).iter().find(|address| text(address, &["type"]) == kind);
        or_none(found.map_or("", |address| text(address, &["address"])))
    };
    let info = |field: &str| text(node, &["status", "nodeInfo", field]);
    let kernel = match (info("kernelVersion"), info("architecture")) {
        ("", _) => "<unknown>".into(),
        (kernel, "") => kernel.into(),
        (kernel, architecture) => format!("{kernel} ({architecture})").into(),
    };
    vec![
        name(node),
        status.into(),
        or_none(&roles(node)),
        created(node, now),
        info("kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        or(info("osImage"), "<unknown>"),
        kernel,
        or(info("containerRuntimeVersion"), "<unknown>"),
    ]
}

fn roles(node: &Value) -> String {
    let labels = object(node, &["metadata", "labels"]);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    roles.join(",")
}

pub(super) fn service(service: &Value, now: Time) -> Vec<Value> {
    let cluster_ip = match items(service, &["spec", "clusterIPs"]).first().and_then(Value::as_str) {
        Some(first) => first,
        None => text(service, &["spec", "clusterIP"]),
    };
    let ports = items(service, &["spec", "ports"]).iter().map(|port| {
        let (number, protocol) = (int(port, &["port"]).unwrap_or(0), text(port, &["protocol"]));
        match int(port, &["nodePort"]) {
            Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    vec![
        name(service),
        text(service, &["spec", "type"]).into(),
        or_none(cluster_ip),
        external_ip(service),
        or_none(&ports.collect::<Vec<String>>().join(",")),
        created(service, now),
        or_none(&labels(at(service, &["spec", "selector"]))),
    ]
}

fn external_ip(service: &Value) -> Value {
    let given = items(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str);
    match text(service, &["spec", "type"]) {
        "ExternalName" => text(service, &["spec", "externalName"]).into(),
        "LoadBalancer" => {
            let ingress = items(service, &["status", "loadBalancer", "ingress"]).iter();
            let mut balancers: Vec<&str> = ingress
                .map(|entry| match text(entry, &["ip"]) {
                    "" => text(entry, &["hostname"]),
                    ip => ip,
                })
                .filter(|address| !address.is_empty())
                .collect();
            balancers.sort_unstable();
            balancers.dedup();
            or(&joined(balancers.into_iter().chain(given)), "<pending>")
        }
        _ => or_none(&joined(given)),
    }
}

/// Returns labels as `a=1,b=2`.
fn labels(labels: Option<&Value>) -> String {
    let mut pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    pairs.join(",")
}

/// Returns a selector in the form of a query: `a=b,c in (d,e),!f`.
pub(super) fn selector_text(selector: &Value) -> String {
    let mut parts = Vec::new();
    for (key, value) in object(selector, &["matchLabels"]).into_iter().flatten() {
        parts.push((key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for requirement in items(selector, &["matchExpressions"]) {
        let key = text(requirement, &["key"]);
        let mut values: Vec<&str> = items(requirement, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key,
            match text(requirement, &["operator"]) {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            },
        ));
    }
    parts.sort_by_key(|(key, _)| *key);
    parts.into_iter().map(|(_, part)| part).collect::<Vec<String>>().join(",")
}

fn selector(selector: Option<&Value>) -> Value {
    or_none(&selector.map(selector_text).unwrap_or_default())
}

pub(super) fn namespace(namespace: &Value, now: Time) -> Vec<Value> {
    vec![name(namespace), text(namespace, &["status", "phase"]).into(), created(namespace, now)]
}

pub(super) fn service_account(account: &Value, now: Time) -> Vec<Value> {
    vec![name(account), created(account, now)]
}

pub(super) fn lease(lease: &Value, now: Time) -> Vec<Value> {
    vec![name(lease), text(lease, &["spec", "holderIdentity"]).into(), created(lease, now)]
}

fn size(value: &Value, field: &str) -> usize {
    object(value, &[field]).map_or(0, serde_json::Map::len)
}

pub(super) fn config_map(map: &Value, now: Time) -> Vec<Value> {
    vec![name(map), (size(map, "data") + size(map, "binaryData")).into(), created(map, now)]
}

pub(super) fn secret(secret: &Value, now: Time) -> Vec<Value> {
    vec![name(secret), text(secret, &["type"]).into(), size(secret, "data").into(), created(secret, now)]
}

/// Both shapes of an event: the one of core, and the one of `events.k8s.io`.
pub(super) fn event(event: &Value, now: Time) -> Vec<Value> {
    let either = |old: &[&str], new: &[&str]| match text(event, old) {
        "" => text(event, new).to_owned(),
        found => found.to_owned(),
    };
    let stamp = |old: &str, new: &str| at(event, &[old]).or_else(|| at(event, &[new]));
    let first = age(now, stamp("firstTimestamp", "deprecatedFirstTimestamp").or_else(|| at(event, &["eventTime"])));
    let last = match at(event, &["series"]) {
        Some(series) => age(now, at(series, &["lastObservedTime"])),
        None => stamp("lastTimestamp", "deprecatedLastTimestamp").map_or_else(|| first.clone(), |stamp| age(now, Some(stamp))),
    };
    let count = match at(event, &["series"]) {
        Some(series) => int(series, &["count"]).unwrap_or(0),
        // An event that happened once need not say so.
        None => int(event, &["count"]).or_else(|| int(event, &["deprecatedCount"])).filter(|n| *n != 0).unwrap_or(1),
    };
    let about = |field| either(&["involvedObject", field], &["regarding", field]);
    let target = match (about("kind").to_lowercase(), about("name")) {
        (kind, name) if name.is_empty() => kind,
        (kind, name) => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text(event, &["type"]).into(),
        text(event, &["reason"]).into(),
        target.into(),
        about("fieldPath").into(),
        event_source(event, &either).into(),
        either(&["message"], &["note"]).trim().into(),
        first.into(),
        count.into(),
        name(event),
    ]
}

fn event_source(event: &Value, either: &dyn Fn(&[&str], &[&str]) -> String) -> String {
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let controller = either(&["reportingComponent"], &["reportingController"]);
    let component = or(either(&["source", "component"], &["deprecatedSource", "component"]), &controller);
    let host = or(either(&["source", "host"], &["deprecatedSource", "host"]), text(event, &["reportingInstance"]));
    if host.is_empty() { component } else { format!("{component}, {host}") }
}

/// Returns the first items, and how many more there are.
fn shortened(all: &[String]) -> Value {
    let shown = all.iter().take(LIST_MAX).map(String::as_str);
    match all.len() {
        0 => "<unset>".into(),
        total if total > LIST_MAX => format!("{} + {} more...", joined(shown), total - LIST_MAX).into(),
        _ => joined(shown).into(),
    }
}

pub(super) fn endpoint_slice(slice: &Value, now: Time) -> Vec<Value> {
    let port = |port: &Value| match (int(port, &["port"]), at(port, &["name"]).and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = items(slice, &["ports"]).iter().map(port).collect();
    let addresses = items(slice, &["endpoints"]).iter().flat_map(|endpoint| items(endpoint, &["addresses"]));
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    vec![name(slice), text(slice, &["addressType"]).into(), shortened(&ports), shortened(&addresses), created(slice, now)]
}

/// Returns the cells that describe the pods of a workload.
pub(super) fn template(workload: &Value) -> [Value; 3] {
    let containers = items(workload, &["spec", "template", "spec", "containers"]);
    let all = |field: &str| joined(containers.iter().map(|container| text(container, &[field]))).into();
    [all("name"), all("image"), selector(at(workload, &["spec", "selector"]))]
}

pub(super) fn deployment(deployment: &Value, now: Time) -> Vec<Value> {
    let status = |field: &str| int(deployment, &["status", field]).unwrap_or(0);
    let desired = int(deployment, &["spec", "replicas"]).unwrap_or(0);
    let mut cells = vec![
        name(deployment),
        format!("{}/{desired}", status("readyReplicas")).into(),
        status("updatedReplicas").into(),
        status("availableReplicas").into(),
        created(deployment, now),
    ];
    cells.extend(template(deployment));
    cells
}

pub(super) fn budget(budget: &Value, now: Time) -> Vec<Value> {
    let share = |field: &str| match budget["spec"].get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    vec![
        name(budget),
        share("minAvailable").into(),
        share("maxUnavailable").into(),
        int(budget, &["status", "disruptionsAllowed"]).unwrap_or(0).into(),
        created(budget, now),
    ]
}

pub(super) fn replica_set(set: &Value, now: Time) -> Vec<Value> {
    let status = |field: &str| int(set, &["status", field]).unwrap_or(0);
    let mut cells = vec![
        name(set),
        int(set, &["spec", "replicas"]).unwrap_or(0).into(),
        status("replicas").into(),
        status("readyReplicas").into(),
        created(set, now),
    ];
    cells.extend(template(set));
    cells
}

pub(super) fn other(value: &Value) -> Vec<Value> {
    vec![name(value), text(value, &["metadata", "creationTimestamp"]).into()]
}
