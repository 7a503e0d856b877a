//! What probes do to a pod.

use api::ProbeType;
use probe::Report as Outcome;
use serde_json::json;

use crate::world::{World, container, plain};

fn probed(more: serde_json::Value) -> serde_json::Value {
    container("app", more)
}

#[test]
fn a_pod_is_ready_when_its_probe_says_so() {
    let readiness = json!({"readinessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}});
    let mut world = World::new(json!({"containers": [probed(readiness)]})).begin();
    world.pass_ms(200);
    assert_eq!(world.condition("Ready"), "False");
    world.answer("app", ProbeType::Readiness, Outcome::success());
    assert_eq!((world.condition("ContainersReady"), world.condition("Ready")), ("True".to_owned(), "True".to_owned()));
    let conditions = world.status()["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().all(|condition| condition["reason"].is_null()),
        "why it was not ready is forgotten: {conditions:?}"
    );
    let (_, written, urgent) = world.writes.last().unwrap();
    assert!(*urgent);
    assert_eq!(written["containerStatuses"][0]["ready"], true, "one write for all of it");
    world.pass_ms(1_000);
    world.answer("app", ProbeType::Readiness, Outcome::failure("refused"));
    assert_eq!(world.condition("Ready"), "False");
    assert_eq!(world.noted("Unhealthy"), 1);
    world.pass_ms(1_000);
    world.answer("app", ProbeType::Readiness, Outcome::success());
    assert_eq!(world.noted("Healthy"), 1);
}

#[test]
fn a_failed_liveness_probe_restarts_the_container_with_the_grace_of_the_probe() {
    let liveness = json!({
        "livenessProbe": {"exec": {"command": ["ok"]}, "periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 4},
        "lifecycle": {"preStop": {"exec": {"command": ["bye"]}}, "stopSignal": "SIGUSR1"},
    });
    let mut world = World::new(json!({"restartPolicy": "OnFailure", "containers": [probed(liveness)]})).begin();
    world.obedient = false;
    world.pass_ms(500);
    world.answer("app", ProbeType::Liveness, Outcome::failure("hangs"));
    assert_eq!(world.noted("Killing"), 1);
    world.pass_ms(1_500);
    world.hook_ends("app", pods::Hook::PreStop, Ok(()));
    world.pass_ms(20_000);
    let effects = world.effects_of(&["hook", "signal", "kill", "start"]);
    let expected = ["0 start app 0", "500 hook app PreStop", "2000 signal app SIGUSR1", "4500 kill app", "4500 start app 1"];
    assert_eq!(effects, expected);
}

#[test]
fn a_probe_kill_restarts_whatever_the_exit_code_unless_the_policy_is_never() {
    for (policy, restarts) in [("Always", true), ("OnFailure", true), ("Never", false)] {
        let liveness = json!({"livenessProbe": {"exec": {"command": ["ok"]}, "failureThreshold": 1}});
        let mut world = World::new(json!({"restartPolicy": policy, "containers": [probed(liveness)]})).begin();
        world.answer("app", ProbeType::Liveness, Outcome::failure("hangs"));
        assert_eq!(world.effects_of(&["start"]).len(), 1 + usize::from(restarts), "{policy}");
        world.pass_ms(200);
        assert_eq!(world.status()["phase"], if restarts { "Running" } else { "Succeeded" }, "{policy}");
    }
}

#[test]
fn probes_begin_after_the_hook() {
    let more = json!({"readinessProbe": {"tcpSocket": {"port": 1}}, "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}});
    let mut world = World::new(json!({"containers": [probed(more)]})).begin();
    world.pass_ms(700);
    assert_eq!(world.effects_of(&["launch"]), Vec::<String>::new());
    world.hook_ends("app", pods::Hook::PostStart, Ok(()));
    assert_eq!(world.effects_of(&["launch"]), ["700 launch app Readiness"]);
}

#[test]
fn an_outcome_of_the_instance_before_changes_nothing() {
    let readiness = json!({"readinessProbe": {"tcpSocket": {"port": 1}}});
    let mut world = World::new(json!({"containers": [probed(readiness), plain("other")]})).begin();
    let old = world.attempts.values().copied().next().unwrap();
    world.exit("app", 1);
    world.pass_ms(300);
    world.tell(pods::Input::ProbeFinished {
        container: "app".into(),
        probe: ProbeType::Readiness,
        attempt: old,
        report: Outcome::success(),
    });
    world.pass_ms(300);
    assert_eq!(world.condition("Ready"), "False");
}
