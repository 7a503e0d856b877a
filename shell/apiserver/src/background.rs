//! The server's own controllers: first objects, default service accounts, namespaces that go, definitions, garbage,
//! events that have grown old.
//!
//! One task sees every change in order. If it ever falls behind the bounded queue it starts over from a snapshot, so
//! nothing is lost.

mod definitions;
mod namespaces;
mod published;

use crate::handlers::write::Next;
use registry::ownership::Writer;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::config_node::{ANNOTATION_NOT_READY_SECONDS, ANNOTATION_UNREACHABLE_SECONDS};
use api::json;
use api::status::Status;
use kinds::builtin::Builtin;
use registry::collect::{Collect, Graph};
use registry::deletion::{DeleteOptions, Propagation};
use registry::kind::ServedKind;
use registry::meta::UpdateForm;
use registry::state::{Change, ChangeType, Current, Key, Snapshot, Stored, key, prefix};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// How often old events are looked for.
const EVENT_SWEEP: Duration = Duration::from_secs(60);
/// How many objects are deleted at once: they share commits.
const DELETIONS_AT_ONCE: usize = 64;
/// How long to wait before trying again what failed.
const RETRY: Duration = Duration::from_millis(500);
/// The object that carries the default tolerations of the latency profile in force.
const LATENCY_PROFILE: &str = "/config.openshift.io/nodes//cluster";
/// The namespaces that exist from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Server {
    /// Makes the first objects and runs the server's own controllers until told to stop.
    pub async fn start(&self, definitions: &[Value], stop: CancellationToken) -> Result<(), Status> {
        for name in NAMESPACES {
            self.ensure("", "namespaces", "", json!({"metadata": {"name": name}})).await?;
        }
        published::priority_classes(self).await?;
        for definition in definitions {
            self.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", definition.clone()).await?;
        }
        let mut controllers = Controllers::new(self);
        controllers.prepare().await;
        self.0.synced.store(true, Ordering::Relaxed);
        let (hub, room) = (self.0.hub.clone(), self.0.hub.clone());
        let running = tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = controllers.run() => {}
                () = room.watch_room() => {}
            }
        });
        tokio::spawn(async move {
            // They return only when told to; a server without them only looks alive.
            if let Err(error) = running.await
                && error.is_panic()
            {
                hub.give_up(format!("the controllers of the API server ended unasked: {error}"));
            }
        });
        Ok(())
    }

    /// Gives a namespace that was just created its default service account, before the creation is answered: one file may hold a
    /// namespace and the pods in it. What fails here is done in the background.
    pub(crate) async fn settle_namespace(&self, kind: &ServedKind, stored: Option<&Stored>) {
        if let Some(stored) = stored.filter(|_| kind.builtin() == Some(Builtin::Namespace)) {
            let _ = namespaces::reconcile(self, &stored.index.name).await;
        }
    }

    /// Creates an object unless it is there.
    async fn ensure(&self, group: &str, resource: &str, namespace: &str, object: Value) -> Result<(), Status> {
        let catalog = self.catalog();
        let kind = catalog.find(group, "v1", resource).expect("a built-in kind");
        let name = json::text(&object, &["metadata", "name"]);
        if self.0.hub.snapshot().get(&kind.resource.key(namespace, name)).is_some() {
            return Ok(());
        }
        match self.create_own(kind, namespace, object).await {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        }
    }
}

/// What waits to be looked at.
#[derive(Default)]
struct Todo {
    namespaces: BTreeSet<String>,
    definitions: BTreeSet<String>,
    /// Whether the objects that say where the server is are still to be written.
    publish: bool,
}

struct Controllers {
    server: Server,
    graph: Graph,
    todo: Todo,
    receiver: crate::hub::Receiver,
}

impl Controllers {
    fn new(server: &Server) -> Controllers {
        let subscription = server.0.hub.subscribe_all();
        let mut controllers = Controllers {
            server: server.clone(),
            graph: Graph::default(),
            todo: Todo { publish: true, ..Todo::default() },
            receiver: subscription.receiver,
        };
        for (key, stored) in subscription.snapshot.range("/", None) {
            controllers.graph.add(key, &stored.index);
            controllers.note(key, stored);
        }
        controllers
    }

    async fn run(mut self) {
        self.settle().await;
        let mut sweep = tokio::time::interval(EVENT_SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = self.receiver.recv() => match change {
                    Some(change) => {
                        self.see(&change);
                        // What is queued already is seen before anything is done about it.
                        while let Ok(Some(change)) = tokio::time::timeout(Duration::ZERO, self.receiver.recv()).await {
                            self.see(&change);
                        }
                    }
                    None if self.server.0.stopping.load(Ordering::Relaxed) => return,
                    None => self = Controllers::new(&self.server),
                },
                _ = sweep.tick() => sweep_events(&self.server).await,
            }
            self.settle().await;
        }
    }

    fn see(&mut self, change: &Change) {
        self.graph.change(change);
        self.note(&change.key, &change.object);
        if change.type_ != ChangeType::Deleted {
            return;
        }
        if change.key.starts_with("/apiextensions.k8s.io/") {
            self.server.refresh_catalog();
        }
        // An object that is gone may be the last that its definition waits for.
        self.todo.definitions.extend(definitions::waiting_for(&self.server.0.hub.snapshot(), &change.key));
    }

    /// Notes which namespaces and definitions an object concerns.
    fn note(&mut self, key: &Key, stored: &Stored) {
        if key.starts_with("/apiextensions.k8s.io/customresourcedefinitions/") {
            self.todo.definitions.insert(stored.index.name.clone());
        }
        if key.starts_with("//namespaces/") {
            self.todo.namespaces.insert(stored.index.name.clone());
        }
        if published::is_published(stored) && (key.starts_with("//configmaps/") || key.starts_with("//services/")) {
            self.todo.publish = true;
        }
        if &**key == LATENCY_PROFILE {
            self.take_tolerations(&stored.object());
        }
        let namespace = &stored.index.namespace;
        // An object that goes may be what its namespace waits for; what every namespace has is made again.
        let everywhere = key.starts_with("//serviceaccounts/")
            || (key.starts_with("//configmaps/") && stored.index.name == published::ROOT_CERTIFICATE);
        if !namespace.is_empty() && (stored.index.deleting || everywhere) {
            self.todo.namespaces.insert(namespace.clone());
        }
    }

    /// Uses the default tolerations that the latency profile asks for; what it does not say stays as it is.
    fn take_tolerations(&self, cluster: &Value) {
        let tolerations = &self.server.0.settings.tolerations;
        let (not_ready, unreachable) = tolerations.get();
        let seconds = |name: &str, now: i64| {
            let text = json::text(cluster, &["metadata", "annotations", name]);
            text.parse::<i64>().ok().filter(|seconds| *seconds >= 0).unwrap_or(now)
        };
        let wanted = (seconds(ANNOTATION_NOT_READY_SECONDS, not_ready), seconds(ANNOTATION_UNREACHABLE_SECONDS, unreachable));
        if wanted != (not_ready, unreachable) {
            tracing::info!(not_ready = wanted.0, unreachable = wanted.1, "default tolerations of new pods, in seconds");
            tolerations.set(wanted.0, wanted.1);
        }
    }

    /// Does what must be done before the server is ready. What goes, goes while it serves: a namespace may be large.
    async fn prepare(&mut self) {
        let snapshot = self.server.0.hub.snapshot();
        let going = |key: &Key| snapshot.get(key).is_some_and(|stored| stored.index.deleting);
        let (namespaces, definitions) = (&mut self.todo.namespaces, &mut self.todo.definitions);
        let later = Todo {
            namespaces: namespaces.extract_if(.., |name| going(&namespace_key(name))).collect(),
            definitions: definitions.extract_if(.., |name| going(&definitions::key_of(name))).collect(),
            publish: false,
        };
        self.reconcile().await;
        self.todo.namespaces.extend(later.namespaces);
        self.todo.definitions.extend(later.definitions);
    }

    /// Does what is to be done, until nothing is left or something must be tried again later.
    async fn settle(&mut self) {
        self.reconcile().await;
        loop {
            let graph = &mut self.graph;
            let due = std::iter::from_fn(|| {
                loop {
                    let key = graph.next_work()?;
                    if let Some(action) = graph.judge(&key) {
                        return Some((key, action));
                    }
                }
            });
            let some: Vec<(Key, Collect)> = due.take(DELETIONS_AT_ONCE).collect();
            if some.is_empty() {
                return;
            }
            let server = &self.server;
            let collected = some.into_iter().map(|(key, action)| async move { (collect(server, &key, action).await, key) });
            let outcomes = futures::future::join_all(collected).await;
            let mut failed = None;
            for (outcome, key) in outcomes {
                if let Err(error) = outcome {
                    self.graph.retry(Key::clone(&key));
                    failed = Some((key, error));
                }
            }
            if let Some((key, error)) = failed {
                return self.retry(&key, &error).await;
            }
        }
    }

    async fn reconcile(&mut self) {
        let todo = std::mem::take(&mut self.todo);
        // A server on a full disk serves all the same.
        if todo.publish
            && let Err(error) = published::publish(&self.server).await
        {
            self.retry("where the server is", &error).await;
            self.todo.publish = true;
        }
        for name in todo.definitions {
            if let Err(error) = definitions::reconcile(&self.server, &name).await {
                self.retry(&format!("definition {name}"), &error).await;
                self.todo.definitions.insert(name);
            }
        }
        for name in todo.namespaces {
            if let Err(error) = namespaces::reconcile(&self.server, &name).await {
                self.retry(&format!("namespace {name}"), &error).await;
                self.todo.namespaces.insert(name);
            }
        }
    }

    async fn retry(&self, what: &str, error: &Status) {
        tracing::warn!(what, %error, "trying again");
        tokio::time::sleep(RETRY).await;
    }
}

/// Carries out what the collector decided, unless the object has changed meanwhile.
async fn collect(server: &Server, key: &Key, action: Collect) -> Result<(), Status> {
    let snapshot = server.0.hub.snapshot();
    let Some(stored) = snapshot.get(key) else { return Ok(()) };
    let catalog = server.catalog();
    let Some(kind) = catalog.find_by_key(key) else { return Ok(()) };
    let (namespace, name) = (&stored.index.namespace, &stored.index.name);
    let delete = |propagation| DeleteOptions {
        uid: Some(stored.index.uid.clone()),
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    let outcome = match action {
        Collect::Delete => {
            server.0.metrics.collected();
            server.delete_object(kind, namespace, name, &delete(Propagation::Background)).await.map(drop)
        }
        Collect::DeleteForeground => {
            server.delete_object(kind, namespace, name, &delete(Propagation::Foreground)).await.map(drop)
        }
        Collect::DropOwners(uids) => {
            change_metadata(server, kind, namespace, name, |metadata| {
                if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
                    owners.retain(|owner| !uids.iter().any(|uid| uid == json::text(owner, &["uid"])));
                }
            })
            .await
        }
        Collect::RemoveFinalizer(finalizer) => remove_finalizer(server, kind, namespace, name, finalizer).await,
    };
    match outcome {
        // Gone, or another object by now: nothing to collect.
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        outcome => outcome,
    }
}

async fn remove_finalizer(
    server: &Server,
    kind: &Arc<ServedKind>,
    namespace: &str,
    name: &str,
    finalizer: &str,
) -> Result<(), Status> {
    change_metadata(server, kind, namespace, name, |metadata| {
        if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|other| other.as_str() != Some(finalizer));
        }
    })
    .await
}

/// Changes the metadata of an object, whoever else writes it.
async fn change_metadata(
    server: &Server,
    kind: &Arc<ServedKind>,
    namespace: &str,
    name: &str,
    change: impl Fn(&mut serde_json::Map<String, Value>),
) -> Result<(), Status> {
    let next = |current: &Current<'_>| {
        let mut object = current.object();
        let metadata = json::object_mut(&mut object, &["metadata"]);
        metadata.remove("resourceVersion");
        change(metadata);
        Ok(Next::by(Writer::server(""), object, UpdateForm::Patch))
    };
    server.update_object(kind, kinds::builtin::Part::Main, namespace, name, false, next).await.map(drop)
}

/// Deletes the events that have grown old.
async fn sweep_events(server: &Server) {
    let snapshot = server.0.hub.snapshot();
    let now = server.0.clock.now();
    let catalog = server.catalog();
    let events = catalog.find("", "v1", "events").expect("events are built in");
    for (_, stored) in old_events(&snapshot, now) {
        let options = DeleteOptions { uid: Some(stored.index.uid.clone()), ..DeleteOptions::default() };
        // Whoever else deletes it is welcome to.
        let _ = server.delete_object(events, &stored.index.namespace, &stored.index.name, &options).await;
    }
}

fn old_events(snapshot: &Snapshot, now: machine::Time) -> Vec<(Key, Arc<Stored>)> {
    snapshot
        .range(&prefix("", "events", ""), None)
        .filter(|(_, stored)| registry::events::is_old(&stored.object(), now))
        .map(|(key, stored)| (Key::clone(key), Arc::clone(stored)))
        .collect()
}

/// Returns the key of a namespace.
fn namespace_key(name: &str) -> Key {
    key("", "namespaces", "", name)
}
