//! What others see of a pod's containers.

use machine::Time;

use crate::container::InstanceState;
use crate::machine::PodMachine;

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerPhase {
    /// It was never started.
    New,
    /// It runs, its hook after the start included.
    Running,
    /// Its latest instance has ended; another one may follow.
    Ended,
}

/// A container as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The latest instance of it that ran; `None`: none did.
    pub id: Option<&'a str>,
    /// What it does.
    pub phase: ContainerPhase,
    /// When the instance that runs was started.
    pub started_at: Option<Time>,
    /// Whether its startup probe has succeeded, or it has none.
    pub started: bool,
}

impl PodMachine {
    /// Returns the containers as they are now.
    pub fn containers(&self) -> impl Iterator<Item = ContainerView<'_>> {
        self.containers.iter().map(|container| {
            let (id, phase, started_at) = match &container.state {
                InstanceState::Running(instance) => (Some(&*instance.id), ContainerPhase::Running, Some(instance.started_at)),
                InstanceState::Ended(ended)
                | InstanceState::Unfit { after: Some(ended), .. }
                | InstanceState::Starting { after: Some(ended), .. } => (Some(&*ended.id), ContainerPhase::Ended, None),
                InstanceState::New | InstanceState::Unfit { .. } | InstanceState::Starting { .. } => {
                    (None, ContainerPhase::New, None)
                }
            };
            ContainerView { name: &container.name, id, phase, started_at, started: container.is_started() }
        })
    }

    /// Returns a number that differs whenever [`containers`](PodMachine::containers) may.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}
