//! The latency profile controller: nodes, Leases and the desired profile in; carriers, conditions and events out.
//!
//! What is safe next is decided by `profiles::Rollout`. This shows it the world and makes its writes come true, one after the
//! other, before it looks again.

mod metrics;
mod stock;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::config_node::ConfigNode;
use api::{Lease, Node, Pod, Write, WriteError};
use machine::Time;
use profiles::rollout::{ControlPlane, NodeLease, Options, PodDefaults, Rollout, World};
use profiles::stock::StaticPods;
use runtime::{Scope, WatchEvent, requests};
use serde_json::Value;
use tokio::sync::watch;

use crate::context::Context;
use crate::node_lifecycle::{LEASES, cluster_object};

pub use metrics::Metrics;
pub use stock::read_rendered;

/// The wait before what could not be written is looked at again.
const PAUSE: Duration = Duration::from_secs(1);
/// A question to the API server that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Tells the default tolerations that the API server uses: not ready, unreachable.
pub type TolerationsInUse = Arc<dyn Fn() -> (i64, i64) + Send + Sync>;

/// What the controller is told.
#[derive(Clone)]
pub struct Config {
    /// What an operator chooses.
    pub options: Options,
    /// What the API server of this process uses; `None`: it is in another one, and is asked at `/configz`.
    pub tolerations: Option<TolerationsInUse>,
    /// Whether anything is written; otherwise it is observed and measured only.
    pub apply: bool,
}

/// Runs the controller until told to stop; `grace` is the one in use on a plane of our own, `None`: this is a stock cluster.
pub async fn run(mut context: Context, config: Config, mut grace: Option<watch::Receiver<Duration>>, metrics: Metrics) {
    let mut clusters = cluster_object(&context);
    let mut nodes = context.informers.follow::<Node>();
    let mut leases = context.informers.follow_in::<Lease>(Scope::namespace(LEASES));
    let mut pods = context.informers.follow::<Pod>();
    let mut static_pods = grace.is_none().then(|| stock::Watches::start(&context));
    let mut rollout = Rollout::new(config.options);
    let mut known = PlaneState::default();
    let mut synced = [false; 4];
    let mut ours = None;
    let (mut news, mut again_at) = (true, None);
    loop {
        news |= tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            seen = clusters.next() => known.see_cluster(seen, &mut synced[0]),
            seen = nodes.next() => known.see_node(seen, &mut synced[1]),
            seen = leases.next() => known.see_lease(seen, &mut synced[2]),
            seen = pods.next() => known.see_pod(seen, &mut synced[3]),
            news = stock::Watches::next(&mut static_pods, &mut known.static_pods) => news,
            () = changed(&mut grace) => true,
            () = context.clock.sleep_until(again_at) => true,
        };
        if synced != [true; 4] || static_pods.as_ref().is_some_and(|watches| !watches.synced()) {
            continue;
        }
        context.tell_synced();
        if std::mem::take(&mut news) {
            let in_use = match &mut grace {
                Some(grace) => {
                    let grace = *grace.borrow_and_update();
                    tolerations(&context, &config).await.map(|tolerations| InUse::Own { grace, tolerations })
                }
                None => {
                    // Somebody may take it over, or leave it to us, at any time.
                    ours = stock::definition_is_ours(&context, ours).await;
                    if ours == Some(false) {
                        stock::read_rendered(&context.client, &mut known.static_pods).await;
                    }
                    ours.map(|_| InUse::Stock)
                }
            };
            let apply = config.apply && ours.unwrap_or(true);
            again_at = match in_use {
                Some(in_use) => known.look(&context, &mut rollout, in_use, apply, &metrics).await,
                None => Some(context.clock.now() + PAUSE),
            };
        }
    }
}

/// Waits for another grace, for ever where nobody has one to tell.
async fn changed(grace: &mut Option<watch::Receiver<Duration>>) {
    let changed = match grace {
        Some(grace) => grace.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending().await
    }
}

/// Returns the default tolerations that the API server uses, `Some(None)`: it does not say; `None`: it could not be asked.
async fn tolerations(context: &Context, config: &Config) -> Option<Option<(i64, i64)>> {
    if let Some(in_use) = &config.tolerations {
        return Some(Some(in_use()));
    }
    match requests::get_opt::<Value>(&context.client, "/configz", TIMEOUT).await {
        Ok(answer) => {
            let answer = answer.unwrap_or_default();
            let seconds = |name: &str| answer["kube-apiserver"][name].as_i64();
            let both = seconds("defaultNotReadyTolerationSeconds").zip(seconds("defaultUnreachableTolerationSeconds"));
            Some(both)
        }
        // It answers, and does not say.
        Err(error) if error.code().is_some() => Some(None),
        Err(error) => {
            tracing::debug!(%error, "the API server could not be asked which tolerations it uses");
            None
        }
    }
}

/// What the control plane shows of itself.
enum InUse {
    Own { grace: Duration, tolerations: Option<(i64, i64)> },
    Stock,
}

/// What is known of the plane.
#[derive(Default)]
struct PlaneState {
    cluster: Option<Arc<ConfigNode>>,
    nodes: BTreeMap<String, Node>,
    leases: BTreeMap<String, NodeLease>,
    pods: BTreeMap<String, PodDefaults>,
    static_pods: StaticPods,
}

impl PlaneState {
    fn see_cluster(&mut self, seen: WatchEvent<ConfigNode>, synced: &mut bool) -> bool {
        match seen {
            WatchEvent::ListBegins => return false,
            WatchEvent::Synced => *synced = true,
            WatchEvent::Applied(object) => return self.take_cluster(object.view),
            WatchEvent::Deleted(_) => self.cluster = None,
        }
        true
    }

    fn take_cluster(&mut self, cluster: Arc<ConfigNode>) -> bool {
        let news = self.cluster.as_ref().is_none_or(|known| cluster.metadata.is_newer_than(&known.metadata));
        if news {
            self.cluster = Some(cluster);
        }
        news
    }

    fn see_node(&mut self, seen: WatchEvent<Node>, synced: &mut bool) -> bool {
        match seen {
            WatchEvent::ListBegins => return false,
            WatchEvent::Synced => *synced = true,
            WatchEvent::Applied(object) => return self.take_node(&object.view),
            WatchEvent::Deleted(object) => drop(self.nodes.remove(&object.view.metadata.name)),
        }
        true
    }

    /// Takes a node; returns whether anything but its heartbeat has changed.
    fn take_node(&mut self, node: &Node) -> bool {
        let before = self.nodes.get(&node.metadata.name);
        if before.is_some_and(|before| !node.metadata.is_newer_than(&before.metadata)) {
            return false;
        }
        let same = before.is_some_and(|before| {
            before.metadata.annotations == node.metadata.annotations
                && before.metadata.labels == node.metadata.labels
                && before.ready() == node.ready()
        });
        self.nodes.insert(node.metadata.name.clone(), node.clone());
        !same
    }

    /// Takes a Lease; returns whether the node has changed how often it renews it.
    fn see_lease(&mut self, seen: WatchEvent<Lease>, synced: &mut bool) -> bool {
        match seen {
            WatchEvent::ListBegins => return false,
            WatchEvent::Synced => *synced = true,
            WatchEvent::Applied(object) => {
                let Some(lease) = NodeLease::read(&object.view) else { return false };
                return self.leases.insert(object.metadata.name.clone(), lease) != Some(lease);
            }
            WatchEvent::Deleted(object) => drop(self.leases.remove(&object.view.metadata.name)),
        }
        true
    }

    /// Takes a pod. Pods are only counted, with the next look: nothing hurries because of them.
    fn see_pod(&mut self, seen: WatchEvent<Pod>, synced: &mut bool) -> bool {
        match seen {
            WatchEvent::ListBegins => {}
            WatchEvent::Synced => {
                *synced = true;
                return true;
            }
            WatchEvent::Applied(object) => match PodDefaults::read(&object.view) {
                Some(defaults) => drop(self.pods.insert(object.view.metadata.key(), defaults)),
                None => drop(self.pods.remove(&object.view.metadata.key())),
            },
            WatchEvent::Deleted(object) => drop(self.pods.remove(&object.view.metadata.key())),
        }
        false
    }

    /// Looks once, and makes the writes come true. Returns when to look again.
    async fn look(
        &mut self,
        context: &Context,
        rollout: &mut Rollout,
        in_use: InUse,
        apply: bool,
        metrics: &Metrics,
    ) -> Option<Time> {
        let kubeadm = match in_use {
            InUse::Stock => stock::kubeadm(&context.client, self.cluster.as_deref()).await,
            InUse::Own { .. } => None,
        };
        let world = World {
            cluster: self.cluster.as_deref(),
            nodes: &self.nodes,
            leases: &self.leases,
            pods: &self.pods,
            control_plane: match in_use {
                InUse::Own { grace, tolerations } => ControlPlane::Own { grace, tolerations },
                InUse::Stock => ControlPlane::Stock { pods: &self.static_pods, kubeadm: kubeadm.as_ref() },
            },
        };
        let update = rollout.look(context.clock.now(), &world);
        metrics.take(&update);
        if !apply {
            return update.again_at;
        }
        if let Some(reason) = update.rolled_back {
            tracing::warn!(reason, "latency profile given up; going back to Default");
        }
        for step in &update.applied {
            tracing::info!(%step, "step of a latency profile applied");
        }
        for step in &update.reverted {
            tracing::warn!(%step, "step of a latency profile taken back");
        }
        for restored in &update.restores {
            let (kind, name, result) = (restored.kind.name(), &restored.name, restored.result.name());
            tracing::info!(kind, name, result, message = restored.message, "files as before the first latency profile");
        }
        update.events.into_iter().for_each(|event| context.events.record(event));
        let mut again_at = update.again_at;
        for write in &update.writes {
            if let Err(error) = self.write(context, write).await {
                tracing::debug!(kind = write.kind, name = write.name, %error, "a step of a latency profile could not be written");
                again_at = Some(context.clock.now() + PAUSE);
            }
        }
        if let Some(kubeadm) = &update.kubeadm
            && let Err(error) = stock::write_kubeadm(&context.client, kubeadm).await
        {
            tracing::warn!(%error, "kubeadm-config could not be changed: the next kubeadm upgrade would drop the profile");
            again_at = Some(context.clock.now() + PAUSE);
        }
        again_at
    }

    /// Sends a request and takes what the server answers, so that the next look does not depend on when a watch tells it.
    async fn write(&mut self, context: &Context, write: &Write) -> Result<(), WriteError> {
        match context.writer.perform(write).await.map_err(WriteError::from) {
            // Gone, or made by somebody else: the watch tells.
            Err(WriteError::NotFound | WriteError::AlreadyExists) => {}
            Err(error) => return Err(error),
            Ok(answer) if write.group.is_empty() => drop(self.take_node(&answer.read()?)),
            Ok(answer) => drop(self.take_cluster(Arc::new(answer.read()?))),
        }
        Ok(())
    }
}
