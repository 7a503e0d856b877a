//! The EndpointSlice controller: watches into [`endpoints::Controller`], its writes out, their answers back.
//!
//! Every write is answered, also when its connection broke; the core decides what that means. Nothing is decided here.

mod competitor;
mod metrics;

use std::sync::{Arc, OnceLock};

use api::{EndpointSlice, Node, ObjectMeta, Pod, Service, Verb, Write, WriteFailure};
use endpoints::controller::{Answer, Controller, Effect, Input, Resource};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use machine::Time;
use runtime::{Answers, Informers, Shell, WatchEvent};
use serde::Deserialize;

use crate::context::Context;

use competitor::ForeignWrite;
pub use competitor::competitor;
pub use metrics::Metrics;

/// Runs the controller until told to stop.
///
/// If the informers keep the text of slices, it also stops working when another controller writes the same slices: two would
/// undo each other's work for ever.
pub async fn run(context: Context, config: endpoints::Config, metrics: Metrics) {
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let competitor = Arc::new(OnceLock::new());
    let facts = facts(&context.informers, Arc::clone(&competitor), clock.now());
    let mut shell = SlicesShell { context, metrics, competitor };
    runtime::drive(&mut Controller::new(config), &clock, &stop, facts, &mut shell).await;
    if let Some(ForeignWrite { manager, slice }) = shell.competitor.get() {
        tracing::error!(
            manager,
            slice,
            "another controller writes our EndpointSlices; this one stops: turn one of them off, then start again"
        );
        stop.cancelled().await;
    }
}

struct SlicesShell {
    context: Context,
    metrics: Metrics,
    competitor: Arc<OnceLock<ForeignWrite>>,
}

impl Shell<Controller> for SlicesShell {
    fn perform(&mut self, _: &Controller, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Write { write, .. } => {
                let writer = self.context.writer.clone();
                answers.spawn(async move {
                    let answer = answer(writer.perform(&write).await, &write);
                    Input::Answered { id: write.id, answer }
                });
            }
            Effect::Event(event) => self.context.events.record(event),
            Effect::Metric(metric) => self.metrics.add(&metric),
        }
    }

    fn is_over(&self) -> bool {
        self.competitor.get().is_some()
    }

    fn stepped(&mut self, controller: &Controller) {
        self.metrics.set(controller.gauges());
        if controller.started() {
            self.context.tell_synced();
        }
    }
}

/// What is read of a slice that was written: the rest is known.
#[derive(Deserialize)]
struct Written {
    metadata: ObjectMeta,
}

fn answer(performed: Result<runtime::Answer, WriteFailure>, write: &Write) -> Answer {
    match performed {
        Err(failure) => Answer::Failed(failure),
        Ok(_) if matches!(write.verb, Verb::Delete { .. }) => Answer::Deleted,
        Ok(stored) => match stored.read::<Written>() {
            Ok(written) => Answer::Written(Box::new(written.metadata)),
            Err(error) => Answer::Failed(WriteFailure { error, message: error.to_string() }),
        },
    }
}

/// Returns everything that is watched.
fn facts(informers: &Informers, competitor: Arc<OnceLock<ForeignWrite>>, since: Time) -> SelectAll<BoxStream<'static, Input>> {
    let pods = inputs(informers.follow::<Pod>(), Resource::Pods, Input::Pod, |gone| {
        let metadata = &gone.metadata;
        Input::PodDeleted { namespace: metadata.namespace.clone(), name: metadata.name.clone() }
    });
    let services = inputs(informers.follow::<Service>(), Resource::Services, Input::Service, |gone| {
        let metadata = &gone.metadata;
        Input::ServiceDeleted { namespace: metadata.namespace.clone(), name: metadata.name.clone() }
    });
    let nodes = inputs(informers.follow::<Node>(), Resource::Nodes, Input::Node, |gone| Input::NodeDeleted {
        name: gone.metadata.name.clone(),
    });
    let slices = informers.follow::<EndpointSlice>().inspect(move |seen| {
        if let WatchEvent::Applied(slice) = seen
            && let Some(foreign) = slice.text.as_ref().and_then(|text| competitor::foreign(text, since))
        {
            // The first one is told.
            let _ = competitor.set(foreign);
        }
    });
    let slices = inputs(slices, Resource::Slices, Input::Slice, Input::SliceDeleted);
    futures::stream::select_all([pods, services, nodes, slices])
}

fn inputs<T: Send + Sync + 'static>(
    events: impl Stream<Item = WatchEvent<T>> + Send + 'static,
    resource: Resource,
    applied: fn(Arc<T>) -> Input,
    deleted: fn(Arc<T>) -> Input,
) -> BoxStream<'static, Input> {
    let input = move |seen: WatchEvent<T>| match seen {
        WatchEvent::ListBegins => Input::ListStarted(resource),
        WatchEvent::Synced => Input::ListEnded(resource),
        WatchEvent::Applied(object) => applied(object.view),
        WatchEvent::Deleted(object) => deleted(object.view),
    };
    events.map(input).boxed()
}
