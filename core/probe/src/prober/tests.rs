//! Laws of the prober under any script, and the events that the vectors do not record.

mod knocking;

use api::pod::{Probe, TcpSocketAction};
use api::{FeatureGates, Gate};
use machine::Rng;
use proptest::prelude::*;

use super::*;
use crate::events::{HEALTHY, PROBE_WARNING, UNHEALTHY};
use crate::timing::SubSecondProbePolicy;

fn tcp(probe: Probe) -> Option<Probe> {
    Some(Probe { tcp_socket: Some(TcpSocketAction::default()), ..probe })
}

fn prober(container: &Container, node: &NodePolicy) -> ContainerProber {
    ContainerProber::new(container, Restarts::default(), 30, node, None)
}

fn running(id: &str, at: Time) -> Input {
    Input::Running { id: id.into(), started_at: at }
}

/// An attempt as it was carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trace {
    probe: ProbeType,
    due: Time,
    began: Time,
    ended: Time,
    look: bool,
}

/// Answers every attempt with random outcomes and durations, wakes up late by at most `lag_ms`, and checks on the way
/// that no worker has two attempts at once and none begins early.
fn simulate(prober: &mut ContainerProber, until: Time, seed: u64, takes_ms: u64, lag_ms: u64) -> (Vec<Trace>, Vec<Effect>) {
    let mut rng = Rng::new(seed);
    let (mut now, mut effects, mut log) = (Time::ZERO, Vec::new(), Vec::new());
    let mut under_way: Vec<(Time, Launch, Outcome, Time)> = Vec::new();
    let mut trace = Vec::new();
    prober.input(now, running("c0", now), &mut effects);
    loop {
        let (done, rest): (Vec<_>, Vec<_>) = under_way.drain(..).partition(|(at, ..)| *at <= now);
        under_way = rest;
        for (ended, launch, outcome, began) in done {
            trace.push(Trace { probe: launch.probe, due: launch.due, began, ended, look: launch.look });
            let report = Report { outcome, ..Report::failure("x") };
            prober.input(now, Input::Finished { probe: launch.probe, attempt: launch.attempt, report }, &mut effects);
        }
        prober.launch_due(now, &mut effects);
        for effect in effects.drain(..) {
            if let Effect::Launch(launch) = effect {
                assert!(launch.due <= now, "an attempt was handed out early");
                assert!(under_way.iter().all(|(_, other, ..)| other.probe != launch.probe), "two attempts at once");
                let outcomes = [Outcome::Success, Outcome::Failure, Outcome::Error, Outcome::Warning, Outcome::Unknown];
                let outcome = outcomes[rng.below(outcomes.len() as u64) as usize];
                let takes = Duration::from_millis(rng.below(takes_ms + 1));
                // An answer at the deadline is late.
                let deadline = now + launch.timeout;
                let at = deadline.min(now + takes);
                under_way.push((at, launch, if at < deadline { outcome } else { Outcome::Failure }, now));
            } else {
                log.push(effect);
            }
        }
        let next = under_way.iter().map(|(at, ..)| *at).chain(prober.deadline()).min();
        match next {
            Some(at) if at <= until => now = now.max(at) + Duration::from_millis(rng.below(lag_ms + 1)),
            _ => return (trace, log),
        }
    }
}

fn policies() -> impl Strategy<Value = SubSecondProbePolicy> {
    prop::sample::select(vec![
        SubSecondProbePolicy::OnlyTheFirstTime,
        SubSecondProbePolicy::AlwaysWhenWaitingForSuccess,
        SubSecondProbePolicy::Always,
    ])
}

/// Stored probes, bad ones included.
fn probes() -> impl Strategy<Value = Option<Probe>> {
    let offset = || prop::option::of(-1200i64..1200);
    let numbers = (-1i64..4, -1i64..4, -1i64..4, -1i64..4, -1i64..4);
    (prop::bool::ANY, numbers, offset(), offset(), offset()).prop_map(
        |(set, (delay, timeout, period, wins, losses), a, b, c)| {
            set.then(|| Probe {
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
            })
        },
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(128)))]

    #[test]
    fn a_target_is_never_asked_sooner_than_the_floor_and_the_rest_allow(
        container in containers(), policy in policies(), seed: u64, takes_ms in 0u64..3000, lag_ms in 0u64..50,
    ) {
        let gates = FeatureGates::default().with(Gate::SubSecondProbeTimeouts, true);
        let mut prober = prober(&container, &NodePolicy { gates, policy, second_look: true });
        let (trace, _) = simulate(&mut prober, Time::from_secs(120), seed, takes_ms, lag_ms);
        for probe in ORDER {
            let attempts: Vec<&Trace> = trace.iter().filter(|attempt| attempt.probe == probe).collect();
            for pair in attempts.windows(2) {
                prop_assert!(pair[1].began.since(pair[0].ended) >= Duration::from_millis(20), "{:?}", pair);
                if !pair[0].look && !pair[1].look {
                    prop_assert!(pair[1].due.since(pair[0].due) >= Duration::from_millis(200), "{:?}", pair);
                }
            }
            prop_assert!(attempts.iter().filter(|attempt| attempt.look).count() <= 1);
        }
    }

    #[test]
    fn quick_attempts_stay_on_the_grid_however_late_the_agent_wakes(
        period in 200i64..1000, seed: u64, lag_ms in 0u64..80,
    ) {
        let probe = Probe { period_seconds: 1, period_milliseconds: Some(period - 1000), ..Probe::default() };
        let container = Container { readiness_probe: tcp(probe), ..Container::default() };
        let node = NodePolicy { policy: SubSecondProbePolicy::Always, ..NodePolicy::default() };
        let (trace, _) = simulate(&mut prober(&container, &node), Time::from_secs(60), seed, 0, lag_ms);
        prop_assert!(!trace.is_empty());
        for (index, attempt) in trace.iter().enumerate() {
            prop_assert_eq!(attempt.due, Time::from_millis(period * index as i64));
        }
    }

    #[test]
    fn a_probe_without_offsets_does_not_notice_the_gates(container in containers(), policy in policies(), seed: u64) {
        let plain = |probe: Option<Probe>| probe.map(|probe| Probe {
            initial_delay_milliseconds: None, period_milliseconds: None, timeout_milliseconds: None, ..probe
        });
        let container = Container {
            liveness_probe: plain(container.liveness_probe),
            readiness_probe: plain(container.readiness_probe),
            startup_probe: plain(container.startup_probe),
            ..container
        };
        let run = |on: bool| {
            let gates = FeatureGates::default().with(Gate::SubSecondProbes, on).with(Gate::SubSecondProbeTimeouts, on);
            let node = NodePolicy { gates, policy, second_look: true };
            simulate(&mut prober(&container, &node), Time::from_secs(60), seed, 1500, 10)
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn thresholds_hold_under_any_order_of_outcomes(
        outcomes in prop::collection::vec(0u8..3, 1..200), wins in 1i64..4, losses in 1i64..4,
    ) {
        let probe = Probe { period_seconds: 1, success_threshold: wins, failure_threshold: losses, ..Probe::default() };
        let container = Container { readiness_probe: tcp(probe), ..Container::default() };
        let mut prober = prober(&container, &NodePolicy::default());
        let mut effects = Vec::new();
        prober.step(Time::ZERO, Some(running("c", Time::ZERO)), &mut effects);
        // The naive model: the outcomes that count, looked at from the end.
        let (mut counted, mut ready) = (Vec::new(), false);
        for outcome in outcomes {
            let launch = effects.drain(..).find_map(|effect| match effect {
                Effect::Launch(launch) => Some(launch),
                _ => None,
            }).expect("every step begins an attempt");
            let report = Report { outcome: [Outcome::Success, Outcome::Failure, Outcome::Error][usize::from(outcome)], ..Report::success() };
            prober.input(launch.due, Input::Finished { probe: launch.probe, attempt: launch.attempt, report }, &mut effects);
            if outcome < 2 {
                counted.push(outcome == 0);
            }
            let ending = |kind: bool| counted.iter().rev().take_while(|success| **success == kind).count() as i64;
            if ending(true) >= wins {
                ready = true;
            } else if ending(false) >= losses {
                ready = false;
            }
            prop_assert_eq!(prober.ready(), ready);
            prober.step(prober.deadline().expect("the next attempt"), None, &mut effects);
        }
    }

    #[test]
    fn any_script_is_survived(container in containers(), script in prop::collection::vec((0u8..7, 0u64..400), 0..60)) {
        let mut prober = prober(&container, &NodePolicy::default());
        let (mut now, mut effects, mut launched) = (Time::ZERO, Vec::new(), Vec::new());
        for (what, after) in script {
            now += Duration::from_millis(after);
            let input = match what {
                0 => Some(running(&format!("c{after}"), now)),
                1 => Some(Input::NotRunning { exit_code: Some(after as i32) }),
                2 => Some(Input::NotRunning { exit_code: None }),
                3 if after < 40 => Some(Input::Deleted),
                4 if after < 20 => Some(Input::PodTerminal),
                5 => launched.pop().map(|launch: Launch| Input::Finished {
                    probe: launch.probe, attempt: launch.attempt, report: Report::failure(""),
                }),
                _ => None,
            };
            let was_ready = prober.ready();
            prober.step(now, input, &mut effects);
            prop_assert!(!prober.ready() || prober.started());
            let changes = effects.iter().filter(|effect| matches!(effect, Effect::Ready(_))).count();
            prop_assert_eq!(changes % 2 == 1, was_ready != prober.ready());
            launched.extend(effects.drain(..).filter_map(|effect| match effect {
                Effect::Launch(launch) => Some(launch),
                _ => None,
            }));
            prop_assert!(prober.deadline().is_none_or(|at| at > now), "something due was left");
        }
    }
}

#[test]
fn a_virtual_day_of_a_fast_worker_is_quick_and_exact() {
    let probe = Probe { period_seconds: 1, period_milliseconds: Some(-800), ..Probe::default() };
    let container = Container { readiness_probe: tcp(probe), ..Container::default() };
    let node = NodePolicy { policy: SubSecondProbePolicy::Always, ..NodePolicy::default() };
    let (trace, _) = simulate(&mut prober(&container, &node), Time::from_secs(86_400), 1, 0, 0);
    assert_eq!(trace.len(), 86_400 * 5 + 1);
}

#[test]
fn an_idle_worker_is_small() {
    assert!(size_of::<Worker>() <= 256, "{}", size_of::<Worker>());
    assert!(size_of::<ContainerProber>() <= 256, "{}", size_of::<ContainerProber>());
}

/// Runs a readiness probe through a script of outcomes, one per second, and returns the events with their instants.
fn events(outcomes: &[Outcome], mut probe: Probe, deleted_at: Option<usize>) -> Vec<(i64, &'static str, u32)> {
    probe.period_seconds = 1;
    let container = Container { readiness_probe: tcp(probe), ..Container::default() };
    let mut prober = prober(&container, &NodePolicy::default());
    let mut effects = Vec::new();
    let mut events = Vec::new();
    prober.step(Time::ZERO, Some(running("c", Time::ZERO)), &mut effects);
    for (index, outcome) in outcomes.iter().enumerate() {
        let now = Time::from_secs(index as i64);
        if deleted_at == Some(index) {
            prober.input(now, Input::Deleted, &mut effects);
        }
        prober.step(now, None, &mut effects);
        let launch = effects.iter().find_map(|effect| match effect {
            Effect::Launch(launch) => Some(*launch),
            _ => None,
        });
        let launch = launch.expect("one attempt per second");
        let report = Report { outcome: *outcome, ..Report::failure("text") };
        prober.input(now, Input::Finished { probe: launch.probe, attempt: launch.attempt, report }, &mut effects);
        for effect in effects.drain(..) {
            if let Effect::Event { event, .. } = effect {
                events.push((now.as_secs(), event.reason, event.count));
            }
        }
    }
    events
}

#[test]
fn unhealthy_is_said_at_the_first_failure_at_the_threshold_and_once_a_minute() {
    let failures = [Outcome::Failure; 130];
    assert_eq!(
        events(&failures, Probe::default(), None),
        [(0, UNHEALTHY, 1), (2, UNHEALTHY, 2), (62, UNHEALTHY, 60), (122, UNHEALTHY, 60)]
    );
}

#[test]
fn a_pod_that_goes_away_is_not_complained_about() {
    assert_eq!(events(&[Outcome::Success, Outcome::Failure, Outcome::Failure], Probe::default(), Some(1)), []);
}

#[test]
fn healthy_is_said_after_a_loss_and_not_the_first_time() {
    let script = [Outcome::Success, Outcome::Failure, Outcome::Success];
    let probe = Probe { failure_threshold: 1, ..Probe::default() };
    assert_eq!(events(&script, probe, None), [(1, UNHEALTHY, 1), (2, HEALTHY, 1)]);
}

#[test]
fn a_run_of_warnings_is_one_event_a_minute() {
    let warnings = [Outcome::Warning; 62];
    assert_eq!(events(&warnings, Probe::default(), None), [(0, PROBE_WARNING, 1), (60, PROBE_WARNING, 60)]);
}

#[test]
fn a_corrected_value_is_warned_of_once_per_worker() {
    let container = Container { liveness_probe: tcp(Probe { period_seconds: -1, ..Probe::default() }), ..Container::default() };
    let mut prober = prober(&container, &NodePolicy::default());
    let mut effects = Vec::new();
    for id in ["c1", "c2"] {
        prober.step(Time::ZERO, Some(running(id, Time::ZERO)), &mut effects);
    }
    let events: Vec<&Effect> = effects.iter().filter(|effect| matches!(effect, Effect::Event { .. })).collect();
    assert_eq!(events.len(), 1);
}

#[test]
fn a_dead_container_of_a_deleted_pod_has_no_workers_left() {
    let container = Container { readiness_probe: tcp(Probe::default()), ..Container::default() };
    let mut prober = prober(&container, &NodePolicy::default());
    let mut effects = Vec::new();
    prober.step(Time::ZERO, Some(running("c", Time::ZERO)), &mut effects);
    prober.step(Time::from_secs(1), Some(Input::NotRunning { exit_code: Some(1) }), &mut effects);
    assert!(!prober.ended());
    prober.step(Time::from_secs(2), Some(Input::Deleted), &mut effects);
    assert!(prober.ended());
}

#[test]
fn a_stale_outcome_is_counted_and_changes_nothing() {
    let container = Container { readiness_probe: tcp(Probe::default()), ..Container::default() };
    let mut prober = prober(&container, &NodePolicy::default());
    let mut effects = Vec::new();
    prober.step(Time::ZERO, Some(running("c1", Time::ZERO)), &mut effects);
    prober.step(Time::from_secs(1), Some(running("c2", Time::from_secs(1))), &mut effects);
    assert!(effects.contains(&Effect::Cancel { probe: ProbeType::Readiness, attempt: 1 }));
    effects.clear();
    let report = Report::success();
    prober.step(Time::from_secs(1), Some(Input::Finished { probe: ProbeType::Readiness, attempt: 1, report }), &mut effects);
    assert_eq!(effects, [Effect::Stale { probe: ProbeType::Readiness }]);
    assert!(!prober.ready());
}

#[test]
fn an_ended_worker_vouches_for_no_later_instance() {
    let container = Container { readiness_probe: tcp(Probe::default()), ..Container::default() };
    let mut prober = prober(&container, &NodePolicy::default());
    let mut effects = Vec::new();
    prober.step(Time::ZERO, Some(running("c1", Time::ZERO)), &mut effects);
    let report = Report::success();
    prober.step(Time::ZERO, Some(Input::Finished { probe: ProbeType::Readiness, attempt: 1, report }), &mut effects);
    prober.step(Time::ZERO, Some(Input::PodTerminal), &mut effects);
    assert!(prober.ready());
    prober.step(Time::from_secs(1), Some(running("c2", Time::from_secs(1))), &mut effects);
    assert!(!prober.ready() && prober.deadline().is_none());
}

#[test]
fn a_second_look_that_fails_is_not_complained_about() {
    let probe = Probe { period_seconds: 5, ..Probe::default() };
    let container = Container { readiness_probe: tcp(probe), ..Container::default() };
    let mut prober = prober(&container, &NodePolicy::default());
    let mut effects = Vec::new();
    prober.step(Time::ZERO, Some(running("c", Time::ZERO)), &mut effects);
    let mut events = Vec::new();
    for attempt in 1..=3 {
        let report = Report::failure("no");
        let now = prober.deadline().unwrap_or(Time::ZERO);
        prober.step(now, None, &mut effects);
        prober.input(now, Input::Finished { probe: ProbeType::Readiness, attempt, report }, &mut effects);
        events.push(effects.drain(..).filter(|effect| matches!(effect, Effect::Event { .. })).count());
    }
    // The first failure, the look, and a failure within a minute that crosses nothing.
    assert_eq!(events, [1, 0, 0]);
    let [mut errors, mut failures] = [0, 0];
    prober.step(Time::from_secs(10), None, &mut effects);
    let report = Report::error(crate::outcome::Discarded::Resource, "EMFILE");
    prober.input(Time::from_secs(61), Input::Finished { probe: ProbeType::Readiness, attempt: 4, report }, &mut effects);
    for effect in effects {
        if let Effect::Event { event, .. } = effect {
            errors += u32::from(event.message.contains("discarded: EMFILE"));
            failures += event.count - 1;
        }
    }
    assert_eq!((errors, failures), (1, 1), "the error speaks for the failure that was left out, not for the look");
}
