//! The waterfall of a start: when a pod was created, scheduled, started, listened, was probed, became ready, was in a slice.
//!
//! The API has whole seconds. An instant that was seen as it happened, or that the agent reports, is exact; it replaces one
//! that was read from a timestamp, and is never replaced itself.

use api::{Pod, Timestamp};
use machine::Time;
use serde::Serialize;

use crate::report::ReportedWorker;

/// What happens when a pod starts, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepName {
    /// The pod was created.
    Created,
    /// It has a node.
    Scheduled,
    /// The first container runs.
    Started,
    /// Somebody listens on the port of the readiness probe.
    Listened,
    /// A readiness probe succeeded.
    Probed,
    /// The pod is Ready.
    Ready,
    /// A slice shows its endpoint as ready.
    InSlice,
}

/// One step of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StartStep {
    /// Which one.
    pub step: StepName,
    /// When, in microseconds since the epoch.
    pub at: i64,
    /// Whether that is more exact than a second.
    pub exact: bool,
}

/// The steps of a pod so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps([Option<(Time, bool)>; 7]);

const ALL: [StepName; 7] = [
    StepName::Created,
    StepName::Scheduled,
    StepName::Started,
    StepName::Listened,
    StepName::Probed,
    StepName::Ready,
    StepName::InSlice,
];

impl Steps {
    fn set(&mut self, step: StepName, at: Time, exact: bool) {
        let known = &mut self.0[step as usize];
        if known.is_none_or(|(_, known_exact)| exact && !known_exact) {
            *known = Some((at, exact));
        }
    }

    fn has(&self, step: StepName) -> bool {
        self.0[step as usize].is_some()
    }

    /// Takes a pod; `live`: it changed just now.
    pub(crate) fn see_pod(&mut self, now: Time, live: bool, pod: &Pod) {
        let stamp = |at: Option<Timestamp>| at.map(|at| at.0);
        let condition = |type_: &str| {
            let found = pod.condition(type_).filter(|condition| condition.status == "True");
            found.map(|condition| stamp(condition.last_transition_time))
        };
        let running = pod.status.container_statuses.iter().filter_map(|status| {
            let ended = status.last_state.terminated.as_ref().or(status.state.terminated.as_ref());
            let first = ended.and_then(|ended| ended.started_at);
            status.state.running.as_ref().map(|running| stamp(first.or(running.started_at)))
        });
        self.reached(StepName::Created, now, live, Some(stamp(pod.metadata.creation_timestamp)));
        let bound = (!pod.spec.node_name.is_empty()).then_some(None);
        self.reached(StepName::Scheduled, now, live, condition("PodScheduled").or(bound));
        self.reached(StepName::Started, now, live, running.min());
        self.reached(StepName::Ready, now, live, condition("Ready"));
    }

    /// A step is there if the object says so; what is seen for the first time in a fresh change has just happened.
    fn reached(&mut self, step: StepName, now: Time, live: bool, stamp: Option<Option<Time>>) {
        let Some(stamp) = stamp else { return };
        if self.has(step) {
            return;
        }
        // A timestamp that lies further back was only seen late.
        let fresh = live && stamp.is_none_or(|at| now.since(at) < std::time::Duration::from_secs(3));
        match stamp {
            _ if fresh => self.set(step, now, true),
            Some(at) => self.set(step, at, false),
            None => {}
        }
    }

    /// Takes what the agent says; only of the first start.
    pub(crate) fn see_worker(&mut self, worker: &ReportedWorker) {
        let became_ready = self.0[StepName::Ready as usize];
        let before_ready = |at: Time| became_ready.is_none_or(|(ready, exact)| at <= ready || !exact);
        if let Some(at) = worker.started_at.filter(|at| before_ready(*at)) {
            // The agent knows better than whoever saw its report.
            self.0[StepName::Started as usize] = Some((at, true));
        }
        if worker.probe != "Readiness" || self.has(StepName::Probed) {
            return;
        }
        let Some((began, ended)) = worker.first_success.filter(|(_, ended)| before_ready(*ended)) else { return };
        if worker.knocks_refused > 0 {
            // Refused until then: the attempt begins as soon as a connection is accepted.
            self.set(StepName::Listened, began, true);
        }
        self.set(StepName::Probed, ended, true);
    }

    /// A slice shows the endpoint of the pod as ready.
    pub(crate) fn see_in_slice(&mut self, now: Time, live: bool) {
        if live && !self.has(StepName::InSlice) {
            self.set(StepName::InSlice, now, true);
        }
    }

    pub(crate) fn rows(&self) -> Vec<StartStep> {
        let row =
            |(step, at): (StepName, Option<(Time, bool)>)| at.map(|(at, exact)| StartStep { step, at: at.as_micros(), exact });
        ALL.into_iter().zip(self.0).filter_map(row).collect()
    }
}
