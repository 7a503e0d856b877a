//! Looking ahead changes nothing, a seed repeats a run, invariants hold in every world.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::scenario::{Burst, Component, Deaths, Latency, Length, Outage, Restart, Scope, Transition, Values};

fn latency() -> impl Strategy<Value = Latency> {
    prop_oneof![
        select(&[0.0, 0.05, 3.0][..]).prop_map(Latency::Constant),
        Just(Latency::Uniform { a: 0.0, b: 4.0 }),
        Just(Latency::Lognormal { median: 0.1, sigma: 1.5 }),
    ]
}

fn link() -> impl Strategy<Value = Link> {
    let burst = prop::option::of(Just(Burst { p_enter: 0.02, p_leave: 0.1, loss: 0.95 }));
    (latency(), select(&[0.0, 0.05, 0.4][..]), burst).prop_map(|(latency, loss, burst)| Link { latency, loss, burst })
}

fn outages() -> impl Strategy<Value = Vec<Outage>> {
    let length = prop_oneof![
        select(&[20.0, 50.0, 400.0][..]).prop_map(Length::Seconds),
        Just(Length::Lognormal { median: 40.0, sigma: 1.0 })
    ];
    let one = (select(&[Scope::Node, Scope::Zone, Scope::ControlPlane][..]), length).prop_map(|(scope, length)| Outage {
        per_day: 40.0,
        length,
        scope,
    });
    prop::collection::vec(one, 0..3)
}

fn restarts() -> impl Strategy<Value = Vec<Restart>> {
    let one = select(&[Component::ControllerManager, Component::ApiServer][..]).prop_map(|component| Restart {
        component,
        per_day: 50.0,
        seconds: 20.0,
    });
    prop::collection::vec(one, 0..2)
}

fn force() -> impl Strategy<Value = (Option<Values>, Option<Transition>)> {
    let pace = select(&[(10.0, 40.0), (20.0, 40.0), (60.0, 40.0), (20.0, 120.0)][..]);
    let values = (pace, any::<[bool; 3]>(), 1u32..6, select(&[0i64, 60][..])).prop_map(
        |((interval, grace), [aware, burst, jitter], attempts, seconds)| Values {
            interval,
            grace,
            attempts,
            spacing: if burst { Spacing::Burst } else { Spacing::Spread },
            lease_aware_grace: aware,
            jitter,
            unreachable: seconds,
            ..Values::default()
        },
    );
    let names = ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"];
    let transition = (select(names.to_vec()), select(names.to_vec()), select(&[0u8, 2][..]), 0usize..3).prop_map(
        |(from, to, day, max_unavailable)| Transition {
            from: from.to_owned(),
            to: to.to_owned(),
            day,
            step_seconds: 47.0,
            max_unavailable,
        },
    );
    prop_oneof![
        values.prop_map(|values| (Some(values), None)),
        transition.prop_map(|transition| (None, Some(transition))),
        Just((None, None))
    ]
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let fleet = prop::collection::btree_map(select(&["east", "west", "south"][..]).prop_map(str::to_owned), 1usize..6, 1..4);
    let deaths = prop::option::of(Just(Deaths { per_node_day: 20.0, down_seconds: 500.0 }));
    (any::<u64>(), fleet, force(), link(), outages(), deaths, restarts()).prop_map(
        |(seed, zones, (values, transition), link, outages, deaths, restarts)| Scenario {
            seed,
            days: Some(0.1),
            zones,
            values,
            transition,
            link,
            outages,
            deaths,
            restarts,
            ..Scenario::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn looking_ahead_changes_nothing(scenario in scenario()) {
        let text = |look_ahead| run(&scenario, None, look_ahead, &mut |_| ()).map(|output| serde_json::to_string(&output).expect("plain data"));
        let quick = text(true).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(text(false).expect("as good as the other"), quick);
    }
}

#[test]
fn a_seed_repeats_a_run_byte_for_byte_and_another_does_not() {
    let text = |seed| {
        let output = simulate(&Scenario::everyday(20, 0.5, seed, profiles::Profile::Default)).expect("a good scenario");
        serde_json::to_string(&output).expect("plain data")
    };
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

#[test]
fn a_transition_visits_the_states_of_the_plan_and_no_others() {
    let scenario = Scenario {
        days: Some(0.1),
        nodes: Some(3),
        transition: Some(Transition {
            from: "Default".to_owned(),
            to: "LowUpdateSlowReaction".to_owned(),
            day: 2,
            step_seconds: 60.0,
            max_unavailable: 1,
        }),
        ..Scenario::default()
    };
    let output = simulate(&scenario).expect("a good scenario");
    let states: Vec<(f64, f64, i64)> =
        output.states.iter().map(|state| (state.interval, state.grace, state.toleration)).collect();
    let expected =
        [(10.0, 40.0, 300), (10.0, 120.0, 300), (20.0, 120.0, 300), (20.0, 120.0, 60), (20.0, 300.0, 60), (60.0, 300.0, 60)];
    assert_eq!(states, expected);
    assert_eq!(output.node_seconds_in_class.elevated + output.node_seconds_in_class.certain, 0.0);
    assert_eq!(output.false_not_ready_per_node_day.count, 0);
    assert_eq!(output.profile, "Default -> LowUpdateSlowReaction");
}

#[test]
fn a_cut_off_control_plane_touches_no_pod() {
    let day = 86_400.0;
    let outage = |seconds: i64| Faults {
        control_plane: Spans::new(vec![(Time::from_secs(1000), Time::from_secs(1000 + seconds))]),
        ..Faults::default()
    };
    let scenario = Scenario { nodes: Some(10), days: Some(10_000.0 / day), ..Scenario::default() };
    let output = simulate_with(&scenario, outage(3000)).expect("a good scenario");
    assert_eq!(output.false_not_ready_per_node_day.count, 10, "conditions follow the silence");
    assert_eq!(output.false_evictions_per_node_day.count, 0, "pods do not");
}

#[test]
fn the_deaths_of_several_nodes_are_evicted_one_per_ten_seconds() {
    let dies = Spans::new(vec![(Time::from_secs(1000), Time::from_secs(9000))]);
    let mut deaths = vec![dies; 4];
    deaths.resize(10, Spans::default());
    let values = Values { jitter: false, ..Values::default() };
    let scenario = Scenario { nodes: Some(10), days: Some(5_000.0 / 86_400.0), values: Some(values), ..Scenario::default() };
    let output = simulate_with(&scenario, Faults { deaths, ..Faults::default() }).expect("a good scenario");
    assert_eq!((output.detect_seconds.count, output.evict_seconds.count), (4, 4));
    let (first, last) = (output.evict_seconds.min.unwrap(), output.evict_seconds.max.unwrap());
    assert!((330.0..345.0).contains(&first) && (29.0..=31.0).contains(&(last - first)), "{first} {last}");
}

#[test]
fn a_broken_invariant_names_its_seed() {
    let broken = Broken { seed: 42, at: Time::from_millis(1_500), what: "n1 has 2 NoExecute health taints".to_owned() };
    assert_eq!(broken.to_string(), "seed 42: at 1.500000 s: n1 has 2 NoExecute health taints");
}
