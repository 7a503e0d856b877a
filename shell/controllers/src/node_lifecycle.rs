//! The node lifecycle controller: heartbeats in; conditions, taints and evictions out.
//!
//! Who is silent, what follows and when is decided by `nodes::Monitor` and `nodes::Evictor`. This feeds both from watches
//! of Nodes, Leases and pods and writes what they decide. A write that fails is told to the machine again after a pause,
//! with what the API says then: it asks anew for what is still missing.

mod metrics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::config_node::{self, ConfigNode};
use api::{Lease, Node, Pod, Timestamp};
use futures::StreamExt;
use http::Method;
use kube::Client;
use kube::runtime::watcher;
use machine::{Machine, Time};
use nodes::monitor::{self, LeaseFacts, NodeFacts, unknown_conditions};
use nodes::{Evictor, Monitor, eviction};
use runtime::{Seen, objects};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::requests::{STRATEGIC, delete, send, send_json};

pub use metrics::Metrics;

/// The namespace of the heartbeats.
const LEASES: &str = "kube-node-lease";
/// A merge patch, by which a list is replaced whole.
const MERGE: &str = "application/merge-patch+json";
/// The wait before what failed is told again.
const PAUSE: Duration = Duration::from_secs(1);

/// How a write ended, as far as a machine wants to know.
enum Done {
    Fine,
    /// A pod is gone, that was due to go then.
    Evicted(Time),
    /// Tell the node again, as it is now.
    NodeAgain(Option<Box<Node>>),
    /// Tell the pod again, as it is now.
    PodAgain(Option<Box<Pod>>),
    EvictionFailed {
        key: Arc<str>,
        uid: Arc<str>,
    },
}

struct Controller {
    client: Client,
    monitor: Monitor,
    evictor: Evictor,
    nodes: BTreeMap<Arc<str>, Node>,
    /// When pods were due to go.
    due: BTreeMap<Arc<str>, Time>,
    metrics: Metrics,
    requests: JoinSet<Done>,
    per_node: Option<Duration>,
}

/// Runs the controller until told to stop; `grace` is told the grace in use. `per_node` is the grace of Default where nodes may
/// have a profile of their own.
pub async fn run(
    mut context: Context,
    config: monitor::Config,
    per_node: Option<Duration>,
    grace: watch::Sender<Duration>,
    metrics: Metrics,
) {
    metrics.use_clock(&context.clock);
    let client = context.client.clone();
    let plain = watcher::Config::default;
    let mut nodes = std::pin::pin!(runtime::watch(objects::<Node>(&client, ""), plain()));
    let mut leases = std::pin::pin!(runtime::watch(objects::<Lease>(&client, LEASES), plain()));
    let mut pods = std::pin::pin!(runtime::watch(objects::<Pod>(&client, ""), plain()));
    let named = plain().fields(&format!("metadata.name={}", config_node::NAME));
    let mut clusters = std::pin::pin!(runtime::watch(objects::<ConfigNode>(&client, ""), named));
    let mut controller = Controller {
        client: client.clone(),
        monitor: Monitor::new(config, context.clock.now()),
        evictor: Evictor::new(),
        nodes: BTreeMap::new(),
        due: BTreeMap::new(),
        metrics,
        requests: JoinSet::new(),
        per_node,
    };
    let mut synced = [false; 3];
    loop {
        let deadline = controller.monitor.deadline().into_iter().chain(controller.evictor.deadline()).min();
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            Some(done) = controller.requests.join_next() => {
                controller.settle(&context, done.expect("a request does not panic"));
            }
            Some(seen) = clusters.next() => {
                controller.see_cluster(&context, seen);
                grace.send_if_modified(|told| {
                    let used = controller.monitor.config().grace;
                    std::mem::replace(told, used) != used
                });
            }
            Some(seen) = leases.next() => synced[0] |= controller.see_lease(&context, seen),
            Some(seen) = nodes.next() => synced[1] |= controller.see_node(&context, seen),
            Some(seen) = pods.next() => synced[2] |= controller.see_pod(&context, seen),
            () = context.clock.sleep_until(deadline) => {
                controller.step_monitor(&context, None);
                controller.step_evictor(&context, None);
            }
        }
        if synced == [true; 3] {
            context.tell_synced();
        }
    }
}

impl Controller {
    /// Uses the grace that the latency profile asks for. One that is gone says nothing: the planner goes on from what is used.
    fn see_cluster(&mut self, context: &Context, seen: Seen<ConfigNode>) {
        let Seen::Applied(cluster) = seen else { return };
        let text = cluster.view.metadata.annotations.get(config_node::ANNOTATION_GRACE_PERIOD);
        let asked = text.and_then(|text| api::duration::parse(text).ok()).filter(|grace| !grace.is_zero());
        let config = *self.monitor.config();
        if let Some(grace) = asked.filter(|grace| *grace != config.grace) {
            tracing::info!(grace = %api::duration::format(grace), "how long a node may be silent");
            self.step_monitor(context, Some(monitor::Input::Configure(monitor::Config { grace, ..config })));
        }
    }

    fn see_node(&mut self, context: &Context, seen: Seen<Node>) -> bool {
        match seen {
            Seen::Synced => return true,
            Seen::Applied(object) => self.tell_node(context, object.view),
            Seen::Deleted(object) => {
                let name: Arc<str> = object.view.metadata.name.into();
                self.nodes.remove(&name);
                self.metrics.gone(&name);
                self.step_monitor(context, Some(monitor::Input::NodeDeleted(Arc::clone(&name))));
                self.step_evictor(context, Some(eviction::Input::NodeDeleted(name)));
            }
        }
        false
    }

    fn tell_node(&mut self, context: &Context, node: Node) {
        let name: Arc<str> = node.metadata.name.as_str().into();
        let (mut facts, told) = (NodeFacts::read(&node), eviction::Input::node(&node));
        facts.grace = self.per_node.and_then(|default_grace| profiles::rollout::own::grace(&node, default_grace));
        self.nodes.insert(name, node);
        self.step_monitor(context, Some(monitor::Input::Node(facts)));
        self.step_evictor(context, Some(told));
    }

    fn see_lease(&mut self, context: &Context, seen: Seen<Lease>) -> bool {
        match seen {
            Seen::Synced => return true,
            Seen::Applied(object) => {
                let facts = LeaseFacts::read(&object.view);
                let (name, lease) = (Arc::clone(&facts.node), facts.duration);
                let heard = |monitor: &Monitor| monitor.id(&name).map(|id| monitor.last_seen(id));
                let before = heard(&self.monitor);
                self.step_monitor(context, Some(monitor::Input::Lease(facts)));
                if let (Some(now), Some(lease)) = (heard(&self.monitor).filter(|now| Some(*now) != before), lease) {
                    self.metrics.heard(&name, now, lease);
                }
            }
            Seen::Deleted(object) => {
                self.step_monitor(context, Some(monitor::Input::LeaseDeleted(object.view.metadata.name.into())));
            }
        }
        false
    }

    fn see_pod(&mut self, context: &Context, seen: Seen<Pod>) -> bool {
        match seen {
            Seen::Synced => return true,
            Seen::Applied(object) => self.tell_pod(context, &object.view),
            Seen::Deleted(object) => {
                let key: Arc<str> = object.view.metadata.key().into();
                self.due.remove(&key);
                self.step_monitor(context, Some(monitor::Input::PodDeleted(Arc::clone(&key))));
                self.step_evictor(context, Some(eviction::Input::PodDeleted(key)));
            }
        }
        false
    }

    fn tell_pod(&mut self, context: &Context, pod: &Pod) {
        self.step_monitor(context, Some(monitor::Input::Pod(monitor::PodFacts::read(pod))));
        self.step_evictor(context, Some(eviction::Input::Pod(eviction::PodFacts::read(pod))));
    }

    fn settle(&mut self, context: &Context, done: Done) {
        match done {
            Done::Fine | Done::NodeAgain(None) | Done::PodAgain(None) => {}
            Done::Evicted(due) => self.metrics.deleted(context.clock.now().since(due)),
            Done::NodeAgain(Some(node)) => self.tell_node(context, *node),
            Done::PodAgain(Some(pod)) => self.tell_pod(context, &pod),
            Done::EvictionFailed { key, uid } => self.step_evictor(context, Some(eviction::Input::Failed { key, uid })),
        }
    }

    fn step_monitor(&mut self, context: &Context, input: Option<monitor::Input>) {
        let now = context.clock.now();
        let mut effects = Vec::new();
        let (began, all, beat) = (Instant::now(), input.is_none(), matches!(input, Some(monitor::Input::Lease(_))));
        self.monitor.step(now, input, &mut effects);
        self.metrics.took(all, began.elapsed());
        if !beat || !effects.is_empty() {
            self.metrics.state(&self.monitor);
        }
        for effect in effects {
            if let Some(note) = effect.note() {
                context.events.say(note);
            }
            self.perform(effect, now);
        }
    }

    fn perform(&mut self, effect: monitor::Effect, now: Time) {
        let client = self.client.clone();
        match effect {
            monitor::Effect::SetUnknown { node, reason } => {
                tracing::warn!(%node, reason = reason.name(), "node is silent");
                let Some(known) = self.nodes.get(&node) else { return };
                let conditions = unknown_conditions(&known.status.conditions, known.metadata.creation_timestamp, reason, now);
                let body = json!({"metadata": {"uid": known.metadata.uid}, "status": {"conditions": conditions}});
                let path = format!("/api/v1/nodes/{node}/status");
                self.requests.spawn(async move { write_node(&client, &node, &path, STRATEGIC, &body).await });
            }
            monitor::Effect::Taints { node, add, remove } => {
                let Some(known) = self.nodes.get(&node) else { return };
                let gone = |taint: &api::node::Taint| {
                    remove
                        .iter()
                        .chain(&add)
                        .any(|health| health.health.key() == taint.key && health.effect.name() == taint.effect)
                };
                let mut taints: Vec<api::node::Taint> =
                    known.spec.taints.iter().filter(|taint| !gone(taint)).cloned().collect();
                taints.extend(add.iter().map(nodes::HealthTaint::taint));
                tracing::info!(%node, added = add.len(), removed = remove.len(), "health taints change");
                if add.iter().any(|taint| taint.effect.name() == "NoExecute") {
                    self.metrics.tainted(&NodeFacts::read(known).zone);
                }
                // The list is replaced whole, so it must not have changed since it was read.
                let version = &known.metadata.resource_version;
                let body =
                    json!({"metadata": {"uid": known.metadata.uid, "resourceVersion": version}, "spec": {"taints": taints}});
                let path = format!("/api/v1/nodes/{node}");
                self.requests.spawn(async move { write_node(&client, &node, &path, MERGE, &body).await });
            }
            monitor::Effect::MarkPod { key, node } => {
                tracing::warn!(pod = %key, %node, "pod is marked not ready: its node is silent");
                self.requests.spawn(async move { mark_pod(&client, &key, now).await });
            }
            monitor::Effect::Zone { zone, state } => tracing::info!(%zone, ?state, "state of a zone"),
            monitor::Effect::Isolated
            | monitor::Effect::Connected
            | monitor::Effect::FullDisruption
            | monitor::Effect::Recovering
            | monitor::Effect::Registered(_)
            | monitor::Effect::Removing(_)
            | monitor::Effect::NotReady(_) => {}
        }
    }

    fn step_evictor(&mut self, context: &Context, input: Option<eviction::Input>) {
        let now = context.clock.now();
        let mut effects = Vec::new();
        self.evictor.step(now, input, &mut effects);
        for effect in effects {
            if let Some(note) = effect.note() {
                context.events.say(note);
            }
            match effect {
                eviction::Effect::Evict { key, uid } => {
                    tracing::warn!(pod = %key, "pod is evicted: it does not bear a taint of its node");
                    let due = self.due.remove(&key).unwrap_or(now);
                    let client = self.client.clone();
                    self.requests.spawn(async move { evict(&client, key, uid, now, due).await });
                }
                eviction::Effect::Scheduled { key, at } => {
                    tracing::info!(pod = %key, %at, "eviction scheduled");
                    self.due.insert(key, at);
                }
                eviction::Effect::Cancelled { key } => {
                    tracing::info!(pod = %key, "eviction cancelled");
                    self.due.remove(&key);
                }
            }
        }
    }
}

async fn get<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> Option<Box<T>> {
    send::<T>(client, Method::GET, path, "application/json", Vec::new()).await.ok().map(Box::new)
}

async fn write_node(client: &Client, node: &str, path: &str, content_type: &str, body: &Value) -> Done {
    match send_json(client, Method::PATCH, path, content_type, body).await {
        Ok(()) => Done::Fine,
        Err(error) => {
            tracing::debug!(node, %error, "a write to a node failed; trying again");
            // A conflict needs no wait: the next state is there already.
            if !matches!(&error, kube::Error::Api(status) if status.code == 409) {
                tokio::time::sleep(PAUSE).await;
            }
            Done::NodeAgain(get(client, &format!("/api/v1/nodes/{node}")).await)
        }
    }
}

fn pod_path(key: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

async fn mark_pod(client: &Client, key: &str, now: Time) -> Done {
    let path = pod_path(key);
    let condition =
        json!({"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": Timestamp(now).to_string()});
    let body = json!({"status": {"conditions": [condition]}});
    match send_json(client, Method::PATCH, &format!("{path}/status"), STRATEGIC, &body).await {
        Ok(()) => Done::Fine,
        Err(kube::Error::Api(status)) if status.code == 404 => Done::Fine,
        Err(_) => {
            tokio::time::sleep(PAUSE).await;
            Done::PodAgain(get(client, &path).await)
        }
    }
}

async fn evict(client: &Client, key: Arc<str>, uid: Arc<str>, now: Time, due: Time) -> Done {
    let path = pod_path(&key);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": Timestamp(now).to_string(),
    });
    let body = json!({"metadata": {"uid": &*uid}, "status": {"conditions": [condition]}});
    let marked = send_json(client, Method::PATCH, &format!("{path}/status"), STRATEGIC, &body).await;
    let deleted = match marked {
        Ok(()) => delete(client, &path, &uid).await,
        Err(error) => Err(error),
    };
    match deleted {
        // Gone, or another pod by now: either way this one is evicted.
        Ok(()) => Done::Evicted(due),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Done::Evicted(due),
        Err(_) => Done::EvictionFailed { key, uid },
    }
}
