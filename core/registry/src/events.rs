//! One event, two groups: events are stored as `v1` and shown as `events.k8s.io/v1` under other names. They are kept for an hour.

use std::time::Duration;

use api::json;
use machine::Time;
use serde_json::{Map, Value};

/// How long events are kept.
const LIFE: Duration = Duration::from_secs(3_600);

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

/// Returns whether nobody has written an event for an hour. When it was last written is not kept: it is as old as the youngest
/// of its stamps, its creation among them, so that one that tells of something long ago is seen for an hour as well. A stamp
/// that lies ahead by more than that is wrong.
pub fn is_old(event: &Value, now: Time) -> bool {
    let stamps = [&["series", "lastObservedTime"][..], &["lastTimestamp"], &["eventTime"], &["metadata", "creationTimestamp"]];
    let known = stamps.iter().filter_map(|path| api::Timestamp::parse(json::text(event, path)).ok());
    known.map(|stamp| stamp.0).filter(|at| at.since(now) < LIFE).max().is_some_and(|at| now.since(at) > LIFE)
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
    #[test]
    fn an_event_is_kept_for_an_hour_after_it_was_written() {
        let now = api::Timestamp::parse("2026-01-01T12:00:00Z").unwrap().0;
        let event = |created: &str, last: &str| json!({"metadata": {"creationTimestamp": created}, "lastTimestamp": last});
        let old = |created: &str, last: &str| is_old(&event(created, last), now);
        assert!(old("2026-01-01T10:00:00Z", "2026-01-01T10:59:59Z"));
        assert!(!old("2026-01-01T10:00:00Z", "2026-01-01T11:00:01Z"), "seen again");
        assert!(!old("2026-01-01T11:59:00Z", "2025-01-01T00:00:00Z"), "new, of something long ago");
        assert!(old("2026-01-01T10:00:00Z", "3000-01-01T00:00:00Z"), "a stamp that is wrong keeps nothing");
        assert!(!is_old(&json!({"metadata": {}}), now), "without stamps nothing is known");
    }
}
