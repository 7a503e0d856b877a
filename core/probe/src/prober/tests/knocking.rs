//! Laws of knocking, under any container, any moment at which it listens, and any end.

use std::collections::BTreeMap;

use super::*;

/// What happens to the container.
#[derive(Clone, Copy, Debug)]
struct Script {
    listens_at: Time,
    /// From then on it answers well.
    healthy_at: Time,
    deleted_at: Option<Time>,
    restarted_at: Option<Time>,
}

/// What was seen: effects without knocks, with their instants, and when knocks were accepted.
#[derive(Debug, Default)]
struct Seen {
    effects: Vec<(Time, Effect)>,
    /// The instant of the knock, and the attempt that it came before.
    accepted: Vec<(Time, Time)>,
    knocks: u64,
}

/// The executor: refuses until somebody listens, knocks every 10 ms, and checks what must never happen.
struct Executor {
    script: Script,
    under_way: BTreeMap<ProbeType, Launch>,
    knocking: BTreeMap<ProbeType, (Time, Knock)>,
    /// Per worker: the first attempt of the instance has completed.
    refused: BTreeMap<ProbeType, bool>,
    seen: Seen,
}

impl Executor {
    fn perform(&mut self, now: Time, container: &Container, effects: &mut Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Launch(launch) => {
                    assert_eq!(self.under_way.insert(launch.probe, launch), None, "two attempts at once");
                    assert!(!self.knocking.contains_key(&launch.probe), "a knock and an attempt at once");
                    if !launch.knocked {
                        self.seen.effects.push((now, Effect::Launch(Launch { attempt: 0, ..launch })));
                    }
                }
                Effect::Knock(knock) => {
                    assert!(self.script.deleted_at.is_none_or(|at| now < at), "knocks after the deletion");
                    assert_ne!(knock.probe, ProbeType::Liveness);
                    assert!(self.refused[&knock.probe], "knocks although nothing was refused");
                    let probe = match knock.probe {
                        ProbeType::Startup => &container.startup_probe,
                        _ => &container.readiness_probe,
                    };
                    let (timing, _) =
                        Timing::of(probe.as_ref().unwrap(), Some(knock.probe), &FeatureGates::default(), &Defaults::CONTAINER);
                    assert!(now >= knock.started_at + timing.initial_delay, "knocks before the initial delay");
                    let before = self.knocking.insert(knock.probe, (knock.from + Duration::from_millis(10), knock));
                    assert_eq!(before, None, "two knocks at once");
                }
                Effect::StopKnocking { probe } => {
                    assert!(self.knocking.remove(&probe).is_some(), "nobody knocked");
                }
                Effect::Cancel { probe, .. } => drop(self.under_way.remove(&probe)),
                effect => self.seen.effects.push((now, effect)),
            }
        }
    }

    fn answer(&self, now: Time) -> Report {
        if now < self.script.listens_at {
            Report { refused: true, ..Report::failure("refused") }
        } else if now < self.script.healthy_at {
            Report::failure("not yet")
        } else {
            Report::success()
        }
    }

    /// Returns the knocks that are accepted now.
    fn knock(&mut self, now: Time) -> Vec<Input> {
        let listens = now >= self.script.listens_at;
        let mut accepted = Vec::new();
        self.knocking.retain(|probe, (next, knock)| {
            if *next > now || *next >= knock.until {
                return true;
            }
            assert!(self.script.deleted_at.is_none_or(|at| now < at), "a knock after the deletion");
            self.seen.knocks += 1;
            if listens {
                accepted.push(Input::Knocked { probe: *probe, knock: knock.knock, accepted: Some(now) });
                self.seen.accepted.push((now, knock.until));
            }
            *next += Duration::from_millis(10);
            !listens
        });
        accepted
    }
}

fn run(container: &Container, node: &NodePolicy, script: Script, until: Time) -> Seen {
    let mut prober = prober(container, node);
    let mut executor = Executor {
        script,
        under_way: BTreeMap::new(),
        knocking: BTreeMap::new(),
        refused: BTreeMap::new(),
        seen: Seen::default(),
    };
    let mut outside = vec![(Time::ZERO, running("c0", Time::ZERO))];
    outside.extend(script.restarted_at.map(|at| (at, running("c1", at))));
    outside.extend(script.deleted_at.map(|at| (at, Input::Deleted)));
    outside.sort_by_key(|(at, _)| *at);
    let mut outside = outside.into_iter().peekable();
    let (mut now, mut effects) = (Time::ZERO, Vec::new());
    while now <= until {
        for probe in ORDER {
            if let Some(launch) = executor.under_way.remove(&probe) {
                let report = executor.answer(now);
                executor.refused.insert(probe, report.refused);
                prober.input(now, Input::Finished { probe, attempt: launch.attempt, report }, &mut effects);
                executor.perform(now, container, &mut effects);
            }
        }
        while let Some((_, input)) = outside.next_if(|(at, _)| *at <= now) {
            prober.input(now, input, &mut effects);
            executor.perform(now, container, &mut effects);
        }
        prober.launch_due(now, &mut effects);
        executor.perform(now, container, &mut effects);
        for accepted in executor.knock(now) {
            prober.input(now, accepted, &mut effects);
            executor.perform(now, container, &mut effects);
        }
        if !executor.under_way.is_empty() {
            continue;
        }
        let knock = executor.knocking.values().filter(|(next, knock)| *next < knock.until).map(|(next, _)| *next).min();
        let next = [prober.deadline(), knock, outside.peek().map(|(at, _)| *at)].into_iter().flatten().min();
        match next {
            Some(at) => now = at,
            None => break,
        }
    }
    executor.seen
}

fn instant(max_ms: u64) -> impl Strategy<Value = Time> {
    (0..max_ms).prop_map(|ms| Time::from_millis(ms as i64))
}

fn scripts() -> impl Strategy<Value = Script> {
    let rarely = || prop::option::of(instant(20_000));
    (instant(20_000), instant(5_000), rarely(), rarely()).prop_map(|(listens_at, after, deleted_at, restarted_at)| Script {
        listens_at,
        healthy_at: listens_at + after.since(Time::ZERO),
        deleted_at,
        restarted_at,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(128)))]

    /// The assertions are in [`Executor`]: not before the initial delay, not after the deletion, never two connections.
    #[test]
    fn knocks_keep_to_their_rules(container in containers(), policy in policies(), script in scripts(), look: bool) {
        let node = NodePolicy { policy, second_look: look, ..NodePolicy::default() };
        let seen = run(&container, &node, script, Time::from_secs(25));
        prop_assert!(seen.knocks <= 2 * 2_500, "{}", seen.knocks);
    }

    #[test]
    fn the_failure_of_an_extra_attempt_changes_nothing(
        container in containers(), policy in policies(), listens_at in instant(20_000), look: bool,
    ) {
        let script = Script { listens_at, healthy_at: Time::MAX, deleted_at: None, restarted_at: None };
        let until = Time::from_secs(40);
        let gate = |on: bool| FeatureGates::default().with(Gate::ProbeOnListen, on);
        let with = run(&container, &NodePolicy { gates: gate(true), policy, second_look: look }, script, until);
        // An attempt that waits gives the target its rest first; that is the one thing that may be seen.
        prop_assume!(with.accepted.iter().all(|(at, next)| next.since(*at) >= Duration::from_millis(100)));
        let without = run(&container, &NodePolicy { gates: gate(false), policy, second_look: look }, script, until);
        prop_assert_eq!(without.knocks, 0);
        prop_assert_eq!(with.effects, without.effects);
    }

    #[test]
    fn it_is_ready_at_most_a_knock_after_it_listens(
        period_seconds in 1i64..30, delay in 0i64..5, listens_at in instant(20_000),
    ) {
        let probe = Probe { period_seconds, initial_delay_seconds: delay, ..Probe::default() };
        let container = Container { readiness_probe: tcp(probe), ..Container::default() };
        let script = Script { listens_at, healthy_at: listens_at, deleted_at: None, restarted_at: None };
        let seen = run(&container, &NodePolicy::default(), script, Time::from_secs(60));
        let ready = seen.effects.iter().find(|(_, effect)| *effect == Effect::Ready(true)).map(|(at, _)| *at);
        let earliest = listens_at.max(Time::from_secs(delay));
        let late = ready.expect("it listens").since(earliest);
        prop_assert!(late <= Duration::from_millis(10), "{late:?}");
    }
}

#[test]
fn a_knock_that_is_not_answered_ends_knocking_until_another_attempt_is_refused() {
    let container = Container { readiness_probe: tcp(Probe { period_seconds: 2, ..Probe::default() }), ..Container::default() };
    let node = NodePolicy { second_look: false, ..NodePolicy::default() };
    let (mut prober, mut effects) = (prober(&container, &node), Vec::new());
    let probe = ProbeType::Readiness;
    let refused = || Report { refused: true, ..Report::failure("refused") };
    prober.step(Time::ZERO, Some(running("c", Time::ZERO)), &mut effects);
    prober.step(Time::ZERO, Some(Input::Finished { probe, attempt: 1, report: refused() }), &mut effects);
    let until = Time::from_secs(2);
    let knock = Knock { probe, knock: 1, from: Time::ZERO, until, started_at: Time::ZERO };
    assert_eq!(effects.pop(), Some(Effect::Knock(knock)));
    assert!(prober.workers().all(|view| view.knocking));
    effects.clear();
    let now = Time::from_millis(110);
    prober.step(now, Some(Input::Knocked { probe, knock: 1, accepted: None }), &mut effects);
    // One that comes too late opens nothing.
    prober.step(now, Some(Input::Knocked { probe, knock: 1, accepted: Some(now) }), &mut effects);
    assert_eq!(effects, []);
    assert_eq!(prober.deadline(), Some(until));
    prober.step(until, None, &mut effects);
    prober.step(until, Some(Input::Finished { probe, attempt: 2, report: refused() }), &mut effects);
    assert!(matches!(effects.last(), Some(Effect::Knock(Knock { knock: 2, .. }))), "{effects:?}");
}

#[test]
fn a_connection_that_comes_when_an_attempt_is_due_is_that_attempt() {
    let container = Container { readiness_probe: tcp(Probe { period_seconds: 1, ..Probe::default() }), ..Container::default() };
    let (mut prober, mut effects) = (prober(&container, &NodePolicy::default()), Vec::new());
    let probe = ProbeType::Readiness;
    prober.step(Time::ZERO, Some(running("c", Time::ZERO)), &mut effects);
    let report = Report { refused: true, ..Report::failure("refused") };
    prober.step(Time::ZERO, Some(Input::Finished { probe, attempt: 1, report }), &mut effects);
    effects.clear();
    let now = Time::from_millis(1_001);
    prober.step(now, Some(Input::Knocked { probe, knock: 1, accepted: Some(now) }), &mut effects);
    let timeout = Duration::from_secs(1);
    let launch = Launch { probe, attempt: 2, due: Time::from_secs(1), timeout, look: false, knocked: true };
    assert_eq!(effects, [Effect::Launch(launch)]);
}
