//! When the status is written.

use api::ProbeType;
use probe::Report as Outcome;
use serde_json::json;

use crate::world::{World, container, plain};

fn probed() -> serde_json::Value {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1});
    container("app", json!({"readinessProbe": probe}))
}

#[test]
fn changes_within_the_window_are_merged() {
    let spec = json!({"containers": [plain("a"), plain("b"), plain("c")]});
    let mut world = World::new(spec).begin();
    world.pass_ms(1_000);
    let before = world.writes.len();
    world.exit("a", 1);
    world.pass_ms(10);
    world.exit("b", 1);
    world.pass_ms(10);
    world.exit("c", 1);
    world.pass_ms(1_000);
    let at: Vec<i64> = world.writes[before..].iter().map(|(at, ..)| *at).collect();
    assert_eq!(at, [1_000, 1_100], "the first at once, the others together");
}

#[test]
fn nothing_is_written_without_a_change() {
    let mut world = World::new(json!({"containers": [probed()]})).begin();
    world.answer("app", ProbeType::Readiness, Outcome::success());
    world.pass_ms(500);
    let writes = world.writes.len();
    for _ in 0..100 {
        world.pass_ms(1_000);
        world.answer("app", ProbeType::Readiness, Outcome::success());
    }
    world.apply(|pod| pod["metadata"]["labels"] = json!({"a": "b"}));
    assert_eq!(world.writes.len(), writes);
}

#[test]
fn what_somebody_else_writes_into_the_conditions_is_put_right() {
    let mut world = World::new(json!({"containers": [probed()]})).begin();
    world.answer("app", ProbeType::Readiness, Outcome::success());
    world.pass_ms(60_000);
    let writes = world.writes.len();
    let mark = |pod: &mut serde_json::Value| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|condition| condition["type"] == "Ready").unwrap();
        (ready["status"], ready["reason"]) = (json!("False"), json!("NodeNotReady"));
    };
    world.apply(mark);
    assert_eq!((world.condition("Ready").as_str(), world.writes.len()), ("True", writes + 1), "at once");
    assert!(world.writes[writes].2, "readiness is urgent");
    world.pass_ms(1_000);
    for _ in 0..20 {
        world.apply(mark);
        world.pass_ms(1_000);
    }
    assert_eq!(world.writes.len(), writes + 3, "somebody who insists is answered every ten seconds");
    world.pass_ms(10_000);
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!(world.writes.len(), writes + 4);
}

#[test]
fn a_minute_without_the_api_stops_nothing_and_the_latest_state_arrives_when_it_returns() {
    let liveness = json!({"exec": {"command": ["ok"]}, "periodSeconds": 10, "failureThreshold": 2});
    let hanging = container("hanging", json!({"livenessProbe": liveness}));
    let mut world = World::new(json!({"containers": [probed(), plain("crashing"), hanging]})).begin();
    world.answer("app", ProbeType::Readiness, Outcome::success());
    world.answer("hanging", ProbeType::Liveness, Outcome::success());
    world.pass_ms(500);
    world.online = false;
    let writes = world.writes.len();
    for second in 0..60 {
        world.pass_ms(1_000);
        let outcome = if second % 2 == 0 { Outcome::failure("no") } else { Outcome::success() };
        world.answer("app", ProbeType::Readiness, outcome);
        if world.attempts.contains_key(&("hanging".into(), ProbeType::Liveness)) {
            let alive = second < 15 || world.processes.len() > 4;
            world.answer("hanging", ProbeType::Liveness, if alive { Outcome::success() } else { Outcome::failure("hangs") });
        }
        if second == 5 {
            world.exit("crashing", 1);
        }
    }
    assert_eq!(world.effects_of(&["start crashing"]).len(), 2, "restarts do not wait for the API");
    let effects = world.effects_of(&["signal hanging", "start hanging"]);
    assert_eq!(effects, ["0 start hanging 0", "30500 signal hanging SIGTERM", "30500 start hanging 1"], "nor do kills");
    let tries = world.effects_of(&["write"]).len() - writes;
    assert!((8..=20).contains(&tries), "{tries} tries in a minute");
    world.online = true;
    world.pass_ms(10_000);
    assert_eq!(world.writes.len(), writes + 1, "once");
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!([&world.container("crashing")["restartCount"], &world.container("hanging")["restartCount"]], [1, 1]);
    assert_eq!(world.container("app")["restartCount"], 0, "what was well is not reset");
    assert!(world.effects_of(&["launch app"]).len() >= 60, "probing went on");
}

#[test]
fn a_transition_keeps_the_instant_at_which_it_happened() {
    let mut world = World::new(json!({"containers": [probed()]})).begin();
    world.pass_ms(500);
    world.online = false;
    world.answer("app", ProbeType::Readiness, Outcome::success());
    world.pass_ms(5_000);
    world.online = true;
    world.pass_ms(10_000);
    let conditions = world.status()["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:16:40Z");
    assert_eq!(ready["observedGeneration"], 1);
}
