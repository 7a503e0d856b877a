//! One event, two groups: events are stored as `v1` and shown as `events.k8s.io/v1` under other names.

use serde_json::{Map, Value};

/// The fields that have another name in `events.k8s.io/v1`: there, in `v1`.
const RENAMED: [(&str, &str); 8] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingInstance", "reportingInstance"),
];

/// Returns an event of `events.k8s.io/v1` as `v1`.
pub fn to_core(event: Value) -> Value {
    renamed(event, |(new, core)| (new, core))
}

/// Returns an event of `v1` as `events.k8s.io/v1`.
pub fn from_core(event: Value) -> Value {
    renamed(event, |(new, core)| (core, new))
}

fn renamed(event: Value, direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str)) -> Value {
    let Value::Object(members) = event else { return event };
    let name = |key: String| match RENAMED.into_iter().map(&direction).find(|(from, _)| *from == key) {
        Some((_, to)) => to.to_owned(),
        None => key,
    };
    Value::Object(members.into_iter().map(|(key, value)| (name(key), value)).collect::<Map<_, _>>())
}

/// Returns the label of a field selector in `v1`, given the one of `events.k8s.io/v1`.
pub fn core_label(label: &str) -> String {
    match label.strip_prefix("regarding.") {
        Some(rest) => format!("involvedObject.{rest}"),
        None if label == "reportingController" => "reportingComponent".to_owned(),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_two_forms_are_the_same_event() {
        let new =
            json!({"metadata": {"name": "e"}, "note": "n", "regarding": {"name": "web"}, "deprecatedCount": 3, "reason": "R"});
        let core = to_core(new.clone());
        assert_eq!(
            core,
            json!({"metadata": {"name": "e"}, "message": "n", "involvedObject": {"name": "web"}, "count": 3, "reason": "R"})
        );
        assert_eq!(from_core(core), new);
        assert_eq!(core_label("regarding.name"), "involvedObject.name");
    }
}
