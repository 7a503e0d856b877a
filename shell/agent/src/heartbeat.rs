//! Heartbeats: the Lease of the node and its status, when [`nodes::Beats`] says so.
//!
//! An attempt that gets no answer is not waited for: the next one goes its own way, and what is over is dropped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::lease::{ANNOTATION_CAPABILITIES, ANNOTATION_VERSION, CAPABILITY_HEARTBEAT_INTERVAL};
use api::{Lease, Node, Timestamp, Verb, Write, WriteError, WriteFailure};
use futures::StreamExt;
use machine::{Rng, Time};
use nodes::Beats;
use nodes::beats::{Config, Effect, Input};
use runtime::{Answers, Client, Clock, Informers, Shell, WatchEvent, Writer};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::config::FreshClient;
use crate::node::{NodeFacts, post_status, register};

/// Where the Leases of nodes are.
const NAMESPACE: &str = "kube-node-lease";
/// An attempt that has no answer by then never gets one; usually it is dropped before.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the heartbeats need.
pub(crate) struct Heartbeat {
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) informers: Informers,
    pub(crate) fresh: Option<FreshClient>,
    pub(crate) clock: Clock,
    pub(crate) facts: NodeFacts,
    /// The interval where the Node asks for none.
    pub(crate) interval: Duration,
    /// The interval of the first beat: a restart does not forget the profile.
    pub(crate) first: Duration,
    /// Whether the interval follows what the Node asks for; the Lease says so.
    pub(crate) follows_node: bool,
    /// Since when the node is ready.
    pub(crate) ready_since: Time,
    pub(crate) rng: Rng,
}

/// What is known of the Node.
struct StoredNode {
    /// The very Node, to which the Lease belongs; empty: not seen yet.
    uid: String,
    /// Since when the node is ready.
    ready_since: Time,
}

impl Heartbeat {
    /// Beats until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let name = self.facts.name.clone();
        let own = format!("metadata.name={name}");
        let node = self.informers.follow_where::<Node>(own, move |node| node.metadata.name == name);
        let clock = self.clock.clone();
        let mut beats = Beats::new(clock.now(), Config::new(self.first), self.rng.clone());
        let known = Arc::new(Mutex::new(StoredNode { uid: String::new(), ready_since: self.ready_since }));
        let heartbeat = Arc::new(self);
        let facts = node.flat_map(|seen| futures::stream::iter(heartbeat.seen(seen, &known).into_iter().flatten()));
        let mut shell = Beating {
            heartbeat: Arc::clone(&heartbeat),
            known: Arc::clone(&known),
            stop: stop.clone(),
            attempts: Vec::new(),
            post: None,
        };
        runtime::drive(&mut beats, &clock, &stop, facts, &mut shell).await;
    }

    /// Returns what the Node asks for: an interval, to be put right, or to be posted again because it is gone.
    fn seen(&self, seen: WatchEvent<Node>, known: &Mutex<StoredNode>) -> [Option<Input>; 2] {
        let mut known = known.lock().expect("no code panics while it holds what is known");
        let node = match seen {
            WatchEvent::Applied(node) => node.view,
            WatchEvent::Deleted(_) => {
                known.uid.clear();
                return [Some(Input::ReadyChanged), None];
            }
            WatchEvent::ListBegins | WatchEvent::Synced => return [None, None],
        };
        known.uid.clone_from(&node.metadata.uid);
        let interval = match api::config_node::annotated_interval(&node) {
            _ if !self.follows_node => None,
            Ok(annotated) => Some(Input::SetInterval(annotated.unwrap_or(self.interval))),
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
            known.ready_since = self.clock.now();
        }
        [interval, Some(Input::StatusSeen { same: self.facts.shown_by(&node) })]
    }

    /// Renews the Lease. One that cannot be renewed has no answer: the next attempt goes its own way.
    async fn attempt(self: Arc<Self>, beat: u64, fresh: bool, lease: Value) -> Input {
        let client = match &self.fresh {
            Some(make) if fresh => make(),
            _ => self.client.clone(),
        };
        match renew(&self.writer, &client, lease).await {
            Ok(()) => Input::Renewed { beat },
            Err(error) => {
                tracing::warn!(beat, %error, "heartbeat without success");
                std::future::pending().await
            }
        }
    }

    /// Posts the status. One that was posted has no answer.
    async fn post(self: Arc<Self>, since: Time, stop: CancellationToken) -> Input {
        let Err(failure) = post_status(&self.writer, &self.facts, self.clock.now(), since).await else {
            return std::future::pending().await;
        };
        if failure.error == WriteError::NotFound {
            // Somebody has deleted the Node under a running agent: it is put back, and told again what it is.
            if let Err(error) = register(&self.writer, &self.facts, &stop).await {
                tracing::warn!(node = self.facts.name, %error, "the node could not be registered again");
            }
        }
        Input::PostFailed
    }
}

/// Does what the beats say.
struct Beating {
    heartbeat: Arc<Heartbeat>,
    known: Arc<Mutex<StoredNode>>,
    stop: CancellationToken,
    attempts: Vec<(u64, AbortHandle)>,
    /// The post that is under way, or was the last.
    post: Option<AbortHandle>,
}

impl Shell<Beats> for Beating {
    fn perform(&mut self, _: &Beats, effect: Effect, answers: &mut Answers<Input>) {
        let heartbeat = Arc::clone(&self.heartbeat);
        let known = self.known.lock().expect("no code panics while it holds what is known");
        match effect {
            Effect::Attempt { beat, fresh, lease_duration } => {
                let lease =
                    lease(&heartbeat.facts.name, &known.uid, heartbeat.clock.now(), lease_duration, heartbeat.follows_node);
                self.attempts.push((beat, answers.spawn(heartbeat.attempt(beat, fresh, lease))));
            }
            Effect::Drop { beat: last } => self.attempts.retain(|(beat, attempt)| {
                let over = *beat <= last;
                if over {
                    attempt.abort();
                }
                !over
            }),
            Effect::PostStatus => {
                let post = answers.spawn(heartbeat.post(known.ready_since, self.stop.clone()));
                // A newer status says all that an older one does.
                if let Some(before) = self.post.replace(post) {
                    before.abort();
                }
            }
        }
    }
}

fn lease(node: &str, uid: &str, now: Time, duration: Duration, follows_node: bool) -> Value {
    let capabilities = if follows_node { CAPABILITY_HEARTBEAT_INTERVAL } else { "" };
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": NAMESPACE, "annotations": {
            ANNOTATION_VERSION: env!("CARGO_PKG_VERSION"), ANNOTATION_CAPABILITIES: capabilities,
        }},
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

/// Renews a Lease, or makes it.
pub(crate) async fn renew(writer: &Writer, client: &Client, lease: Value) -> Result<(), WriteFailure> {
    let place = ["name", "namespace"].map(|key| api::json::text(&lease, &["metadata", key]).to_owned());
    let mut patch = json!({"spec": lease["spec"]});
    for key in ["ownerReferences", "annotations"] {
        if let Some(value) = lease["metadata"].get(key) {
            patch["metadata"][key] = value.clone();
        }
    }
    let to = |verb| Write::to::<Lease>(place[1].as_str(), place[0].as_str(), verb);
    match writer.perform_with(client, &to(Verb::Merge(patch)), TIMEOUT).await {
        Err(WriteFailure { error: WriteError::NotFound, .. }) => {
            writer.perform_with(client, &to(Verb::Create(lease.into())), TIMEOUT).await.map(drop)
        }
        other => other.map(drop),
    }
}
