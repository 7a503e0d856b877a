//! Laws of node lifecycle on random scripts.
//!
//! The world itself checks, at every instant: at most one NoExecute health taint per node, none on a Ready node, no eviction
//! from a Ready node, every announced eviction happens, is announced anew, called off, or ends with a restart, and hearing of
//! its own writes moves nothing. Here: ticks at which nothing can happen may be skipped.

#[path = "vectors/world.rs"]
mod world;

use std::time::Duration;

use api::pod::Toleration;
use proptest::prelude::*;
use proptest::sample::select;

use world::{Action, Heartbeat, NodeSpec, Script, Settings, World};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn name() -> impl Strategy<Value = String> {
    select(&NAMES[..]).prop_map(str::to_owned)
}

fn node(name: String) -> impl Strategy<Value = NodeSpec> {
    let flags = [prop::bool::weighted(0.15), prop::bool::weighted(0.15), prop::bool::weighted(0.15)];
    (select(&["east", "west"][..]), select(&[40u64, 80, 240][..]), flags).prop_map(
        move |(zone, lease_duration_seconds, [excluded, control_plane, keep])| NodeSpec {
            name: name.clone(),
            zone: zone.to_owned(),
            lease_duration_seconds,
            excluded,
            control_plane,
            keep,
        },
    )
}

fn tolerations() -> impl Strategy<Value = Vec<Toleration>> {
    let one = (select(&["", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"][..]), -10i64..400, any::<bool>());
    let one = one.prop_map(|(key, seconds, finite)| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: "NoExecute".to_owned(),
        toleration_seconds: finite.then_some(seconds),
        ..Toleration::default()
    });
    prop::collection::vec(one, 0..3)
}

fn settings() -> impl Strategy<Value = Settings> {
    (select(&[20u64, 40, 120, 300][..]), any::<bool>(), select(&[0usize, 2, 50][..])).prop_map(|(grace, aware, large_zone)| {
        let mut settings = Settings::default();
        settings.config.grace = Duration::from_secs(grace);
        settings.config.lease_aware_grace = aware;
        settings.config.large_zone = large_zone;
        settings
    })
}

fn action() -> impl Strategy<Value = Action> {
    let pod = || select(&["p", "q", "r"][..]).prop_map(str::to_owned);
    prop_oneof![
        6 => (name(), prop::bool::weighted(0.6))
            .prop_map(|(node, ready)| Action::Heartbeat { node, beat: Heartbeat::Status(ready) }),
        2 => (name(), 0i64..3, select(&[None, Some(40u64), Some(240)][..])).prop_map(|(node, renew, duration_seconds)| {
            Action::Heartbeat { node, beat: Heartbeat::Lease { renew_time: Some(renew as f64), duration_seconds } }
        }),
        1 => name().prop_flat_map(node).prop_map(Action::AddNode),
        1 => name().prop_map(Action::DeleteNode),
        2 => (pod(), name(), prop::option::of(tolerations()))
            .prop_map(|(name, node, tolerations)| Action::AddPod { name, node, tolerations }),
        1 => (pod(), tolerations()).prop_map(|(pod, tolerations)| Action::SetTolerations { pod, tolerations }),
        1 => settings().prop_map(Action::Set),
        1 => Just(Action::Restart),
    ]
}

/// Stretches of plain heartbeats, and odd things in between, off the raster of ticks as well as on it.
fn events() -> impl Strategy<Value = Vec<(f64, Action)>> {
    let stretch = (name(), 0u32..900, 1u32..40, select(&[7u32, 10, 20, 60][..])).prop_map(|(node, from, count, every)| {
        let beat = Heartbeat::lease();
        (0..count).map(|i| (f64::from(from + i * every), Action::Heartbeat { node: node.clone(), beat })).collect::<Vec<_>>()
    });
    let odd = (0u32..2400, action()).prop_map(|(half_seconds, action)| (f64::from(half_seconds) / 2.0, action));
    (prop::collection::vec(stretch, 0..12), prop::collection::vec(odd, 0..25))
        .prop_map(|(stretches, odd)| stretches.into_iter().flatten().chain(odd).collect())
}

fn script() -> impl Strategy<Value = Script> {
    let nodes = (0usize..=NAMES.len())
        .prop_flat_map(|count| NAMES[..count].iter().map(|name| node((*name).to_owned()).boxed()).collect::<Vec<_>>());
    (settings(), nodes, events()).prop_map(|(settings, nodes, events)| Script {
        settings,
        pods: nodes.iter().map(|node| (format!("pod-{}", node.name), node.name.clone(), None)).collect(),
        nodes,
        // A node cannot be registered twice: the world would not know which.
        events: without_double_registrations(events),
        until: 1500.0,
    })
}

fn without_double_registrations(mut events: Vec<(f64, Action)>) -> Vec<(f64, Action)> {
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let doubled = |action: Action| match action {
        Action::AddNode(spec) => vec![Action::DeleteNode(spec.name.clone()), Action::AddNode(spec)],
        other => vec![other],
    };
    events.into_iter().flat_map(|(at, action)| doubled(action).into_iter().map(move |action| (at, action))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testkit::cases(256), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_quiet_ticks_may_be_skipped(script in script()) {
        let sorted = |naive| World::run(&script, naive).map(|mut log| {
            log.sort();
            log
        });
        let naive = sorted(true).map_err(TestCaseError::fail)?;
        prop_assert_eq!(sorted(false).map_err(TestCaseError::fail)?, naive);
    }
}
