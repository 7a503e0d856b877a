//! The node agent: effective times, and the machine step by step.

use std::collections::{BTreeMap, BTreeSet};

use api::marker::{ContainerProbeState, NodePodProbe, NodePodProbeSpec, NodePodProbeStatus, PodProbeStatus, ProbeState};
use api::{FeatureGates, Gate, ObjectMeta, Timestamp};
use machine::{Machine, Rng, Time};
use markers::Agent;
use markers::agent::{ContainerNews, Effect, Finished, Input, Runtime, WorkerKey};
use probe::{Defaults, NodePolicy, Outcome, Progress, SubSecondProbePolicy, Timing};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "name")]
    _name: String,
    given: Given,
    expect: Option<ExpectTiming>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    probe: Option<api::pod::Probe>,
    #[serde(default)]
    status: Vec<StoredPod>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTiming {
    timing: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: i64,
    spec: Option<Spec>,
    container: Option<Container>,
    result: Option<AttemptEnd>,
    tick: Option<bool>,
    #[serde(default)]
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    generation: i64,
    pod_probes: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Container {
    uid: String,
    name: String,
    id: String,
    state: ContainerStep,
    started_at: Option<i64>,
    started: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ContainerStep {
    Running,
    Waiting,
    Terminated,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AttemptEnd {
    uid: String,
    probe: String,
    #[serde(rename = "containerID")]
    container_id: String,
    outcome: EndKind,
    #[serde(default)]
    message: String,
    message_repeat: Option<Repeat>,
    started_at: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum EndKind {
    Success,
    Failure,
    Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    unit: String,
    count: usize,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    start: BTreeSet<String>,
    #[serde(default)]
    stop: BTreeSet<String>,
    #[serde(default)]
    update: BTreeSet<String>,
    #[serde(default)]
    report: Vec<Report>,
    #[serde(default)]
    eligible: BTreeMap<String, bool>,
    #[serde(default, deserialize_with = "given")]
    write: Option<Option<Written>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Report {
    uid: String,
    probe: String,
    state: ProbeState,
    #[serde(default)]
    message: String,
    message_repeat: Option<Repeat>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    observed_generation: i64,
    pod_probe_statuses: Vec<StoredPod>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredPod {
    name: String,
    namespace: String,
    uid: String,
    probe_states: Vec<StoredState>,
}

/// A state whose times are milliseconds on the agent's clock.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StoredState {
    name: String,
    state: ProbeState,
    last_probe_time: i64,
    last_transition_time: i64,
    message: String,
}

/// Tells an explicit null from an absent member.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Written>>, D::Error> {
    Option::<Written>::deserialize(deserializer).map(Some)
}

pub(crate) fn check(case: Case) -> Verdict {
    match (case.given.probe, case.expect) {
        (Some(probe), Some(expect)) => same(&expect.timing, &timing(&probe)),
        (None, None) => run(&case.given.status, case.steps),
        _ => Err("a case has a probe and its timing, or steps".to_owned()),
    }
}

fn gates() -> FeatureGates {
    FeatureGates::default().with(Gate::SubSecondProbes, true).with(Gate::SubSecondProbeTimeouts, true)
}

fn timing(probe: &api::pod::Probe) -> Value {
    let (timing, _) = Timing::of(probe, None, &gates(), &Defaults::MARKER);
    let period = |reached_success| {
        let progress = Progress { reached_success, is_success: reached_success };
        timing.period(SubSecondProbePolicy::OnlyTheFirstTime, progress).as_millis()
    };
    json!({
        "periodMs": period(false),
        "steadyPeriodMs": period(true),
        "timeoutMs": timing.timeout.as_millis(),
        "initialDelayMs": timing.initial_delay.as_millis(),
        "successThreshold": timing.success_threshold,
        "failureThreshold": timing.failure_threshold,
    })
}

fn run(stored: &[StoredPod], steps: Vec<Step>) -> Verdict {
    let mut agent = Agent::new(NodePolicy { gates: gates(), ..NodePolicy::default() }, Rng::new(1));
    for step in steps {
        let now = Time::from_millis(step.at);
        let at = step.at;
        let expect = step.expect;
        let input = match (step.spec, step.container, step.result, step.tick) {
            (Some(spec), None, None, None) => Some(spec_input(spec, stored)),
            (None, Some(container), None, None) => Some(container_input(container)),
            (None, None, Some(end), None) => Some(end_input(end, step.at)),
            (None, None, None, Some(true)) => None,
            _ => return Err(format!("at {at}: exactly one of spec, container, result, tick")),
        };
        let mut effects = Vec::new();
        agent.step(now, input, &mut effects);
        // The server answers every write at once.
        if effects.iter().any(|effect| matches!(effect, Effect::Write(_))) {
            agent.step(now, Some(Input::Written(Ok(()))), &mut effects);
        }
        compare(&agent, now, expect, &effects).map_err(|why| format!("at {at}:\n{why}"))?;
    }
    Ok(())
}

fn spec_input(spec: Spec, stored: &[StoredPod]) -> Input {
    let metadata = ObjectMeta { name: "node".into(), uid: "node".into(), generation: spec.generation, ..ObjectMeta::default() };
    let read: NodePodProbeSpec = serde_json::from_value(json!({"podProbes": spec.pod_probes})).unwrap_or_default();
    let status = NodePodProbeStatus { observed_generation: None, pod_probe_statuses: stored.iter().map(pod_status).collect() };
    Input::Spec(Box::new(NodePodProbe { metadata, spec: read, status }))
}

fn pod_status(stored: &StoredPod) -> PodProbeStatus {
    let time = |millis: i64| Some(Timestamp(Time::from_millis(millis)));
    let state = |state: &StoredState| ContainerProbeState {
        name: state.name.clone(),
        state: state.state,
        last_probe_time: time(state.last_probe_time),
        last_transition_time: time(state.last_transition_time),
        message: state.message.clone(),
    };
    PodProbeStatus {
        name: stored.name.clone(),
        namespace: stored.namespace.clone(),
        uid: stored.uid.clone(),
        probe_states: stored.probe_states.iter().map(state).collect(),
    }
}

fn container_input(container: Container) -> Input {
    Input::Container(ContainerNews {
        uid: container.uid,
        name: container.name,
        id: container.id,
        runtime: match container.state {
            ContainerStep::Running => Runtime::Running,
            ContainerStep::Waiting => Runtime::Waiting,
            ContainerStep::Terminated => Runtime::Terminated,
        },
        started_at: container.started_at.map(Time::from_millis),
        started: container.started,
    })
}

fn end_input(end: AttemptEnd, at: i64) -> Input {
    Input::Finished(Finished {
        worker: WorkerKey { uid: end.uid, entry: end.probe },
        container_id: end.container_id,
        began: Time::from_millis(end.started_at.unwrap_or(at)),
        outcome: match end.outcome {
            EndKind::Success => Outcome::Success,
            EndKind::Failure => Outcome::Failure,
            EndKind::Error => Outcome::Error,
        },
        message: text(end.message, end.message_repeat),
    })
}

fn text(message: String, repeat: Option<Repeat>) -> String {
    repeat.map_or(message, |repeat| repeat.unit.repeat(repeat.count))
}

fn compare(agent: &Agent, now: Time, expect: Expect, effects: &[Effect]) -> Verdict {
    let keys = |pick: fn(&Effect) -> Option<&WorkerKey>| -> BTreeSet<String> {
        effects.iter().filter_map(pick).map(WorkerKey::to_string).collect()
    };
    let started = keys(|effect| if let Effect::Started(key) = effect { Some(key) } else { None });
    let stopped = keys(|effect| if let Effect::Stopped(key) = effect { Some(key) } else { None });
    let updated = keys(|effect| if let Effect::Updated(key) = effect { Some(key) } else { None });
    let reported: BTreeMap<String, Value> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Reported { worker, state, message, .. } => Some((worker.to_string(), json!([state.name(), message]))),
            _ => None,
        })
        .collect();
    let expected: BTreeMap<String, Value> = expect
        .report
        .into_iter()
        .map(|report| {
            let key = format!("{}/{}", report.uid, report.probe);
            (key, json!([report.state.name(), text(report.message, report.message_repeat)]))
        })
        .collect();
    let key = |name: &str| {
        let (uid, entry) = name.split_once('/').unwrap_or((name, ""));
        WorkerKey { uid: uid.to_owned(), entry: entry.to_owned() }
    };
    let eligible: BTreeMap<&String, bool> =
        expect.eligible.keys().map(|name| (name, agent.is_eligible(now, &key(name)))).collect();
    same(
        &json!({"start": expect.start, "stop": expect.stop, "update": expect.update, "report": expected, "eligible": expect.eligible}),
        &json!({"start": started, "stop": stopped, "update": updated, "report": reported, "eligible": eligible}),
    )?;
    let Some(wanted) = expect.write else { return Ok(()) };
    let writes: Vec<Value> = effects
        .iter()
        .filter_map(|effect| if let Effect::Write(status) = effect { Some(shown(status)) } else { None })
        .collect();
    let wanted: Vec<Value> = wanted
        .map(|status| {
            let items = status.pod_probe_statuses.iter().map(pod_status).collect();
            shown(&NodePodProbeStatus { observed_generation: Some(status.observed_generation), pod_probe_statuses: items })
        })
        .into_iter()
        .collect();
    same(&json!(wanted), &json!(writes))
}

/// Shows a status with its times in milliseconds.
fn shown(status: &NodePodProbeStatus) -> Value {
    let millis = |time: Option<Timestamp>| time.map(|time| time.0.as_millis());
    let state = |state: &ContainerProbeState| {
        json!([
            state.name,
            state.state.name(),
            millis(state.last_probe_time),
            millis(state.last_transition_time),
            state.message
        ])
    };
    let item = |item: &PodProbeStatus| {
        json!([item.name, item.namespace, item.uid, item.probe_states.iter().map(state).collect::<Vec<_>>()])
    };
    json!([status.observed_generation, status.pod_probe_statuses.iter().map(item).collect::<Vec<_>>()])
}
