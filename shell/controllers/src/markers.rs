//! The marker controller: PodProbeMarkers and pods in, NodePodProbes and marks out.
//!
//! The decisions are those of `markers::Controller`; this feeds it from watches and sends what it wants written. Writes run
//! side by side, bounded by the machine itself: at most one per node, pod and marker.

mod kruise;
mod metrics;

use std::sync::Arc;

use api::marker::{NodePodProbe, PodProbeMarker};
use api::{Node, Pod, Verb, Write, WriteError};
use markers::Key;
use markers::controller::{Controller, Effect, Input, Object, Target, Watched};
use runtime::{Answer, Answers, Shell};

use crate::context::{Context, Telling, facts};
pub use metrics::Metrics;

const TELLING: Telling<Object, Input> = (Input::Applied, Input::Deleted);

/// Runs the marker controller until told to stop.
pub async fn run(context: Context, metrics: Metrics) {
    tokio::select! {
        () = context.stop.cancelled() => return,
        () = kruise::wait_until_gone(&context, &metrics) => {}
    }
    let mut controller = Controller::new().without_fields(kruise::missing_fields(&context.client).await);
    let informers = &context.informers;
    let facts = futures::stream::select_all([
        facts(informers.follow::<PodProbeMarker>(), Object::Marker, TELLING, || Input::Synced(Watched::Markers)),
        facts(informers.follow::<Pod>(), Object::Pod, TELLING, || Input::Synced(Watched::Pods)),
        facts(informers.follow::<Node>(), Object::Node, TELLING, || Input::Synced(Watched::Nodes)),
        facts(informers.follow::<NodePodProbe>(), Object::NodePodProbe, TELLING, || Input::Synced(Watched::NodePodProbes)),
    ]);
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let mut shell = MarkersShell { context, metrics, was_synced: false, gone: None, put_off: 0 };
    runtime::drive(&mut controller, &clock, &stop, facts, &mut shell).await;
}

struct MarkersShell {
    context: Context,
    metrics: Metrics,
    was_synced: bool,
    /// The marker that the machine is being told of as gone.
    gone: Option<Key>,
    put_off: u64,
}

impl Shell<Controller> for MarkersShell {
    fn before(&mut self, _: &Controller, input: Option<&Input>) {
        self.gone = match input {
            Some(Input::Deleted(Object::Marker(marker))) => Some(Key::of(&marker.metadata)),
            _ => None,
        };
    }

    fn perform(&mut self, machine: &Controller, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Event(event) => self.context.events.record(event),
            Effect::Write { target, write, since } => {
                // What a marker selects goes into its status, so this is when the number may be another.
                if let Target::Marker(key) = &target {
                    self.metrics.matched(key, machine.matched(key));
                }
                let (writer, clock, metrics) = (self.context.writer.clone(), self.context.clock.clone(), self.metrics.clone());
                answers.spawn(async move {
                    let performed = writer.perform(&write).await.map_err(WriteError::from);
                    let answer = performed.and_then(|answer| read(&target, &write, &answer));
                    let is_status = write.subresource == "status";
                    metrics.wrote(&target, is_status, answer.as_ref().err().copied(), clock.now().since(since));
                    Input::Written(target, answer)
                });
            }
        }
    }

    fn stepped(&mut self, machine: &Controller) {
        if machine.is_synced() {
            self.context.tell_synced();
        }
        if let Some(key) = self.gone.take() {
            self.metrics.matched(&key, machine.matched(&key));
        }
        if !std::mem::replace(&mut self.was_synced, machine.is_synced()) {
            machine.matched_pods().for_each(|(key, pods)| self.metrics.matched(key, Some(pods)));
        }
        let put_off = machine.drift_suppressed();
        self.metrics.put_off(put_off - std::mem::replace(&mut self.put_off, put_off));
    }
}

/// Reads what the server answered as the kind that the request was about; a deletion has no answer.
fn read(target: &Target, write: &Write, answer: &Answer) -> Result<Option<Object>, WriteError> {
    if matches!(write.verb, Verb::Delete { .. }) {
        return Ok(None);
    }
    Ok(Some(match target {
        Target::Node(_) => Object::NodePodProbe(Arc::new(answer.read()?)),
        Target::Pod(_) => Object::Pod(Arc::new(answer.read()?)),
        Target::Marker(_) => Object::Marker(Arc::new(answer.read()?)),
    }))
}
