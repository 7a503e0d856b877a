//! The containers of a pod, each with its spec and what is seen of it.

use api::pod::{Container, ContainerStatus, ContainerTerminated};

use super::Subject;

/// A container.
#[derive(Clone, Copy)]
pub(super) struct ContainerRef<'a> {
    pub(super) spec: &'a Container,
    pub(super) status: Option<&'a ContainerStatus>,
    /// It is one of `initContainers`, sidecars included.
    pub(super) init: bool,
}

impl<'a> ContainerRef<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.spec.name
    }

    /// Returns what the container is called in a sentence.
    pub(super) fn title(&self) -> String {
        let kind = match (self.init, self.spec.is_sidecar()) {
            (true, true) => "sidecar",
            (true, false) => "init container",
            (false, _) => "container",
        };
        format!("{kind} {}", self.name())
    }

    /// Returns the path of a field of its status.
    pub(super) fn field(&self, rest: &str) -> String {
        let list = if self.init { "initContainerStatuses" } else { "containerStatuses" };
        format!("status.{list}[{}].{rest}", self.name())
    }

    /// Returns the path of a field of its spec.
    pub(super) fn spec_field(&self, rest: &str) -> String {
        let list = if self.init { "initContainers" } else { "containers" };
        format!("spec.{list}[{}].{rest}", self.name())
    }

    pub(super) fn waiting(&self) -> Option<(&'a str, &'a str)> {
        let waiting = self.status?.state.waiting.as_ref()?;
        Some((waiting.reason.as_str(), waiting.message.as_str()))
    }

    pub(super) fn terminated(&self) -> Option<&'a ContainerTerminated> {
        self.status?.state.terminated.as_ref()
    }

    /// Returns how the last instance that has ended did so.
    pub(super) fn last_end(&self) -> Option<&'a ContainerTerminated> {
        let status = self.status?;
        status.state.terminated.as_ref().or(status.last_state.terminated.as_ref())
    }

    pub(super) fn restarts(&self) -> i64 {
        self.status.map_or(0, |status| status.restart_count)
    }
}

impl Subject<'_> {
    /// Returns init containers, then the others, in the order of the spec.
    pub(super) fn units(&self) -> impl Iterator<Item = ContainerRef<'_>> {
        let (spec, status) = (&self.pod.spec, &self.pod.status);
        let find = |statuses: &'_ [ContainerStatus], name: &str| statuses.iter().position(|status| status.name == name);
        let init = spec.init_containers.iter().map(move |container| {
            let found = find(&status.init_container_statuses, &container.name);
            ContainerRef { spec: container, status: found.map(|place| &status.init_container_statuses[place]), init: true }
        });
        let main = spec.containers.iter().map(move |container| {
            let found = find(&status.container_statuses, &container.name);
            ContainerRef { spec: container, status: found.map(|place| &status.container_statuses[place]), init: false }
        });
        init.chain(main)
    }

    /// Returns the containers that run as long as the pod does: sidecars and the main ones.
    pub(super) fn lasting(&self) -> impl Iterator<Item = ContainerRef<'_>> {
        self.units().filter(|unit| !unit.init || unit.spec.is_sidecar())
    }
}
