//! A plane in memory: it takes the writes, its parts obey their carriers, agents with their next beat.

use api::config_node::{
    ANNOTATION_APPLIED_PROFILE, ANNOTATION_GRACE_PERIOD, ANNOTATION_NOT_READY_SECONDS, ANNOTATION_PAUSED, ANNOTATION_RETRY,
    ANNOTATION_ROLLED_BACK_GENERATION, ANNOTATION_UNREACHABLE_SECONDS, ANNOTATION_UPDATE_FREQUENCY,
};
use api::write::Verb;
use api::{Pod, duration};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

struct Plane {
    now: Time,
    rollout: Rollout,
    cluster: Option<Value>,
    nodes: BTreeMap<String, Value>,
    leases: BTreeMap<String, NodeLease>,
    pods: BTreeMap<String, PodDefaults>,
    /// Agents that do not obey.
    deaf: BTreeSet<String>,
    /// Agents that do not know the interval that their Node asks for.
    old: BTreeSet<String>,
    grace: Duration,
    tolerations: (i64, i64),
    /// Whether the API server says what it uses.
    says: bool,
    /// What `applied-profile` has been, and the reasons of each owner, in order.
    applied: Vec<String>,
    reasons: BTreeSet<String>,
    events: Vec<&'static str>,
}

impl Plane {
    fn new(count: usize) -> Plane {
        let mut plane = Plane {
            now: Time::from_secs(1_700_000_000),
            rollout: Rollout::new(Options::default()),
            cluster: None,
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            pods: BTreeMap::new(),
            deaf: BTreeSet::new(),
            old: BTreeSet::new(),
            grace: Duration::from_secs(40),
            tolerations: (300, 300),
            says: true,
            applied: Vec::new(),
            reasons: BTreeSet::new(),
            events: Vec::new(),
        };
        (0..count).for_each(|index| plane.join(&format!("n{index}")));
        plane
    }

    fn join(&mut self, name: &str) {
        let ready = json!({"type": "Ready", "status": "True"});
        self.nodes.insert(name.to_owned(), json!({"metadata": {"name": name}, "status": {"conditions": [ready]}}));
        self.hold_lease(name, Duration::from_secs(40));
    }

    fn hold_lease(&mut self, name: &str, duration: Duration) {
        let aware = !self.old.contains(name);
        self.leases.insert(name.to_owned(), NodeLease { duration, aware });
    }

    /// Whether the Leases of all nodes last so many seconds.
    fn all_hold(&self, seconds: u64) -> bool {
        self.leases.values().all(|lease| lease.duration.as_secs() == seconds)
    }

    fn set_ready(&mut self, name: &str, status: &str) {
        let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": api::Timestamp(self.now).to_string()});
        self.nodes.get_mut(name).expect("a node")["status"]["conditions"] = json!([ready]);
    }

    fn want(&mut self, profile: &str) {
        let cluster = self.cluster.as_mut().expect("the object is there");
        cluster["spec"] = json!({"workerLatencyProfile": profile});
        let generation = cluster["metadata"]["generation"].as_i64().unwrap_or(0);
        cluster["metadata"]["generation"] = json!(generation + 1);
    }

    fn annotate(&mut self, name: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {name: value}}});
        merge(self.cluster.as_mut().expect("the object is there"), &patch);
    }

    fn cluster(&self) -> ConfigNode {
        serde_json::from_value(self.cluster.clone().expect("the object is there")).expect("a config node")
    }

    fn annotation(&self, name: &str) -> Option<String> {
        self.cluster().metadata.annotations.get(name).cloned()
    }

    /// One look; the writes come true.
    fn look(&mut self) -> RolloutUpdate {
        let cluster = self.cluster.is_some().then(|| self.cluster());
        let nodes: BTreeMap<String, Node> = self
            .nodes
            .iter()
            .map(|(name, node)| (name.clone(), serde_json::from_value(node.clone()).expect("a node")))
            .collect();
        let world = World {
            cluster: cluster.as_ref(),
            nodes: &nodes,
            leases: &self.leases,
            pods: &self.pods,
            control_plane: ControlPlane::Own { grace: self.grace, tolerations: self.says.then_some(self.tolerations) },
        };
        let update = self.rollout.look(self.now, &world);
        update.writes.iter().for_each(|write| self.write(write));
        self.events.extend(update.events.iter().map(|event| event.reason));
        let cluster = self.cluster();
        if let Some(applied) = cluster.metadata.annotations.get(ANNOTATION_APPLIED_PROFILE)
            && self.applied.last() != Some(applied)
        {
            self.applied.push(applied.clone());
        }
        let conditions = cluster.status.worker_latency_profile_status.conditions;
        self.reasons.extend(conditions.into_iter().map(|condition| format!("{}: {}", condition.owner, condition.reason)));
        update
    }

    fn write(&mut self, write: &Write) {
        let object = match (write.group, &write.verb) {
            ("", Verb::Merge(_)) => self.nodes.get_mut(&write.name).expect("a node that is there"),
            (_, Verb::Create(api::write::Body::Json(body))) => {
                self.cluster = Some(body.clone());
                return;
            }
            _ => self.cluster.as_mut().expect("the object is there"),
        };
        let Verb::Merge(patch) = &write.verb else { panic!("{write:?}") };
        merge(object, patch);
    }

    /// Everybody does what he is told.
    fn obey(&mut self) {
        self.obey_controllers();
        self.obey_api_server();
        self.nodes.keys().cloned().collect::<Vec<_>>().iter().for_each(|name| self.obey_node(name));
    }

    fn obey_controllers(&mut self) {
        let annotations = self.cluster().metadata.annotations;
        if let Some(grace) = annotations.get(ANNOTATION_GRACE_PERIOD) {
            self.grace = duration::parse(grace).expect("a duration");
        }
    }

    fn obey_api_server(&mut self) {
        let annotations = self.cluster().metadata.annotations;
        let seconds = |name: &str, now| annotations.get(name).map_or(now, |text| text.parse().expect("a number"));
        self.tolerations = (
            seconds(ANNOTATION_NOT_READY_SECONDS, self.tolerations.0),
            seconds(ANNOTATION_UNREACHABLE_SECONDS, self.tolerations.1),
        );
    }

    fn obey_node(&mut self, name: &str) {
        let annotated = self.nodes[name]["metadata"]["annotations"][ANNOTATION_UPDATE_FREQUENCY].as_str().unwrap_or("10s");
        let duration = duration::parse(annotated).expect("a duration") * 4;
        if !self.deaf.contains(name) && !self.old.contains(name) {
            self.hold_lease(name, duration);
        }
    }

    /// Looks until the target is reached; every state on the way is safe for every node.
    fn finish(&mut self) {
        for _ in 0..500 {
            let update = self.look();
            let view = update.view.expect("there is an object");
            let unsafe_nodes = view.classes[&Class::Elevated] + view.classes[&Class::Certain];
            assert_eq!(unsafe_nodes, 0, "{view:?}");
            if view.done && update.writes.is_empty() {
                return;
            }
            self.now = update.again_at.expect("a rollout is looked at again");
            self.obey();
        }
        panic!("never finished: {:#}", self.cluster.clone().unwrap_or_default());
    }

    fn run_for(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.now = self.look().again_at.expect("looked at again").min(end);
            self.obey();
        }
        self.look();
    }

    fn all(&self, type_: &str) -> Vec<(String, String)> {
        let conditions = self.cluster().status.worker_latency_profile_status.conditions;
        let of_type = conditions.into_iter().filter(|condition| condition.type_ == type_);
        of_type.map(|condition| (condition.status, condition.reason)).collect()
    }
}

pub(super) fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let object = into.as_object_mut().expect("made an object");
    for (name, value) in patch {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn complete(reason: &str) -> Vec<(String, String)> {
    vec![("True".to_owned(), reason.to_owned()); 3]
}

fn idle(count: usize) -> Plane {
    let mut plane = Plane::new(count);
    plane.look();
    plane.finish();
    plane
}

#[test]
fn a_missing_object_is_made_and_an_empty_profile_is_complete_and_leaves_nothing() {
    let plane = idle(2);
    assert_eq!(plane.all("Complete"), complete("ProfileEmpty"));
    assert_eq!(plane.annotation(ANNOTATION_GRACE_PERIOD), None);
    assert_eq!(plane.annotation(ANNOTATION_APPLIED_PROFILE).as_deref(), Some("Default"));
    assert!(plane.nodes.values().all(|node| node["metadata"]["annotations"].is_null()));
}

#[test]
fn default_to_low_goes_through_medium_and_back_to_nothing() {
    let mut plane = idle(3);
    plane.want("LowUpdateSlowReaction");
    plane.finish();
    assert_eq!(plane.applied, ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"]);
    assert_eq!(plane.all("Complete"), complete("ProfileUpdated"));
    assert_eq!((plane.grace, plane.tolerations), (Duration::from_secs(300), (60, 60)));
    assert!(plane.all_hold(240));
    for reason in ["ProfileUpdateTriggered", "WaitingForOtherOwners", "IntermediateProfileReached"] {
        assert!(plane.reasons.iter().any(|seen| seen.ends_with(reason)), "{reason}: {:?}", plane.reasons);
    }
    let steps = plane.events.iter().filter(|event| **event == "LatencyProfileStepApplied").count();
    assert_eq!(steps, 3 + 3 + 3, "both graces, one toleration, each node twice: {:?}", plane.events);
    assert_eq!((plane.events.first(), plane.events.last()), (Some(&"LatencyProfileStarted"), Some(&"LatencyProfileCompleted")));
    plane.want("");
    plane.finish();
    assert_eq!(plane.events.last(), Some(&"LatencyProfileAdvisory"), "40 s are less than a reconnection may take");
    assert_eq!(plane.all("Complete"), complete("ProfileEmpty"));
    assert_eq!((plane.grace, plane.tolerations), (Duration::from_secs(40), (300, 300)));
    assert_eq!(plane.annotation(ANNOTATION_GRACE_PERIOD), None, "an empty profile removes what was written");
    assert!(plane.nodes.values().all(|node| node["metadata"]["annotations"][ANNOTATION_UPDATE_FREQUENCY].is_null()));
}

#[test]
fn an_old_agent_holds_up_the_rollout_until_it_is_upgraded_or_the_wish_is_taken_back() {
    for upgraded in [true, false] {
        let mut plane = idle(2);
        plane.old.insert("n1".to_owned());
        plane.hold_lease("n1", Duration::from_secs(40));
        plane.want("MediumUpdateAverageReaction");
        plane.run_for(100);
        let nodes = plane.all("Progressing")[2].clone();
        assert_eq!(nodes, ("True".to_owned(), "ComponentNotAware".to_owned()));
        assert_eq!((plane.leases["n0"].duration.as_secs(), plane.leases["n1"].duration.as_secs()), (80, 40));
        assert_eq!(plane.tolerations, (300, 300), "nobody is made less patient while a node is missing");
        if upgraded {
            plane.old.clear();
            plane.finish();
            assert_eq!(plane.all("Complete"), complete("ProfileUpdated"));
            assert!(plane.all_hold(80));
        } else {
            plane.want("");
            plane.finish();
            assert_eq!(plane.all("Complete"), complete("ProfileEmpty"));
            assert!(plane.all_hold(40));
        }
    }
}

#[test]
fn an_api_server_that_does_not_say_what_it_uses_confirms_nothing() {
    let mut plane = idle(1);
    plane.says = false;
    plane.want("MediumUpdateAverageReaction");
    plane.run_for(100);
    assert_eq!(plane.all("Progressing")[0], ("True".to_owned(), "ComponentNotAware".to_owned()));
    let message = plane.cluster().status.worker_latency_profile_status.conditions[0].message.clone();
    assert!(message.contains("does not say which tolerations it uses"), "{message}");
    assert_eq!(plane.annotation(ANNOTATION_UNREACHABLE_SECONDS), None, "it is not told either");
    plane.run_for(1_200);
    assert_eq!(plane.all("Degraded")[0], ("True".to_owned(), "ComponentNotAware".to_owned()), "after the deadline");
    assert_eq!(plane.grace, Duration::from_secs(40));
    plane.says = true;
    plane.annotate(ANNOTATION_RETRY, Some("1"));
    plane.finish();
    assert_eq!(plane.all("Complete"), complete("ProfileUpdated"));
}

#[test]
fn without_workers_the_way_is_direct() {
    let mut plane = idle(0);
    plane.want("LowUpdateSlowReaction");
    plane.finish();
    assert_eq!(plane.applied, ["Default", "LowUpdateSlowReaction"]);
}

#[test]
fn a_node_that_joins_begins_with_the_interval_of_the_profile_in_force_and_of_no_other() {
    let mut plane = idle(0);
    assert_eq!(first_interval(&plane.cluster()), None);
    plane.want("LowUpdateSlowReaction");
    assert_eq!(first_interval(&plane.cluster()), None, "the grace is not there yet");
    plane.finish();
    assert_eq!(first_interval(&plane.cluster()), Some(Duration::from_secs(60)));
    plane.want("Default");
    assert_eq!(first_interval(&plane.cluster()), None);
}

#[test]
fn a_restart_at_any_look_changes_nothing_but_the_memory() {
    for stop in 0..12 {
        let mut plane = idle(2);
        plane.want("LowUpdateSlowReaction");
        for _ in 0..stop {
            plane.now = plane.look().again_at.expect("looked at again");
            plane.obey();
        }
        plane.rollout = Rollout::new(Options::default());
        plane.finish();
        assert_eq!(plane.applied, ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"], "stop {stop}");
    }
}

#[test]
fn a_node_that_does_not_obey_degrades_its_owner_and_everybody_goes_back_to_default() {
    let mut plane = idle(3);
    plane.deaf.insert("n1".to_owned());
    plane.want("MediumUpdateAverageReaction");
    plane.run_for(590);
    assert!(plane.all("Degraded").iter().all(|(status, _)| status == "False"), "{:?}", plane.all("Degraded"));
    plane.run_for(400);
    let reason = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    let degraded = plane.all("Degraded");
    assert_eq!(degraded[2], reason("True", "ProgressDeadlineExceeded"), "the owner of the nodes");
    assert_eq!(degraded[..2], [reason("False", "RolledBackToDefault"), reason("False", "RolledBackToDefault")]);
    assert_eq!((plane.grace, plane.tolerations), (Duration::from_secs(40), (300, 300)));
    assert!(plane.all_hold(40));
    assert_eq!(plane.cluster().spec.worker_latency_profile, "MediumUpdateAverageReaction", "the spec is not touched");
    assert!(plane.annotation(ANNOTATION_ROLLED_BACK_GENERATION).is_some());
    assert!(plane.events.contains(&"LatencyProfileRolledBack"));
    // Sticky across a restart.
    plane.rollout = Rollout::new(Options::default());
    plane.run_for(60);
    assert_eq!(plane.all("Degraded"), degraded);
    // Until it is asked for again.
    plane.deaf.clear();
    plane.annotate(ANNOTATION_RETRY, Some("1"));
    plane.finish();
    assert_eq!(plane.all("Complete"), complete("ProfileUpdated"));
    assert_eq!(plane.annotation(ANNOTATION_ROLLED_BACK_GENERATION), None);
}

#[test]
fn lost_nodes_end_a_rollout_and_a_paused_one_waits() {
    let mut plane = idle(6);
    plane.annotate(ANNOTATION_PAUSED, Some("true"));
    plane.want("MediumUpdateAverageReaction");
    plane.run_for(3_600);
    assert_eq!(plane.all("Progressing"), vec![("False".to_owned(), "RolloutPaused".to_owned()); 3]);
    assert_eq!(plane.grace, Duration::from_secs(40));
    plane.annotate(ANNOTATION_PAUSED, None);
    plane.run_for(20);
    assert_eq!(plane.grace, Duration::from_secs(120));
    plane.set_ready("n4", "Unknown");
    plane.set_ready("n5", "Unknown");
    let update = plane.look();
    assert_eq!(update.rolled_back, Some("NodesLostDuringRollout"));
    assert_eq!(plane.all("Degraded")[2], ("True".to_owned(), "NodesLostDuringRollout".to_owned()));
}

#[test]
fn a_node_that_is_away_for_long_does_not_hold_up_the_others_and_follows_when_it_returns() {
    let mut plane = idle(3);
    plane.deaf.insert("n2".to_owned());
    plane.set_ready("n2", "Unknown");
    plane.now += Duration::from_secs(700);
    plane.want("MediumUpdateAverageReaction");
    plane.finish();
    assert_eq!(plane.all("Complete"), complete("ProfileUpdated"));
    let message = &plane.cluster().status.worker_latency_profile_status.conditions[6].message;
    assert!(message.contains("offline, changed when they return: n2"), "{message}");
    plane.deaf.clear();
    plane.set_ready("n2", "True");
    plane.finish();
    assert_eq!(plane.leases["n2"].duration.as_secs(), 80);
}

#[test]
fn a_node_that_joins_later_is_brought_to_the_profile() {
    let mut plane = idle(1);
    plane.want("LowUpdateSlowReaction");
    plane.finish();
    plane.join("n9");
    plane.finish();
    assert_eq!(plane.leases["n9"].duration.as_secs(), 240);
}

#[test]
fn a_node_is_waited_for_until_its_first_beat_and_takes_no_step_before() {
    let mut plane = idle(1);
    plane.want("LowUpdateSlowReaction");
    plane.finish();
    plane.join("n9");
    plane.leases.remove("n9");
    plane.nodes.get_mut("n9").expect("it has joined")["metadata"]["creationTimestamp"] =
        json!(api::Timestamp(plane.now).to_string());
    let steps = |plane: &mut Plane| (plane.look().view.expect("there is an object").done, plane.rollout.pending.len());
    assert_eq!(steps(&mut plane), (true, 0), "its agent is about to say how often it beats");
    plane.now += Duration::from_secs(9);
    plane.hold_lease("n9", Duration::from_secs(240));
    assert_eq!(steps(&mut plane), (true, 0), "it begins with what is wanted");
    plane.leases.remove("n9");
    plane.now += Duration::from_secs(1);
    assert!(!steps(&mut plane).0, "it does not beat");
    plane.finish();
    assert_eq!(plane.leases["n9"].duration.as_secs(), 240);
}

#[test]
fn a_node_with_a_profile_of_its_own_keeps_it_whatever_the_others_get_and_joins_them_without_it() {
    let mut plane = idle(3);
    plane.rollout = Rollout::new(Options { per_node: true, ..Options::default() });
    let annotate = |plane: &mut Plane, value: Value| {
        let patch = json!({"metadata": {"annotations": {api::config_node::ANNOTATION_NODE_PROFILE: value}}});
        merge(plane.nodes.get_mut("n1").expect("a node"), &patch);
    };
    let lease = |plane: &Plane, name: &str| plane.leases[name].duration.as_secs();
    annotate(&mut plane, json!("LowUpdateSlowReaction"));
    plane.finish();
    assert_eq!([lease(&plane, "n0"), lease(&plane, "n1")], [40, 240], "nobody else has changed");
    plane.want("MediumUpdateAverageReaction");
    plane.finish();
    assert_eq!(["n0", "n1", "n2"].map(|name| lease(&plane, name)), [80, 240, 80]);
    assert_eq!(plane.all("Complete"), complete("ProfileUpdated"), "its heartbeat is not missed");
    annotate(&mut plane, Value::Null);
    // Like any node that joins with a slow heartbeat: the grace is raised for it first.
    plane.run_for(300);
    assert_eq!((lease(&plane, "n1"), plane.grace.as_secs()), (80, 120));
    assert_eq!(plane.all("Complete"), complete("ProfileUpdated"));
}

#[test]
fn where_nodes_may_have_no_profile_of_their_own_the_annotation_means_nothing() {
    let mut plane = idle(1);
    let own = json!({"metadata": {"annotations": {api::config_node::ANNOTATION_NODE_PROFILE: "LowUpdateSlowReaction"}}});
    merge(plane.nodes.get_mut("n0").expect("a node"), &own);
    plane.want("MediumUpdateAverageReaction");
    plane.finish();
    assert_eq!(plane.leases["n0"].duration.as_secs(), 80);
}

#[test]
fn pods_with_old_defaults_are_counted_and_own_tolerations_are_not() {
    let pod = |seconds: i64, operator: &str| -> Pod {
        let toleration = json!({"key": "node.kubernetes.io/unreachable", "operator": operator, "effect": "NoExecute",
            "tolerationSeconds": seconds});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"tolerations": [toleration]}})).expect("a pod")
    };
    assert_eq!(PodDefaults::read(&pod(7, "Exists")), None, "the user's own");
    assert_eq!(PodDefaults::read(&pod(300, "Equal")), None);
    let old = PodDefaults::read(&pod(300, "Exists")).expect("a default");
    assert!(old.older_than(&Profile::Medium.values()) && !old.older_than(&Profile::Default.values()));
    let mut plane = idle(1);
    plane.pods.insert("default/p".to_owned(), old);
    plane.want("MediumUpdateAverageReaction");
    plane.finish();
    let conditions = plane.cluster().status.worker_latency_profile_status.conditions;
    assert!(conditions[0].message.ends_with("1 pods still carry old default tolerations"), "{}", conditions[0].message);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(256)))]

    /// Desired profiles come and go, everybody obeys when he likes, the controller loses its memory: at no time does a node speak more
    /// slowly than the grace in use allows.
    #[test]
    fn whatever_is_wanted_and_whoever_is_late_every_node_is_safe_at_every_moment(
        actions in prop::collection::vec((0..8u8, 0..4usize), 1..120),
    ) {
        let mut plane = idle(4);
        for (action, index) in actions {
            let name = format!("n{index}");
            match action {
                0 => plane.want(["", "Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction"][index]),
                1 => plane.rollout = Rollout::new(Options { max_unavailable: index, ..Options::default() }),
                2 => plane.obey_controllers(),
                3 => plane.obey_api_server(),
                4 => plane.obey_node(&name),
                5 => plane.set_ready(&name, if plane.now.as_secs() % 3 == 0 { "Unknown" } else { "True" }),
                _ => {
                    plane.look();
                    plane.now += Duration::from_secs(7);
                }
            }
            for (name, lease) in &plane.leases {
                prop_assert!(lease.duration <= plane.grace, "{name}: a Lease of {lease:?} under a grace of {:?}", plane.grace);
            }
        }
        // Left alone, everything gets where it is wanted.
        plane.nodes.keys().cloned().collect::<Vec<_>>().iter().for_each(|name| plane.set_ready(name, "True"));
        plane.annotate(ANNOTATION_RETRY, Some("again"));
        plane.finish();
    }
}
