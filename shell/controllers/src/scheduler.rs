//! The scheduler of a small plane: pods without a node go to the first one that fits.
//!
//! Which node fits is decided by [`pods::schedule`]; what is known and what waits is kept in a queue; here it is watched
//! and written. One decision at a time sees the ones before it, so a node is never promised twice.

mod queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::write::reference;
use api::{Node, Note, NoteType, Pod, Timestamp};
use futures::StreamExt;
use http::Method;
use kube::Client;
use kube::runtime::watcher::Event;
use machine::Time;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::requests::{STRATEGIC, send_json, watch};
use queue::{Action, PodKey, Queue};

/// The name by which pods ask for this scheduler; also those that ask for none.
pub const SCHEDULER_NAME: &str = "default-scheduler";
/// The reason of the event for a pod that fits nowhere; Kubernetes.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// The reason of the event for a pod that was assigned; Kubernetes.
pub const SCHEDULED: &str = "Scheduled";

/// Requests that are under way at once; a burst is a rollout.
const REQUESTS_MAX: usize = 16;
/// The wait after a request that failed, doubled each time.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest wait after a request that failed.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Runs the scheduler until told to stop.
pub async fn run(mut context: Context) {
    let (mut pods, mut nodes) = (watch::<Pod>(&context.client).boxed(), watch::<Node>(&context.client).boxed());
    let mut queue = Queue::default();
    let mut requests = JoinSet::new();
    let permits = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut retries: BTreeMap<(Time, PodKey), ()> = BTreeMap::new();
    loop {
        let next = retries.first_key_value().map(|((at, _), ())| *at);
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            Some(done) = requests.join_next() => {
                let Done { action, failed } = done.expect("a request does not panic");
                if let Some(failures) = settle(&context, &mut queue, &action, failed) {
                    let pause = PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(PAUSE_MAX);
                    retries.insert((context.clock.now() + pause, action.key().clone()), ());
                }
            }
            Some(event) = nodes.next() => see_node(&mut queue, event),
            Some(event) = pods.next() => see_pod(&mut queue, event),
            () = context.clock.sleep_until(next) => {
                if let Some(((_, key), ())) = retries.pop_first() {
                    queue.look_again(&key);
                }
            }
        }
        if !queue.synced() {
            continue;
        }
        for action in queue.decide() {
            requests.spawn(perform(context.client.clone(), Arc::clone(&permits), context.clock.now(), action));
        }
        context.tell_synced();
    }
}

fn see_node(queue: &mut Queue, event: Event<runtime::Obj<Node>>) {
    match event {
        Event::Init => queue.nodes_listed(false),
        Event::InitDone => queue.nodes_listed(true),
        Event::InitApply(node) | Event::Apply(node) => queue.apply_node(node.view),
        Event::Delete(node) => queue.delete_node(&node.view.metadata.name),
    }
}

fn see_pod(queue: &mut Queue, event: Event<runtime::Obj<Pod>>) {
    match event {
        Event::Init => queue.pods_listed(false),
        Event::InitDone => queue.pods_listed(true),
        Event::InitApply(pod) | Event::Apply(pod) => {
            let gated = !api::json::items(&pod.raw, &["spec", "schedulingGates"]).is_empty();
            queue.apply_pod(pod.view, gated);
        }
        Event::Delete(pod) => queue.delete_pod(&PodKey::of(&pod.view)),
    }
}

/// How a request ended.
struct Done {
    action: Action,
    failed: Option<kube::Error>,
}

async fn perform(client: Client, permits: Arc<Semaphore>, now: Time, action: Action) -> Done {
    let _permit = permits.acquire().await.expect("the semaphore is never closed");
    let PodKey { namespace, name } = action.key();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let sent = match &action {
        Action::Bind { uid, node, .. } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            send_json(&client, Method::POST, &format!("{path}/binding"), "application/json", &binding).await
        }
        Action::Report { uid, message, since, .. } => {
            let since = since.unwrap_or(Timestamp(now)).to_string();
            let condition = json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                "lastProbeTime": null, "lastTransitionTime": since,
            });
            let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
            send_json(&client, Method::PATCH, &format!("{path}/status"), STRATEGIC, &patch).await
        }
    };
    Done { action, failed: sent.err() }
}

/// Says what came of an action; returns how often it failed if it is to be tried again later.
fn settle(context: &Context, queue: &mut Queue, action: &Action, failed: Option<kube::Error>) -> Option<u32> {
    let note = |type_, reason, message| {
        let PodKey { namespace, name } = action.key();
        context.events.say(Note { object: reference::<Pod>(namespace, name, action.uid()), type_, reason, message });
    };
    let PodKey { namespace, name } = action.key();
    let Some(error) = failed else {
        queue.done(action);
        match action {
            Action::Bind { node, .. } => {
                tracing::info!(pod = %name, %namespace, %node, "pod scheduled");
                note(NoteType::Normal, SCHEDULED, format!("Successfully assigned {namespace}/{name} to {node}"));
            }
            Action::Report { message, .. } => note(NoteType::Warning, FAILED_SCHEDULING, message.clone()),
        }
        return None;
    };
    // Gone, being deleted, or assigned by somebody else: the watch tells.
    let over = matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409));
    if !over {
        tracing::warn!(pod = %name, %namespace, %error, "pod not scheduled; trying again");
    }
    queue.failed(action, over)
}
