//! The guard of moved readiness probes: Leases, Nodes and pods into [`guard`](::guard), conditions and events out.

mod metrics;

use std::sync::Arc;

use ::guard::{Effect, Guard, Input, Object, Watched};
use api::{Kind, Lease, Node, Pod};
use futures::StreamExt;
use futures::stream::BoxStream;
use runtime::{Answers, Events, Scope, Shell, WatchEvent};

use crate::context::Context;
pub use metrics::Metrics;

/// Runs the guard until told to stop; the Leases of agents are in `namespace`.
pub async fn run(context: Context, namespace: String, metrics: Metrics) {
    let informers = &context.informers;
    let facts = futures::stream::select_all([
        facts(informers.follow::<Pod>(), Watched::Pods, Object::Pod),
        facts(informers.follow::<Node>(), Watched::Nodes, Object::Node),
        facts(informers.follow_in::<Lease>(Scope::namespace(&namespace)), Watched::Leases, Object::Lease),
    ]);
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let mut shell = GuardShell { context, metrics };
    runtime::drive(&mut Guard::new(), &clock, &stop, facts, &mut shell).await;
}

fn facts<T: Kind + Send + Sync + 'static>(
    events: Events<T>,
    watched: Watched,
    wrap: fn(Arc<T>) -> Object,
) -> BoxStream<'static, Input> {
    let input = move |seen: WatchEvent<T>| {
        let applied = |object| Input::Applied(wrap(object));
        let deleted = |object| Input::Deleted(wrap(object));
        std::future::ready(seen.input(applied, deleted, || Some(Input::Synced(watched))))
    };
    events.filter_map(input).boxed()
}

struct GuardShell {
    context: Context,
    metrics: Metrics,
}

impl Shell<Guard> for GuardShell {
    fn perform(&mut self, _: &Guard, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Event(event) => {
                self.metrics.reported(event.reason);
                self.context.events.record(event);
            }
            Effect::Write { uid, write } => {
                let writer = self.context.writer.clone();
                answers.spawn(async move {
                    let result = writer.perform(&write).await.map(drop).map_err(Into::into);
                    Input::Written { uid, result }
                });
            }
        }
    }

    fn stepped(&mut self, guard: &Guard) {
        if guard.is_synced() {
            self.context.tell_synced();
        }
        self.metrics.counts(guard.waiting(), guard.lost_agents());
    }
}
