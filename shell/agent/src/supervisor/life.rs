//! Whose containers a pod's are: processes of this agent, or those of a kubelet. This is the one place that tells them apart.

use std::sync::Arc;

use api::Pod;
use api::pod::Probe;
use machine::{Machine, Time};
use pods::{ContainerView, Effect, Input, KubeletPod, PodMachine};
use probe::WorkerView;

/// The machine of a pod.
pub(super) enum PodLife {
    /// Its containers are processes of this agent.
    Processes(Box<PodMachine>),
    /// A kubelet runs its containers.
    Kubelet(Box<KubeletPod>),
}

impl PodLife {
    pub(super) fn uid(&self) -> &str {
        match self {
            PodLife::Processes(machine) => machine.uid(),
            PodLife::Kubelet(machine) => machine.uid(),
        }
    }

    pub(super) fn pod(&self) -> &Pod {
        match self {
            PodLife::Processes(machine) => machine.pod(),
            PodLife::Kubelet(machine) => machine.pod(),
        }
    }

    /// Returns the machine of a pod that a kubelet runs.
    pub(super) fn kubelet(&self) -> Option<&KubeletPod> {
        match self {
            PodLife::Processes(_) => None,
            PodLife::Kubelet(machine) => Some(machine),
        }
    }

    /// Returns whether a process of the pod is this agent's to wait for.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            PodLife::Processes(machine) => machine.is_alive(),
            PodLife::Kubelet(_) => false,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        match self {
            PodLife::Processes(machine) => machine.is_settled(),
            PodLife::Kubelet(machine) => machine.is_settled(),
        }
    }

    /// Returns the readiness probe of a container that was moved out of its spec.
    pub(super) fn moved_probe(&self, container: &str) -> Option<&Probe> {
        self.kubelet()?.moved_probe(container)
    }

    pub(super) fn workers(&self) -> Box<dyn Iterator<Item = (&Arc<str>, WorkerView)> + '_> {
        match self {
            PodLife::Processes(machine) => Box::new(machine.workers()),
            PodLife::Kubelet(machine) => Box::new(machine.workers()),
        }
    }

    pub(super) fn containers(&self) -> Box<dyn Iterator<Item = ContainerView<'_>> + '_> {
        match self {
            PodLife::Processes(machine) => Box::new(machine.containers()),
            PodLife::Kubelet(machine) => Box::new(machine.containers()),
        }
    }

    pub(super) fn revision(&self) -> u64 {
        match self {
            PodLife::Processes(machine) => machine.revision(),
            PodLife::Kubelet(machine) => machine.revision(),
        }
    }

    pub(super) fn step(&mut self, now: Time, input: Option<Input>, effects: &mut Vec<Effect>) {
        match self {
            PodLife::Processes(machine) => machine.step(now, input, effects),
            PodLife::Kubelet(machine) => machine.step(now, input, effects),
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            PodLife::Processes(machine) => machine.deadline(),
            PodLife::Kubelet(machine) => machine.deadline(),
        }
    }
}
