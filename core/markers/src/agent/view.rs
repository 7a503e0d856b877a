//! What people and metrics see of the workers.

use std::time::Duration;

use api::marker::ProbeState;
use api::pod::Probe;
use machine::Time;
use probe::Phase;
use probe::timing::FAST_BELOW;

use super::{Agent, WorkerKey};

/// A worker as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    /// Which.
    pub key: &'a WorkerKey,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// The container.
    pub container: &'a str,
    /// What it asks.
    pub probe: &'a Probe,
    /// What it does.
    pub phase: Phase,
    /// When the next attempt is due.
    pub due: Option<Time>,
    /// From attempt to attempt.
    pub period: Duration,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// The state that was reported last.
    pub state: Option<ProbeState>,
}

impl Agent {
    /// Returns the workers as they are now.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.workers.iter().filter_map(|(key, worker)| {
            let pod = self.pods.get(&key.uid)?;
            let period = worker.period(&self.node);
            let phase = match () {
                () if !worker.is_scheduled() => Phase::Gated,
                () if period < FAST_BELOW => Phase::Fast,
                () => Phase::Slow,
            };
            Some(View {
                key,
                namespace: &pod.namespace,
                pod: &pod.name,
                container: &worker.entry.container_name,
                probe: &worker.probe,
                phase,
                due: worker.schedule.due(),
                period,
                timeout: worker.timing.timeout,
                state: worker.reports.state(),
            })
        })
    }

    /// Returns namespace of the pod of a worker, for the metrics.
    pub fn namespace(&self, key: &WorkerKey) -> Option<&str> {
        self.pods.get(&key.uid).map(|pod| pod.namespace.as_str())
    }
}
