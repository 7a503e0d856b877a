//! Starts, their order, restarts, ends.

use api::ProbeType;
use pods::{Hook, Input};
use probe::Report as Outcome;
use serde_json::json;

use crate::world::{EPOCH, World, container, plain, sidecar};

#[test]
fn a_pod_gets_its_address_and_then_starts() {
    let mut world = World::new(json!({"containers": [plain("app")]}));
    world.eager = false;
    world.step(None);
    assert_eq!(world.effects_of(&[""]), ["0 prepare", "0 write"]);
    assert_eq!(world.container("app")["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!(world.condition("PodReadyToStartContainers"), "False");
    world.pass_ms(200);
    world.eager = true;
    world.tell(Input::Prepared { ip: "127.88.0.7".to_owned() });
    // The address first; that it is ready does not wait for others.
    assert_eq!(world.effects_of(&["start", "write"]), ["0 write", "200 start app 0", "200 write", "200 write"]);
    world.pass_ms(100);
    let status = world.status();
    assert_eq!((status["phase"].as_str(), status["podIP"].as_str()), (Some("Running"), Some("127.88.0.7")));
    assert_eq!((status["hostIP"].as_str(), status["startTime"].as_str()), (Some("127.0.0.1"), Some("1970-01-01T00:16:40Z")));
    let app = world.container("app");
    assert_eq!(app["containerID"], "lifesign://u1-c0-0");
    assert_eq!(
        (app["ready"].as_bool(), app["started"].as_bool(), app["restartCount"].as_i64()),
        (Some(true), Some(true), Some(0))
    );
    assert_eq!(app["image"], "demo");
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!((world.noted("Created"), world.noted("Started")), (1, 1));
}

#[test]
fn init_containers_run_one_after_the_other() {
    let spec = json!({"initContainers": [plain("one"), plain("two")], "containers": [plain("a"), plain("b")]});
    let mut world = World::new(spec).begin();
    assert_eq!(world.effects_of(&["start"]), ["0 start one 0"]);
    assert_eq!(world.container("a")["state"]["waiting"]["reason"], "PodInitializing");
    world.pass_ms(1_000);
    world.exit("one", 0);
    world.pass_ms(1_000);
    assert_eq!(world.status()["phase"], "Pending");
    assert_eq!(world.condition("Initialized"), "False");
    world.exit("two", 0);
    assert_eq!(world.effects_of(&["start"]), ["0 start one 0", "1000 start two 0", "2000 start a 0", "2000 start b 0"]);
    world.pass_ms(200);
    assert_eq!(world.status()["phase"], "Running");
    assert_eq!((world.condition("Initialized"), world.condition("Ready")), ("True".to_owned(), "True".to_owned()));
    assert_eq!(world.container("one")["ready"], true);
}

#[test]
fn an_init_container_that_fails_is_tried_again_or_fails_the_pod() {
    let spec = |policy: &str| json!({"restartPolicy": policy, "initContainers": [plain("one")], "containers": [plain("app")]});
    let mut world = World::new(spec("OnFailure")).begin();
    world.pass_ms(1_000);
    world.exit("one", 3);
    world.pass_ms(1_000);
    world.exit("one", 3);
    world.pass_ms(10_000);
    assert_eq!(world.effects_of(&["start"]), ["0 start one 0", "1000 start one 1", "12000 start one 2"]);

    let mut world = World::new(spec("Never")).begin();
    world.pass_ms(1_000);
    world.exit("one", 3);
    world.pass_ms(60_000);
    assert_eq!(world.effects_of(&["start", "tear"]), ["0 start one 0", "1000 tear down"]);
    assert_eq!(world.status()["phase"], "Failed");
}

#[test]
fn the_next_init_container_waits_until_a_sidecar_is_started() {
    let startup = json!({"restartPolicy": "Always", "startupProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 1}});
    let spec = json!({"initContainers": [container("proxy", startup), plain("setup")], "containers": [plain("app")]});
    let mut world = World::new(spec).begin();
    world.pass_ms(3_000);
    assert_eq!(world.effects_of(&["start"]), ["0 start proxy 0"]);
    world.answer("proxy", ProbeType::Startup, Outcome::success());
    assert_eq!(world.effects_of(&["start"]), ["0 start proxy 0", "3000 start setup 0"]);
    world.exit("setup", 0);
    assert_eq!(world.effects_of(&["start"]).last().unwrap(), "3000 start app 0");
    world.pass_ms(200);
    assert_eq!(world.condition("Ready"), "True");
    // Later restarts of the sidecar hold nobody up.
    world.exit("proxy", 1);
    world.exit("app", 1);
    assert_eq!(world.effects_of(&["start"])[3..], ["3200 start proxy 1", "3200 start app 1"]);
}

#[test]
fn regular_containers_start_in_order_each_after_the_hook_of_the_one_before() {
    let hooked = json!({"lifecycle": {"postStart": {"exec": {"command": ["warm"]}}}});
    let spec = json!({"containers": [container("a", hooked), plain("b")]});
    let mut world = World::new(spec).begin();
    world.pass_ms(500);
    assert_eq!(world.effects_of(&["start", "hook"]), ["0 start a 0", "0 hook a PostStart"]);
    assert_eq!(world.container("a")["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!(world.status()["phase"], "Pending");
    world.hook_ends("a", Hook::PostStart, Ok(()));
    world.pass_ms(200);
    assert_eq!(world.effects_of(&["start"]), ["0 start a 0", "500 start b 0"]);
    assert_eq!(world.condition("Ready"), "True");
}

#[test]
fn a_failed_hook_after_the_start_ends_the_container() {
    let hooked = json!({"lifecycle": {"postStart": {"exec": {"command": ["warm"]}}, "preStop": {"sleep": {"seconds": 1}}}});
    let mut world = World::new(json!({"containers": [container("a", hooked)]})).begin();
    world.pass_ms(500);
    world.hook_ends("a", Hook::PostStart, Err("exit code 2".to_owned()));
    assert_eq!(world.noted("FailedPostStartHook"), 1);
    // It never counted as running, so there is nothing to prepare for its stop.
    let effects = world.effects_of(&["start", "hook", "signal", "cancel"]);
    assert_eq!(effects[2..], ["500 cancel a PostStart", "500 signal a SIGTERM", "500 start a 1", "500 hook a PostStart"]);
}

#[test]
fn restarts_follow_the_ladder() {
    let mut world = World::new(json!({"containers": [plain("app")]})).begin();
    for _ in 0..4 {
        world.pass_ms(1_000);
        world.exit("app", 1);
        world.pass_ms(300);
        if world.process("app").is_none() {
            let app = world.container("app");
            assert_eq!(app["state"]["waiting"]["reason"], "CrashLoopBackOff");
            assert_eq!(app["lastState"]["terminated"]["exitCode"], 1);
            assert_eq!((app["ready"].as_bool(), app["started"].as_bool()), (Some(false), Some(false)));
        }
        world.pass_to_deadline();
    }
    // Ends at 1000, 2300, 13300 and 34300; then 0, 10, 20 and 40 seconds.
    let starts: Vec<i64> = world.log.iter().filter(|(_, text)| text.starts_with("start")).map(|(at, _)| *at).collect();
    assert_eq!(starts, [0, 1_000, 12_300, 33_300, 74_300]);
    assert_eq!(world.noted("BackOff"), 3);
    world.pass_ms(100);
    assert_eq!(world.container("app")["restartCount"], 4);
    assert_eq!(world.status()["phase"], "Running");
}

#[test]
fn a_pod_that_has_done_its_work_has_succeeded() {
    let spec =
        json!({"restartPolicy": "OnFailure", "initContainers": [sidecar("proxy")], "containers": [plain("a"), plain("b")]});
    let mut world = World::new(spec).begin();
    world.pass_ms(1_000);
    world.exit("a", 0);
    world.pass_ms(1_000);
    assert_eq!(world.effects_of(&["signal"]), Vec::<String>::new());
    world.exit("b", 0);
    assert_eq!(world.effects_of(&["signal", "tear"]), ["2000 signal proxy SIGTERM", "2000 tear down"]);
    world.pass_ms(200);
    assert_eq!(world.status()["phase"], "Succeeded");
    assert_eq!(world.condition("Ready"), "False");
    assert_eq!(world.condition("PodReadyToStartContainers"), "False");
    assert_eq!(world.status()["podIP"], "127.88.0.7", "the address stays on record");
    world.pass_ms(3_600_000);
    assert_eq!(world.effects_of(&["start"]).len(), 3);
}

#[test]
fn an_active_deadline_fails_the_pod() {
    let mut world = World::new(json!({"activeDeadlineSeconds": 5, "containers": [plain("app")]})).begin();
    world.obedient = false;
    world.pass_ms(10_000);
    assert_eq!(world.effects_of(&["signal"]), ["5000 signal app SIGTERM"]);
    let status = world.status();
    assert_eq!((status["phase"].as_str(), status["reason"].as_str()), (Some("Failed"), Some("DeadlineExceeded")));
    world.pass_ms(40_000);
    assert_eq!(world.effects_of(&["kill", "start"]), ["0 start app 0", "35000 kill app"]);
    assert_eq!(world.status()["reason"], "DeadlineExceeded");
}

#[test]
fn what_cannot_be_configured_is_tried_again_and_told_once() {
    let mut world = World::new(json!({"containers": [plain("app")]}));
    world.eager = false;
    world.step(None);
    world.tell(Input::Prepared { ip: "127.88.0.7".to_owned() });
    for _ in 0..4 {
        let process = world.processes.pop().expect("it is being started");
        let (reason, message) = ("CreateContainerConfigError".to_owned(), "secret \"x\" not found".to_owned());
        world.tell(Input::StartFailed { container: process.container, id: process.id, reason, message });
        world.pass_ms(200);
        let app = world.container("app");
        assert_eq!(app["state"]["waiting"]["reason"], "CreateContainerConfigError");
        assert_eq!(app["restartCount"], 0);
        world.pass_to_deadline();
    }
    let starts: Vec<i64> = world.log.iter().filter(|(_, text)| text.starts_with("start")).map(|(at, _)| *at).collect();
    assert_eq!(starts, [0, 1_000, 3_000, 7_000, 15_000]);
    assert_eq!(world.noted("Failed"), 1);
    assert!(world.writes.len() <= 3, "no write without a change: {:?}", world.effects_of(&["write"]));
}

#[test]
fn a_pod_that_gets_no_address_waits_for_one() {
    let mut world = World::new(json!({"containers": [plain("app")]}));
    world.eager = false;
    world.step(None);
    let (reason, message) = ("ContainerCreating".to_owned(), "no address is free".to_owned());
    world.tell(Input::PrepareFailed { reason: reason.clone(), message: message.clone() });
    world.pass_ms(1_000);
    world.tell(Input::PrepareFailed { reason, message });
    world.pass_ms(2_000);
    assert_eq!(world.effects_of(&["prepare"]), ["0 prepare", "1000 prepare", "3000 prepare"]);
    assert_eq!(world.noted("FailedCreatePodSandBox"), 1);
    assert_eq!(world.container("app")["state"]["waiting"]["message"], "no address is free");
}

#[test]
fn another_image_restarts_the_container() {
    let mut world = World::new(json!({"restartPolicy": "Never", "containers": [plain("a"), plain("b")]})).begin();
    world.pass_ms(1_000);
    world.apply(|pod| pod["spec"]["containers"][1]["image"] = json!("demo:2"));
    assert_eq!(world.effects_of(&["signal", "start"])[2..], ["1000 signal b SIGTERM", "1000 start b 1"]);
    world.pass_ms(200);
    assert_eq!(world.container("b")["image"], "demo:2");
}

#[test]
fn readiness_gates_of_others_count() {
    let spec = json!({"readinessGates": [{"conditionType": "example.com/lb"}], "containers": [plain("app")]});
    let mut world = World::new(spec).begin();
    world.pass_ms(500);
    assert_eq!((world.condition("ContainersReady"), world.condition("Ready")), ("True".to_owned(), "False".to_owned()));
    let gate = json!({"type": "example.com/lb", "status": "True"});
    world.apply(|pod| pod["status"]["conditions"].as_array_mut().unwrap().push(gate));
    assert_eq!(world.condition("Ready"), "True");
    assert_eq!(world.condition("example.com/lb"), "True");
    assert!(world.writes.last().unwrap().2, "it changes whether the pod is ready");
    assert_eq!(world.now, EPOCH + std::time::Duration::from_millis(500), "at once");
}
