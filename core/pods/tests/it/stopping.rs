//! Deletion, drain, stop of the agent.

use std::time::Duration;

use api::ProbeType;
use pods::{Hook, Input, Settings};
use probe::Report as Outcome;
use serde_json::json;

use crate::world::{World, container, plain, sidecar};

fn draining() -> Settings {
    Settings { drain_wait: Some(Duration::from_secs(2)), ..Settings::default() }
}

fn hooked(name: &str) -> serde_json::Value {
    container(name, json!({"lifecycle": {"preStop": {"exec": {"command": ["bye"]}}}}))
}

#[test]
fn a_deleted_pod_is_asked_to_stop_then_killed_then_deleted() {
    let mut world = World::new(json!({"containers": [hooked("app"), plain("other")]})).begin();
    world.obedient = false;
    world.pass_ms(1_000);
    world.delete(10);
    world.pass_ms(3_000);
    world.hook_ends("app", Hook::PreStop, Ok(()));
    world.pass_ms(60_000);
    let effects = world.effects_of(&["hook", "signal", "kill", "delete", "tear", "release"]);
    let expected = [
        "1000 hook app PreStop",
        "1000 signal other SIGTERM",
        "4000 signal app SIGTERM",
        "11000 kill app",
        "11000 kill other",
        "11000 tear down",
        "11100 delete u1",
        "11100 release",
    ];
    assert_eq!(effects, expected);
    assert_eq!(world.status()["phase"], "Failed", "watchers see how it ended");
    assert_eq!(world.container("app")["state"]["terminated"]["exitCode"], 137);
    assert_eq!(world.noted("Killing"), 2);
}

#[test]
fn a_hook_that_does_not_end_gets_two_more_seconds_for_the_container() {
    let mut world = World::new(json!({"containers": [hooked("app")]})).begin();
    world.obedient = false;
    world.delete(5);
    world.pass_ms(60_000);
    let effects = world.effects_of(&["cancel", "signal", "kill"]);
    assert_eq!(effects, ["5000 cancel app PreStop", "5000 signal app SIGTERM", "7000 kill app"]);
    assert_eq!(world.noted("FailedPreStopHook"), 1);
}

#[test]
fn a_failed_hook_is_told_and_the_stop_goes_on() {
    let mut world = World::new(json!({"containers": [hooked("app")]})).begin();
    world.delete(5);
    world.hook_ends("app", Hook::PreStop, Err("no such file".to_owned()));
    assert_eq!(world.effects_of(&["signal"]), ["0 signal app SIGTERM"]);
    assert_eq!(world.noted("FailedPreStopHook"), 1);
}

#[test]
fn the_signal_waits_for_the_slices() {
    let mut world = World::with(json!({"containers": [plain("app")]}), draining()).begin();
    world.delete(30);
    world.pass_ms(700);
    assert_eq!(world.effects_of(&["signal"]), Vec::<String>::new());
    world.tell(Input::Drained);
    assert_eq!(world.effects_of(&["signal"]), ["700 signal app SIGTERM"]);

    for (grace, at) in [(30, 2_000), (2, 1_000), (1, 0)] {
        let mut world = World::with(json!({"containers": [plain("app")]}), draining()).begin();
        world.delete(grace);
        world.pass_ms(5_000);
        assert_eq!(world.effects_of(&["signal"]), [format!("{at} signal app SIGTERM")], "grace {grace}");
    }
}

#[test]
fn hooks_do_not_wait_for_the_slices() {
    let mut world = World::with(json!({"containers": [hooked("app")]}), draining()).begin();
    world.delete(30);
    assert_eq!(world.effects_of(&["hook"]), ["0 hook app PreStop"]);
    world.pass_ms(100);
    world.hook_ends("app", Hook::PreStop, Ok(()));
    world.pass_ms(5_000);
    assert_eq!(world.effects_of(&["signal"]), ["2000 signal app SIGTERM"]);
}

#[test]
fn sidecars_stop_last_and_in_reverse_order() {
    let spec = json!({"initContainers": [sidecar("one"), sidecar("two")], "containers": [plain("a"), plain("b")]});
    let mut world = World::new(spec).begin();
    world.obedient = false;
    world.delete(10);
    world.pass_ms(1_000);
    world.exit("a", 0);
    world.pass_ms(1_000);
    world.exit("b", 0);
    world.pass_ms(1_000);
    world.exit("two", 0);
    world.pass_ms(30_000);
    let effects = world.effects_of(&["signal", "kill"]);
    let expected =
        ["0 signal a SIGTERM", "0 signal b SIGTERM", "2000 signal two SIGTERM", "3000 signal one SIGTERM", "10000 kill one"];
    assert_eq!(effects, expected);
}

#[test]
fn a_sidecar_whose_turn_comes_late_still_gets_two_seconds() {
    let spec = json!({"initContainers": [sidecar("proxy")], "containers": [plain("app")]});
    let mut world = World::new(spec).begin();
    world.obedient = false;
    world.delete(3);
    world.pass_ms(30_000);
    let effects = world.effects_of(&["signal", "kill", "delete"]);
    assert_eq!(
        effects,
        ["0 signal app SIGTERM", "3000 kill app", "3000 signal proxy SIGTERM", "5000 kill proxy", "5000 delete u1"]
    );
}

#[test]
fn a_shorter_grace_shortens_a_deletion_and_a_longer_one_does_not_lengthen_it() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    world.obedient = false;
    world.delete(60);
    world.pass_ms(1_000);
    world.delete(100);
    world.delete(5);
    world.pass_ms(60_000);
    assert_eq!(world.effects_of(&["kill"]), ["6000 kill app"]);
}

#[test]
fn a_deletion_during_a_probe_kill_brings_its_own_grace() {
    let liveness = json!({"livenessProbe": {"exec": {"command": ["ok"]}, "failureThreshold": 1}});
    let mut world = World::new(json!({"containers": [container("app", liveness)]})).begin();
    world.obedient = false;
    world.answer("app", ProbeType::Liveness, Outcome::failure("hangs"));
    world.pass_ms(1_000);
    world.delete(4);
    world.pass_ms(60_000);
    assert_eq!(world.effects_of(&["signal", "kill", "start"]), ["0 start app 0", "0 signal app SIGTERM", "5000 kill app"]);
}

#[test]
fn readiness_goes_on_while_a_pod_is_deleted_and_liveness_does_not() {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1});
    let spec = json!({"containers": [container("app", json!({"livenessProbe": probe, "readinessProbe": probe}))]});
    let mut world = World::new(spec).begin();
    world.obedient = false;
    world.answer("app", ProbeType::Readiness, Outcome::success());
    world.answer("app", ProbeType::Liveness, Outcome::success());
    world.delete(30);
    world.pass_ms(1_500);
    assert_eq!(world.attempts.keys().map(|(_, probe)| *probe).collect::<Vec<_>>(), [ProbeType::Readiness]);
    assert_eq!(world.condition("Ready"), "True");
}

#[test]
fn nothing_starts_once_deletion_was_requested() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    world.pass_ms(1_000);
    world.exit("app", 1);
    world.exit("app", 1);
    world.pass_ms(500);
    assert_eq!(world.container("app")["state"]["waiting"]["reason"], "CrashLoopBackOff");
    world.delete(30);
    world.pass_ms(60_000);
    assert_eq!(world.effects_of(&["start"]).len(), 2);
    assert!(world.released);
    assert_eq!(world.container("app")["state"]["terminated"]["exitCode"], 1, "it waits for nothing any more");
}

#[test]
fn a_container_that_was_being_started_is_stopped_too() {
    let mut world = World::new(json!({"containers": [hooked("app")]}));
    world.eager = false;
    world.step(None);
    world.tell(Input::Prepared { ip: "127.88.0.7".to_owned() });
    world.delete(5);
    world.pass_ms(100);
    assert!(!world.released, "what may run is waited for");
    let process = world.process("app").unwrap().clone();
    world.tell(Input::Started { container: process.container, id: process.id, at: world.now });
    world.hook_ends("app", Hook::PreStop, Ok(()));
    world.pass_ms(200);
    assert_eq!(world.effects_of(&["signal", "release"]), ["100 signal app SIGTERM", "200 release"]);
}

#[test]
fn a_pod_that_never_started_is_deleted_at_once() {
    let mut world = World::new(json!({"containers": [plain("app")]}));
    world.eager = false;
    world.step(None);
    world.delete(30);
    assert_eq!(world.effects_of(&["delete", "release"]), ["0 delete u1", "0 release"]);
}

#[test]
fn a_deletion_is_asked_for_until_the_api_answers() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    world.pass_ms(1_000);
    world.online = false;
    world.delete(5);
    world.pass_ms(60_000);
    assert!(!world.released);
    world.online = true;
    world.pass_ms(10_000);
    assert!(world.released);
    assert_eq!(world.status()["phase"], "Succeeded");
}

#[test]
fn a_pod_that_vanished_is_stopped_without_a_word() {
    let mut world = World::new(json!({"terminationGracePeriodSeconds": 3, "containers": [plain("app")]})).begin();
    world.obedient = false;
    world.pass_ms(1_000);
    let writes = world.writes.len();
    world.tell(Input::Gone);
    world.pass_ms(60_000);
    assert_eq!(world.effects_of(&["signal", "kill", "release"]), ["1000 signal app SIGTERM", "4000 kill app", "4000 release"]);
    assert_eq!((world.writes.len(), world.effects_of(&["delete"]).len()), (writes, 0));
}

#[test]
fn a_stop_of_the_agent_does_not_end_the_pod() {
    let spec = json!({"restartPolicy": "OnFailure", "initContainers": [plain("setup"), sidecar("proxy")], "containers": [plain("app")]});
    let mut world = World::with(spec, draining()).begin();
    world.exit("setup", 0);
    world.pass_ms(1_000);
    world.stop_agent();
    assert_eq!(world.effects_of(&["signal"]), ["1000 signal app SIGTERM", "1000 signal proxy SIGTERM"]);
    world.pass_ms(200);
    assert!(!world.machine.is_alive() && world.machine.is_settled());
    assert_eq!((world.status()["phase"].as_str(), world.condition("Ready").as_str()), (Some("Running"), "False"));
    assert_eq!(world.effects_of(&["tear", "delete", "release"]), Vec::<String>::new());
    // The next agent starts what was stopped, in order, and nothing that had been done.
    world.restart_agent();
    world.pass_ms(200);
    assert_eq!(world.effects_of(&["start"]), ["1200 start proxy 1", "1200 start app 1"]);
    assert_eq!((world.status()["phase"].as_str(), world.condition("Ready").as_str()), (Some("Running"), "True"));
    assert_eq!(world.container("app")["lastState"]["terminated"]["exitCode"], 0);
}

#[test]
fn a_stop_of_the_agent_ends_a_pod_that_is_never_restarted() {
    let mut world = World::new(json!({"restartPolicy": "Never", "containers": [plain("job")]})).begin();
    world.obedient = false;
    world.pass_ms(1_000);
    world.stop_agent();
    world.exit("job", 143);
    world.pass_ms(200);
    assert_eq!(world.status()["phase"], "Failed");
}
