//! Laws of the board: whoever follows it sees what is there, and its memory is bounded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use machine::Time;
use proptest::prelude::*;
use serde_json::{Value, json};
use view::{AgentReport, Board, Delta, Fact, Limits, Origin};

const LIMITS: Limits = Limits { attempts: 5, window: Duration::from_secs(600), events: 4 };

/// What happens to a small cluster.
#[derive(Clone, Debug)]
enum Change {
    Pod(u8, bool),
    PodGone(u8),
    Slice(u8, Vec<u8>),
    SliceGone(u8),
    Service(u8),
    ServiceGone(u8),
    Marker(u8),
    MarkerGone(u8),
    Event(u8, u8),
    EventGone(u8),
    Attempts(u8, u8),
    Node(bool),
    /// Whoever follows looks.
    Look,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..4u8, any::<bool>()).prop_map(|(n, ready)| Change::Pod(n, ready)),
        (0..4u8).prop_map(Change::PodGone),
        (0..2u8, proptest::collection::vec(0..4u8, 0..3)).prop_map(|(n, pods)| Change::Slice(n, pods)),
        (0..2u8).prop_map(Change::SliceGone),
        (0..2u8).prop_map(Change::Service),
        (0..2u8).prop_map(Change::ServiceGone),
        (0..2u8).prop_map(Change::Marker),
        (0..2u8).prop_map(Change::MarkerGone),
        (0..9u8, 0..60u8).prop_map(|(n, at)| Change::Event(n, at)),
        (0..9u8).prop_map(Change::EventGone),
        (0..4u8, 1..4u8).prop_map(|(n, count)| Change::Attempts(n, count)),
        any::<bool>().prop_map(Change::Node),
        Just(Change::Look),
    ]
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).expect("a view of this object"))
}

fn fact(change: &Change, now: Time) -> Option<Fact> {
    let stamp = |time: Time| api::Timestamp(time).micro();
    Some(match change {
        Change::Pod(n, ready) => Fact::Pod(read(json!({
            "metadata": {"name": format!("p{n}"), "namespace": "d", "uid": format!("u{n}"), "labels": {"app": "a"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"port": 1}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if *ready { "True" } else { "False" }}]},
        }))),
        Change::PodGone(n) => Fact::PodGone(format!("d/p{n}")),
        Change::Slice(n, pods) => {
            let endpoint = |pod: &u8| json!({"addresses": [format!("10.0.0.{pod}")], "targetRef": {"uid": format!("u{pod}")}});
            Fact::Slice(read(json!({
                "metadata": {"name": format!("s{n}"), "namespace": "d", "labels": {"kubernetes.io/service-name": "s0"}},
                "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
            })))
        }
        Change::SliceGone(n) => Fact::SliceGone(format!("d/s{n}")),
        Change::Service(n) => Fact::Service(read(json!({"metadata": {"name": format!("s{n}"), "namespace": "d"}}))),
        Change::ServiceGone(n) => Fact::ServiceGone(format!("d/s{n}")),
        Change::Marker(n) => Fact::Marker(read(json!({
            "metadata": {"name": format!("m{n}"), "namespace": "d"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "probes": []},
        }))),
        Change::MarkerGone(n) => Fact::MarkerGone(format!("d/m{n}")),
        Change::Event(n, at) => Fact::Event(read(json!({
            "metadata": {"name": format!("e{n}"), "namespace": "d"}, "reason": "R",
            "lastTimestamp": stamp(Time::from_secs(i64::from(*at))),
        }))),
        Change::EventGone(n) => Fact::EventGone(format!("d/e{n}")),
        Change::Attempts(n, count) => {
            let outcome = |n: u8| {
                let at = now + Duration::from_micros(u64::from(n));
                json!({"began": stamp(at), "ended": stamp(at), "outcome": "success"})
            };
            Fact::Report(Arc::new(AgentReport::read(&json!({"workers": [{
                "uid": format!("u{n}"), "container": "c", "probe": "Liveness",
                "outcomes": (0..*count).map(outcome).collect::<Vec<_>>(),
            }]}))))
        }
        Change::Node(true) => Fact::Node(read(json!({"metadata": {"name": "n"}}))),
        Change::Node(false) => Fact::NodeGone("n".to_owned()),
        Change::Look => return None,
    })
}

const KINDS: [&str; 7] = ["pods", "strips", "services", "nodes", "markers", "profile", "events"];

/// What somebody who follows knows, as the page keeps it.
#[derive(Default)]
struct Follower {
    revision: Option<u64>,
    rows: BTreeMap<(&'static str, String), Value>,
}

impl Follower {
    fn take(&mut self, delta: &Delta) {
        self.revision = Some(delta.revision);
        let value = serde_json::to_value(delta).expect("a delta is JSON");
        if delta.whole {
            self.rows.clear();
        }
        for kind in KINDS {
            for gone in api::json::items(&value, &[kind, "gone"]) {
                self.rows.remove(&(kind, gone.as_str().expect("a key").to_owned()));
            }
            for row in api::json::items(&value, &[kind, "put"]) {
                self.put(kind, row);
            }
        }
    }

    fn put(&mut self, kind: &'static str, row: &Value) {
        let key = (kind, row["key"].as_str().expect("a key").to_owned());
        let mut row = row.clone();
        if kind == "strips"
            && let Some(known) = self.rows.get(&key)
        {
            let mut attempts = known["attempts"].as_array().cloned().unwrap_or_default();
            attempts.extend(row["attempts"].as_array().cloned().unwrap_or_default());
            let first = attempts.len().saturating_sub(LIMITS.attempts);
            row["attempts"] = Value::Array(attempts.split_off(first));
        }
        self.rows.insert(key, row);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn who_follows_sees_what_is_there_and_memory_is_bounded(changes in proptest::collection::vec(change(), 1..60)) {
        let mut board = Board::new(LIMITS);
        let mut follower = Follower::default();
        let mut now = Time::from_secs(100);
        for change in &changes {
            now += Duration::from_millis(10);
            match fact(change, now) {
                Some(fact) => board.apply(now, Origin::Live, fact),
                None => follower.take(&board.delta(now, follower.revision)),
            }
        }
        follower.take(&board.delta(now, follower.revision));
        let mut fresh = Follower::default();
        fresh.take(&board.delta(now, None));
        prop_assert_eq!(&follower.rows, &fresh.rows);
        prop_assert!(board.delta(now, follower.revision).is_empty());
        let (_, attempts, events) = board.sizes();
        prop_assert!(attempts <= 4 * LIMITS.attempts && events <= LIMITS.events);
    }

    #[test]
    fn whatever_an_agent_says_is_read(text in "\\PC{0,40}", number in any::<i64>()) {
        let odd = json!({"workers": [{"uid": text, "container": number, "outcomes": [{"began": text, "ended": number}, number, null]}, text, null]});
        prop_assert!(AgentReport::read(&odd).until.is_none());
    }
}

#[test]
fn who_was_away_for_too_long_gets_everything() {
    let mut board = Board::new(LIMITS);
    let now = Time::from_secs(1);
    for n in 0..1_200 {
        let pod = json!({"metadata": {"name": format!("p{n}"), "namespace": "d", "uid": format!("u{n}")}});
        board.apply(now, Origin::Live, Fact::Pod(read(pod)));
    }
    let seen = board.delta(now, None).revision;
    for n in 0..1_100 {
        board.apply(now, Origin::Live, Fact::PodGone(format!("d/p{n}")));
        board.delta(now, Some(seen));
    }
    let delta = board.delta(now, Some(seen));
    assert!(delta.whole && delta.pods.put.len() == 100);
    let also = board.delta(now, Some(seen + 5_000));
    assert!(also.whole, "a revision of another board means nothing here");
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let mut board = Board::new(LIMITS);
    let message = "ä".repeat(5_000);
    let pod =
        json!({"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "status": {"phase": "Failed", "message": message}});
    board.apply(Time::ZERO, Origin::Live, Fact::Pod(read(pod)));
    let row = &board.delta(Time::ZERO, None).pods.put[0];
    assert!(row.message.len() < 600 && row.message.ends_with('…'), "{}", row.message.len());
}
