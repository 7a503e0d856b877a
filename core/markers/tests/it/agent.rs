//! The agent: pace of attempts and writes, and laws over arbitrary histories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::marker::{NodePodProbe, NodePodProbeStatus, ProbeState};
use machine::{Machine, Rng, Time};
use markers::Agent;
use markers::agent::{ContainerNews, Effect, Finished, Input, Launch, Runtime, WorkerKey};
use probe::{NodePolicy, Outcome};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::world::{Script, World};
use super::{marker, node, pod};

/// The object of a node with one pod `u` and these entries on container `app`.
fn object(generation: i64, entries: &[(&str, Value)]) -> Input {
    let probes: Vec<Value> =
        entries.iter().map(|(name, probe)| json!({"name": name, "containerName": "app", "probe": probe})).collect();
    let object: NodePodProbe = serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "n", "generation": generation},
        "spec": {"podProbes": [{"name": "a", "namespace": "ns", "uid": "u", "IP": "10.0.0.1", "probes": probes}]},
    }))
    .unwrap();
    Input::Spec(Box::new(object))
}

/// The same, with another address.
fn at_address(generation: i64, ip: &str, entries: &[(&str, Value)]) -> Input {
    let Input::Spec(mut spec) = object(generation, entries) else { unreachable!("it is a spec") };
    spec.spec.pod_probes[0].ip = ip.to_owned();
    Input::Spec(spec)
}

fn running(id: &str, started_at: Time) -> Input {
    let (uid, name, id) = ("u".to_owned(), "app".to_owned(), id.to_owned());
    Input::Container(ContainerNews { uid, name, id, runtime: Runtime::Running, started_at: Some(started_at), started: true })
}

fn key(entry: &str) -> WorkerKey {
    WorkerKey { uid: "u".into(), entry: entry.into() }
}

#[test]
fn the_pods_own_address_is_no_other_host() {
    let tcp = |host: &str| json!({"tcpSocket": {"port": 80, "host": host}, "periodSeconds": 1});
    let http = |host: &str| json!({"httpGet": {"port": 80, "host": host}, "periodSeconds": 1});
    let outputs = |effects: &[Effect]| -> Vec<String> {
        let message = |effect: &Effect| match effect {
            Effect::Reported { worker, message, .. } => Some(format!("{}: {message}", worker.entry)),
            Effect::Launch(launch) => Some(format!("{}: launched to {}", launch.worker.entry, launch.ip)),
            _ => None,
        };
        effects.iter().filter_map(message).collect()
    };
    let mut agent = Agent::new(NodePolicy::default(), Rng::new(1));
    let mut step = |input: Option<Input>, now: Time| {
        let mut effects = Vec::new();
        agent.step(now, input, &mut effects);
        outputs(&effects)
    };
    let entries = [("own", tcp("10.0.0.1")), ("web", http("10.0.0.1")), ("other", tcp("10.0.0.2"))];
    let start = Time::from_secs(100);
    assert_eq!(step(Some(object(1, &entries)), start), ["other: probe error: host is not allowed"]);
    let mut launched = step(Some(running("c0", Time::from_secs(90))), start);
    launched.extend(step(None, start));
    launched.sort();
    assert_eq!(launched, ["own: launched to 10.0.0.1", "web: launched to 10.0.0.1"]);
    // Another address of the pod: what was its own is another host now, and the other way round.
    let mut result = step(Some(at_address(2, "10.0.0.2", &entries)), start);
    result.extend(step(None, start));
    result.sort();
    let refused = |name: &str| format!("{name}: probe error: host is not allowed");
    assert_eq!(result, ["other: launched to 10.0.0.2".to_owned(), refused("own"), refused("web")]);
}

/// Drives an agent alone: every attempt takes 5 ms and ends as `outcome` says. Returns when attempts began, in milliseconds.
fn drive(agent: &mut Agent, inputs: Vec<Input>, until: Time, outcome: impl Fn(usize) -> Outcome) -> Vec<i64> {
    let (mut begun, mut ends): (Vec<i64>, BTreeMap<Time, Launch>) = (Vec::new(), BTreeMap::new());
    let (mut now, mut inputs) = (Time::ZERO, inputs.into_iter());
    let mut input = inputs.next();
    loop {
        let mut effects = Vec::new();
        agent.step(now, input.take(), &mut effects);
        for effect in effects {
            match effect {
                Effect::Launch(launch) => {
                    begun.push(now.as_millis());
                    ends.insert(now + Duration::from_millis(5), *launch);
                }
                Effect::Write(_) => agent.step(now, Some(Input::Written(Ok(()))), &mut Vec::new()),
                _ => {}
            }
        }
        input = inputs.next();
        if input.is_some() {
            continue;
        }
        let next = agent.deadline().into_iter().chain(ends.keys().next().copied()).min();
        let Some(next) = next.filter(|next| *next <= until) else { return begun };
        now = next.max(now);
        if let Some(launch) = ends.remove(&now) {
            input = Some(Input::Finished(Finished {
                worker: launch.worker,
                container_id: launch.container_id,
                began: now - Duration::from_millis(5),
                outcome: outcome(begun.len()),
                message: String::new(),
            }));
        }
    }
}

#[test]
fn a_fast_probe_slows_down_after_its_first_success() {
    let mut agent = Agent::new(NodePolicy::default(), Rng::new(1));
    let probe =
        json!({"tcpSocket": {"port": 1}, "periodSeconds": 1, "periodMilliseconds": -800, "initialDelayMilliseconds": 50});
    let inputs = vec![object(1, &[("m#p", probe)]), running("c", Time::ZERO)];
    let begun = drive(&mut agent, inputs, Time::from_secs(3), |n| if n < 4 { Outcome::Failure } else { Outcome::Success });
    assert_eq!(begun, [50, 250, 450, 650, 1_650, 2_650]);
}

#[test]
fn a_shorter_period_counts_at_once_and_a_new_container_starts_over() {
    let probe = |period: i64| json!({"exec": {"command": ["x"]}, "periodSeconds": period});
    let mut agent = Agent::new(NodePolicy::default(), Rng::new(1));
    let inputs = vec![object(1, &[("m#p", probe(60))]), running("c", Time::ZERO)];
    assert_eq!(drive(&mut agent, inputs, Time::from_secs(5), |_| Outcome::Success), [1_000]);
    let (now, mut effects) = (Time::from_secs(5), Vec::new());
    agent.step(now, Some(object(2, &[("m#p", probe(10))])), &mut effects);
    assert!(effects.contains(&Effect::Updated(key("m#p"))));
    assert!(matches!(effects.last(), Some(Effect::Write(status)) if status.observed_generation == Some(2)));
    agent.step(now, Some(Input::Written(Ok(()))), &mut effects);
    assert_eq!(agent.deadline(), Some(Time::from_secs(11)));
    agent.step(Time::from_secs(7), Some(running("d", Time::from_secs(7))), &mut effects);
    agent.step(Time::from_secs(7), Some(Input::Written(Ok(()))), &mut effects);
    assert_eq!(agent.deadline(), Some(Time::from_secs(8)));
}

/// A hundred marked pods on ten nodes.
fn hundred_pods(period_seconds: u64) -> World {
    let mut world = World::unlisted(3);
    world.with_agents = true;
    for n in 0..10 {
        world.put("nodes", node(&format!("n{n}")));
    }
    world.list_all();
    let mut object = marker("m", "x");
    object["spec"]["probes"][0]["probe"]["periodSeconds"] = period_seconds.into();
    world.put("podprobemarkers", object);
    for p in 0..100 {
        let (name, node) = (format!("p{p}"), format!("n{}", p % 10));
        world.put("pods", pod(&name, &node, json!({"app": "x"})));
        let object = world.server.get("pods", "ns", &name).unwrap().clone();
        world.start_container(&object, "app", true, Duration::ZERO);
    }
    world.advance(Duration::from_secs(10));
    for p in 0..100 {
        let labels = &world.server.get("pods", "ns", &format!("p{p}")).unwrap()["metadata"]["labels"];
        assert_eq!(labels["up"], "yes", "p{p}");
    }
    world
}

#[test]
fn ten_minutes_of_constant_results_write_only_the_heartbeat() {
    let mut world = hundred_pods(10);
    world.server.writes.clear();
    let attempts = world.attempts;
    world.advance(Duration::from_secs(580));
    assert_eq!(world.server.writes, BTreeMap::new());
    assert!(world.attempts - attempts >= 5_700, "{} attempts", world.attempts - attempts);
    // Every state is repeated once, by attempts that end within one period of each other: few writes per node.
    world.advance(Duration::from_secs(40));
    let heartbeat = world.server.writes.remove("nodepodprobes/status").unwrap_or(0);
    assert!((10..=100).contains(&heartbeat), "{heartbeat} writes");
    assert_eq!(world.server.writes, BTreeMap::new());
    assert_eq!(world.server.conflicts, 0);
}

#[test]
fn chattering_texts_are_not_a_stream_of_writes() {
    let mut world = hundred_pods(1);
    world.scripts.push(Script { pattern: "ns/*/m#p".into(), outcome: Outcome::Success, message: "n $ATTEMPT".into() });
    world.server.writes.clear();
    world.advance(Duration::from_secs(60));
    // Five in a burst and two more in a minute, for each of a hundred conditions.
    let sent = world.server.writes["pods/status"];
    assert!((600..=700).contains(&sent), "{sent} writes");
    assert_eq!(world.server.writes.get("pods"), None);
    assert!(world.agents.values().map(Agent::messages_suppressed).sum::<u64>() > 0);
}

#[test]
fn a_change_of_state_reaches_the_pod_within_300_ms() {
    let mut world = hundred_pods(1);
    world.scripts.push(Script { pattern: "ns/p7/m#p".into(), outcome: Outcome::Failure, message: "down".into() });
    let condition = |world: &World| {
        let conditions = world.server.get("pods", "ns", "p7").unwrap()["status"]["conditions"].clone();
        conditions.as_array().unwrap().iter().find(|c| c["type"] == "x.io/m").unwrap()["status"].clone()
    };
    // At most one period until the next attempt begins.
    world.advance(Duration::from_millis(1_300));
    assert_eq!(condition(&world), "False");
    let result: Vec<&str> = world.events.iter().filter(|event| event.object.name == "p7").map(|event| event.reason).collect();
    assert_eq!(result, ["KruiseProbeSucceeded", "KruiseProbeFailed"]);
}

#[test]
fn after_a_restart_of_the_agent_first_attempts_are_spread_over_the_period() {
    let status: Vec<Value> = (0..100)
        .map(|p| {
            json!({"name": "a", "namespace": "ns", "uid": format!("u{p}"), "probeStates": [
            {"name": "m#p", "state": "Succeeded", "lastProbeTime": "2027-01-15T08:00:00Z", "lastTransitionTime": "2027-01-15T08:00:00Z"}]})
        })
        .collect();
    let entry = json!({"name": "m#p", "containerName": "app", "probe": {"exec": {"command": ["x"]}, "periodSeconds": 10}});
    let items: Vec<Value> = (0..100)
        .map(|p| json!({"name": "a", "namespace": "ns", "uid": format!("u{p}"), "IP": "", "probes": [entry]}))
        .collect();
    let object: NodePodProbe = serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "n", "generation": 3}, "spec": {"podProbes": items},
        "status": {"observedGeneration": 3, "podProbeStatuses": status},
    }))
    .unwrap();
    let now = Time::from_secs(1_800_000_100);
    let mut agent = Agent::new(NodePolicy::default(), Rng::new(5));
    let mut effects = Vec::new();
    agent.step(now, Some(Input::Spec(Box::new(object))), &mut effects);
    for p in 0..100 {
        let news = ContainerNews {
            uid: format!("u{p}"),
            name: "app".into(),
            id: "c".into(),
            runtime: Runtime::Running,
            started_at: Some(now - Duration::from_secs(1_000)),
            started: true,
        };
        agent.step(now, Some(Input::Container(news)), &mut effects);
    }
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Write(_) | Effect::Reported { .. })), "nothing has changed");
    let mut per_second = [0; 10];
    while let Some(at) = agent.deadline() {
        effects.clear();
        agent.step(at, None, &mut effects);
        let launched = effects.iter().filter(|effect| matches!(effect, Effect::Launch(_))).count();
        per_second[usize::try_from(at.since(now).as_secs()).unwrap()] += launched;
    }
    assert_eq!(per_second.iter().sum::<usize>(), 100);
    assert!(per_second.iter().all(|count| *count < 25), "{per_second:?}");
}

/// One random thing that happens to an agent.
fn happen(rng: &mut Rng, generation: &mut i64, launched: &[(Launch, Time)]) -> Option<Input> {
    let entry = |rng: &mut Rng| format!("m#p{}", rng.below(3));
    match rng.below(8) {
        0 => {
            *generation += 1;
            let probe = |rng: &mut Rng| match rng.below(4) {
                0 => json!({"exec": {"command": ["x"]}, "periodSeconds": rng.below(3)}),
                1 => json!({"tcpSocket": {"port": 1}, "failureThreshold": rng.below(3), "periodMilliseconds": -800}),
                2 => json!({"httpGet": {"port": 1, "host": "elsewhere"}}),
                _ => json!({"exec": "odd"}),
            };
            let names: BTreeSet<String> = (0..rng.below(4)).map(|_| entry(rng)).collect();
            let entries: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), probe(rng))).collect();
            Some(object(*generation, &entries))
        }
        1 => {
            let c = rng.below(3);
            Some(running(&format!("c{c}"), Time::from_secs(98 + 2 * c as i64)))
        }
        2 => Some(Input::Container(ContainerNews {
            uid: "u".into(),
            name: "app".into(),
            id: String::new(),
            runtime: [Runtime::Waiting, Runtime::Terminated, Runtime::Running][rng.below(3) as usize],
            started_at: None,
            started: rng.below(2) == 0,
        })),
        3..6 => {
            let (launch, began) = launched.get(rng.below(launched.len().max(1) as u64) as usize)?.clone();
            let outcome = [Outcome::Success, Outcome::Failure, Outcome::Error, Outcome::Warning][rng.below(4) as usize];
            let message = rng.below(4).to_string();
            Some(Input::Finished(Finished {
                worker: launch.worker,
                container_id: launch.container_id,
                began,
                outcome,
                message,
            }))
        }
        6 => Some([Input::NoSpec, Input::PodGone { uid: "u".into() }][rng.below(2) as usize].clone()),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Attempts of one worker never overlap and never come before they may; writes keep their distance and say something
    /// new; what a write says is what was reported.
    #[test]
    fn attempts_and_writes_keep_their_rules(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mut agent = Agent::new(NodePolicy::default(), rng.fork());
        let (mut now, mut generation) = (Time::from_secs(100), 0);
        let mut launched: Vec<(Launch, Time)> = Vec::new();
        let (mut sent, mut acknowledged): (Option<(Time, NodePodProbeStatus)>, Option<NodePodProbeStatus>) = (None, None);
        let mut states: BTreeMap<WorkerKey, (ProbeState, String)> = BTreeMap::new();
        let mut pending = false;
        for _ in 0..200 {
            let mut input = happen(&mut rng, &mut generation, &launched);
            if pending && rng.below(3) == 0 {
                pending = false;
                let lost = rng.below(3) == 0;
                if !lost {
                    acknowledged = sent.as_ref().map(|(_, status)| status.clone());
                }
                input = Some(Input::Written(if lost { Err(api::WriteError::Failed) } else { Ok(()) }));
            }
            if let Some(Input::Finished(end)) = &input {
                launched.retain(|(launch, began)| launch.worker != end.worker || *began != end.began);
            }
            let forgets = matches!(input, Some(Input::NoSpec));
            let mut effects = Vec::new();
            agent.step(now, input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Launch(launch) => {
                        prop_assert!(!launched.iter().any(|(other, _)| other.worker == launch.worker), "{} overlaps", launch.worker);
                        prop_assert!(launch.due <= now);
                        prop_assert!(agent.is_eligible(now, &launch.worker), "{} may not run", launch.worker);
                        launched.push((*launch, now));
                    }
                    Effect::Abandon(key) => launched.retain(|(launch, _)| launch.worker != key),
                    Effect::Stopped(key) => drop(states.remove(&key)),
                    Effect::Reported { worker, state, message, changed } => {
                        let old = states.insert(worker, (state, message));
                        prop_assert_eq!(changed, old.is_none_or(|old| old.0 != state));
                    }
                    Effect::Write(status) => {
                        prop_assert!(!pending, "one write at a time");
                        prop_assert!(sent.as_ref().is_none_or(|(at, _)| now.since(*at) >= Duration::from_millis(200)));
                        prop_assert!(acknowledged.as_ref() != Some(&*status), "the same again");
                        let shown: BTreeMap<WorkerKey, (ProbeState, String)> = status
                            .pod_probe_statuses
                            .iter()
                            .flat_map(|item| item.probe_states.iter().map(move |s| (item.uid.clone(), s)))
                            .map(|(uid, s)| (WorkerKey { uid, entry: s.name.clone() }, (s.state, s.message.clone())))
                            .collect();
                        prop_assert_eq!(&shown, &states);
                        sent = Some((now, *status));
                        pending = true;
                    }
                    _ => {}
                }
            }
            if forgets {
                prop_assert_eq!(agent.workers(), 0);
                acknowledged = None;
            }
            prop_assert!(agent.deadline().is_none_or(|at| at > now || pending), "a deadline that was not acted upon");
            now += Duration::from_millis(rng.below(400));
        }
        prop_assert_eq!(states.len() <= agent.workers(), true);
    }
}
