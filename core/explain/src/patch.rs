//! What to change so that a finding goes away: a YAML patch with computed values.
//!
//! Candidates are made by the rule, then tried: one is offered only if the manifest with it has neither the finding nor a new one.

use api::json;
use serde_json::{Map, Value, json};

use crate::report::Finding;

/// Applies a patch: members are merged, null takes away, items of lists are found by `name` (ports of a Service by `port`).
pub fn apply(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(changes) => {
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            let members = object.as_object_mut().expect("it was made one just now");
            for (key, change) in changes {
                match change {
                    Value::Null => drop(members.remove(key)),
                    change => apply(members.entry(key.clone()).or_insert(Value::Null), change),
                }
            }
        }
        Value::Array(items) => {
            let key = merge_key(items);
            let (Some(key), Some(own)) = (key, object.as_array_mut()) else {
                *object = patch.clone();
                return;
            };
            for item in items {
                match own.iter_mut().find(|known| known.get(key) == item.get(key)) {
                    Some(known) => apply(known, item),
                    None => own.push(item.clone()),
                }
            }
        }
        plain => *object = plain.clone(),
    }
}

fn merge_key(items: &[Value]) -> Option<&'static str> {
    ["name", "port"].into_iter().find(|key| !items.is_empty() && items.iter().all(|item| item.get(key).is_some()))
}

/// A step of a path: a member, or an item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

fn segments(path: &str) -> Option<Vec<Segment>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (text, after) = inner.split_once(']')?;
            found.push(text.parse().map_or_else(|_| Segment::Key(text.to_owned()), Segment::Index));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            found.push(Segment::Key(rest[..end].to_owned()));
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    Some(found)
}

/// Returns the patch that sets something at a path; items of lists are named.
fn set(object: &Value, path: &[Segment], value: Value) -> Option<Value> {
    match path {
        [] => Some(value),
        [Segment::Key(key), rest @ ..] => {
            let inner = set(object.get(key).unwrap_or(&Value::Null), rest, value)?;
            Some(json!({ key.as_str(): inner }))
        }
        [Segment::Index(index), rest @ ..] => {
            let item = object.get(*index)?;
            let mut inner = set(item, rest, value)?;
            let Some(key) = ["name", "port"].into_iter().find(|key| item.get(key).is_some()) else {
                // An item without a name cannot be told from the others: the whole list is given.
                let mut all = object.as_array()?.clone();
                apply(all.get_mut(*index)?, &inner);
                return Some(Value::Array(all));
            };
            inner.as_object_mut()?.insert(key.to_owned(), item[key].clone());
            Some(json!([inner]))
        }
    }
}

/// Returns what stands at a path.
fn at<'a>(object: &'a Value, path: &[Segment]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(*index),
    })
}

/// Where a finding is: the object, the path, and the container around it.
struct Place<'a> {
    object: &'a Value,
    path: Vec<Segment>,
}

impl<'a> Place<'a> {
    fn set(&self, path: &[Segment], value: Value) -> Option<Value> {
        set(self.object, path, value)
    }

    /// Sets a member beside or below the finding's path.
    fn below(&self, member: &str, value: Value) -> Option<Value> {
        let mut path = self.path.clone();
        path.push(Segment::Key(member.to_owned()));
        self.set(&path, value)
    }

    fn value(&self) -> &'a Value {
        at(self.object, &self.path).unwrap_or(&Value::Null)
    }

    /// Returns the path of the container that the finding is in.
    fn container_path(&self) -> Option<Vec<Segment>> {
        let end = self.path.iter().rposition(|segment| matches!(segment, Segment::Index(_)))?;
        Some(self.path[..=end].to_vec())
    }

    fn container(&self) -> Option<&'a Value> {
        at(self.object, &self.container_path()?)
    }

    /// Sets a member of the container.
    fn in_container(&self, value: Value) -> Option<Value> {
        self.set(&self.container_path()?, value)
    }

    /// Sets a member of the pod spec.
    fn in_spec(&self, value: Value) -> Option<Value> {
        let container = self.container_path()?;
        self.set(&container[..container.len() - 2], value)
    }
}

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

/// Returns patches that may make a finding go away, the best first. `all` are the other objects of the files.
pub(crate) fn candidates(object: &Value, all: &[Value], finding: &Finding, listens_ms: Option<u64>) -> Vec<Value> {
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
            let near = FIELDS.iter().find(|field| near(field, &last) && **field != last);
            let renamed = near.and_then(|field| {
                let parent = &place.path[..place.path.len() - 1];
                let value = json!({ last.as_str(): null, *field: probe.clone() });
                (at(object, parent)?.get(field).is_none()).then(|| place.set(parent, value)).flatten()
            });
            vec![renamed, place.set(&place.path, Value::Null)]
        }
        "invalid" => vec![place.set(&place.path, json!(1)), place.set(&place.path, Value::Null)],
        "unreadable" | "field-ignored" | "readiness-on-job" => vec![place.set(&place.path, Value::Null)],
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
        "timeout-not-below-period" => {
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
        "no-readiness-probe" => readiness(&place, all),
        "undeclared-port" => undeclared(&place),
        "prestop-exceeds-grace" => {
            let waits = place.container().and_then(crate::practice::prestop_seconds).unwrap_or(0);
            vec![place.in_spec(json!({"terminationGracePeriodSeconds": waits.saturating_add(30)}))]
        }
        "deadline-before-ready" => {
            let own = json::int(object, &["spec", "progressDeadlineSeconds"]).unwrap_or(600).max(1);
            [2, 4, 16, 128].into_iter().map(|factor| place.set(&place.path, json!(own.saturating_mul(factor)))).collect()
        }
        "marker-target-missing" => marker_target(&place, all),
        "service-selects-nothing" | "service-port-undeclared" => service(&place, all, finding.id),
        _ => Vec::new(),
    };
    list.into_iter().flatten().collect()
}

fn near(known: &str, word: &str) -> bool {
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

fn lost(object: &Value) -> Vec<Option<Value>> {
    let fields = api::probe_rules::sub_second_fields("Deployment", object);
    let mut patch = Value::Null;
    for path in fields {
        let Some(one) = segments(&path).and_then(|path| set(object, &path, Value::Null)) else { continue };
        merge(&mut patch, &one);
    }
    vec![(!patch.is_null()).then_some(patch)]
}

/// Puts two patches together.
fn merge(into: &mut Value, other: &Value) {
    match (into, other) {
        (Value::Object(members), Value::Object(more)) => {
            for (key, value) in more {
                match members.get_mut(key) {
                    Some(own) if !own.is_null() => merge(own, value),
                    _ => drop(members.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(items), Value::Array(more)) => {
            let key = merge_key(more);
            for item in more {
                match key.and_then(|key| items.iter_mut().find(|own| own.get(key) == item.get(key))) {
                    Some(own) => merge(own, item),
                    None => items.push(item.clone()),
                }
            }
        }
        (into, other) => *into = other.clone(),
    }
}

/// Puts two patches together into a new one.
pub(crate) fn both(first: &Value, second: &Value) -> Value {
    let mut together = first.clone();
    merge(&mut together, second);
    together
}

/// Delays of the container become a startup probe that waits as long.
fn delays(place: &Place<'_>) -> Vec<Option<Value>> {
    let Some(container) = place.container() else { return Vec::new() };
    let mut change = Map::new();
    let mut longest = 0;
    for field in ["readinessProbe", "livenessProbe"] {
        let Some(probe) = container.get(field).filter(|probe| probe.is_object()) else { continue };
        longest = longest.max(json::int(probe, &["initialDelaySeconds"]).unwrap_or(0));
        change.insert(field.to_owned(), json!({"initialDelaySeconds": null, "initialDelayMilliseconds": null}));
    }
    change.insert("startupProbe".to_owned(), startup(place.value(), longest.saturating_mul(2).max(START_SECONDS)));
    vec![place.in_container(Value::Object(change))]
}

fn readiness(place: &Place<'_>, all: &[Value]) -> Vec<Option<Value>> {
    let Some(container) = place.container() else { return Vec::new() };
    let like =
        ["startupProbe", "livenessProbe"].into_iter().find_map(|field| container.get(field).filter(|probe| probe.is_object()));
    let port = json::items(container, &["ports"])
        .first()
        .and_then(|port| port.get("name").or_else(|| port.get("containerPort")))
        .cloned();
    let of_service = || {
        let services = all.iter().filter(|object| json::text(object, &["kind"]) == "Service");
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

fn marker_target(place: &Place<'_>, all: &[Value]) -> Vec<Option<Value>> {
    let specs =
        all.iter().filter_map(|object| json::at(object, api::probe_rules::pod_spec_path(json::text(object, &["kind"]))?));
    let names =
        specs.flat_map(|spec| json::items(spec, &["containers"])).map(|container| json::text(container, &["name"]).to_owned());
    names.map(|name| place.set(&place.path, json!(name))).collect()
}

fn service(place: &Place<'_>, all: &[Value], id: &str) -> Vec<Option<Value>> {
    let mut list = Vec::new();
    for object in all {
        let Some(path) = api::probe_rules::pod_spec_path(json::text(object, &["kind"])) else { continue };
        if id == "service-port-undeclared" {
            if let Some(spec) = json::at(object, path) {
                list.extend(crate::in_front::declared(spec).map(|name| place.set(&place.path, json!(name))));
            }
            continue;
        }
        let labels = crate::workloads::labels(object, path);
        let wanted = json::object(place.object, &["spec", "selector"]).cloned().unwrap_or_default();
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

/// Writes a patch as YAML.
pub fn yaml(patch: &Value) -> String {
    let mut text = String::new();
    write(&mut text, patch, 0, false);
    text
}

fn write(text: &mut String, value: &Value, indent: usize, in_list: bool) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (place, (key, value)) in members.iter().enumerate() {
                let pad = if place == 0 && in_list { String::new() } else { " ".repeat(indent) };
                text.push_str(&format!("{pad}{}:", scalar(&Value::String(key.clone()))));
                nested(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&format!("{}- ", " ".repeat(indent)));
                match item {
                    Value::Object(members) if !members.is_empty() => write(text, item, indent + 2, true),
                    plain => text.push_str(&format!("{}\n", scalar(plain))),
                }
            }
        }
        plain => text.push_str(&format!("{}\n", scalar(plain))),
    }
}

fn nested(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('\n');
            write(text, value, indent + 2, false);
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            text.push('\n');
            write(text, value, indent, false);
        }
        plain => text.push_str(&format!(" {}\n", scalar(plain))),
    }
}

/// Returns a value in one line; JSON is YAML.
fn scalar(value: &Value) -> String {
    let plain = |text: &str| {
        let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let word = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
        first && word && !reserved
    };
    match value {
        Value::String(text) if plain(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_the_items_of_lists() {
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "livenessProbe": {"failureThreshold": 1}}]}});
        let path = segments("spec.containers[1].livenessProbe.failureThreshold").unwrap();
        let patch = set(&object, &path, json!(3)).unwrap();
        assert_eq!(patch, json!({"spec": {"containers": [{"name": "b", "livenessProbe": {"failureThreshold": 3}}]}}));
        let mut changed = object.clone();
        apply(&mut changed, &patch);
        assert_eq!(
            changed["spec"]["containers"],
            json!([{"name": "a"}, {"name": "b", "livenessProbe": {"failureThreshold": 3}}])
        );
        assert_eq!(yaml(&patch), "spec:\n  containers:\n  - livenessProbe:\n      failureThreshold: 3\n    name: b\n");
    }

    #[test]
    fn null_takes_away_and_keys_of_annotations_are_one_step() {
        let mut object = json!({"metadata": {"annotations": {"lifesign.dev/probes": "x", "a": "b"}}});
        let path = segments("metadata.annotations[lifesign.dev/probes]").unwrap();
        let patch = set(&object, &path, Value::Null).unwrap();
        apply(&mut object, &patch);
        assert_eq!(object, json!({"metadata": {"annotations": {"a": "b"}}}));
    }

    #[test]
    fn slips_find_their_field() {
        assert!(near("livenessProbe", "livenesProbe") && near("livenessProbe", "livenessprobe") && !near("args", "env"));
    }
}
