//! Laws of the planner over random clusters: P1 to P5 of the specification.
//!
//! `LIFESIGN_PLANNER_STATES=100000 cargo test -p lifesign-profiles properties` tries that many states instead of 2000.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// More steps than any cluster of the size tried here may need.
const STEPS_MAX: usize = 80;

#[expect(clippy::disallowed_methods, reason = "the number of random states is the tester's choice")]
fn states() -> u32 {
    std::env::var("LIFESIGN_PLANNER_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn seconds(choices: &'static [u64]) -> impl Strategy<Value = Duration> {
    select(choices).prop_map(Duration::from_secs)
}

fn kcm() -> impl Strategy<Value = ControllerManager> {
    (seconds(&[20, 40, 50, 60, 80, 120, 200, 300, 600]), prop::bool::weighted(0.8), any::<bool>())
        .prop_map(|(grace, aware, untouched)| ControllerManager { aware, untouched, ..ControllerManager::new("", grace) })
}

fn kas() -> impl Strategy<Value = ApiServer> {
    let toleration = || select(&[-1, 0, 30, 60, 120, 300, 900][..]);
    (toleration(), toleration(), prop::bool::weighted(0.8), any::<bool>()).prop_map(
        |(not_ready, unreachable, aware, untouched)| ApiServer {
            aware,
            untouched,
            ..ApiServer::new("", not_ready, unreachable)
        },
    )
}

fn node() -> impl Strategy<Value = WorkerNode> {
    let away = select(&[None, None, None, Some(599), Some(600)][..]).prop_map(|span| span.map(Duration::from_secs));
    let heartbeat = seconds(&[4, 10, 12, 15, 20, 30, 60, 100]);
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>());
    (heartbeat, away, flags).prop_map(|(heartbeat, away, (aware, control_plane, other_settings, untouched))| WorkerNode {
        aware,
        not_ready_for: away,
        control_plane,
        other_settings,
        untouched,
        ..WorkerNode::new("", heartbeat)
    })
}

fn replicas<T: std::fmt::Debug>(one: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Vec<T>> {
    select(&[1usize, 3][..]).prop_flat_map(move |count| prop::collection::vec(one.clone(), count))
}

fn observed() -> impl Strategy<Value = Observed> {
    let lists = (replicas(kcm().boxed()), replicas(kas().boxed()), prop::collection::vec(node(), 0..7));
    (lists, 0usize..3).prop_map(|((mut kcm, mut kas, mut nodes), leader)| {
        kcm.iter_mut().enumerate().for_each(|(index, kcm)| kcm.name = format!("kcm-{index}"));
        kas.iter_mut().enumerate().for_each(|(index, kas)| kas.name = format!("kas-{index}"));
        nodes.iter_mut().enumerate().for_each(|(index, node)| node.name = format!("n{index}"));
        let leader = leader % kcm.len();
        kcm[leader].leader = true;
        Observed { kcm, kas, nodes }
    })
}

fn request() -> impl Strategy<Value = Request> {
    let target = select(&[None, Some(Profile::Default), Some(Profile::Medium), Some(Profile::Low)][..]);
    let grace = seconds(&[40, 40, 40, 50, 60]);
    (target, select(&Profile::ALL[..]), any::<bool>(), grace).prop_map(|(target, applied, zero, default_grace)| Request {
        day: if zero { Day::Zero } else { Day::Two },
        default_grace,
        ..Request::new(target.map_or(Target::Empty, Target::Of), applied)
    })
}

/// Returns the worst class of the counted nodes under the smallest grace, and how many are not safe.
fn danger(observed: &Observed) -> (Class, usize) {
    let grace = observed.kcm.iter().map(|kcm| kcm.grace).min().unwrap_or_default();
    let counted = observed.nodes.iter().filter(|node| !node.deferred());
    let classes: Vec<Class> = counted.map(|node| Class::of(node.heartbeat, grace)).collect();
    (classes.iter().copied().max().unwrap_or(Class::Safe), classes.iter().filter(|class| **class != Class::Safe).count())
}

/// Executes first steps and plans again until nothing is left, and returns every state on the way and the last plan.
fn run(request: &Request, start: &Observed) -> Result<(Vec<Observed>, Plan), TestCaseError> {
    let mut request = request.clone();
    let mut states = vec![start.clone()];
    for _ in 0..=STEPS_MAX {
        let here = states.last().expect("the start at least");
        let plan = plan(&request, here);
        if plan.stage_done && !plan.done {
            request.applied = plan.stage;
        } else if plan.steps.is_empty() {
            return Ok((states, plan));
        } else {
            prop_assert_eq!(&plan.next[0], &plan.steps[0]);
            let mut then = here.clone();
            then.apply(&plan.steps[0]);
            prop_assert_ne!(&then, here, "a step that changes nothing: {}", plan.steps[0]);
            states.push(then);
        }
    }
    Err(TestCaseError::fail(format!("P3: no end within {STEPS_MAX} steps")))
}

fn at_target(request: &Request, observed: &Observed) -> bool {
    let stage = Stage::new(request.target.profile(), request);
    observed.kcm.iter().all(|kcm| stage.kcm_done(kcm))
        && observed.kas.iter().all(|kas| stage.kas_done(kas))
        && observed.nodes.iter().filter(|node| !node.deferred()).all(|node| stage.node_done(node))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: states(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn first_steps_lead_safely_to_an_end(request in request(), start in observed()) {
        let (visited, last) = run(&request, &start)?;
        for pair in visited.windows(2) {
            // P1 is the special case of P2 with nobody in danger at the start.
            prop_assert!(danger(&pair[1]) <= danger(&pair[0]), "P1, P2: {:?} then {:?}", pair[0], pair[1]);
        }
        let end = visited.last().expect("the start at least");
        prop_assert!(!last.done || at_target(&request, end), "P4: {end:?}");
        prop_assert!(last.done || !last.blocked.is_empty(), "an end is reached or has a reason: {last:?}");
    }

    #[test]
    fn a_whole_plan_executed_in_order_is_as_safe(request in request(), start in observed()) {
        let mut here = start.clone();
        for step in &plan(&request, &start).steps {
            let before = danger(&here);
            here.apply(step);
            prop_assert!(danger(&here) <= before, "P1, P2 at {step}");
        }
    }

    #[test]
    fn the_order_of_what_is_observed_is_irrelevant(request in request(), start in observed()) {
        let mut turned = start.clone();
        turned.kcm.reverse();
        turned.kas.reverse();
        turned.nodes.reverse();
        prop_assert_eq!(plan(&request, &turned), plan(&request, &start));
    }
}

#[test]
fn every_state_of_every_transition_is_safe() {
    for (from, to) in Profile::ALL.into_iter().flat_map(|from| Profile::ALL.map(|to| (from, to))).filter(|(a, b)| a != b) {
        for (nodes, replicas, day) in
            (0..=3).flat_map(|n| [(n, 1, Day::Zero), (n, 3, Day::Zero), (n, 1, Day::Two), (n, 3, Day::Two)])
        {
            let values = from.values();
            let toleration = values.default_unreachable_toleration_seconds;
            let start = Observed {
                kcm: (0..replicas)
                    .map(|i| ControllerManager::new(format!("kcm-{i}"), values.node_monitor_grace_period))
                    .collect(),
                kas: (0..replicas).map(|i| ApiServer::new(format!("kas-{i}"), toleration, toleration)).collect(),
                nodes: (0..nodes).map(|i| WorkerNode::new(format!("n{i}"), values.lease_renew_interval())).collect(),
            };
            let request = Request { day, ..Request::new(Target::Of(to), from) };
            let (visited, last) = run(&request, &start).expect("terminates");
            assert!(last.done && at_target(&request, visited.last().unwrap()), "{from} to {to}");
            assert!(visited.iter().all(|state| danger(state) == (Class::Safe, 0)), "P5: {from} to {to}");
        }
    }
}
