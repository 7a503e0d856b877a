//! The latency profile controller: nodes, Leases and the desired profile in; carriers, conditions and events out.
//!
//! What is safe next is decided by `profiles::Rollout`. This shows it the world and makes its writes come true, one after the
//! other, before it looks again.

mod metrics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::config_node::{self, ConfigNode};
use api::{Lease, Node, Pod, Write, WriteError};
use machine::Time;
use profiles::Profile;
use profiles::rollout::{Options, PodDefaults, Rollout, World};
use runtime::{Scope, WatchEvent};
use tokio::sync::watch;

use crate::context::Context;
use crate::node_lifecycle::{LEASES, cluster_object};

pub use metrics::Metrics;

/// The wait before what could not be written is looked at again.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells the default tolerations that the API server uses: not ready, unreachable.
pub type TolerationsInUse = Arc<dyn Fn() -> (i64, i64) + Send + Sync>;

/// What the controller is told.
#[derive(Clone)]
pub struct Config {
    /// What an operator chooses.
    pub options: Options,
    /// What the API server of this process uses; `None`: it is in another one. Then it uses what `cluster` carries, which it
    /// reads as soon as it has stored it, or what it has built in.
    pub tolerations: Option<TolerationsInUse>,
}

/// Runs the controller until told to stop; `grace` is the one in use.
pub async fn run(mut context: Context, config: Config, mut grace: watch::Receiver<Duration>, metrics: Metrics) {
    let mut clusters = cluster_object(&context);
    let mut nodes = context.informers.follow::<Node>();
    let mut leases = context.informers.follow_in::<Lease>(Scope::namespace(LEASES));
    let mut pods = context.informers.follow::<Pod>();
    let mut rollout = Rollout::new(config.options);
    let mut known = PlaneState::default();
    let mut synced = [false; 4];
    let (mut news, mut again_at) = (true, None);
    loop {
        news |= tokio::select! {
            biased;
            () = context.stop.cancelled() => return,
            seen = clusters.next() => known.see_cluster(seen, &mut synced[0]),
            seen = nodes.next() => known.see_node(seen, &mut synced[1]),
            seen = leases.next() => known.see_lease(seen, &mut synced[2]),
            seen = pods.next() => known.see_pod(seen, &mut synced[3]),
            Ok(()) = grace.changed() => true,
            () = context.clock.sleep_until(again_at) => true,
        };
        if synced != [true; 4] {
            continue;
        }
        context.tell_synced();
        if std::mem::take(&mut news) {
            let tolerations = config.tolerations.as_ref().map_or_else(|| known.carried_tolerations(), |in_use| in_use());
            let in_use = (*grace.borrow_and_update(), tolerations);
            again_at = known.look(&context, &mut rollout, in_use, &metrics).await;
        }
    }
}

/// What is known of the plane.
#[derive(Default)]
struct PlaneState {
    cluster: Option<Arc<ConfigNode>>,
    nodes: BTreeMap<String, Node>,
    leases: BTreeMap<String, Duration>,
    pods: BTreeMap<String, PodDefaults>,
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

    /// Returns the default tolerations that `cluster` carries: not ready, unreachable.
    fn carried_tolerations(&self) -> (i64, i64) {
        let built_in = Profile::Default.values();
        let carried = |name: &str| self.cluster.as_ref()?.metadata.annotations.get(name)?.parse::<i64>().ok();
        (
            carried(config_node::ANNOTATION_NOT_READY_SECONDS).unwrap_or(built_in.default_not_ready_toleration_seconds),
            carried(config_node::ANNOTATION_UNREACHABLE_SECONDS).unwrap_or(built_in.default_unreachable_toleration_seconds),
        )
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
                let Some(duration) = object.spec.duration() else { return false };
                return self.leases.insert(object.metadata.name.clone(), duration) != Some(duration);
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
        (grace, tolerations): (Duration, (i64, i64)),
        metrics: &Metrics,
    ) -> Option<Time> {
        let world = World {
            cluster: self.cluster.as_deref(),
            nodes: &self.nodes,
            leases: &self.leases,
            pods: &self.pods,
            grace,
            tolerations,
        };
        let update = rollout.look(context.clock.now(), &world);
        metrics.take(&update);
        if let Some(reason) = update.rolled_back {
            tracing::warn!(reason, "latency profile given up; going back to Default");
        }
        for step in &update.applied {
            tracing::info!(%step, "step of a latency profile applied");
        }
        update.events.into_iter().for_each(|event| context.events.record(event));
        let mut again_at = update.again_at;
        for write in &update.writes {
            if let Err(error) = self.write(context, write).await {
                tracing::debug!(kind = write.kind, name = write.name, %error, "a step of a latency profile could not be written");
                again_at = Some(context.clock.now() + PAUSE);
            }
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
