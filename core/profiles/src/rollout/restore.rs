//! Where nothing is wanted on a stock cluster, everything as before the first profile: the files of components, and what kubeadm remembers.

use std::collections::BTreeMap;

use super::writes::Changes;
use super::{ControlPlane, Rollout, World};
use crate::kubeadm::{Arguments, KubeadmPlan};
use crate::plan::{InstanceKind, Plan, Request};
use crate::profile::Target;
use crate::steps::{Component, NodeSteps, StepResult};

/// The files of a component that were to be as before, and how that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What kind of instance.
    pub kind: InstanceKind,
    /// Which one.
    pub name: String,
    /// How it ended.
    pub result: StepResult,
    /// Why.
    pub message: String,
}

/// Gives back what was there before the first change: one part of the control plane at a time, then as many kubelets as may change at a
/// time. What is taken back or refused is tried again, but not for ever.
pub(super) fn restore(
    request: &Request,
    generation: &str,
    node_steps: &BTreeMap<String, NodeSteps>,
    changes: &mut Changes<'_>,
) {
    if request.target != Target::Empty || request.paused {
        return;
    }
    for component in [Component::ApiServer, Component::ControllerManager, Component::Kubelet] {
        let room = match (component, request.max_unavailable) {
            (Component::Kubelet, 0) => usize::MAX,
            (Component::Kubelet, limit) => limit,
            _ => 1,
        };
        let is_due = |steps: &NodeSteps| {
            steps.component(component).is_some_and(|state| state.changed)
                && steps.obstacle(component, generation).is_none()
                && !steps.has_failed(component, generation)
        };
        let due = node_steps.iter().filter(|(_, steps)| is_due(steps)).map(|(node, _)| node);
        let handed = due.take(room).filter(|node| changes.hand_out(component, node, None)).count();
        if handed > 0 {
            return;
        }
    }
}

/// Makes files ours again that somebody has written anew with our values in them (`kubeadm upgrade` does), where a person has asked for it.
pub(super) fn adopt(generation: &str, node_steps: &BTreeMap<String, NodeSteps>, changes: &mut Changes<'_>) {
    for (node, steps) in node_steps {
        let under_way = Component::ALL.into_iter().any(|component| steps.pending(component).is_some());
        let found = Component::ALL.into_iter().find(|component| !under_way && steps.is_adopted(*component, generation));
        if let Some(values) = found.and_then(|component| steps.component(component)?.values) {
            changes.adopt(values.component(), node, values);
        }
    }
}

impl Rollout {
    /// Returns what kubeadm is to remember once a stage is complete: what the static pods of components of ours are given explicitly, and of
    /// the others what it remembered before.
    pub(super) fn kubeadm(&self, world: &World<'_>, plan: &Plan) -> KubeadmPlan {
        let ControlPlane::Stock { pods, kubeadm: Some(kubeadm) } = world.control_plane else {
            return KubeadmPlan { original: world.kubeadm_original(), change: None };
        };
        let arguments = |component: Component| {
            let states = || self.node_steps.values().filter_map(|steps| steps.component(component));
            // The agent of a replica may be away, or may never have been there.
            let silent = pods
                .of(component)
                .any(|(node, _)| self.node_steps.get(node).and_then(|steps| steps.component(component)).is_none());
            if states().any(|state| state.changed) {
                Arguments::Ours(pods.explicit(component))
            } else if silent {
                Arguments::Unknown
            } else {
                Arguments::Theirs
            }
        };
        if plan.stage_done { kubeadm.plan(arguments) } else { KubeadmPlan { original: world.kubeadm_original(), change: None } }
    }
}
