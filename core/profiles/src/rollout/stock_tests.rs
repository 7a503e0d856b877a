//! A stock cluster in memory: kubelets and static pods that use what their files say, and agents that take steps, fail, die and forget.

use api::config_node::{ANNOTATION_APPLIED_STEP, ANNOTATION_APPLY_STEP};
use api::write::Verb;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::profile::Owner;
use crate::steps::{AppliedStep, ComponentState, Decision, decide};
use crate::stock::{MirrorPod, StaticPods};

/// One component of a node.
#[derive(Clone)]
struct Part {
    in_use: ComponentValues,
    original: ComponentValues,
    able: bool,
    /// Takes every step back.
    broken: bool,
    /// What the mirror of its static pod shows.
    mirror: ComponentValues,
}

/// A node: its components, and what its agent has done.
struct Machine {
    parts: BTreeMap<Component, Part>,
    agent: bool,
    handed: Option<String>,
    answer: AppliedStep,
}

struct Stock {
    now: Time,
    rollout: Rollout,
    cluster: Value,
    machines: BTreeMap<String, Machine>,
    kubeadm: Value,
    /// Whether static pods have mirrors.
    mirrored: bool,
    events: Vec<String>,
    reasons: BTreeSet<String>,
    /// Every value that a component has begun to use, in order.
    log: Vec<String>,
}

fn kubelet(seconds: u64) -> ComponentValues {
    ComponentValues::Kubelet(KubeletValues::of(Duration::from_secs(seconds)))
}

fn grace(seconds: u64) -> ComponentValues {
    ComponentValues::ControllerManager { grace: Duration::from_secs(seconds) }
}

fn tolerations(seconds: i64) -> ComponentValues {
    ComponentValues::ApiServer { not_ready_seconds: seconds, unreachable_seconds: seconds }
}

impl Stock {
    /// So many nodes, the control plane on the first ones.
    fn new(workers: usize, masters: usize) -> Stock {
        let part = |values| Part { in_use: values, original: values, able: true, broken: false, mirror: values };
        let mut machines = BTreeMap::new();
        for index in 0..workers.max(masters) {
            let mut parts = BTreeMap::from([(Component::Kubelet, part(kubelet(10)))]);
            if index < masters {
                parts.insert(Component::ControllerManager, part(grace(50)));
                parts.insert(Component::ApiServer, part(tolerations(300)));
            }
            let machine = Machine { parts, agent: true, handed: None, answer: AppliedStep::default() };
            machines.insert(format!("n{index}"), machine);
        }
        Stock {
            now: Time::from_secs(1_700_000_000),
            rollout: Rollout::new(Options::default()),
            cluster: json!({"metadata": {"name": "cluster", "generation": 1}, "spec": {}}),
            machines,
            kubeadm: json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "controllerManager": {}, "apiServer": {}}),
            mirrored: true,
            events: Vec::new(),
            reasons: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    fn want(&mut self, profile: &str) {
        self.cluster["spec"]["workerLatencyProfile"] = json!(profile);
        let generation = self.cluster["metadata"]["generation"].as_i64().unwrap_or(0);
        self.cluster["metadata"]["generation"] = json!(generation + 1);
    }

    fn part(&mut self, node: &str, component: Component) -> &mut Part {
        self.machines.get_mut(node).expect("a node").parts.get_mut(&component).expect("a component")
    }

    fn look(&mut self) -> RolloutUpdate {
        let (mut nodes, mut leases, mut pods) = (BTreeMap::new(), BTreeMap::new(), StaticPods::default());
        for (name, machine) in &mut self.machines {
            machine.say();
            let mut annotations = BTreeMap::new();
            annotations.extend(machine.handed.clone().map(|text| (ANNOTATION_APPLY_STEP, text)));
            annotations.extend(machine.agent.then(|| (ANNOTATION_APPLIED_STEP, machine.answer.to_text())));
            let object = json!({"metadata": {"name": name, "annotations": annotations},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            nodes.insert(name.clone(), serde_json::from_value::<Node>(object).expect("a node"));
            for (component, part) in &machine.parts {
                if let ComponentValues::Kubelet(values) = part.in_use {
                    leases.insert(name.clone(), NodeLease { duration: values.lease_duration, aware: false });
                }
                let given = part.mirror != part.original;
                let arguments = part.mirror.arguments().into_iter().filter(|_| given);
                let words: Vec<String> = arguments.map(|(name, value)| format!("--{name}={value}")).collect();
                let pod = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}},
                    "spec": {"nodeName": name, "containers": [{"name": component.name(), "command": words}]}});
                if !self.mirrored {
                    continue;
                }
                pods.take(&serde_json::from_value::<MirrorPod>(pod).expect("a pod"));
            }
        }
        let cluster: ConfigNode = serde_json::from_value(self.cluster.clone()).expect("a config node");
        let world = World {
            cluster: Some(&cluster),
            nodes: &nodes,
            leases: &leases,
            pods: &BTreeMap::new(),
            control_plane: ControlPlane::Stock { pods: &pods, kubeadm: Some(&self.kubeadm) },
        };
        let update = self.rollout.look(self.now, &world);
        for write in &update.writes {
            let Verb::Merge(patch) = &write.verb else { panic!("{write:?}") };
            match write.group {
                "" => {
                    let text = patch["metadata"]["annotations"][ANNOTATION_APPLY_STEP].as_str().expect("a step");
                    self.machines.get_mut(&write.name).expect("a node").handed = Some(text.to_owned());
                }
                _ => super::tests::merge(&mut self.cluster, patch),
            }
        }
        if let Some(kubeadm) = &update.kubeadm {
            self.kubeadm = kubeadm.clone();
        }
        self.events.extend(update.events.iter().map(|event| format!("{}: {}", event.reason, event.message)));
        let cluster: ConfigNode = serde_json::from_value(self.cluster.clone()).expect("a config node");
        let conditions = cluster.status.worker_latency_profile_status.conditions;
        self.reasons.extend(conditions.into_iter().map(|condition| condition.reason));
        update
    }

    /// Lets the agent of a node do what it is told.
    fn act(&mut self, node: &str) {
        let machine = self.machines.get_mut(node).expect("a node");
        if !machine.agent {
            return;
        }
        let able = |component: Component| match machine.parts.get(&component) {
            Some(part) if part.able => Ok(()),
            _ => Err("/etc/kubernetes/x.yaml was changed by somebody else".to_owned()),
        };
        let (id, result, message) = match decide(machine.handed.as_deref(), &machine.answer.id, able) {
            Decision::Nothing => return,
            Decision::Refuse { id, message } => (id, StepResult::Refused, message),
            Decision::Begin(step) => {
                let part = machine.parts.get_mut(&step.component).expect("it is able");
                if part.broken {
                    // For a moment the component had the values, and its mirror shows them until the kubelet makes another one.
                    part.mirror = step.values.unwrap_or(part.original);
                    (step.id, StepResult::Reverted, "not healthy in time".to_owned())
                } else {
                    part.in_use = step.values.unwrap_or(part.original);
                    self.log.push(format!("{node} {}", part.in_use));
                    (step.id, StepResult::Applied, String::new())
                }
            }
        };
        (machine.answer.id, machine.answer.result, machine.answer.message) = (id, Some(result), message);
    }

    /// Mirrors follow.
    fn mirror(&mut self) {
        for part in self.machines.values_mut().flat_map(|machine| machine.parts.values_mut()) {
            part.mirror = part.in_use;
        }
    }

    /// Every node is safe: no kubelet is slower than any controller manager allows.
    fn check(&self) {
        let all = || self.machines.values().flat_map(|machine| machine.parts.values());
        let graces = all().filter_map(|part| match part.in_use {
            ComponentValues::ControllerManager { grace } => Some(grace),
            _ => None,
        });
        let grace = graces.min().expect("a controller manager");
        for part in all() {
            if let ComponentValues::Kubelet(values) = part.in_use {
                assert!(values.lease_duration <= grace, "{:?} under {grace:?}: {:?}", values, self.log);
            }
        }
    }

    fn finish(&mut self) {
        for _ in 0..600 {
            let update = self.look();
            if update.view.as_ref().is_some_and(|view| view.done) && update.writes.is_empty() && update.kubeadm.is_none() {
                return;
            }
            self.now = update.again_at.expect("looked at again");
            self.mirror();
            for node in self.machines.keys().cloned().collect::<Vec<_>>() {
                self.act(&node);
                self.check();
            }
        }
        panic!("never finished: {:#} {:?}", self.cluster, self.log);
    }

    fn run_for(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.now = self.look().again_at.expect("looked at again").min(end);
            self.mirror();
            for node in self.machines.keys().cloned().collect::<Vec<_>>() {
                self.act(&node);
                self.check();
            }
        }
        self.look();
    }

    fn values(&self) -> BTreeSet<String> {
        let all = self.machines.values().flat_map(|machine| machine.parts.values());
        all.map(|part| part.in_use.to_string()).collect()
    }

    fn condition(&self, owner: Owner, type_: &str) -> (String, String, String) {
        let cluster: ConfigNode = serde_json::from_value(self.cluster.clone()).expect("a config node");
        let conditions = cluster.status.worker_latency_profile_status.conditions;
        let found = conditions.into_iter().find(|one| one.owner == owner.name() && one.type_ == type_).expect("a condition");
        (found.status, found.reason, found.message)
    }
}

impl Machine {
    /// What the agent sees now.
    fn say(&mut self) {
        self.answer.version = "1".to_owned();
        let state = |part: &Part| ComponentState {
            able: part.able,
            changed: part.in_use != part.original,
            values: Some(part.in_use),
            message: if part.able { String::new() } else { "/etc/kubernetes/x.yaml was changed by somebody else".to_owned() },
        };
        self.answer.components = self.parts.iter().map(|(component, part)| (*component, state(part))).collect();
    }
}

fn texts(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn medium_and_back_to_nothing_in_the_order_of_the_plan_and_everything_is_as_it_was() {
    let mut stock = Stock::new(2, 1);
    stock.want("MediumUpdateAverageReaction");
    stock.finish();
    assert_eq!(
        stock.log,
        ["n0 grace 2m0s", "n0 heartbeat 20s", "n1 heartbeat 20s", "n0 tolerations 60s/60s"],
        "patience up, nodes, patience down"
    );
    assert_eq!(
        stock.kubeadm["controllerManager"]["extraArgs"][0],
        json!({"name": "node-monitor-grace-period", "value": "2m0s"})
    );
    assert_eq!(stock.kubeadm["apiServer"]["extraArgs"].as_array().map(Vec::len), Some(2));
    stock.want("");
    stock.finish();
    assert_eq!(stock.values(), texts(&["grace 50s", "heartbeat 10s", "tolerations 300s/300s"]));
    assert_eq!(stock.kubeadm["controllerManager"], json!({}), "kubeadm forgets it, too");
    assert_eq!(stock.condition(Owner::MachineConfig, "Complete").1, "ProfileEmpty");
}

#[test]
fn a_control_plane_that_nobody_may_touch_stops_the_rollout_at_what_is_safe_and_says_so() {
    let mut stock = Stock::new(2, 1);
    for component in [Component::ControllerManager, Component::ApiServer] {
        stock.machines.get_mut("n0").expect("a node").parts.remove(&component);
    }
    stock.want("LowUpdateSlowReaction");
    for _ in 0..20 {
        stock.now = stock.look().again_at.expect("looked at again");
    }
    assert!(stock.log.is_empty(), "nothing is slowed down under a grace that nobody knows");
    let (status, reason, message) = stock.condition(Owner::KubeControllerManager, "Progressing");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "ComponentNotAware"));
    assert!(message.contains("no static pod of it is seen"), "{message}");
    assert_eq!(stock.condition(Owner::MachineConfig, "Progressing").1, "WaitingForOtherOwners");
}

#[test]
fn a_static_pod_whose_mirror_is_gone_for_a_moment_is_still_there() {
    let mut stock = Stock::new(1, 1);
    stock.want("MediumUpdateAverageReaction");
    stock.look();
    stock.mirrored = false;
    stock.look();
    assert!(!stock.reasons.contains("ComponentNotAware"), "{:?}", stock.reasons);
    stock.mirrored = true;
    stock.finish();
    assert!(!stock.reasons.contains("ComponentNotAware"), "{:?}", stock.reasons);
}

#[test]
fn a_node_without_an_agent_is_not_aware_and_one_that_gets_an_agent_follows() {
    let mut stock = Stock::new(3, 1);
    stock.machines.get_mut("n2").expect("a node").agent = false;
    stock.want("MediumUpdateAverageReaction");
    stock.run_for(200);
    let (_, reason, message) = stock.condition(Owner::MachineConfig, "Progressing");
    assert_eq!(reason, "ComponentNotAware");
    assert!(message.contains("n2 (ComponentNotAware: no agent of its node"), "{message}");
    stock.machines.get_mut("n2").expect("a node").agent = true;
    stock.finish();
    assert_eq!(stock.values(), texts(&["grace 2m0s", "heartbeat 20s", "tolerations 60s/60s"]));
}

#[test]
fn what_is_taken_back_three_times_has_failed_and_everything_goes_back_to_default() {
    for (component, owner) in [
        (Component::Kubelet, Owner::MachineConfig),
        (Component::ControllerManager, Owner::KubeControllerManager),
        (Component::ApiServer, Owner::KubeApiServer),
    ] {
        let mut stock = Stock::new(2, 1);
        stock.part("n0", component).broken = true;
        stock.want("MediumUpdateAverageReaction");
        stock.run_for(400);
        let reverted = stock.events.iter().filter(|event| event.starts_with("LatencyProfileStepReverted"));
        let reverted = reverted.filter(|event| !event.contains("grace=40")).count();
        assert_eq!(reverted, 3, "{component:?}: {:?}", stock.events);
        assert!(stock.events.iter().any(|event| event.contains("not healthy in time")));
        let (status, reason, message) = stock.condition(owner, "Degraded");
        assert_eq!((status.as_str(), reason.as_str()), ("True", "ApplyFailed"), "{message}");
        // A controller manager that was never changed still has what is built in; Default asks for 40 s, which it cannot be given.
        let left = if component == Component::ControllerManager { "grace 50s" } else { "grace 40s" };
        assert_eq!(stock.values(), texts(&[left, "heartbeat 10s", "tolerations 300s/300s"]), "{component:?}");
        stock.part("n0", component).broken = false;
        stock.cluster["metadata"]["annotations"]["lifesign.dev/retry"] = json!("1");
        stock.finish();
        assert_eq!(stock.values(), texts(&["grace 2m0s", "heartbeat 20s", "tolerations 60s/60s"]));
    }
}

#[test]
fn controllers_that_ended_with_the_api_server_leave_it_to_the_next_to_say_what_was_taken_back() {
    let mut stock = Stock::new(1, 1);
    stock.part("n0", Component::ControllerManager).broken = true;
    stock.want("MediumUpdateAverageReaction");
    stock.look();
    stock.act("n0");
    stock.rollout = Rollout::new(Options::default());
    stock.look();
    stock.look();
    let reverted: Vec<&String> = stock.events.iter().filter(|event| event.starts_with("LatencyProfileStepReverted")).collect();
    assert_eq!(reverted, ["LatencyProfileStepReverted: kcm n0 grace=120: not healthy in time"], "once");
}

#[test]
fn a_file_that_somebody_else_has_changed_blocks_the_step_and_is_named() {
    let mut stock = Stock::new(1, 1);
    stock.part("n0", Component::ControllerManager).able = false;
    stock.want("MediumUpdateAverageReaction");
    stock.run_for(60);
    let (_, reason, message) = stock.condition(Owner::KubeControllerManager, "Progressing");
    assert_eq!(reason, "ComponentNotAware");
    assert!(message.contains("/etc/kubernetes/x.yaml was changed by somebody else"), "{message}");
    assert!(stock.events.iter().any(|event| event.starts_with("LatencyProfileBlocked") && event.contains("x.yaml")));
    assert!(stock.log.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(256)))]

    /// Profiles come and go, agents are late, lost or broken, the controllers forget: no kubelet is ever slower than a controller
    /// manager allows, and left alone everything gets where it is wanted.
    #[test]
    fn whatever_agents_do_every_node_is_safe_at_every_moment(
        actions in prop::collection::vec((0..9u8, 0..4usize), 1..100),
        masters in 1..4usize,
    ) {
        let mut stock = Stock::new(4, masters);
        for (action, index) in actions {
            let name = format!("n{index}");
            match action {
                0 => stock.want(["", "Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"][index]),
                1 => stock.rollout = Rollout::new(Options { max_unavailable: index, ..Options::default() }),
                2 => stock.part(&name, Component::Kubelet).broken ^= true,
                3 if index == 3 => stock.mirror(),
                3 => stock.part("n0", [Component::ApiServer, Component::ControllerManager][index % 2]).broken ^= true,
                4 => stock.machines.get_mut(&name).expect("a node").agent ^= true,
                5 | 6 => stock.act(&name),
                _ => {
                    stock.look();
                    stock.now += Duration::from_secs(7);
                }
            }
            stock.check();
        }
        for machine in stock.machines.values_mut() {
            machine.agent = true;
            machine.parts.values_mut().for_each(|part| part.broken = false);
        }
        stock.cluster["metadata"]["annotations"]["lifesign.dev/retry"] = json!("again");
        stock.finish();
    }
}
