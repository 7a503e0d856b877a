//! What holds whatever happens.

use std::collections::BTreeSet;
use std::time::Duration;

use pods::{Hook, Input, Settings};
use probe::Report as Outcome;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, container};

/// Something that may happen.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Exit(usize, i32),
    Answer(usize, bool),
    HookEnds(bool),
    Prepared(bool),
    Started,
    CannotStart,
    Online(bool),
    Delete(i64),
    Image(usize),
    Restart,
}

const NAMES: [&str; 5] = ["setup", "proxy", "late", "app", "other"];

/// Returns pods; with hooks, if they may have any.
fn spec(hooks: bool) -> impl Strategy<Value = Value> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let one = || (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let deadline = prop_oneof![4 => Just(None), 1 => (1i64..200).prop_map(Some)];
    (policy, proptest::collection::vec(one(), 5), 1usize..4, 1usize..3, 0i64..40, deadline).prop_map(
        move |(policy, flags, init, regular, grace, deadline)| {
            let build = |index: usize, sidecar: bool| {
                let (startup, readiness, liveness, hooked) = flags[index];
                let mut more = json!({});
                let probe = json!({"tcpSocket": {"port": 1}, "periodSeconds": 2, "failureThreshold": 1});
                if sidecar {
                    more["restartPolicy"] = json!("Always");
                }
                if index == 1 || index > 2 {
                    for (field, wanted) in
                        [("startupProbe", startup), ("readinessProbe", readiness), ("livenessProbe", liveness)]
                    {
                        if wanted {
                            more[field] = probe.clone();
                        }
                    }
                }
                if hooks && hooked {
                    let hook = json!({"exec": {"command": ["x"]}});
                    more["lifecycle"] = json!({"postStart": hook, "preStop": hook});
                }
                container(NAMES[index], more)
            };
            let init: Vec<Value> = (0..init).map(|index| build(index, index == 1)).collect();
            let regular: Vec<Value> = (3..3 + regular).map(|index| build(index, false)).collect();
            let mut spec = json!({
                "restartPolicy": policy,
                "terminationGracePeriodSeconds": grace,
                "initContainers": init,
                "containers": regular,
            });
            if let Some(deadline) = deadline {
                spec["activeDeadlineSeconds"] = json!(deadline);
            }
            spec
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u64..30_000).prop_map(Event::Pass),
        4 => (0usize..5, 0i32..2).prop_map(|(container, code)| Event::Exit(container, code)),
        8 => (0usize..8, any::<bool>()).prop_map(|(attempt, good)| Event::Answer(attempt, good)),
        3 => any::<bool>().prop_map(Event::HookEnds),
        3 => any::<bool>().prop_map(Event::Prepared),
        6 => Just(Event::Started),
        1 => Just(Event::CannotStart),
        1 => any::<bool>().prop_map(Event::Online),
        1 => (0i64..40).prop_map(Event::Delete),
        1 => (0usize..3).prop_map(Event::Image),
        1 => Just(Event::Restart),
    ]
}

/// Lets something happen, if it can.
fn happen(world: &mut World, event: Event) {
    match event {
        Event::Pass(ms) => world.pass_ms(ms),
        Event::Exit(index, code) => world.exit(NAMES[index], code),
        Event::Answer(index, good) => {
            let key = world.attempts.keys().nth(index).cloned();
            if let Some((container, probe)) = key {
                let outcome = if good { Outcome::success() } else { Outcome::failure("no") };
                world.answer(&container, probe, outcome);
            }
        }
        Event::HookEnds(good) => {
            let result = if good { Ok(()) } else { Err("exit code 1".to_owned()) };
            for hook in [Hook::PostStart, Hook::PreStop] {
                if let Some(process) = world.processes.iter().find(|process| process.exit.is_none()).cloned() {
                    world.hook_ends(&process.container, hook, result.clone());
                }
            }
        }
        Event::Prepared(true) => world.tell(Input::Prepared { ip: "127.88.0.7".to_owned() }),
        Event::Prepared(false) => {
            let (reason, message) = ("ContainerCreating".to_owned(), "not now".to_owned());
            world.tell(Input::PrepareFailed { reason, message });
        }
        Event::Started => {
            if let Some(process) = world.processes.iter().find(|process| process.exit.is_none()).cloned() {
                world.tell(Input::Started { container: process.container, id: process.id, at: process.started_at });
            }
        }
        Event::CannotStart => {
            if let Some(at) = world.starting() {
                let process = world.processes.remove(at);
                let (reason, message) = ("CreateContainerConfigError".to_owned(), "no secret".to_owned());
                world.tell(Input::StartFailed { container: process.container, id: process.id, reason, message });
            }
        }
        Event::Online(online) => world.online = online,
        Event::Delete(grace) => world.delete(grace),
        Event::Image(number) => world.apply(|pod| pod["spec"]["containers"][0]["image"] = json!(format!("demo:{number}"))),
        Event::Restart => {
            // Not while an instance is being started: the world cannot tell that one from one that runs.
            if world.starting().is_none() {
                world.restart_agent();
                world.step(None);
            }
        }
    }
}

/// Lets everything end that can, as a node does sooner or later.
fn come_to_an_end(world: &mut World) {
    world.online = true;
    world.eager = true;
    while let Some(at) = world.starting() {
        let process = world.processes[at].clone();
        world.tell(Input::Started { container: process.container, id: process.id, at: process.started_at });
    }
    world.pass(Duration::from_secs(600));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The world itself checks that no container has two instances and no worker two attempts at once.
    #[test]
    fn every_deleted_pod_ends_and_nothing_starts_after_the_deletion(
        spec in spec(true),
        events in proptest::collection::vec(event(), 0..60),
        eager in any::<bool>(),
        obedient in any::<bool>(),
        drain in any::<bool>(),
    ) {
        let settings = Settings { drain_wait: drain.then(|| Duration::from_secs(2)), ..Settings::default() };
        let mut world = World::with(spec, settings);
        (world.eager, world.obedient) = (eager, obedient);
        world.step(None);
        let mut deleted_at = None;
        for event in events {
            if matches!(event, Event::Delete(_)) && deleted_at.is_none() {
                deleted_at = Some(world.processes.len());
            }
            happen(&mut world, event);
            if let Some(before) = deleted_at {
                prop_assert!(world.processes.len() <= before, "something was started after the deletion");
            }
            if world.released {
                break;
            }
        }
        if !world.released {
            let before = world.processes.len();
            world.delete(5);
            come_to_an_end(&mut world);
            prop_assert!(world.processes.len() <= before);
        }
        prop_assert!(world.released, "the pod never ended: {:?}", world.log);
        prop_assert!(world.processes.iter().all(|process| process.exit.is_some()), "a process was left behind");
    }

    #[test]
    fn a_machine_made_from_its_own_status_goes_on_where_it_was(
        spec in spec(false),
        events in proptest::collection::vec(event(), 0..40),
    ) {
        let mut world = World::new(spec).begin();
        let stays = |event: &Event| !matches!(event, Event::CannotStart | Event::Image(_) | Event::Delete(_));
        for event in events.into_iter().filter(stays) {
            happen(&mut world, event);
        }
        world.online = true;
        world.pass(Duration::from_secs(11));
        while !world.machine.is_settled() {
            world.pass_ms(101);
        }
        let (pod, processes) = (world.pod.clone(), world.processes.len());
        world.restart_agent();
        world.step(None);
        prop_assert_eq!(world.effects_of(&["start", "signal", "kill", "write"]), Vec::<String>::new());
        prop_assert_eq!(world.processes.len(), processes);
        prop_assert_eq!((&world.pod, &world.events), (&pod, &Vec::new()));
    }

    #[test]
    fn a_container_that_keeps_failing_is_started_on_the_ladder_and_no_faster(
        runs in proptest::collection::vec(0u64..900_000, 1..12),
    ) {
        let mut world = World::new(json!({"containers": [container("app", json!({}))]})).begin();
        let mut expected = Duration::ZERO;
        for run in runs {
            world.pass_ms(run);
            if run > 600_000 {
                expected = Duration::ZERO;
            }
            world.exit("app", 1);
            let ended = world.now;
            while world.process("app").is_none() {
                world.pass_to_deadline();
            }
            prop_assert_eq!(world.now.since(ended), expected);
            expected = if expected.is_zero() { Duration::from_secs(10) } else { (expected * 2).min(Duration::from_secs(300)) };
        }
    }

    #[test]
    fn an_instance_has_a_name_of_its_own(codes in proptest::collection::vec(0i32..3, 1..20)) {
        let mut world = World::new(json!({"containers": [container("app", json!({}))]})).begin();
        for code in codes {
            world.exit("app", code);
            world.pass(Duration::from_secs(301));
        }
        let ids: BTreeSet<_> = world.processes.iter().map(|process| process.id.clone()).collect();
        prop_assert_eq!(ids.len(), world.processes.len());
    }
}
