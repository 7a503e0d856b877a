//! What is written, and only if it differs from what is there.

use std::collections::BTreeMap;

use api::config_node::{
    ANNOTATION_APPLIED_PROFILE, ANNOTATION_APPLY_STEP, ANNOTATION_GRACE_PERIOD, ANNOTATION_KUBEADM_ORIGINAL,
    ANNOTATION_NOT_READY_SECONDS, ANNOTATION_ROLLED_BACK_GENERATION, ANNOTATION_UNREACHABLE_SECONDS,
    ANNOTATION_UPDATE_FREQUENCY, ConfigNode, NAME, OwnedCondition, RelatedObject, WorkerLatencyProfileStatus,
};
use api::write::Verb;
use api::{Node, Write, duration};
use machine::Time;
use serde_json::{Map, Value, json};

use super::observe::{LABEL_CONTROL_PLANE, annotated_interval};
use super::{Deadlines, World};
use crate::plan::Step;
use crate::profile::{Profile, Target, Values};
use crate::steps::{ApplyStep, Component, ComponentValues, NodeSteps, values_of};

/// Returns the request that makes the object `cluster`, wanting nothing.
pub(super) fn create_cluster() -> Write {
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "Node", "metadata": {"name": NAME}, "spec": {},
    });
    Write::to::<ConfigNode>("", NAME, Verb::Create(object.into()))
}

/// What handing out a step to an agent needs.
pub(super) struct HandOut<'a> {
    pub(super) now: Time,
    pub(super) generation: &'a str,
    pub(super) deadlines: Deadlines,
    pub(super) node_steps: &'a BTreeMap<String, NodeSteps>,
}

/// The changes of one look.
pub(super) struct Changes<'a> {
    world: &'a World<'a>,
    hand_out: HandOut<'a>,
    annotations: Map<String, Value>,
    nodes: Vec<Write>,
    status: Option<Write>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(world: &'a World<'a>, hand_out: HandOut<'a>) -> Changes<'a> {
        Changes { world, hand_out, annotations: Map::new(), nodes: Vec::new(), status: None }
    }

    /// Sets or removes an annotation of `cluster`; returns whether that changes anything.
    fn annotate(&mut self, name: &str, value: Option<String>) -> bool {
        let differs = self.world.carrier(name) != value.as_deref();
        if differs {
            self.annotations.insert(name.to_owned(), value.into());
        }
        differs
    }

    fn annotate_node(&mut self, name: &str, value: Option<String>) {
        let patch = json!({"metadata": {"annotations": {ANNOTATION_UPDATE_FREQUENCY: value}}});
        self.nodes.push(Write::to::<Node>("", name, Verb::Merge(patch)));
    }

    /// Writes the carrier of a step; returns whether it was not written before.
    pub(super) fn step(&mut self, step: &Step) -> bool {
        if self.world.is_stock() {
            let (component, values) = values_of(step);
            return self.hand_out(component, step.name(), Some(values));
        }
        match step {
            Step::Kcm { grace, .. } => self.annotate(ANNOTATION_GRACE_PERIOD, Some(duration::format(*grace))),
            Step::Kas { not_ready_seconds, unreachable_seconds, .. } => {
                let first = self.annotate(ANNOTATION_NOT_READY_SECONDS, Some(not_ready_seconds.to_string()));
                self.annotate(ANNOTATION_UNREACHABLE_SECONDS, Some(unreachable_seconds.to_string())) | first
            }
            Step::Node { name, heartbeat } => {
                let Some(node) = self.world.nodes.get(name) else { return false };
                let differs = annotated_interval(node) != Some(*heartbeat);
                if differs {
                    self.annotate_node(name, Some(duration::format(*heartbeat)));
                }
                differs
            }
        }
    }

    /// Hands out a step to the agent of a node; returns whether it was not handed out before. One that was taken back too often is not
    /// tried again: somebody must ask for it anew.
    pub(super) fn hand_out(&mut self, component: Component, node: &str, values: Option<ComponentValues>) -> bool {
        self.hand(component, node, values, false)
    }

    /// Hands out a step that makes a file ours again which somebody has written anew, with the values that are in use.
    pub(super) fn adopt(&mut self, component: Component, node: &str, values: ComponentValues) {
        self.hand(component, node, Some(values), true);
    }

    fn hand(&mut self, component: Component, node: &str, values: Option<ComponentValues>, adopt: bool) -> bool {
        let HandOut { now, generation, deadlines, node_steps } = &self.hand_out;
        let none = NodeSteps::default();
        let steps = node_steps.get(node).unwrap_or(&none);
        let same = steps.pending(component).is_some_and(|pending| pending.values == values);
        if same
            || steps.has_failed(component, generation) && steps.handed.as_ref().is_some_and(|handed| handed.values == values)
        {
            return false;
        }
        let step = ApplyStep {
            id: ApplyStep::id_at(generation, *now),
            component,
            values,
            deadline: deadlines.of(component).unwrap_or_else(|| component.deadline(values.as_ref())),
            generation: (*generation).to_owned(),
            attempt: steps.next_attempt(component, generation, values.as_ref()),
            adopt,
        };
        let patch = json!({"metadata": {"annotations": {ANNOTATION_APPLY_STEP: step.to_text()}}});
        self.nodes.push(Write::to::<Node>("", node, Verb::Merge(patch)));
        true
    }

    /// Leaves a finished rollout tidy: a profile is explicit everywhere, an empty one leaves nothing of ours behind.
    pub(super) fn rest(&mut self, target: Target, values: &Values) {
        let explicit = target != Target::Empty;
        let given = |text: String| explicit.then_some(text);
        self.annotate(ANNOTATION_GRACE_PERIOD, given(duration::format(values.node_monitor_grace_period)));
        self.annotate(ANNOTATION_NOT_READY_SECONDS, given(values.default_not_ready_toleration_seconds.to_string()));
        self.annotate(ANNOTATION_UNREACHABLE_SECONDS, given(values.default_unreachable_toleration_seconds.to_string()));
        let interval = given(duration::format(values.lease_renew_interval()));
        let world = self.world;
        for (name, node) in world.nodes {
            let worker = !node.metadata.labels.contains_key(LABEL_CONTROL_PLANE);
            let (wanted, annotated) =
                (interval.clone().filter(|_| worker), node.metadata.annotations.get(ANNOTATION_UPDATE_FREQUENCY));
            if wanted.as_ref() != annotated {
                self.annotate_node(name, wanted);
            }
        }
    }

    /// Records what was completed.
    pub(super) fn applied(&mut self, profile: Profile) {
        self.annotate(ANNOTATION_APPLIED_PROFILE, Some(profile.name().to_owned()));
    }

    /// Records what kubeadm remembered before the first change; `None`: nothing of ours is left there.
    pub(super) fn kubeadm_original(&mut self, text: Option<String>) {
        self.annotate(ANNOTATION_KUBEADM_ORIGINAL, text);
    }

    /// Records which generation was given up.
    pub(super) fn rolled_back(&mut self, generation: Option<&str>) {
        self.annotate(ANNOTATION_ROLLED_BACK_GENERATION, generation.map(str::to_owned));
    }

    /// Sets the status.
    pub(super) fn status(&mut self, conditions: Vec<OwnedCondition>, related_objects: Vec<RelatedObject>) {
        let Some(cluster) = self.world.cluster else { return };
        let status = WorkerLatencyProfileStatus { conditions, related_objects };
        let value = |status: &WorkerLatencyProfileStatus| serde_json::to_value(status).expect("a status serializes");
        let mut wanted = value(&status);
        // As the API writes them: transition times have whole seconds.
        if wanted != value(&cluster.status.worker_latency_profile_status) {
            // A merge patch leaves what it does not name.
            wanted.as_object_mut().expect("a status is an object").entry("relatedObjects").or_insert(Value::Null);
            let patch = json!({"status": {"workerLatencyProfileStatus": wanted}});
            self.status = Some(Write::to::<ConfigNode>("", NAME, Verb::Merge(patch)).status());
        }
    }

    /// Returns the requests: carriers first, so that a status never tells of what was not asked for.
    pub(super) fn finish(self) -> Vec<Write> {
        let mut writes = self.nodes;
        if !self.annotations.is_empty() {
            let patch = json!({"metadata": {"annotations": self.annotations}});
            writes.push(Write::to::<ConfigNode>("", NAME, Verb::Merge(patch)));
        }
        writes.extend(self.status);
        writes
    }
}
