//! The marker controller: PodProbeMarkers and pods in, NodePodProbes and marks out.
//!
//! The decisions are those of `markers::Controller`; this feeds it from watches and sends what it wants written. Writes run
//! side by side, bounded by the machine itself: at most one per node, pod and marker.

mod metrics;

use api::marker::{NodePodProbe, PodProbeMarker};
use api::{Node, Pod, WriteError};
use futures::StreamExt;
use kube::Client;
use kube::runtime::watcher;
use machine::{Machine, Time};
use markers::Key;
use markers::controller::{Controller, Effect, Input, Object, Target, Watched};
use runtime::{Clock, Seen, objects, watch};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::context::Context;
pub use metrics::Metrics;

/// Facts that wait for the machine; senders wait in turn, so a burst slows the watches instead of growing.
const QUEUE: usize = 256;

/// Runs the marker controller until told to stop.
pub async fn run(mut context: Context, metrics: Metrics) {
    let (client, clock) = (context.client.clone(), context.clock.clone());
    let (sender, mut inputs) = mpsc::channel(QUEUE);
    let tasks = [
        follow::<PodProbeMarker>(&client, &sender, Watched::Markers, Object::Marker),
        follow::<Pod>(&client, &sender, Watched::Pods, |pod| Object::Pod(Box::new(pod))),
        follow::<Node>(&client, &sender, Watched::Nodes, Object::Node),
        follow::<NodePodProbe>(&client, &sender, Watched::NodePodProbes, Object::NodePodProbe),
    ];
    let mut machine = Controller::new();
    let (mut effects, mut put_off) = (Vec::new(), 0);
    loop {
        let deadline = machine.deadline();
        let input = tokio::select! {
            () = context.stop.cancelled() => break,
            input = inputs.recv() => match input {
                Some(input) => Some(input),
                None => break,
            },
            () = clock.sleep_until(deadline) => None,
        };
        let gone = match &input {
            Some(Input::Deleted(Object::Marker(marker))) => Some(Key::of(&marker.metadata)),
            _ => None,
        };
        let was_synced = machine.is_synced();
        machine.step(clock.now(), input, &mut effects);
        if machine.is_synced() {
            context.tell_synced();
        }
        if let Some(key) = gone {
            metrics.matched(&key, machine.matched(&key));
        }
        if !was_synced {
            machine.matched_pods().for_each(|(key, pods)| metrics.matched(key, Some(pods)));
        }
        metrics.put_off(machine.drift_suppressed() - std::mem::replace(&mut put_off, machine.drift_suppressed()));
        for effect in effects.drain(..) {
            match effect {
                Effect::Note(note) => context.events.say(note),
                Effect::Write { target, write, since } => {
                    // What a marker selects goes into its status, so this is when the number may be another.
                    if let Target::Marker(key) = &target {
                        metrics.matched(key, machine.matched(key));
                    }
                    let order =
                        Order { client: client.clone(), write, target, since, clock: clock.clone(), metrics: metrics.clone() };
                    tokio::spawn(order.send(sender.clone()));
                }
            }
        }
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Tells the machine of every object of a kind.
fn follow<T>(
    client: &Client,
    sender: &mpsc::Sender<Input>,
    watched: Watched,
    wrap: fn(T) -> Object,
) -> tokio::task::JoinHandle<()>
where
    T: api::Kind + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let (api, sender) = (objects::<T>(client, ""), sender.clone());
    tokio::spawn(async move {
        let mut seen = std::pin::pin!(watch(api, watcher::Config::default()));
        while let Some(seen) = seen.next().await {
            let input = match seen {
                Seen::Applied(object) => Input::Applied(wrap(object.view)),
                Seen::Deleted(object) => Input::Deleted(wrap(object.view)),
                Seen::Synced => Input::Synced(watched),
            };
            if sender.send(input).await.is_err() {
                return;
            }
        }
    })
}

/// A request to send.
struct Order {
    client: Client,
    write: api::Write,
    target: Target,
    /// When its cause was seen.
    since: Time,
    clock: Clock,
    metrics: Metrics,
}

impl Order {
    async fn send(self, sender: mpsc::Sender<Input>) {
        let answer = match runtime::perform(&self.client, &self.write).await {
            Ok(Some(object)) => read(&self.target, object).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let is_status = self.write.subresource == "status";
        self.metrics.wrote(&self.target, is_status, answer.as_ref().err().copied(), self.clock.now().since(self.since));
        // The machine is gone when the controller stops: nobody waits for the answer any more.
        let _ = sender.send(Input::Written(self.target, answer)).await;
    }
}

/// Reads what the server answered as the kind that the request was about.
fn read(target: &Target, object: serde_json::Value) -> Result<Object, WriteError> {
    let bad = |_| WriteError::Failed;
    match target {
        Target::Node(_) => serde_json::from_value(object).map(Object::NodePodProbe).map_err(bad),
        Target::Pod(_) => serde_json::from_value(object).map(|pod| Object::Pod(Box::new(pod))).map_err(bad),
        Target::Marker(_) => serde_json::from_value(object).map(Object::Marker).map_err(bad),
    }
}
