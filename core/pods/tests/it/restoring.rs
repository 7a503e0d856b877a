//! The agent is started again.

use api::ProbeType;
use probe::Report as Outcome;
use serde_json::json;

use crate::world::{World, container, plain, sidecar};

fn probed() -> serde_json::Value {
    let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 1});
    container("app", json!({"startupProbe": probe, "readinessProbe": probe}))
}

#[test]
fn a_running_pod_goes_on_without_a_word() {
    let spec = json!({"initContainers": [plain("setup"), sidecar("proxy")], "containers": [probed(), plain("other")]});
    let mut world = World::new(spec).begin();
    world.exit("setup", 0);
    world.pass_ms(500);
    world.answer("app", ProbeType::Startup, Outcome::success());
    world.pass_ms(500);
    world.answer("app", ProbeType::Readiness, Outcome::success());
    world.pass_ms(500);
    assert_eq!(world.condition("Ready"), "True");
    let before = world.pod.clone();
    world.restart_agent();
    world.step(None);
    world.pass_ms(900);
    assert_eq!(world.effects_of(&["start", "signal", "write", "kill"]), Vec::<String>::new());
    assert_eq!((world.pod, world.events), (before, Vec::new()));
}

#[test]
fn a_container_that_was_not_ready_is_asked_at_once() {
    let mut world = World::new(json!({"containers": [probed()]})).begin();
    world.pass_ms(500);
    world.answer("app", ProbeType::Startup, Outcome::success());
    world.pass_ms(500);
    world.restart_agent();
    world.step(None);
    assert_eq!(world.effects_of(&["launch"]), ["1000 launch app Readiness"], "and not for its startup again");
}

#[test]
fn a_start_that_was_never_written_is_found() {
    let mut world = World::new(json!({"containers": [plain("app")]}));
    world.step(None);
    world.online = false;
    world.pass_ms(1_000);
    world.exit("app", 1);
    world.pass_ms(500);
    world.online = true;
    world.restart_agent();
    world.step(None);
    world.pass_ms(500);
    assert_eq!(world.effects_of(&["start"]), Vec::<String>::new());
    let app = world.container("app");
    assert_eq!((app["containerID"].as_str(), app["restartCount"].as_i64()), (Some("lifesign://u1-c0-1"), Some(1)));
    assert_eq!(app["lastState"]["terminated"]["exitCode"], 1);
}

#[test]
fn an_end_that_nobody_saw_is_acted_upon() {
    for (policy, code, restarts) in [("Always", 0, true), ("OnFailure", 0, false), ("OnFailure", 2, true), ("Never", 2, false)]
    {
        let mut world = World::new(json!({"restartPolicy": policy, "containers": [plain("app")]})).begin();
        world.pass_ms(1_000);
        let exit = pods::Exit::unknown(world.now, world.now);
        world.processes[0].exit = Some(pods::Exit { exit_code: code, ..exit });
        world.restart_agent();
        world.step(None);
        world.pass_ms(500);
        assert_eq!(world.effects_of(&["start"]).len(), usize::from(restarts), "{policy} {code}");
        let phase = if restarts {
            "Running"
        } else if code == 0 {
            "Succeeded"
        } else {
            "Failed"
        };
        assert_eq!(world.status()["phase"], phase, "{policy} {code}");
    }
}

#[test]
fn an_instance_of_which_nothing_is_left_is_lost() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    world.pass_ms(1_000);
    world.processes.clear();
    world.restart_agent();
    world.step(None);
    world.pass_ms(500);
    assert_eq!(world.effects_of(&["start"]), ["1000 start app 1"]);
    assert_eq!(world.container("app")["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
}

#[test]
fn the_back_off_goes_on_where_it_was() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    world.exit("app", 1);
    world.exit("app", 1);
    world.pass_ms(4_000);
    assert_eq!(world.container("app")["state"]["waiting"]["reason"], "CrashLoopBackOff");
    let before = world.pod.clone();
    world.restart_agent();
    world.step(None);
    assert_eq!(world.pod, before);
    world.pass_ms(10_000);
    assert_eq!(world.effects_of(&["start"]), ["10000 start app 2"]);
    world.exit("app", 1);
    world.pass_ms(100_000);
    assert_eq!(world.effects_of(&["start"])[1..], ["34000 start app 3"], "twenty seconds after ten");
}

#[test]
fn a_deletion_goes_on() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    world.obedient = false;
    world.pass_ms(1_000);
    world.delete(10);
    world.pass_ms(2_000);
    world.restart_agent();
    world.step(None);
    world.pass_ms(60_000);
    assert_eq!(
        world.effects_of(&["signal", "kill", "delete"]),
        ["3000 signal app SIGTERM", "13000 kill app", "13000 delete u1"]
    );
}

#[test]
fn a_finished_pod_stays_finished() {
    let mut world = World::new(json!({"restartPolicy": "Never", "containers": [plain("app")]})).begin();
    world.exit("app", 0);
    world.pass_ms(500);
    assert_eq!(world.status()["phase"], "Succeeded");
    world.restart_agent();
    world.step(None);
    world.pass_ms(60_000);
    assert_eq!(world.log, Vec::new());
    world.delete(30);
    assert!(world.released);
}

#[test]
fn a_hook_that_may_have_been_left_out_is_carried_out_again() {
    let hooked = json!({"lifecycle": {"postStart": {"exec": {"command": ["warm"]}}}});
    let mut world = World::new(json!({"containers": [container("app", hooked)]})).begin();
    world.pass_ms(500);
    world.restart_agent();
    world.step(None);
    assert_eq!(world.effects_of(&["hook"]), ["500 hook app PostStart"]);
    world.hook_ends("app", pods::Hook::PostStart, Ok(()));
    world.pass_ms(500);
    world.restart_agent();
    world.step(None);
    assert_eq!(world.effects_of(&["hook"]), Vec::<String>::new());
}
