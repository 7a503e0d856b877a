//! ReplicaSets, Deployments and disruption budgets: watches into the machines of [`workloads`](::workloads), their requests out.
//!
//! Every request is answered, also when its connection broke; the machines decide what that means. Nothing is decided here.

use std::sync::Arc;

use ::workloads::{Budgets, Deployments, Effect, Input, Object, ReplicaSets, Watched};
use api::{FeatureGates, Kind, Verb, Write, WriteFailure};
use futures::StreamExt;
use futures::stream::BoxStream;
use machine::Machine;
use runtime::{Answer, Answers, Informers, Shell, WatchEvent};
use serde::de::DeserializeOwned;

use crate::context::Context;

/// Runs the ReplicaSet controller until told to stop.
pub async fn replica_sets(context: Context) {
    run(context, ReplicaSets::default(), &ReplicaSets::WATCHED, ReplicaSets::is_synced).await;
}

/// Runs the Deployment controller until told to stop.
pub async fn deployments(context: Context, gates: FeatureGates) {
    run(context, Deployments::new(gates), &Deployments::WATCHED, Deployments::is_synced).await;
}

/// Runs the disruption controller until told to stop.
pub async fn budgets(context: Context) {
    run(context, Budgets::default(), &Budgets::WATCHED, Budgets::is_synced).await;
}

async fn run<M: Machine<Input = Input, Effect = Effect>>(
    context: Context,
    mut machine: M,
    watched: &[Watched],
    is_synced: fn(&M) -> bool,
) {
    let facts = futures::stream::select_all(watched.iter().map(|kind| facts(&context.informers, *kind)));
    let (clock, stop) = (context.clock.clone(), context.stop.clone());
    let mut shell = WorkloadsShell { context, is_synced };
    runtime::drive(&mut machine, &clock, &stop, facts, &mut shell).await;
}

struct WorkloadsShell<M> {
    context: Context,
    is_synced: fn(&M) -> bool,
}

impl<M: Machine<Input = Input, Effect = Effect>> Shell<M> for WorkloadsShell<M> {
    fn perform(&mut self, _: &M, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Write(id, write) => {
                let writer = self.context.writer.clone();
                answers.spawn(async move { Input::Answered(id, answer(writer.perform(&write).await, &write)) });
            }
            Effect::Event(event) => self.context.events.record(event),
        }
    }

    fn stepped(&mut self, machine: &M) {
        if (self.is_synced)(machine) {
            self.context.tell_synced();
        }
    }
}

/// Returns what happens to the objects of a kind.
fn facts(informers: &Informers, kind: Watched) -> BoxStream<'static, Input> {
    match kind {
        Watched::Pods => follow(informers, kind, Object::Pod),
        Watched::ReplicaSets => follow(informers, kind, Object::ReplicaSet),
        Watched::Deployments => follow(informers, kind, Object::Deployment),
        Watched::Budgets => follow(informers, kind, Object::Budget),
    }
}

fn follow<T: Kind + DeserializeOwned + Send + Sync + 'static>(
    informers: &Informers,
    kind: Watched,
    wrap: fn(Arc<T>) -> Object,
) -> BoxStream<'static, Input> {
    let input = move |seen: WatchEvent<T>| match seen {
        WatchEvent::ListBegins => Input::ListStarted(kind),
        WatchEvent::Synced => Input::ListEnded(kind),
        WatchEvent::Applied(object) => Input::Applied(wrap(object.view)),
        WatchEvent::Deleted(object) => Input::Deleted(wrap(object.view)),
    };
    informers.follow::<T>().map(input).boxed()
}

fn answer(performed: Result<Answer, WriteFailure>, write: &Write) -> Result<Option<Object>, WriteFailure> {
    let answer = performed?;
    if matches!(write.verb, Verb::Delete { .. }) {
        return Ok(None);
    }
    let object = match write.kind {
        api::Pod::KIND => answer.read().map(Arc::new).map(Object::Pod),
        api::ReplicaSet::KIND => answer.read().map(Arc::new).map(Object::ReplicaSet),
        api::Deployment::KIND => answer.read().map(Arc::new).map(Object::Deployment),
        _ => answer.read().map(Arc::new).map(Object::Budget),
    };
    object.map(Some).map_err(|error| WriteFailure { error, message: error.to_string() })
}
