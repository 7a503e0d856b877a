//! The formulas of [`times`](crate::times), held against the prober that runs on nodes.

use std::time::Duration;

use api::pod::{Container, Probe, TcpSocketAction};
use api::{FeatureGates, Gate, ProbeType};
use machine::Time;
use proptest::prelude::*;

use crate::start;
use probe::timing::{NodePolicy, SubSecondProbePolicy};
use probe::{ContainerProber, Effect, Input, Knock, Knocks, Report, Restarts};

/// How an attempt that begins now is answered: well or not, and after how many milliseconds.
type Answer<'a> = &'a mut dyn FnMut(ProbeType, u64) -> (bool, u64);

/// Drives a container from its start; returns what the prober wanted and when, launches left out. It never refuses a connection.
fn drive(container: &Container, node: &NodePolicy, until_ms: u64, answer: Answer<'_>) -> Vec<(u64, Effect)> {
    drive_from(0, container, node, until_ms, answer)
}

/// The same for a container that refuses connections until it listens.
fn drive_from(
    listens_ms: u64,
    container: &Container,
    node: &NodePolicy,
    until_ms: u64,
    answer: Answer<'_>,
) -> Vec<(u64, Effect)> {
    let listens = Time::from_millis(listens_ms as i64);
    let (mut knocks, mut knocking) = (Knocks::default(), Vec::<Knock>::new());
    let mut prober = ContainerProber::new(container, Restarts::default(), 30, node, None);
    let until = Time::from_millis(until_ms as i64);
    let (mut now, mut effects, mut log) = (Time::ZERO, Vec::new(), Vec::new());
    let mut under_way: Vec<(Time, Input)> = Vec::new();
    prober.input(now, Input::Running { id: "c".into(), started_at: now }, &mut effects);
    loop {
        let (done, rest): (Vec<_>, Vec<_>) = under_way.drain(..).partition(|(at, _)| *at <= now);
        under_way = rest;
        for (_, input) in done {
            prober.input(now, input, &mut effects);
        }
        prober.launch_due(now, &mut effects);
        while let Some(probe) = knocks.next(now) {
            if now < listens {
                knocks.refused(now, &probe);
                continue;
            }
            knocks.stop(&probe);
            let knock = knocking.iter().find(|knock| knock.probe == probe).expect("it is knocked at").knock;
            prober.input(now, Input::Knocked { probe, knock, accepted: Some(now) }, &mut effects);
        }
        for effect in effects.drain(..) {
            let launch = match effect {
                Effect::Launch(launch) => launch,
                Effect::Knock(knock) => {
                    knocks.begin(knock.probe, knock.started_at, knock.from, knock.until);
                    knocking.retain(|other| other.probe != knock.probe);
                    knocking.push(knock);
                    continue;
                }
                Effect::StopKnocking { probe } => {
                    knocks.stop(&probe);
                    continue;
                }
                effect => {
                    log.push((now.as_millis() as u64, effect));
                    continue;
                }
            };
            if now < listens {
                let report = Report { refused: true, ..Report::failure("refused") };
                under_way.push((now, Input::Finished { probe: launch.probe, attempt: launch.attempt, report }));
                continue;
            }
            let (well, takes_ms) = answer(launch.probe, now.as_millis() as u64);
            // An answer at the deadline is late.
            let deadline = now + launch.timeout;
            let at = deadline.min(now + Duration::from_millis(takes_ms));
            let report = if well && at < deadline { Report::success() } else { Report::failure("x") };
            under_way.push((at, Input::Finished { probe: launch.probe, attempt: launch.attempt, report }));
        }
        match under_way.iter().map(|(at, _)| *at).chain(prober.deadline()).chain(knocks.deadline()).min() {
            Some(at) if at <= until => now = at,
            _ => return log,
        }
    }
}

/// Returns when the container is ready, unless it is killed before or never ready.
fn ready_ms(log: &[(u64, Effect)]) -> Option<u64> {
    let first = log.iter().find(|(_, effect)| matches!(effect, Effect::Ready(true) | Effect::Kill { .. }))?;
    matches!(first.1, Effect::Ready(true)).then_some(first.0)
}

fn policies() -> impl Strategy<Value = SubSecondProbePolicy> {
    use SubSecondProbePolicy::{Always, AlwaysWhenWaitingForSuccess, OnlyTheFirstTime};
    prop::sample::select(vec![OnlyTheFirstTime, AlwaysWhenWaitingForSuccess, Always])
}

fn nodes() -> impl Strategy<Value = NodePolicy> {
    let any = || prop::bool::ANY;
    (policies(), any(), any(), any(), any()).prop_map(|(policy, second_look, periods, timeouts, on_listen)| {
        let gates = FeatureGates::default()
            .with(Gate::SubSecondProbes, periods)
            .with(Gate::SubSecondProbeTimeouts, timeouts)
            .with(Gate::ProbeOnListen, on_listen);
        NodePolicy { gates, policy, second_look }
    })
}

fn probes() -> impl Strategy<Value = Option<Probe>> {
    let offset = || prop::option::of(-999i64..1000);
    let numbers = (0i64..4, 1i64..4, 1i64..5, 1i64..4, 1i64..5);
    prop::option::weighted(
        0.7,
        (numbers, offset(), offset(), offset()).prop_map(|((delay, timeout, period, wins, losses), a, b, c)| Probe {
            tcp_socket: Some(TcpSocketAction::default()),
            initial_delay_seconds: delay,
            timeout_seconds: timeout,
            period_seconds: period,
            success_threshold: wins,
            failure_threshold: losses,
            initial_delay_milliseconds: a,
            period_milliseconds: b,
            timeout_milliseconds: c,
            ..Probe::default()
        }),
    )
}

fn containers() -> impl Strategy<Value = Container> {
    (probes(), probes(), probes()).prop_map(|(liveness_probe, readiness_probe, startup_probe)| Container {
        liveness_probe,
        readiness_probe,
        startup_probe,
        ..Container::default()
    })
}

/// More than any container here needs.
const LONG_MS: u64 = 120_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(256)))]

    #[test]
    fn a_prompt_container_is_ready_exactly_when_the_formula_says(
        container in containers(), node in nodes(), listens_ms in 0u64..15_000,
    ) {
        let log = drive_from(listens_ms, &container, &node, LONG_MS, &mut |_, _| (true, 0));
        let start = start(&container, &node);
        prop_assert_eq!(ready_ms(&log), start.ready_ms(listens_ms));
        let ready = start.ready();
        if let Some(at) = ready_ms(&log) {
            let delays = [start.startup, start.readiness].into_iter().flatten().map(|times| times.delay_ms).max().unwrap_or(0);
            prop_assert!(at >= ready.earliest_ms);
            prop_assert!(at <= listens_ms.max(delays) + ready.lag_ms, "{} {:?}", at, ready);
            if let Some(lag) = ready.lag_on_listen_ms {
                let older = listens_ms / 1_000;
                prop_assert!(at <= listens_ms.max(delays) + lag + older, "{} {:?}", at, ready);
            }
        }
    }

    #[test]
    fn a_hanging_container_is_ready_within_the_worst_case(
        container in containers(), node in nodes(), listens_ms in 0u64..15_000, before in prop::collection::vec(0u64..6_000, 8),
        after in prop::collection::vec(0u64..4_000, 8),
    ) {
        let start = start(&container, &node);
        let mut count = 0;
        let log = drive(&container, &node, LONG_MS, &mut |probe, now| {
            count += 1;
            let times = [(ProbeType::Startup, start.startup), (ProbeType::Readiness, start.readiness), (ProbeType::Liveness, start.liveness)];
            let timeout = times.into_iter().find(|(type_, _)| *type_ == probe).and_then(|(_, times)| times).expect("it has one").timeout_ms;
            // Before, an attempt may take any time; afterwards it is answered, at the last moment perhaps.
            if now < listens_ms { (false, before[count % 8]) } else { (true, after[count % 8].min(timeout - 1)) }
        });
        let ready = start.ready();
        if let Some(at) = ready_ms(&log) {
            let delays = [start.startup, start.readiness].into_iter().flatten().map(|times| times.delay_ms).max().unwrap_or(0);
            prop_assert!(at >= ready.earliest_ms);
            prop_assert!(at <= listens_ms.max(delays) + ready.lag_worst_ms, "{} {:?}", at, ready);
        }
    }

    #[test]
    fn a_container_that_never_answers_is_killed_exactly_when_the_formula_says(
        container in containers(), node in nodes(), hangs: bool,
    ) {
        let start = start(&container, &node);
        let log = drive(&container, &node, LONG_MS, &mut |_, _| (false, if hangs { LONG_MS } else { 0 }));
        let killed = log.iter().find(|(_, effect)| matches!(effect, Effect::Kill { .. })).map(|(at, _)| *at);
        let decides = start.startup.or(start.liveness).map(|times| times.never_up());
        prop_assert_eq!(killed, decides.map(|span| if hangs { span.to_ms } else { span.from_ms }));
    }

    #[test]
    fn a_failure_acts_within_its_span(
        container in containers(), node in nodes(), fails_after in 0u64..8_000, takes in prop::collection::vec(0u64..4_000, 8),
        gone in prop::collection::vec(0u64..6_000, 8),
    ) {
        let start = start(&container, &node);
        // Long after every delay, when the first attempts of all workers are over.
        let fails_ms = 40_000 + fails_after;
        let mut count = 0;
        let log = drive(&container, &node, LONG_MS, &mut |probe, now| {
            count += 1;
            let timeout = match probe {
                ProbeType::Startup => start.startup,
                ProbeType::Readiness => start.readiness,
                ProbeType::Liveness => start.liveness,
            }.expect("it has one").timeout_ms;
            if now < fails_ms { (true, takes[count % 8].min(timeout - 1)) } else { (false, gone[count % 8]) }
        });
        let at = |wanted: fn(&Effect) -> bool| log.iter().find(|(at, effect)| *at >= fails_ms && wanted(effect)).map(|(at, _)| *at - fails_ms);
        if let Some(times) = start.readiness {
            let lost = at(|effect| matches!(effect, Effect::Ready(false))).expect("readiness fails");
            prop_assert!((times.failing().from_ms..=times.failing().to_ms).contains(&lost), "{} {:?}", lost, times.failing());
        }
        if let Some(times) = start.liveness {
            let killed = at(|effect| matches!(effect, Effect::Kill { .. })).expect("liveness fails");
            prop_assert!((times.failing().from_ms..=times.failing().to_ms).contains(&killed), "{} {:?}", killed, times.failing());
        }
    }

    #[test]
    fn a_lost_container_is_ready_again_within_its_span(
        readiness in probes(), node in nodes(), well_after in 0u64..8_000, takes in prop::collection::vec(0u64..4_000, 8),
    ) {
        let container = Container { readiness_probe: readiness, ..Container::default() };
        let Some(times) = start(&container, &node).readiness else { return Ok(()) };
        let well_ms = 60_000 + well_after;
        let mut count = 0;
        let log = drive(&container, &node, LONG_MS, &mut |_, now| {
            count += 1;
            let takes = takes[count % 8];
            match now {
                0..20_000 => (true, 0),
                now if now < well_ms => (false, takes),
                _ => (true, takes.min(times.timeout_ms - 1)),
            }
        });
        let regained = log.iter().find(|(at, effect)| *at >= well_ms && *effect == Effect::Ready(true)).expect("it is well again").0;
        prop_assert!(regained - well_ms <= times.recovering().to_ms, "{} {:?}", regained - well_ms, times.recovering());
    }
}

#[test]
fn the_prompt_bound_is_reached() {
    let probe =
        Probe { tcp_socket: Some(TcpSocketAction::default()), period_seconds: 2, success_threshold: 2, ..Probe::default() };
    let container = Container { readiness_probe: Some(probe), ..Container::default() };
    let start = start(&container, &NodePolicy::default());
    assert_eq!(start.ready().lag_ms, 4_000);
    // Right after the attempt at 6 s: the knock at 6.01 s and the attempt at 8.01 s count.
    assert_eq!(start.ready_ms(6_001), Some(8_010));
    let gates = FeatureGates::default().with(Gate::ProbeOnListen, false);
    let start = crate::start(&container, &NodePolicy { gates, ..NodePolicy::default() });
    // The attempts at 8 s and 10 s count.
    assert_eq!(start.ready_ms(6_001), Some(10_000));
}

#[test]
fn a_look_right_before_the_grid_moves_it() {
    let probe = Probe {
        tcp_socket: Some(TcpSocketAction::default()),
        period_seconds: 1,
        period_milliseconds: Some(50),
        ..Probe::default()
    };
    let container = Container { startup_probe: Some(probe), ..Container::default() };
    let gates = FeatureGates::default().with(Gate::ProbeOnListen, false);
    let node = NodePolicy { gates, ..NodePolicy::default() };
    let start = start(&container, &node);
    // Attempts at 0, 1 s (the look), 1.1 s (its rest), 2.15 s.
    assert_eq!(start.ready_ms(1_001), Some(1_100));
    assert_eq!(start.budget_ms(), Some(2_150));
    let log = drive(&container, &node, LONG_MS, &mut |_, now| (now >= 1_101, 0));
    assert_eq!(ready_ms(&log), Some(2_150));
}
