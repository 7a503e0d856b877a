//! The EndpointSlice controller: watches into [`endpoints::Controller`], its writes out, their answers back.
//!
//! Every write is answered, also when its connection broke; the core decides what that means. Nothing is decided here.

mod metrics;
mod rival;
mod writes;

use std::sync::Arc;

use api::{Node, Pod, Service};
use endpoints::controller::{Controller, Effect, Input, Resource};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use kube::Client;
use kube::runtime::watcher::Event;
use machine::Machine;
use runtime::Obj;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::requests::watch;

pub use metrics::Metrics;
pub use rival::rival;

/// Requests that are under way at once, over all Services: one connection carries them, a burst is a first sync.
const REQUESTS_MAX: usize = 32;

/// Runs the controller until told to stop.
pub async fn run(mut context: Context, config: endpoints::Config, metrics: Metrics) {
    let mut controller = Controller::new(config);
    let mut facts = facts(&context.client);
    let mut writes = JoinSet::new();
    let permits = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut effects = Vec::new();
    loop {
        let deadline = controller.deadline();
        let input = tokio::select! {
            biased; // answers first: they end syncs, so that what is new is judged from what is known
            () = context.stop.cancelled() => return,
            Some(answered) = writes.join_next() => Some(answered.expect("a request does not panic")),
            Some(fact) = facts.next() => Some(fact),
            () = context.clock.sleep_until(deadline) => None,
        };
        controller.step(context.clock.now(), input, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Write(write) => {
                    let (client, permits) = (context.client.clone(), Arc::clone(&permits));
                    writes.spawn(writes::perform(client, permits, write));
                }
                Effect::Note(note) => context.events.say(note),
                Effect::Metric(metric) => metrics.add(&metric),
            }
        }
        metrics.set(controller.gauges());
        if controller.started() {
            context.tell_synced();
        }
    }
}

/// Returns everything that is watched.
fn facts(client: &Client) -> SelectAll<BoxStream<'static, Input>> {
    let pods = inputs(
        watch(client),
        Resource::Pods,
        |pod| Input::Pod(Box::new(pod)),
        |gone: Obj<Pod>| {
            let metadata = gone.view.metadata;
            Input::PodDeleted { namespace: metadata.namespace, name: metadata.name }
        },
    );
    let services = inputs(
        watch(client),
        Resource::Services,
        |service| Input::Service(Box::new(service)),
        |gone: Obj<Service>| {
            let metadata = gone.view.metadata;
            Input::ServiceDeleted { namespace: metadata.namespace, name: metadata.name }
        },
    );
    let nodes = inputs(
        watch(client),
        Resource::Nodes,
        |node| Input::Node(Box::new(node)),
        |gone: Obj<Node>| Input::NodeDeleted { name: gone.view.metadata.name },
    );
    let slices = inputs(
        watch(client),
        Resource::Slices,
        |slice| Input::Slice(Box::new(slice)),
        |gone| Input::SliceDeleted(Box::new(gone.view)),
    );
    futures::stream::select_all([pods, services, nodes, slices])
}

fn inputs<T: DeserializeOwned + Send + 'static>(
    events: impl Stream<Item = Event<Obj<T>>> + Send + 'static,
    resource: Resource,
    applied: impl Fn(T) -> Input + Send + 'static,
    deleted: impl Fn(Obj<T>) -> Input + Send + 'static,
) -> BoxStream<'static, Input> {
    let input = move |event: Event<Obj<T>>| match event {
        Event::Init => Input::ListStarted(resource),
        Event::InitDone => Input::ListEnded(resource),
        Event::InitApply(object) | Event::Apply(object) => applied(object.view),
        Event::Delete(object) => deleted(object),
    };
    events.map(input).boxed()
}
