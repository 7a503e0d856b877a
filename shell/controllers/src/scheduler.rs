//! The scheduler of a small plane: watches into [`pods::scheduler::Scheduler`], its writes out, their answers back.

use std::sync::Arc;

use api::{Node, Pod};
use futures::StreamExt;
use pods::scheduler::{Effect, Input, Scheduler};
use runtime::{Answers, Shell};

use crate::context::Context;

pub use pods::scheduler::{FAILED_SCHEDULING, SCHEDULED, SCHEDULER_NAME};

/// Runs the scheduler until told to stop.
pub async fn run(context: Context) {
    let nodes = context.informers.follow::<Node>().filter_map(|seen| {
        let deleted = |node: Arc<Node>| Input::NodeDeleted(node.metadata.name.clone());
        std::future::ready(seen.input(Input::Node, deleted, || Some(Input::NodesSynced)))
    });
    let pods = context.informers.follow::<Pod>().filter_map(|seen| {
        let deleted =
            |pod: Arc<Pod>| Input::PodDeleted { namespace: pod.metadata.namespace.clone(), name: pod.metadata.name.clone() };
        std::future::ready(seen.input(Input::Pod, deleted, || Some(Input::PodsSynced)))
    });
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let facts = futures::stream::select(nodes, pods);
    runtime::drive(&mut Scheduler::default(), &clock, &stop, facts, &mut SchedulerShell(context)).await;
}

struct SchedulerShell(Context);

impl Shell<Scheduler> for SchedulerShell {
    fn perform(&mut self, _: &Scheduler, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Write(write) => {
                let writer = self.0.writer.clone();
                answers.spawn(async move {
                    let result = writer.perform(&write).await.map(drop).map_err(Into::into);
                    Input::Answered { id: write.id, result }
                });
            }
            Effect::Event(event) => self.0.events.record(event),
        }
    }

    fn stepped(&mut self, scheduler: &Scheduler) {
        if scheduler.is_synced() {
            self.0.tell_synced();
        }
    }
}
