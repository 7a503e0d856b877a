//! A stock cluster in memory: kubelets and static pods that use what their files say, and agents that take steps, fail, die and forget.

use api::config_node::{ANNOTATION_APPLIED_STEP, ANNOTATION_APPLY_STEP};
use api::write::Verb;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kubeadm::{Configuration, Kubeadm};
use crate::profile::Owner;
use crate::steps::{AppliedStep, ComponentState, ComponentValues, Decision, KubeletValues, StepResult, Unable, decide};
use crate::stock::{MirrorPod, StaticPods};

/// One component of a node.
#[derive(Clone)]
struct Part {
    in_use: ComponentValues,
    original: ComponentValues,
    able: bool,
    /// Takes every step back.
    broken: bool,
    /// Whether its file is another one than the original.
    changed: bool,
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
    /// kubeadm's ClusterConfiguration.
    kubeadm: String,
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
        let part =
            |values| Part { in_use: values, original: values, able: true, broken: false, changed: false, mirror: values };
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
            kubeadm: KUBEADM.to_owned(),
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
                // What is built in needs no argument.
                let given = part.mirror != part.original || part.mirror != built_in(*component);
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
        let read = |text: &str| Configuration { text: text.to_owned(), value: serde_json::from_str(text).expect("JSON") };
        let original = cluster.metadata.annotations.get("lifesign.dev/kubeadm-original").map(|text| read(text));
        let kubeadm = Kubeadm { now: read(&self.kubeadm), original };
        let world = World {
            cluster: Some(&cluster),
            nodes: &nodes,
            leases: &leases,
            pods: &BTreeMap::new(),
            control_plane: ControlPlane::Stock { pods: &pods, kubeadm: Some(&kubeadm) },
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
        match &update.kubeadm {
            Some(KubeadmChange::Text(text)) => self.kubeadm.clone_from(text),
            Some(KubeadmChange::Value(value)) => self.kubeadm = value.to_string(),
            None => {}
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
        let able = |step: &crate::steps::ApplyStep| match machine.parts.get(&step.component) {
            Some(part) if part.able || part.changed && step.adopt => Ok(()),
            _ => Err(Unable::ByItself("/etc/kubernetes/x.yaml was changed by somebody else".to_owned())),
        };
        let (id, result, message) = match decide(machine.handed.as_deref(), &machine.answer.id, Duration::ZERO, able) {
            Decision::Nothing | Decision::Wait => return,
            Decision::Refuse { id, message } => (id, StepResult::Refused, message),
            Decision::Begin(step) => {
                let part = machine.parts.get_mut(&step.component).expect("it is able");
                if part.broken {
                    // For a moment the component had the values, and its mirror shows them until the kubelet makes another one.
                    part.mirror = step.values.unwrap_or(part.original);
                    (step.id, StepResult::Reverted, "not healthy in time".to_owned())
                } else {
                    part.in_use = step.values.unwrap_or(part.original);
                    part.able = true;
                    part.changed = step.values.is_some();
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
            changed: part.changed,
            adoptable: part.changed && !part.able,
            values: Some(part.in_use),
            message: if part.able { String::new() } else { "/etc/kubernetes/x.yaml was changed by somebody else".to_owned() },
        };
        self.answer.components = self.parts.iter().map(|(component, part)| (*component, state(part))).collect();
    }
}

/// As somebody has written it.
const KUBEADM: &str = r#"{"controllerManager": {},   "apiServer": {}, "apiVersion": "kubeadm.k8s.io/v1beta4"}"#;

/// What a component uses that is told nothing.
fn built_in(component: Component) -> ComponentValues {
    match component {
        Component::Kubelet => kubelet(10),
        Component::ControllerManager => grace(50),
        Component::ApiServer => tolerations(300),
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
    let kubeadm: Value = serde_json::from_str(&stock.kubeadm).expect("JSON");
    assert_eq!(kubeadm["controllerManager"]["extraArgs"][0], json!({"name": "node-monitor-grace-period", "value": "2m0s"}));
    assert_eq!(kubeadm["apiServer"]["extraArgs"].as_array().map(Vec::len), Some(2));
    stock.want("");
    stock.finish();
    assert_eq!(stock.values(), texts(&["grace 50s", "heartbeat 10s", "tolerations 300s/300s"]));
    assert_eq!(stock.kubeadm, KUBEADM, "kubeadm remembers what it did, byte for byte");
    assert!(stock.cluster["metadata"]["annotations"]["lifesign.dev/kubeadm-original"].is_null(), "and nothing of it is left");
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

#[test]
fn controllers_that_end_with_the_api_server_that_they_give_back_leave_kubeadm_as_it_was() {
    let mut stock = Stock::new(1, 1);
    stock.want("MediumUpdateAverageReaction");
    stock.finish();
    stock.want("");
    for _ in 0..200 {
        // The API server takes everybody's leadership with it, each time.
        if stock.log.last().is_some_and(|last| last.contains("tolerations 300s")) {
            stock.rollout = Rollout::new(Options::default());
        }
        stock.now = stock.look().again_at.expect("looked at again");
        stock.mirror();
        stock.act("n0");
    }
    stock.finish();
    assert_eq!(stock.kubeadm, KUBEADM);
    assert_eq!(stock.values(), texts(&["grace 50s", "heartbeat 10s", "tolerations 300s/300s"]));
}

#[test]
fn a_manifest_that_was_written_anew_with_our_values_is_ours_again_when_a_person_asks_for_it() {
    let mut stock = Stock::new(1, 1);
    stock.want("MediumUpdateAverageReaction");
    stock.finish();
    for component in [Component::ControllerManager, Component::ApiServer] {
        stock.part("n0", component).able = false;
    }
    stock.run_for(100);
    assert!(!stock.part("n0", Component::ControllerManager).able, "nobody has asked");
    stock.cluster["metadata"]["annotations"]["lifesign.dev/retry"] = json!("1");
    stock.run_for(100);
    assert!(stock.part("n0", Component::ControllerManager).able && stock.part("n0", Component::ApiServer).able);
    stock.want("");
    stock.finish();
    assert_eq!(stock.values(), texts(&["grace 50s", "heartbeat 10s", "tolerations 300s/300s"]));
    assert_eq!(stock.kubeadm, KUBEADM);
}

/// A cluster that somebody has tuned before we came.
fn tuned() -> Stock {
    let mut stock = Stock::new(2, 1);
    for (node, component, values) in [
        ("n0", Component::ControllerManager, grace(60)),
        ("n0", Component::ApiServer, tolerations(30)),
        ("n1", Component::Kubelet, kubelet(5)),
    ] {
        let part = stock.part(node, component);
        (part.in_use, part.original, part.mirror) = (values, values, values);
    }
    stock
}

#[test]
fn where_nothing_is_wanted_values_of_others_are_left_alone_and_given_back() {
    let mut stock = tuned();
    stock.finish();
    assert!(stock.log.is_empty(), "{:?}", stock.log);
    let (status, _, message) = stock.condition(Owner::KubeApiServer, "Complete");
    assert_eq!(status, "True");
    assert!(message.starts_with("1/1 API servers at 300s/300s or left alone (1)"), "{message}");
    stock.want("MediumUpdateAverageReaction");
    stock.finish();
    stock.want("");
    stock.finish();
    let original = ["grace 1m0s", "tolerations 30s/30s", "heartbeat 10s", "heartbeat 5s"];
    assert_eq!(stock.values(), texts(&original), "{:?}", stock.log);
    let after = stock.log.len();
    stock.run_for(300);
    assert_eq!(stock.log.len(), after, "nothing is written again: {:?}", stock.log);
}

#[test]
fn a_restore_that_is_taken_back_is_told_and_tried_again_but_not_for_ever() {
    let mut stock = Stock::new(1, 1);
    stock.want("Default");
    stock.finish();
    stock.want("");
    stock.part("n0", Component::ControllerManager).broken = true;
    stock.run_for(300);
    let expected = "LatencyProfileStepReverted: kcm n0 as before the first profile: not healthy in time";
    assert_eq!(stock.events.iter().filter(|event| *event == expected).count(), 3, "{:?}", stock.events);
    stock.part("n0", Component::ControllerManager).broken = false;
    stock.cluster["metadata"]["annotations"]["lifesign.dev/retry"] = json!("1");
    stock.finish();
    assert_eq!(stock.values(), texts(&["grace 50s", "heartbeat 10s", "tolerations 300s/300s"]));
    assert!(stock.events.iter().any(|event| event == "LatencyProfileStepApplied: kcm n0 as before the first profile"));
    assert!(stock.machines["n0"].parts.values().all(|part| !part.changed));
}

#[test]
fn an_agent_that_does_not_take_its_step_within_a_minute_is_named() {
    let mut stock = Stock::new(2, 1);
    stock.want("MediumUpdateAverageReaction");
    stock.look();
    // It has said what it can change, and nothing since.
    for _ in 0..7 {
        stock.now += Duration::from_secs(10);
        stock.look();
    }
    let (status, reason, message) = stock.condition(Owner::KubeControllerManager, "Progressing");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "ComponentNotAware"), "{message}");
    assert!(message.contains("its agent has not taken the step"), "{message}");
    stock.finish();
    assert_eq!(stock.values(), texts(&["grace 2m0s", "heartbeat 20s", "tolerations 60s/60s"]));
}

#[test]
fn a_kubelet_that_posts_its_status_more_often_than_the_profile_says_is_not_done() {
    let mut stock = Stock::new(1, 1);
    let often = KubeletValues { report_frequency: Duration::from_secs(10), ..KubeletValues::of(Duration::from_secs(10)) };
    let part = stock.part("n0", Component::Kubelet);
    (part.in_use, part.original) = (ComponentValues::Kubelet(often), ComponentValues::Kubelet(often));
    stock.want("Default");
    stock.finish();
    assert!(stock.log.contains(&"n0 heartbeat 10s".to_owned()), "its Lease was as wanted all the time: {:?}", stock.log);
}

#[test]
fn the_next_leader_tells_what_ends_and_repeats_nothing() {
    let mut stock = Stock::new(1, 1);
    stock.want("MediumUpdateAverageReaction");
    for _ in 0..60 {
        stock.rollout = Rollout::new(Options::default());
        stock.now = stock.look().again_at.expect("looked at again");
        stock.mirror();
        stock.act("n0");
    }
    let count = |words: &str| stock.events.iter().filter(|event| event.starts_with(words)).count();
    let seen = &stock.events;
    assert_eq!(count("LatencyProfileStarted"), 1, "{seen:?}");
    assert_eq!(count("LatencyProfileCompleted"), 1, "{seen:?}");
    for step in ["kcm n0 grace=120", "node n0 heartbeat=20", "kas n0 tolerations=60/60"] {
        assert!(count(&format!("LatencyProfileStepApplied: {step}")) >= 1, "{step}: {seen:?}");
    }
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
