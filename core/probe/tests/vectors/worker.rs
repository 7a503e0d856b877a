//! Scripts for the prober of one container, in virtual milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use api::pod::{Container, Probe};
use api::{HandlerKind, ProbeType};
use machine::Time;
use probe::timing::handler_of;
use probe::{ContainerProber, Effect, Input, Knock, Launch, NodePolicy, Outcome, Prior, Report, Restarts};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

use crate::common::{Case, gates, type_name};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Given {
    container: Container,
    events: Vec<Event>,
    outcomes: BTreeMap<String, Vec<Answer>>,
    until: i64,
    #[serde(default)]
    gates: BTreeMap<String, bool>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    restart_policy: String,
    #[serde(default)]
    sidecar: bool,
    #[serde(default = "thirty")]
    pod_grace_seconds: i64,
    #[serde(default = "yes")]
    second_look: bool,
    #[serde(default)]
    prior: Option<Stored>,
    #[serde(default)]
    jitter: f64,
    /// When the container's port accepts connections: from, to (exclusive); absent: always.
    #[serde(default)]
    listening: Option<Vec<Vec<i64>>>,
}

fn thirty() -> i64 {
    30
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    id: String,
    started: bool,
    ready: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Event {
    at: i64,
    running: Option<Running>,
    terminated: Option<Terminated>,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    removed: bool,
    #[serde(default)]
    pod_terminal: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Running {
    id: String,
    started_at: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Terminated {
    exit_code: i32,
}

impl Event {
    fn input(&self) -> Result<Input, String> {
        let mut inputs = Vec::new();
        if let Some(running) = &self.running {
            inputs.push(Input::Running { id: running.id.as_str().into(), started_at: Time::from_millis(running.started_at) });
        }
        if let Some(terminated) = &self.terminated {
            inputs.push(Input::NotRunning { exit_code: Some(terminated.exit_code) });
        }
        inputs.extend(self.deleted.then_some(Input::Deleted));
        inputs.extend(self.removed.then_some(Input::Removed));
        inputs.extend(self.pod_terminal.then_some(Input::PodTerminal));
        match inputs.len() {
            1 => Ok(inputs.remove(0)),
            count => Err(format!("the event at {} says {count} things", self.at)),
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Answer {
    Word(Word),
    Slow(Slow),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slow {
    result: Word,
    #[serde(default)]
    takes: u64,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Word {
    Success,
    Failure,
    Warning,
    Unknown,
    Error,
    Hang,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    fires: BTreeMap<String, Vec<i64>>,
    records: Vec<Value>,
    #[serde(default)]
    knocks: BTreeMap<String, u64>,
}

/// From knock to knock, whatever the age of the instance: what the executor makes of it is in [`probe::Knocks`].
const KNOCK_EVERY: Duration = Duration::from_millis(10);

/// What an executor would do: answers attempts as the script says, keeps to their timeout, and knocks.
struct Executor {
    outcomes: BTreeMap<String, Vec<Answer>>,
    asked: BTreeMap<&'static str, usize>,
    under_way: Vec<(Time, Launch, Report)>,
    /// Which probes go over the network.
    network: Vec<ProbeType>,
    listening: Option<Vec<Vec<i64>>>,
    knocks: Vec<(Time, Knock)>,
    refused: BTreeMap<&'static str, u64>,
}

impl Executor {
    fn listens(&self, now: Time) -> Result<bool, String> {
        let Some(spans) = &self.listening else { return Ok(true) };
        spans.iter().try_fold(false, |listens, span| match span[..] {
            [from] => Ok(listens || now.as_millis() >= from),
            [from, to] => Ok(listens || (from..to).contains(&now.as_millis())),
            _ => Err(format!("listening: {span:?} is neither [from] nor [from, to]")),
        })
    }

    /// Carries out the knocks that are due now; returns those that were accepted.
    fn knock(&mut self, now: Time) -> Result<Vec<Input>, String> {
        let listens = self.listens(now)?;
        let mut accepted = Vec::new();
        for (next, knock) in std::mem::take(&mut self.knocks) {
            if next >= knock.until {
                continue;
            } else if next > now {
                self.knocks.push((next, knock));
            } else if listens {
                accepted.push(Input::Knocked { probe: knock.probe, knock: knock.knock, accepted: Some(now) });
            } else {
                *self.refused.entry(type_name(knock.probe)).or_default() += 1;
                self.knocks.push((next + KNOCK_EVERY, knock));
            }
        }
        Ok(accepted)
    }

    fn launch(&mut self, now: Time, launch: Launch) -> Result<(), String> {
        let name = type_name(launch.probe);
        if self.network.contains(&launch.probe) && !self.listens(now)? {
            let report = Report { refused: true, ..Report::failure("refused") };
            self.under_way.push((now, launch, report));
            return Ok(());
        }
        let asked = self.asked.entry(name).or_default();
        let answers = self.outcomes.get(name).ok_or_else(|| format!("no outcomes for {name}"))?;
        let answer = answers.get(*asked).or(answers.last()).ok_or_else(|| format!("no outcomes for {name}"))?.clone();
        *asked += 1;
        let (word, takes) = match answer {
            Answer::Word(word) => (word, 0),
            Answer::Slow(slow) => (slow.result, slow.takes),
        };
        // An answer at the deadline is late.
        let deadline = now + launch.timeout;
        let at = if word == Word::Hang { deadline } else { deadline.min(now + Duration::from_millis(takes)) };
        let outcome = match word {
            _ if at == deadline => Outcome::Failure,
            Word::Success => Outcome::Success,
            Word::Failure | Word::Hang => Outcome::Failure,
            Word::Warning => Outcome::Warning,
            Word::Unknown => Outcome::Unknown,
            Word::Error => Outcome::Error,
        };
        self.under_way.push((at, launch, Report { outcome, ..Report::success() }));
        Ok(())
    }

    /// Takes out what completes now, in the order startup, readiness, liveness.
    fn completed(&mut self, now: Time) -> Vec<(Launch, Report)> {
        let order = |probe: ProbeType| match probe {
            ProbeType::Startup => 0,
            ProbeType::Readiness => 1,
            ProbeType::Liveness => 2,
        };
        let (done, rest): (Vec<_>, Vec<_>) = self.under_way.drain(..).partition(|(at, ..)| *at <= now);
        self.under_way = rest;
        let mut done: Vec<(Launch, Report)> = done.into_iter().map(|(_, launch, report)| (launch, report)).collect();
        done.sort_by_key(|(launch, _)| order(launch.probe));
        done
    }
}

pub(crate) fn check(case: Case<Given, Expect>) -> Verdict {
    let mut given = case.given;
    if given.sidecar {
        given.container.restart_policy = "Always".to_owned();
    }
    let node = NodePolicy {
        gates: gates(&given.gates)?,
        policy: given.policy.as_deref().map_or(Ok(Default::default()), str::parse).map_err(|error| format!("{error}"))?,
        second_look: given.second_look,
    };
    let prior = given.prior.map(|stored| Prior::new(&stored.id, stored.started, stored.ready, || given.jitter));
    let restarts = Restarts::of(&given.restart_policy, &given.container);
    let mut prober = ContainerProber::new(&given.container, restarts, given.pod_grace_seconds, &node, prior);
    let mut executor = Executor {
        outcomes: given.outcomes,
        asked: BTreeMap::new(),
        under_way: Vec::new(),
        network: network_probes(&given.container),
        listening: given.listening,
        knocks: Vec::new(),
        refused: BTreeMap::new(),
    };
    let mut events = given.events.iter().peekable();
    let (mut fires, mut records) = (BTreeMap::<&str, Vec<i64>>::new(), Vec::new());
    let mut now = Time::from_millis(i64::MIN / 1_000_000);
    loop {
        let mut effects = Vec::new();
        for (launch, report) in executor.completed(now) {
            prober.input(now, Input::Finished { probe: launch.probe, attempt: launch.attempt, report }, &mut effects);
        }
        while let Some(event) = events.next_if(|event| Time::from_millis(event.at) <= now) {
            prober.input(now, event.input()?, &mut effects);
        }
        prober.launch_due(now, &mut effects);
        perform(now, effects.drain(..), &mut executor, &mut fires, &mut records)?;
        for accepted in executor.knock(now)? {
            prober.input(now, accepted, &mut effects);
        }
        perform(now, effects.drain(..), &mut executor, &mut fires, &mut records)?;
        let next = [
            executor.under_way.iter().map(|(at, ..)| *at).min(),
            executor.knocks.iter().map(|(at, _)| *at).min(),
            events.peek().map(|event| Time::from_millis(event.at)),
            prober.deadline(),
        ];
        match next.into_iter().flatten().min() {
            Some(at) if at <= Time::from_millis(given.until) => now = now.max(at),
            _ => break,
        }
    }
    let fires = json!(fires);
    let expected_fires: BTreeMap<_, _> = case.expect.fires.into_iter().filter(|(_, at)| !at.is_empty()).collect();
    let expected_knocks: BTreeMap<_, _> = case.expect.knocks.into_iter().filter(|(_, count)| *count != 0).collect();
    let (expected, got) = (sorted(case.expect.records), sorted(records));
    same(
        &json!({"fires": expected_fires, "knocks": expected_knocks, "records": expected}),
        &json!({"fires": fires, "knocks": executor.refused, "records": got}),
    )
}

fn perform(
    now: Time,
    effects: impl Iterator<Item = Effect>,
    executor: &mut Executor,
    fires: &mut BTreeMap<&'static str, Vec<i64>>,
    records: &mut Vec<Value>,
) -> Result<(), String> {
    for effect in effects {
        match effect {
            Effect::Launch(launch) => {
                fires.entry(type_name(launch.probe)).or_default().push(now.as_millis());
                executor.launch(now, launch)?;
            }
            Effect::Knock(knock) => executor.knocks.push((knock.from + KNOCK_EVERY, knock)),
            Effect::StopKnocking { probe } => executor.knocks.retain(|(_, knock)| knock.probe != probe),
            effect => records.extend(record(now.as_millis(), &effect)),
        }
    }
    Ok(())
}

fn network_probes(container: &Container) -> Vec<ProbeType> {
    let all = [
        (ProbeType::Startup, &container.startup_probe),
        (ProbeType::Readiness, &container.readiness_probe),
        (ProbeType::Liveness, &container.liveness_probe),
    ];
    let network = |probe: &Option<Probe>| {
        probe.as_ref().is_some_and(|probe| handler_of(probe).is_some_and(|handler| handler != HandlerKind::Exec))
    };
    all.into_iter().filter(|(_, probe)| network(probe)).map(|(type_, _)| type_).collect()
}

/// Returns what the vectors record of an effect.
fn record(at: i64, effect: &Effect) -> Option<Value> {
    Some(match effect {
        Effect::Publish { probe, result } => json!({"at": at, "probe": type_name(*probe), "result": format!("{result:?}")}),
        Effect::Hold { probe, on } => json!({"at": at, "probe": type_name(*probe), "hold": on}),
        Effect::Started(started) => json!({"at": at, "started": started}),
        Effect::Ready(ready) => json!({"at": at, "ready": ready}),
        Effect::Kill { probe, grace_seconds, restart } => {
            json!({"at": at, "kill": type_name(*probe), "graceSeconds": grace_seconds, "restart": restart})
        }
        Effect::Ended { probe } => json!({"at": at, "ended": type_name(*probe)}),
        Effect::Launch(_) | Effect::Knock(_) | Effect::StopKnocking { .. } => return None,
        Effect::Cancel { .. } | Effect::Event { .. } | Effect::Stale { .. } | Effect::Overrun { .. } => {
            return None;
        }
    })
}

/// Sorts by instant, then by text: records of one instant are a multiset.
fn sorted(mut records: Vec<Value>) -> Vec<Value> {
    records.sort_by_key(|record| (record["at"].as_i64(), record.to_string()));
    records
}
