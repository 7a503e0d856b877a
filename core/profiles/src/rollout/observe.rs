//! What the objects of a plane or of a stock cluster say about the values in use.

use std::collections::BTreeMap;
use std::time::Duration;

use api::config_node::{
    ANNOTATION_APPLIED_PROFILE, ANNOTATION_KUBEADM_ORIGINAL, ANNOTATION_NOT_READY_SECONDS, ANNOTATION_UNREACHABLE_SECONDS,
    ConfigNode,
};
use api::lease::{CAPABILITY_HEARTBEAT_INTERVAL, interval_of};
pub(super) use api::node::LABEL_CONTROL_PLANE;
use api::tolerations::{NOT_READY, UNREACHABLE};
use api::{Lease, Node, Pod};
use machine::Time;

use super::{INSTANCE, LOOK, Rollout};
use crate::kubeadm::Kubeadm;
use crate::plan::{ApiServer, ControllerManager, InstanceKind, Observed, WorkerNode};
use crate::profile::{DEFAULT_GRACE, Profile, Values};
use crate::steps::{ApplyStep, Component, ComponentValues, KubeletValues, NodeSteps};
use crate::stock::StaticPods;

/// What a controller sees.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The object `cluster`.
    pub cluster: Option<&'a ConfigNode>,
    /// Nodes by name.
    pub nodes: &'a BTreeMap<String, Node>,
    /// The Leases of nodes, by name.
    pub leases: &'a BTreeMap<String, NodeLease>,
    /// The default tolerations that running pods carry, by pod.
    pub pods: &'a BTreeMap<String, PodDefaults>,
    /// What the control plane shows of itself.
    pub control_plane: ControlPlane<'a>,
}

/// What a control plane shows of itself: nothing of it is ever taken from what we wrote.
#[derive(Clone, Copy, Debug)]
pub enum ControlPlane<'a> {
    /// A plane of our own.
    Own {
        /// The grace that the node lifecycle controller uses.
        grace: Duration,
        /// The seconds that the API server adds to pods: not ready, unreachable; `None`: it does not say.
        tolerations: Option<(i64, i64)>,
    },
    /// A stock cluster, whose agents change files.
    Stock {
        /// Its static pods.
        pods: &'a StaticPods,
        /// What kubeadm remembers, if there is a kubeadm.
        kubeadm: Option<&'a Kubeadm>,
    },
}

/// The Lease of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLease {
    /// How long it is held.
    pub duration: Duration,
    /// Whether the agent that holds it beats as often as its Node asks for.
    pub aware: bool,
}

impl NodeLease {
    /// Reads a Lease; `None`: it says no duration.
    pub fn read(lease: &Lease) -> Option<NodeLease> {
        Some(NodeLease { duration: lease.spec.duration()?, aware: lease.is_capable(CAPABILITY_HEARTBEAT_INTERVAL) })
    }
}

impl World<'_> {
    /// Returns the last profile that was completed in the whole cluster.
    pub fn applied(&self) -> Profile {
        let text = self.carrier(ANNOTATION_APPLIED_PROFILE).unwrap_or_default();
        Profile::parse(text).unwrap_or_default()
    }

    /// Returns the grace that the node lifecycle controller is asked to use.
    pub(super) fn annotated_grace(&self) -> Option<Duration> {
        self.cluster?.annotated_grace()
    }

    /// Returns what kubeadm remembered before the first change of ours.
    pub(super) fn kubeadm_original(&self) -> Option<String> {
        self.carrier(ANNOTATION_KUBEADM_ORIGINAL).map(str::to_owned)
    }

    /// Returns what an annotation of `cluster` says.
    pub(super) fn carrier(&self, name: &str) -> Option<&str> {
        self.cluster?.metadata.annotations.get(name).map(String::as_str)
    }

    /// Returns whether this is a stock cluster.
    pub(super) fn is_stock(&self) -> bool {
        matches!(self.control_plane, ControlPlane::Stock { .. })
    }
}

/// The default tolerations of a pod, as admission adds them: an exact shape, so that the user's own are not taken for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodDefaults {
    not_ready: Option<i64>,
    unreachable: Option<i64>,
}

impl PodDefaults {
    /// Reads a pod; `None`: it carries no defaults, or is over.
    pub fn read(pod: &Pod) -> Option<PodDefaults> {
        if pod.metadata.deleting() || matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let seconds = |key: &str| {
            let shaped = pod.spec.tolerations.iter().find(|toleration| {
                toleration.key == key && toleration.operator == "Exists" && toleration.effect == "NoExecute"
            });
            let default = |seconds: &i64| Profile::ALL.iter().any(|profile| seconds_of(&profile.values(), key) == *seconds);
            shaped.and_then(|toleration| toleration.toleration_seconds).filter(default)
        };
        let defaults = PodDefaults { not_ready: seconds(NOT_READY), unreachable: seconds(UNREACHABLE) };
        (defaults != PodDefaults::default()).then_some(defaults)
    }

    /// Returns whether the pod carries a default of another profile.
    pub(super) fn older_than(&self, values: &Values) -> bool {
        let differs = |own: Option<i64>, key| own.is_some_and(|own| own != seconds_of(values, key));
        differs(self.not_ready, NOT_READY) || differs(self.unreachable, UNREACHABLE)
    }
}

fn seconds_of(values: &Values, key: &str) -> i64 {
    if key == NOT_READY { values.default_not_ready_toleration_seconds } else { values.default_unreachable_toleration_seconds }
}

/// Says since when things settle.
struct Settling<'a> {
    now: Time,
    before: &'a BTreeMap<(InstanceKind, String), Time>,
    since: BTreeMap<(InstanceKind, String), Time>,
}

impl Settling<'_> {
    /// Returns for how long something that differs has done so.
    fn of(&mut self, kind: InstanceKind, name: &str, differs: bool) -> Option<Duration> {
        let key = (kind, name.to_owned());
        if !differs {
            return None;
        }
        let since = self.before.get(&key).copied().unwrap_or(self.now);
        self.since.insert(key, since);
        // In coarse steps: the message of a condition tells it, and must not change every moment.
        let seconds = self.now.since(since).as_secs() / LOOK.as_secs() * LOOK.as_secs();
        Some(Duration::from_secs(seconds))
    }
}

impl Rollout {
    /// Returns the values in use. What is asked to change and has not yet counts as settling.
    pub(super) fn observe(&mut self, now: Time, world: &World<'_>) -> Observed {
        let before = std::mem::take(&mut self.settling);
        let mut settling = Settling { now, before: &before, since: BTreeMap::new() };
        self.obstacles.clear();
        let observed = match world.control_plane {
            ControlPlane::Own { grace, tolerations } => {
                let (kcm, kas) = self.own_control_plane(world, grace, tolerations, &mut settling);
                let begun = world.nodes.iter().filter(|(name, node)| world.leases.contains_key(*name) || !is_new(now, node));
                let nodes = begun.map(|(name, node)| own_node(now, name, node, world, &mut settling)).collect();
                Observed { kcm: vec![kcm], kas: vec![kas], nodes }
            }
            ControlPlane::Stock { pods, .. } => self.observe_stock(now, world, pods, &mut settling),
        };
        self.settling = settling.since;
        observed
    }

    fn own_control_plane(
        &mut self,
        world: &World<'_>,
        grace: Duration,
        tolerations: Option<(i64, i64)>,
        settling: &mut Settling<'_>,
    ) -> (ControllerManager, ApiServer) {
        let annotated = world.annotated_grace();
        let mut kcm = ControllerManager::new(INSTANCE, grace);
        kcm.leader = true;
        kcm.settling = settling.of(InstanceKind::Kcm, INSTANCE, annotated.is_some_and(|annotated| annotated != grace));
        let seconds = |name| world.carrier(name).and_then(|text| text.parse::<i64>().ok());
        let built_in = Profile::Default.values();
        let in_use = (built_in.default_not_ready_toleration_seconds, built_in.default_unreachable_toleration_seconds);
        let (not_ready, unreachable) = tolerations.unwrap_or(in_use);
        let mut kas = ApiServer::new(INSTANCE, not_ready, unreachable);
        kas.aware = tolerations.is_some();
        if !kas.aware {
            let why = "the API server does not say which tolerations it uses; it is older than its controllers";
            self.obstacles.insert((InstanceKind::Kas, INSTANCE.to_owned()), why.to_owned());
        }
        let differs = seconds(ANNOTATION_NOT_READY_SECONDS).is_some_and(|annotated| annotated != not_ready)
            || seconds(ANNOTATION_UNREACHABLE_SECONDS).is_some_and(|annotated| annotated != unreachable);
        // Of one that says nothing nobody can tell whether it obeys.
        kas.settling = settling.of(InstanceKind::Kas, INSTANCE, differs && kas.aware);
        (kcm, kas)
    }

    /// Returns what a stock cluster uses: arguments of mirror pods, Leases of kubelets, and what agents say they can change.
    fn observe_stock(&mut self, now: Time, world: &World<'_>, pods: &StaticPods, settling: &mut Settling<'_>) -> Observed {
        self.node_steps = world.nodes.iter().map(|(name, node)| (name.clone(), NodeSteps::read(node))).collect();
        let generation = world.cluster.map(|cluster| crate::status::generation(&cluster.metadata)).unwrap_or_default();
        let mut observed = Observed::default();
        for (node, values) in self.static_pods(pods, Component::ControllerManager) {
            let node = node.as_str();
            let seen = self.component(Component::ControllerManager, node, values, &generation, settling);
            let grace = self.smallest_grace(node, values.as_ref(), seen.pending.as_ref());
            let mut kcm = ControllerManager::new(node, grace);
            (kcm.aware, kcm.untouched, kcm.settling) = (seen.aware, seen.untouched, seen.settling);
            kcm.leader = pods.leader.as_deref() == Some(node);
            observed.kcm.push(kcm);
        }
        for (node, values) in self.static_pods(pods, Component::ApiServer) {
            let node = node.as_str();
            let seen = self.component(Component::ApiServer, node, values, &generation, settling);
            let (not_ready, unreachable) = tolerations_of(values.as_ref()).unwrap_or((300, 300));
            let mut kas = ApiServer::new(node, not_ready, unreachable);
            (kas.aware, kas.untouched, kas.settling) = (seen.aware, seen.untouched, seen.settling);
            observed.kas.push(kas);
        }
        self.unseen(&mut observed);
        for (name, node) in world.nodes {
            let mut worker = read_node(now, name, node, world);
            let seen = self.component(Component::Kubelet, name, None, &generation, settling);
            (worker.aware, worker.untouched) = (seen.aware, seen.untouched);
            if !worker.control_plane {
                worker.settling = seen.settling;
            }
            // The Lease says how often it is renewed; what else a kubelet uses only its agent knows.
            if let Some(ComponentValues::Kubelet(used)) = seen.values {
                worker.other_settings = used != KubeletValues::of(worker.heartbeat);
            }
            if let Some(ComponentValues::Kubelet(asked)) = seen.pending.and_then(|step| step.values) {
                worker.heartbeat = worker.heartbeat.max(asked.update_frequency);
            }
            observed.nodes.push(worker);
        }
        observed
    }

    /// Returns the nodes of a component and what each uses. While the kubelet restarts a static pod its mirror is gone for a moment; its agent
    /// knows that it is there.
    fn static_pods(&self, pods: &StaticPods, component: Component) -> BTreeMap<String, Option<ComponentValues>> {
        let by_agents = self.node_steps.iter().filter_map(|(node, steps)| {
            let state = steps.component(component)?;
            Some((node.clone(), state.values))
        });
        let mirrored = pods.of(component).map(|(node, values)| (node.to_owned(), values));
        by_agents.chain(mirrored).collect()
    }

    /// Stands for a control plane that shows no static pods: somebody else runs it, and nobody of us may touch it. Its values are taken for
    /// the ones that are hardest on the nodes.
    fn unseen(&mut self, observed: &mut Observed) {
        let values = Profile::Default.values();
        let tolerations = (values.default_not_ready_toleration_seconds, values.default_unreachable_toleration_seconds);
        if observed.kcm.is_empty() {
            let name = Component::ControllerManager.name();
            let unseen = ControllerManager { aware: false, untouched: true, ..ControllerManager::new(name, DEFAULT_GRACE) };
            observed.kcm.push(unseen);
            self.obstacles.insert((InstanceKind::Kcm, name.to_owned()), UNSEEN.to_owned());
        }
        if observed.kas.is_empty() {
            let name = Component::ApiServer.name();
            let unseen = ApiServer::new(name, tolerations.0, tolerations.1);
            observed.kas.push(ApiServer { aware: false, untouched: true, ..unseen });
            self.obstacles.insert((InstanceKind::Kas, name.to_owned()), UNSEEN.to_owned());
        }
    }

    /// Returns what is known of a component of a node. `mirror` is what the mirror of a static pod shows: while that is not what the agent
    /// sees in use, nobody may rely on either. A mirror lags behind, and after a step that was taken back it still shows the values that were
    /// given up.
    fn component(
        &mut self,
        component: Component,
        node: &str,
        mirror: Option<ComponentValues>,
        generation: &str,
        settling: &mut Settling<'_>,
    ) -> ComponentSeen {
        let none = NodeSteps::default();
        let steps = self.node_steps.get(node).unwrap_or(&none);
        let pending = steps.pending(component).cloned();
        let state = steps.component(component);
        let disagree = component != Component::Kubelet && state.is_some_and(|state| state.values != mirror);
        let mut seen = ComponentSeen {
            // Without an agent nobody of us has ever been there.
            untouched: state.is_none_or(|state| !state.changed),
            values: state.and_then(|state| state.values),
            aware: true,
            settling: settling.of(component.kind(), node, pending.is_some() || disagree),
            pending,
        };
        let mut obstacle = steps.obstacle(component, generation);
        if seen.pending.is_some() && steps.result().is_none() && seen.settling.is_some_and(|span| span >= TAKEN_WITHIN) {
            // It may still take the step, whose values count as long as it is there; but nobody waits for it.
            seen.settling = None;
            obstacle = obstacle.or_else(|| Some("its agent has not taken the step that it was handed".to_owned()));
        }
        seen.aware = obstacle.is_none();
        self.obstacles.extend(obstacle.map(|why| ((component.kind(), node.to_owned()), why)));
        seen
    }

    /// Returns the smallest grace that a controller manager may use: that of its mirror, what its agent sees, and what is on its way.
    fn smallest_grace(&self, node: &str, mirror: Option<&ComponentValues>, pending: Option<&ApplyStep>) -> Duration {
        let seen = self.node_steps.get(node).and_then(|steps| steps.component(Component::ControllerManager)?.values);
        let asked = pending.and_then(|step| step.values.as_ref());
        let all = [mirror, seen.as_ref(), asked];
        all.into_iter().filter_map(grace_of).min().unwrap_or(DEFAULT_GRACE)
    }
}

/// What is known of a component of a node.
struct ComponentSeen {
    aware: bool,
    untouched: bool,
    /// For how long it settles.
    settling: Option<Duration>,
    /// The step that is under way there.
    pending: Option<ApplyStep>,
    /// What it uses, as its agent says.
    values: Option<ComponentValues>,
}

/// An agent that lives takes a step within moments.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// Why a control plane without static pods is left alone.
const UNSEEN: &str = "no static pod of it is seen: somebody else runs it";

fn grace_of(values: Option<&ComponentValues>) -> Option<Duration> {
    match values? {
        ComponentValues::ControllerManager { grace } => Some(*grace),
        _ => None,
    }
}

fn tolerations_of(values: Option<&ComponentValues>) -> Option<(i64, i64)> {
    match values? {
        ComponentValues::ApiServer { not_ready_seconds, unreachable_seconds } => {
            Some((*not_ready_seconds, *unreachable_seconds))
        }
        _ => None,
    }
}

/// A node that was created this long ago should have begun to beat.
const FIRST_BEAT: Duration = Duration::from_secs(10);

/// Returns whether a node was created a moment ago. Its agent begins with the interval that is wanted, and says so with its first beat:
/// what is not known for that moment is no reason to ask it for anything, or to go a longer way with the others.
fn is_new(now: Time, node: &Node) -> bool {
    node.metadata.creation_timestamp.is_some_and(|created| now.since(created.0) < FIRST_BEAT)
}

fn own_node(now: Time, name: &str, node: &Node, world: &World<'_>, settling: &mut Settling<'_>) -> WorkerNode {
    let mut worker = read_node(now, name, node, world);
    // One that has not begun to beat is asked beforehand.
    worker.aware = world.leases.get(name).is_none_or(|lease| lease.aware);
    let annotated = annotated_interval(node).filter(|annotated| !worker.control_plane && *annotated != worker.heartbeat);
    if let Some(annotated) = annotated {
        worker.settling = settling.of(InstanceKind::Node, name, true);
        // Either may be in use: the slower one is the one to be careful about.
        worker.heartbeat = worker.heartbeat.max(annotated);
    }
    worker
}

/// Returns the values in use, as seen for the first time, and why instances cannot be changed.
pub fn observed(now: Time, world: &World<'_>) -> (Observed, BTreeMap<(InstanceKind, String), String>) {
    let mut rollout = Rollout::new(super::Options::default());
    (rollout.observe(now, world), rollout.obstacles)
}

/// Returns the interval that a node is asked to use.
pub(super) fn annotated_interval(node: &Node) -> Option<Duration> {
    api::config_node::annotated_interval(node).ok().flatten()
}

fn read_node(now: Time, name: &str, node: &Node, world: &World<'_>) -> WorkerNode {
    // A node without a Lease has not begun to beat: an agent that knows nothing of profiles begins with the interval of Default.
    let lease = world.leases.get(name).map(|lease| interval_of(lease.duration));
    let mut worker = WorkerNode::new(name, lease.unwrap_or(Profile::Default.values().lease_renew_interval()));
    worker.control_plane = node.metadata.labels.contains_key(LABEL_CONTROL_PLANE);
    if node.ready() != Some("True") {
        let ready = node.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let since = ready.and_then(|ready| ready.last_transition_time).or(node.metadata.creation_timestamp);
        worker.not_ready_for = Some(since.map_or(Duration::ZERO, |since| now.since(since.0)));
    }
    worker
}
