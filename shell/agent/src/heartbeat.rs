//! Heartbeats: the Lease of the node and its status, when [`nodes::Beats`] says so.
//!
//! An attempt that gets no answer is not waited for: the next one goes its own way, and what is over is dropped.

use std::time::Duration;

use api::{Lease, Node, Timestamp, Verb, Write};
use futures::StreamExt;
use http::Method;
use kube::Client;
use kube::runtime::watcher;
use machine::{Machine, Rng, Time};
use nodes::Beats;
use nodes::beats::{Config, Effect, Input};
use runtime::{Clock, Seen, objects, watch};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::config::FreshClient;
use crate::node::{NodeFacts, post_status, register};
use crate::requests;

/// Where the Leases of nodes are.
const NAMESPACE: &str = "kube-node-lease";
/// An attempt that has no answer by then never gets one; usually it is dropped before.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Answers that wait to be told to the machine: at most one per attempt and post.
const ANSWERS: usize = 64;

/// What the heartbeats need.
pub(crate) struct Heartbeat {
    pub(crate) client: Client,
    pub(crate) fresh: Option<FreshClient>,
    pub(crate) clock: Clock,
    pub(crate) facts: NodeFacts,
    /// The interval where the Node asks for none.
    pub(crate) interval: Duration,
    /// The interval of the first beat: a restart does not forget the profile.
    pub(crate) first: Duration,
    /// Since when the node is ready.
    pub(crate) ready_since: Time,
    pub(crate) rng: Rng,
}

impl Heartbeat {
    /// Beats until told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let (answers, mut inbox) = mpsc::channel(ANSWERS);
        let mut beats = Beats::new(self.clock.now(), Config::new(self.first), self.rng.clone());
        let mut attempts: Vec<(u64, AbortHandle)> = Vec::new();
        let own = watcher::Config::default().fields(&format!("metadata.name={}", self.facts.name));
        let mut node = std::pin::pin!(watch::<Node>(objects(&self.client, ""), own));
        let mut effects = Vec::new();
        // The very Node, to which the Lease belongs; empty: not seen yet.
        let mut uid = String::new();
        loop {
            let input = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                answer = inbox.recv() => answer,
                seen = node.next() => {
                    match &seen {
                        Some(Seen::Applied(node)) => uid.clone_from(&node.view.metadata.uid),
                        Some(Seen::Deleted(_)) => uid.clear(),
                        Some(Seen::Synced) | None => {}
                    }
                    let inputs = seen.map(|seen| self.seen(seen)).unwrap_or_default();
                    for input in inputs.into_iter().flatten() {
                        beats.step(self.clock.now(), Some(input), &mut effects);
                    }
                    None
                }
                () = self.clock.sleep_until(beats.deadline()) => None,
            };
            beats.step(self.clock.now(), input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::Attempt { beat, fresh, lease_duration } => {
                        attempts.push((beat, self.attempt(beat, fresh, lease_duration, &uid, answers.clone())));
                    }
                    Effect::Drop { beat: last } => attempts.retain(|(beat, attempt)| {
                        let over = *beat <= last;
                        if over {
                            attempt.abort();
                        }
                        !over
                    }),
                    Effect::PostStatus => self.post(answers.clone(), stop.clone()),
                }
            }
        }
        for (_, attempt) in attempts {
            attempt.abort();
        }
    }

    /// Returns what the Node asks for: an interval, to be put right, or to be posted again because it is gone.
    fn seen(&mut self, seen: Seen<Node>) -> [Option<Input>; 2] {
        let node = match seen {
            Seen::Applied(node) => node.view,
            Seen::Deleted(_) => return [Some(Input::ReadyChanged), None],
            Seen::Synced => return [None, None],
        };
        let interval = match api::config_node::told_interval(&node) {
            Ok(told) => Some(Input::SetInterval(told.unwrap_or(self.interval))),
            Err(text) => {
                tracing::warn!(node = self.facts.name, text, "the node asks for an interval that is no duration");
                None
            }
        };
        if let Some(ready) = node.ready().filter(|ready| *ready != "True") {
            tracing::warn!(
                node = self.facts.name,
                ready,
                "the API does not show the node as ready; its status is posted again"
            );
            self.ready_since = self.clock.now();
        }
        [interval, Some(Input::StatusSeen { same: self.facts.shown_by(&node) })]
    }

    fn attempt(
        &self,
        beat: u64,
        fresh: bool,
        lease_duration: Duration,
        uid: &str,
        answers: mpsc::Sender<Input>,
    ) -> AbortHandle {
        let client = match &self.fresh {
            Some(make) if fresh => make(),
            _ => self.client.clone(),
        };
        let lease = lease(&self.facts.name, uid, self.clock.now(), lease_duration);
        let attempt = async move {
            match renew(&client, lease).await {
                Ok(()) => drop(answers.send(Input::Renewed { beat }).await),
                Err(error) => tracing::warn!(beat, %error, "heartbeat without success"),
            }
        };
        tokio::spawn(attempt).abort_handle()
    }

    fn post(&self, answers: mpsc::Sender<Input>, stop: CancellationToken) {
        let (client, facts) = (self.client.clone(), self.facts.clone());
        let (now, since) = (self.clock.now(), self.ready_since);
        tokio::spawn(async move {
            let Err(error) = post_status(&client, &facts, now, since).await else { return };
            tracing::warn!(node = facts.name, %error, "the status of the node could not be posted");
            if requests::code(&error) == Some(404) {
                // Somebody has deleted the Node under a running agent: it is put back, and told again what it is.
                if let Err(error) = register(&client, &facts, &stop).await {
                    tracing::warn!(node = facts.name, %error, "the node could not be registered again");
                }
            }
            // The loop may be gone.
            let _ = answers.send(Input::PostFailed).await;
        });
    }
}

fn lease(node: &str, uid: &str, now: Time, duration: Duration) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": duration.as_secs(),
            "renewTime": Timestamp(now).micro(),
        },
    });
    if !uid.is_empty() {
        // So that the Lease goes with its Node.
        lease["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]);
    }
    lease
}

async fn renew(client: &Client, lease: Value) -> Result<(), kube::Error> {
    let name = api::json::text(&lease, &["metadata", "name"]).to_owned();
    let path = requests::path_of(&Write::to::<Lease>(NAMESPACE, name, Verb::Merge(Value::Null)));
    let mut patch = json!({"spec": lease["spec"]});
    if let Some(owners) = lease["metadata"].get("ownerReferences") {
        patch["metadata"] = json!({"ownerReferences": owners});
    }
    match requests::send(client, Method::PATCH, &path, &patch, TIMEOUT).await {
        Err(error) if requests::code(&error) == Some(404) => {
            let folder = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder);
            requests::send(client, Method::POST, folder, &lease, TIMEOUT).await.map(drop)
        }
        other => other.map(drop),
    }
}
