//! Events as evidence.

use api::Timestamp;
use api::json;
use machine::Time;
use serde_json::Value;

use crate::answer::Evidence;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    pub(crate) warning: bool,
    pub(crate) count: i64,
    /// When it was last seen.
    pub(crate) at: Option<Timestamp>,
    field_path: &'a str,
}

/// Reads the events about an object, oldest first. An event about an earlier object of the same name does not count; some
/// writers give the name of a node for its uid.
pub(crate) fn read<'a>(items: &'a [Value], uid: &str) -> Vec<Event<'a>> {
    let about = |item: &&Value| {
        let named = json::text(item, &["involvedObject", "uid"]);
        named.is_empty() || uid.is_empty() || named == uid
    };
    let mut events: Vec<Event<'a>> = items.iter().filter(about).map(Event::of).collect();
    events.sort_by_key(|event| event.at);
    events
}

impl<'a> Event<'a> {
    fn of(item: &'a Value) -> Event<'a> {
        let time = |path: &[&str]| Timestamp::parse(json::text(item, path)).ok();
        let times =
            [time(&["series", "lastObservedTime"]), time(&["lastTimestamp"]), time(&["eventTime"]), time(&["firstTimestamp"])];
        Event {
            reason: json::text(item, &["reason"]),
            message: json::text(item, &["message"]),
            warning: json::text(item, &["type"]) == "Warning",
            count: json::int(item, &["series", "count"]).or_else(|| json::int(item, &["count"])).unwrap_or(1).max(1),
            at: times.into_iter().flatten().max(),
            field_path: json::text(item, &["involvedObject", "fieldPath"]),
        }
    }

    /// Returns whether the event is about a container: by its path, or by its text.
    pub(crate) fn about(&self, container: &str) -> bool {
        match self.field_path.split_once('{') {
            Some((_, rest)) => rest.trim_end_matches('}') == container,
            None => self.message.split([' ', '"', '\'', ',']).any(|word| word == container),
        }
    }

    /// Returns whether the event was seen at or after an instant; one without a time counts. Events have whole seconds.
    pub(crate) fn since(&self, start: Option<Time>) -> bool {
        match (self.at, start) {
            (Some(at), Some(start)) => at.0 >= start.floor_second(),
            _ => true,
        }
    }

    /// Returns the event as evidence.
    pub(crate) fn evidence(&self) -> Evidence {
        let times = if self.count > 1 { format!("{} times", self.count) } else { String::new() };
        Evidence { object: format!("event/{}", self.reason), field: times, value: self.message.trim().to_owned(), at: self.at }
    }
}

/// Returns the last event that is one of these.
pub(crate) fn last<'a, 'b>(events: &'b [Event<'a>], good: impl Fn(&Event<'a>) -> bool) -> Option<&'b Event<'a>> {
    events.iter().rev().find(|event| good(event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_time_counts_and_other_objects_do_not() {
        let items = [
            json!({"reason": "B", "lastTimestamp": "2026-01-01T00:00:09Z", "count": 4, "involvedObject": {"uid": "u"}}),
            json!({"reason": "A", "eventTime": "2026-01-01T00:00:01.5Z", "series": {"count": 7, "lastObservedTime": "2026-01-01T00:00:05Z"}}),
            json!({"reason": "C", "lastTimestamp": "2026-01-01T00:00:10Z", "involvedObject": {"uid": "other"}}),
        ];
        let events = read(&items, "u");
        let seen: Vec<(&str, i64)> = events.iter().map(|event| (event.reason, event.count)).collect();
        assert_eq!(seen, [("A", 7), ("B", 4)]);
    }

    #[test]
    fn an_event_names_its_container_by_path_or_text() {
        let by_path = json!({"involvedObject": {"fieldPath": "spec.initContainers{app}"}, "message": "Container side is sick"});
        assert!(Event::of(&by_path).about("app") && !Event::of(&by_path).about("side"));
        let by_text = json!({"message": "Container app failed liveness probe, will be restarted"});
        assert!(Event::of(&by_text).about("app") && !Event::of(&by_text).about("ap"));
    }
}
