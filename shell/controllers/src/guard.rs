//! The guard of moved readiness probes: Leases, Nodes and pods into [`guard`](::guard), conditions and events out.

mod metrics;

use ::guard::{Effect, Guard, Input, Object, Watched};
use api::{Lease, Node, Pod};
use runtime::{Answers, Scope, Shell};

use crate::context::{Context, Telling, facts};
pub use metrics::Metrics;

const TELLING: Telling<Object, Input> = (Input::Applied, Input::Deleted);

/// Runs the guard until told to stop; the Leases of agents are in `namespace`.
pub async fn run(context: Context, namespace: String, metrics: Metrics) {
    let informers = &context.informers;
    let leases = informers.follow_in::<Lease>(Scope::namespace(&namespace));
    let facts = futures::stream::select_all([
        facts(informers.follow::<Pod>(), Object::Pod, TELLING, || Input::Synced(Watched::Pods)),
        facts(informers.follow::<Node>(), Object::Node, TELLING, || Input::Synced(Watched::Nodes)),
        facts(leases, Object::Lease, TELLING, || Input::Synced(Watched::Leases)),
    ]);
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let mut shell = GuardShell { context, metrics };
    runtime::drive(&mut Guard::new(), &clock, &stop, facts, &mut shell).await;
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
