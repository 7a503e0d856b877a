//! What may make a finding go away: patches with computed values, the best first.

use api::json;
use serde_json::{Map, Value, json};

use super::{Place, Segment, at, merge, segments, set};
use crate::given::{Given, GivenPod};
use crate::report::Finding;

/// Returns the members of a probe that say how it asks.
fn handler(probe: &Value) -> Map<String, Value> {
    let known = ["exec", "httpGet", "tcpSocket", "grpc"];
    let members = probe.as_object().into_iter().flatten().filter(|(key, _)| known.contains(&key.as_str()));
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn int(value: &Value, field: &str, default: i64) -> i64 {
    json::int(value, &[field]).filter(|number| *number > 0).unwrap_or(default)
}

/// Returns a startup probe that asks as another probe does, and waits so long.
fn startup(like: &Value, budget_seconds: i64) -> Value {
    let mut probe = handler(like);
    let timeout = int(like, "timeoutSeconds", 1);
    let period = timeout + 1;
    if timeout > 1 {
        probe.insert("timeoutSeconds".to_owned(), json!(timeout));
    }
    probe.insert("periodSeconds".to_owned(), json!(period));
    probe.insert("failureThreshold".to_owned(), json!(budget_seconds.div_euclid(period) + 2));
    Value::Object(probe)
}

/// A start that takes this long is waited for by the probes that are offered.
const START_SECONDS: i64 = 60;

const FIELDS: [&str; 30] = [
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "initialDelaySeconds",
    "periodSeconds",
    "timeoutSeconds",
    "successThreshold",
    "failureThreshold",
    "terminationGracePeriodSeconds",
    "periodMilliseconds",
    "timeoutMilliseconds",
    "initialDelayMilliseconds",
    "httpGet",
    "tcpSocket",
    "exec",
    "grpc",
    "command",
    "args",
    "image",
    "imagePullPolicy",
    "ports",
    "containerPort",
    "env",
    "envFrom",
    "resources",
    "volumeMounts",
    "lifecycle",
    "securityContext",
    "restartPolicy",
    "serviceAccountName",
];

/// Returns patches that may make a finding go away, the best first. `given` are the objects of the files.
pub(crate) fn candidates(object: &Value, given: &Given<'_>, finding: &Finding, listens_ms: Option<u64>) -> Vec<Value> {
    let Some(path) = segments(&finding.path) else { return Vec::new() };
    let place = Place { object, path };
    let probe = place.value();
    let seconds = |ms: u64| i64::try_from(ms.div_ceil(1_000)).unwrap_or(i64::MAX);
    let listens = listens_ms.map_or(0, seconds);
    let list: Vec<Option<Value>> = match finding.id {
        "unknown-field" => {
            let last = match place.path.last() {
                Some(Segment::Key(key)) => key.clone(),
                _ => String::new(),
            };
            let near = nearest(&last);
            let renamed = near.and_then(|field| {
                let parent = &place.path[..place.path.len() - 1];
                let value = json!({ last.as_str(): null, field: probe.clone() });
                (at(object, parent)?.get(field).is_none()).then(|| place.set(parent, value)).flatten()
            });
            vec![renamed, place.set(&place.path, Value::Null)]
        }
        "invalid" => {
            let mut list = vec![place.set(&place.path, Value::Null)];
            match place.path.last() {
                Some(Segment::Key(field)) if field == "port" => list.extend(ports(&place)),
                _ => list.push(place.set(&place.path, json!(1))),
            }
            list
        }
        "unknown-kind" => unknown_kind(&place),
        "unreadable" => {
            let other = match probe {
                Value::String(text) => text.parse::<i64>().ok().map(Value::from),
                Value::Number(_) | Value::Bool(_) => Some(Value::String(probe.to_string())),
                _ => None,
            };
            let mut list = vec![other.and_then(|other| place.set(&place.path, other))];
            list.extend(ports(&place));
            list.push(place.set(&place.path, Value::Null));
            list
        }
        "field-ignored" | "readiness-on-job" | "host-is-the-node" => vec![place.set(&place.path, Value::Null)],
        "command-in-one-word" => {
            let line = probe.get(0).and_then(Value::as_str).unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let plain = !line.contains(['|', ';', '&', '$', '`', '"', '\'', '<', '>', '(', '*', '?']);
            vec![
                plain.then(|| place.set(&place.path, json!(words))).flatten(),
                place.set(&place.path, json!(["sh", "-c", line])),
            ]
        }
        "annotation-invalid" => {
            let whole = place.path.iter().position(|segment| *segment == Segment::Key("annotations".to_owned()));
            vec![whole.and_then(|at| place.set(place.path.get(..at + 2)?, Value::Null))]
        }
        "lost-by-undo" => lost(object),
        "liveness-threshold-one" => {
            vec![place.set(&place.path, json!(3)), place.set(&place.path, json!(6)), place.set(&place.path, json!(12))]
        }
        "liveness-not-weaker" => {
            let own = int(probe, "failureThreshold", 3);
            (1..=12)
                .map(|factor| place.below("failureThreshold", json!(own.saturating_add(1).max(own.saturating_mul(factor)))))
                .collect()
        }
        "timeout-beyond-period" => {
            let (timeout, period) = (int(probe, "timeoutSeconds", 1), int(probe, "periodSeconds", 10));
            let offset = json::int(probe, &["periodMilliseconds"]).unwrap_or(0);
            let longer = timeout.saturating_add(1).saturating_sub(offset.div_euclid(1_000)).max(period);
            vec![
                (timeout >= 2 && period >= 2)
                    .then(|| place.below("timeoutSeconds", json!((period - 1).clamp(1, timeout))))
                    .flatten(),
                place.below("periodSeconds", json!(longer)),
                place.below("periodSeconds", json!(longer.saturating_add(1))),
                place.set(
                    &place.path,
                    json!({"periodSeconds": longer.saturating_add(1), "periodMilliseconds": null, "timeoutMilliseconds": null}),
                ),
            ]
        }
        "exec-sub-second" => vec![
            place.set(&place.path, json!({"periodMilliseconds": null, "periodSeconds": 5})),
            place.below("periodMilliseconds", Value::Null),
        ],
        "exec-every-second" => vec![
            place.set(&place.path, json!({"periodMilliseconds": null, "periodSeconds": 5})),
            place.set(&place.path, json!({"periodMilliseconds": null, "periodSeconds": 10})),
        ],
        "startup-budget-short" | "startup-budget-small" => {
            let period = int(probe, "periodSeconds", 10);
            let wanted = listens.saturating_mul(2).max(START_SECONDS);
            [1, 5, 30]
                .into_iter()
                .map(|factor| place.below("failureThreshold", json!((wanted.div_euclid(period) + 2).saturating_mul(factor))))
                .collect()
        }
        "liveness-without-startup" | "liveness-before-listening" => {
            vec![place.in_container(json!({"startupProbe": startup(probe, listens.saturating_mul(2).max(START_SECONDS))}))]
        }
        "delay-instead-of-startup" => delays(&place),
        "cannot-fail" => {
            let port = place
                .container()
                .and_then(|container| json::items(container, &["ports"]).first())
                .and_then(|port| port.get("containerPort"));
            let asks = port.and_then(|port| place.set(&place.path, json!({"exec": null, "tcpSocket": {"port": port}})));
            vec![asks, place.set(&place.path, Value::Null)]
        }
        "no-readiness-probe" => readiness(&place, given),
        "undeclared-port" => undeclared(&place),
        "prestop-exceeds-grace" => {
            let waits = place.container().and_then(crate::practice::prestop_seconds).unwrap_or(0);
            vec![place.in_spec(json!({"terminationGracePeriodSeconds": waits.saturating_add(30)}))]
        }
        "deadline-before-ready" => {
            let own = json::int(object, &["spec", "progressDeadlineSeconds"]).unwrap_or(600).max(1);
            [2, 4, 16, 128].into_iter().map(|factor| place.set(&place.path, json!(own.saturating_mul(factor)))).collect()
        }
        "marker-target-missing" => marker_target(&place, given),
        "service-selects-nothing" | "service-port-undeclared" => service(&place, given, finding.id),
        _ => Vec::new(),
    };
    // Many pods offer the same.
    let mut different: Vec<Value> = Vec::new();
    for candidate in list.into_iter().flatten() {
        if !different.contains(&candidate) {
            different.push(candidate);
        }
    }
    different
}

/// Returns the known field that the last step of a path is nearly.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    let last = path.rsplit('.').next().unwrap_or(path);
    FIELDS.iter().find(|field| near(field, last) && **field != last).copied()
}

pub(crate) fn near(known: &str, word: &str) -> bool {
    let (a, b) = (known.to_lowercase(), word.to_lowercase());
    if a == b {
        return true;
    }
    // One letter more, less, or another one.
    let (short, long) = if a.len() <= b.len() { (&a, &b) } else { (&b, &a) };
    if !short.is_ascii() || !long.is_ascii() || long.len() - short.len() > 1 {
        return false;
    }
    let same = short.bytes().zip(long.bytes()).take_while(|(x, y)| x == y).count();
    if short.len() == long.len() { short[same..].get(1..) == long[same..].get(1..) } else { short[same..] == long[same + 1..] }
}

/// The ports that may be meant: the number that a text is, then what the container declares, that of the name first.
fn ports(place: &Place<'_>) -> Vec<Option<Value>> {
    let Some(Segment::Key(field)) = place.path.last() else { return Vec::new() };
    if field != "port" {
        return Vec::new();
    }
    let text = place.value().as_str().unwrap_or_default();
    let mut declared: Vec<&Value> =
        place.container().map(|container| json::items(container, &["ports"])).unwrap_or_default().iter().collect();
    declared.sort_by_key(|port| json::text(port, &["name"]) != text);
    let numbers = declared.into_iter().filter_map(|port| port.get("containerPort").cloned());
    text.parse::<u16>().ok().map(Value::from).into_iter().chain(numbers).map(|port| place.set(&place.path, port)).collect()
}

/// The version in which a kind is served, or the kind that is meant.
fn unknown_kind(place: &Place<'_>) -> Vec<Option<Value>> {
    let kind = json::text(place.object, &["kind"]);
    let served =
        kinds::model::kinds().filter(|(_, known, _)| *known == kind).map(|(version, ..)| json!({ "apiVersion": version }));
    let meant = kinds::model::kinds()
        .filter(|(_, known, _)| near(known, kind))
        .map(|(version, known, _)| json!({ "apiVersion": version, "kind": known }));
    served.chain(meant).map(Some).collect()
}

fn lost(object: &Value) -> Vec<Option<Value>> {
    let fields = api::probe_rules::sub_second_fields("Deployment", object);
    let mut patch = Value::Null;
    for path in fields {
        let Some(one) = segments(&path).and_then(|path| set(object, &path, Value::Null)) else { continue };
        merge(&mut patch, &one);
    }
    vec![(!patch.is_null()).then_some(patch)]
}

/// Delays of the container become a startup probe that waits as long.
fn delays(place: &Place<'_>) -> Vec<Option<Value>> {
    let Some(container) = place.container() else { return Vec::new() };
    let mut change = Map::new();
    let mut longest = 0;
    for field in ["readinessProbe", "livenessProbe"] {
        let Some(probe) = container.get(field).filter(|probe| probe.is_object()) else { continue };
        longest = longest.max(json::int(probe, &["initialDelaySeconds"]).unwrap_or(0));
        let delays = ["initialDelaySeconds", "initialDelayMilliseconds"].into_iter().filter(|delay| probe.get(delay).is_some());
        let away: Map<String, Value> = delays.map(|delay| (delay.to_owned(), Value::Null)).collect();
        if !away.is_empty() {
            change.insert(field.to_owned(), Value::Object(away));
        }
    }
    change.insert("startupProbe".to_owned(), startup(place.value(), longest.saturating_mul(2).max(START_SECONDS)));
    vec![place.in_container(Value::Object(change))]
}

fn readiness(place: &Place<'_>, given: &Given<'_>) -> Vec<Option<Value>> {
    let Some(container) = place.container() else { return Vec::new() };
    let like =
        ["startupProbe", "livenessProbe"].into_iter().find_map(|field| container.get(field).filter(|probe| probe.is_object()));
    let port = json::items(container, &["ports"])
        .first()
        .and_then(|port| port.get("name").or_else(|| port.get("containerPort")))
        .cloned();
    let of_service = || {
        let services = given.objects.iter().filter(|object| json::text(object, &["kind"]) == "Service");
        services
            .flat_map(|service| json::items(service, &["spec", "ports"]))
            .find_map(|port| port.get("targetPort").or_else(|| port.get("port")).filter(|port| port.is_number()))
            .cloned()
    };
    let mut list = Vec::new();
    if let Some(like) = like {
        let mut probe = handler(like);
        let timeout = int(like, "timeoutSeconds", 1);
        probe.insert("periodSeconds".to_owned(), json!(timeout.saturating_add(1)));
        probe.insert("timeoutSeconds".to_owned(), json!(timeout));
        probe.insert("failureThreshold".to_owned(), json!(1));
        list.push(place.in_container(json!({"readinessProbe": probe})));
    }
    if let Some(port) = port.or_else(of_service) {
        list.push(place.in_container(json!({"readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 5}})));
        let asks = json!({"tcpSocket": {"port": port}, "periodSeconds": 2, "failureThreshold": 1});
        list.push(place.in_container(json!({"readinessProbe": asks})));
    }
    list
}

fn undeclared(place: &Place<'_>) -> Vec<Option<Value>> {
    let Some(container) = place.container() else { return Vec::new() };
    let ports = json::items(container, &["ports"]);
    let name = place.value().as_str().unwrap_or_default().to_owned();
    let known = ports.iter().filter_map(|port| port.get("name").or_else(|| port.get("containerPort")));
    let mut list: Vec<Option<Value>> = known.map(|port| place.set(&place.path, port.clone())).collect();
    if !name.is_empty() {
        let numbers = ["readinessProbe", "livenessProbe", "startupProbe"]
            .into_iter()
            .flat_map(|field| ["httpGet", "tcpSocket", "grpc"].map(|kind| json::int(container, &[field, kind, "port"])));
        let number = numbers.flatten().next().unwrap_or(8080);
        list.push(place.in_container(json!({"ports": [{"name": name, "containerPort": number}]})));
    }
    list
}

fn marker_target(place: &Place<'_>, given: &Given<'_>) -> Vec<Option<Value>> {
    let containers = given.pods().flat_map(|(_, pod)| json::items(&pod.spec, &["containers"]));
    let names = containers.map(|container| json::text(container, &["name"]));
    names.map(|name| place.set(&place.path, json!(name))).collect()
}

fn service(place: &Place<'_>, given: &Given<'_>, id: &str) -> Vec<Option<Value>> {
    let mut list = Vec::new();
    for (_, GivenPod { labels, spec, .. }) in given.pods() {
        if id == "service-port-undeclared" {
            list.extend(crate::in_front::declared(spec).map(|name| place.set(&place.path, json!(name))));
            continue;
        }
        let wanted = json::object(place.object, &["spec", "selector"]).cloned().unwrap_or_default();
        // Pods that have none of its labels are not those that it is meant for.
        if !wanted.keys().any(|key| labels.contains_key(key)) {
            continue;
        }
        let mut change = Map::new();
        for (key, value) in &wanted {
            match labels.get(key) {
                Some(own) if value.as_str() != Some(own) => drop(change.insert(key.clone(), json!(own))),
                Some(_) => {}
                None => drop(change.insert(key.clone(), Value::Null)),
            }
        }
        list.push(place.set(&place.path, Value::Object(change)));
    }
    list
}
