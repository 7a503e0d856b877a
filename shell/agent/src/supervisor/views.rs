//! What people and metrics see of the workers.

use std::sync::Arc;
use std::time::Duration;

use api::marker::ProbeState;
use api::pod::{Container, Probe};
use api::{FeatureGates, Gate, HandlerKind, ProbeType, Timestamp};
use machine::Time;
use markers::agent::View;
use probe::Phase;
use probe::timing::handler_of;
use serde_json::{Value, json};

use super::Supervisor;
use super::local::{FinishedAttempt, LocalPod, place};
use crate::metrics::{AgentCounts, MARKER, PhaseLabels, outcome_name};

impl Supervisor {
    /// Returns every worker with what it does and its last outcomes; with `since` only what is newer.
    pub(super) fn probes(&self, since: Option<Time>) -> Value {
        let mut locals: Vec<&LocalPod> = self.pods.values().collect();
        locals.sort_by_key(|local| (&local.namespace, &local.name));
        let mut workers: Vec<Value> = locals.into_iter().flat_map(|local| self.workers_of(local, since)).collect();
        if since.is_none() {
            workers.extend(self.markers.machine.views().map(|view| marker_worker(&view)));
        }
        json!({"node": self.context.node, "workers": workers})
    }

    fn workers_of(&self, local: &LocalPod, since: Option<Time>) -> Vec<Value> {
        let pod = self.by_uid.get(local.machine.uid()).copied().unwrap_or_default();
        let worker = |(name, view): (&Arc<str>, probe::WorkerView)| {
            let known = local.containers.get(name);
            let kept = known.map(|local_container| &local_container.workers[place(view.probe)]);
            let newer = |finished: &&FinishedAttempt| since.is_none_or(|since| finished.ended > since);
            let outcomes: Vec<Value> = kept.into_iter().flat_map(|kept| &kept.history).filter(newer).map(finished).collect();
            if since.is_some() && outcomes.is_empty() && !view.knocking {
                return None;
            }
            let handler = spec_of(local, name, view.probe).and_then(|(_, probe)| handler_of(probe));
            let knocks = self.knocker.refused(&(pod, Arc::clone(name), view.probe)) + kept.map_or(0, |kept| kept.knocks);
            Some(json!({
                "namespace": local.namespace,
                "pod": local.name,
                "uid": local.machine.uid(),
                "container": &**name,
                "probe": view.probe.name(),
                "handler": handler.map(HandlerKind::field),
                "phase": phase_name(view.phase),
                "due": view.due.map(|due| Timestamp(due).micro()),
                "periodMilliseconds": millis(view.period),
                "timeoutMilliseconds": millis(view.timeout),
                "result": view.result.map(|result| format!("{result:?}")),
                "knocking": view.knocking,
                "knocksRefused": knocks,
                "startedAt": known.and_then(|known| known.started_at).map(|at| Timestamp(at).micro()),
                "firstSuccess": kept.and_then(|kept| kept.first_success).map(|(began, ended)| json!({
                    "began": Timestamp(began).micro(), "ended": Timestamp(ended).micro(),
                })),
                "outcomes": outcomes,
            }))
        };
        local.machine.workers().filter_map(worker).collect()
    }

    /// Counts workers, fields in use, pods.
    pub(super) fn counts(&self) -> AgentCounts {
        let mut counts = AgentCounts { events_dropped: self.events.dropped(), ..AgentCounts::default() };
        counts.pods = i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        let gates = &self.settings.node.gates;
        for local in self.pods.values() {
            for (name, view) in local.machine.workers() {
                let Some((_, probe)) = spec_of(local, name, view.probe) else { continue };
                if view.phase == Phase::Ended {
                    continue;
                }
                count(&mut counts, view.probe.name(), probe, view.phase, gates);
            }
        }
        for view in self.markers.machine.views() {
            count(&mut counts, MARKER, view.probe, view.phase, gates);
        }
        counts
    }
}

/// Counts a worker and the fields that it uses.
fn count(counts: &mut AgentCounts, probe_type: &'static str, probe: &Probe, phase: Phase, gates: &FeatureGates) {
    let handler = handler_of(probe).unwrap_or(HandlerKind::HttpGet).field();
    *counts.workers.entry(PhaseLabels { probe_type, handler, phase: phase_name(phase) }).or_default() += 1;
    let fields = [
        ("initialDelayMilliseconds", probe.initial_delay_milliseconds, Gate::SubSecondProbes),
        ("periodMilliseconds", probe.period_milliseconds, Gate::SubSecondProbes),
        ("timeoutMilliseconds", probe.timeout_milliseconds, Gate::SubSecondProbeTimeouts),
    ];
    for (field, value, gate) in fields {
        if value.is_some() && gates.enabled(gate) {
            *counts.offsets.entry(field).or_default() += 1;
        }
    }
}

fn marker_worker(view: &View<'_>) -> Value {
    json!({
        "namespace": view.namespace,
        "pod": view.pod,
        "uid": view.key.uid,
        "container": view.container,
        "probe": MARKER,
        "marker": view.key.entry,
        "handler": handler_of(view.probe).map(HandlerKind::field),
        "phase": phase_name(view.phase),
        "due": view.due.map(|due| Timestamp(due).micro()),
        "periodMilliseconds": millis(view.period),
        "timeoutMilliseconds": millis(view.timeout),
        "result": view.state.map(ProbeState::name),
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn finished(finished: &FinishedAttempt) -> Value {
    json!({
        "began": Timestamp(finished.began).micro(),
        "ended": Timestamp(finished.ended).micro(),
        "outcome": outcome_name(finished.outcome),
        "message": finished.message,
    })
}

/// Returns the word for what a worker does.
fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Gated => "gated",
        Phase::Fast => "fast",
        Phase::Slow => "slow",
        Phase::Hold => "hold",
        Phase::Ended => "ended",
    }
}

/// Returns a container and one of its probes, as the spec has them.
pub(super) fn spec_of<'a>(local: &'a LocalPod, container: &str, probe: ProbeType) -> Option<(&'a Container, &'a Probe)> {
    let pod = local.machine.pod();
    let spec = pod.spec.init_containers.iter().chain(&pod.spec.containers).find(|spec| spec.name == container)?;
    if local.machine.kubelet().is_some() {
        // The kubelet runs what is left in the spec.
        let moved = local.machine.moved_probe(container).filter(|_| probe == ProbeType::Readiness);
        return Some((spec, moved?));
    }
    let probe = match probe {
        ProbeType::Liveness => spec.liveness_probe.as_ref(),
        ProbeType::Readiness => spec.readiness_probe.as_ref(),
        ProbeType::Startup => spec.startup_probe.as_ref(),
    };
    Some((spec, probe?))
}
