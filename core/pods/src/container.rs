//! One container of a pod: which instance it is at, what that does, what comes next.

use std::sync::Arc;
use std::time::Duration;

use api::pod::Container;
use machine::{Failures, Time};
use probe::{BackOff, ContainerProber, Life, Restarts, Role};

use crate::messages::Exit;

/// One container of a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodContainer {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    /// In its list of the spec.
    pub(crate) index: usize,
    pub(crate) restarts: Restarts,
    /// Of regular containers and sidecars.
    pub(crate) prober: Option<Box<ContainerProber>>,
    pub(crate) back_off: BackOff,
    /// Instances so far, the current one included.
    pub(crate) instances: u64,
    pub(crate) state: InstanceState,
    /// The instance before the one that `state` speaks of.
    pub(crate) last: Option<Ended>,
    pub(crate) setup_failures: Failures,
}

/// What a container does.
#[derive(Clone, Debug)]
pub(crate) enum InstanceState {
    /// Waits for its turn; nothing of it was ever started.
    New,
    /// Could not be set up; tried again at the instant.
    Unfit { why: Box<Waiting>, retry_at: Time, after: Option<Box<Ended>> },
    /// Is being started; `after` has ended before. `why`: it could not be set up the last time.
    Starting { id: Arc<str>, why: Option<Box<Waiting>>, after: Option<Box<Ended>> },
    /// An instance runs.
    Running(Box<Instance>),
    /// The last instance has ended.
    Ended(Box<Ended>),
}

/// Why a container waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// An instance that runs.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) id: Arc<str>,
    pub(crate) started_at: Time,
    /// Its hook after the start is under way, and until that has ended it does not count as running.
    pub(crate) in_post_start: bool,
    pub(crate) stop: Option<Stop>,
    /// It is started again whatever its exit code, because it was not it that ended.
    pub(crate) restart_anyway: bool,
}

/// A stop under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) kill_at: Time,
    pub(crate) stage: Stage,
}

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its hook runs.
    PreStop,
    /// Waits for the slices, or for other containers.
    AwaitingSignal,
    /// Was asked to stop.
    Signaled,
    /// Was killed.
    Killed,
}

/// An instance that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) id: Arc<str>,
    pub(crate) exit: Exit,
    pub(crate) next: Next,
}

/// What follows the end of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Never,
    /// Another instance, not before this instant, which is so long after the end.
    At { at: Time, delay: Duration },
    /// Another instance, when the agent runs again.
    Resume,
}

impl PodContainer {
    /// Returns the container of the spec.
    pub(crate) fn spec<'a>(&self, pod: &'a api::Pod) -> &'a Container {
        match self.role {
            Role::Regular => &pod.spec.containers[self.index],
            Role::Init | Role::Sidecar => &pod.spec.init_containers[self.index],
        }
    }

    /// Returns the name of the next instance on this node: short, because it is also the name of a socket.
    pub(crate) fn next_id(&self, uid: &str) -> Arc<str> {
        let list = if self.role == Role::Regular { 'c' } else { 'i' };
        format!("{uid}-{list}{}-{}", self.index, self.instances).into()
    }

    pub(crate) fn instance(&self) -> Option<&Instance> {
        match &self.state {
            InstanceState::Running(instance) => Some(instance),
            _ => None,
        }
    }

    pub(crate) fn instance_mut(&mut self) -> Option<&mut Instance> {
        match &mut self.state {
            InstanceState::Running(instance) => Some(instance),
            _ => None,
        }
    }

    /// Returns the instance that runs, if it is this one.
    pub(crate) fn running(&mut self, id: &str) -> Option<&mut Instance> {
        self.instance_mut().filter(|instance| &*instance.id == id)
    }

    /// Returns whether a process of it exists, or may soon.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, InstanceState::Running(_) | InstanceState::Starting { .. })
    }

    /// Returns whether it counts as started.
    pub(crate) fn is_started(&self) -> bool {
        let counts = self.instance().is_some_and(|instance| !instance.in_post_start);
        counts && self.prober.as_ref().is_none_or(|prober| prober.started())
    }

    /// Returns whether it counts as ready.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.prober {
            Some(prober) => prober.ready() && self.instance().is_some_and(|instance| !instance.in_post_start),
            None => self.has_succeeded(),
        }
    }

    /// Returns whether it has ended with exit code 0 and stays so.
    pub(crate) fn has_succeeded(&self) -> bool {
        matches!(&self.state, InstanceState::Ended(ended) if ended.exit.exit_code == 0 && ended.next == Next::Never)
    }

    /// Returns whether it has ended and stays so.
    pub(crate) fn has_ended_for_good(&self) -> bool {
        matches!(&self.state, InstanceState::Ended(ended) if ended.next == Next::Never)
    }

    /// Returns what the phase of the pod needs to know.
    pub(crate) fn life(&self) -> Life {
        match &self.state {
            InstanceState::Running(instance) if instance.in_post_start && self.instances == 1 => Life::New,
            InstanceState::Running(_) => Life::Running { started: self.is_started() },
            InstanceState::Ended(ended) => Life::Ended { exit_code: ended.exit.exit_code, restarts: ended.next != Next::Never },
            InstanceState::New => Life::New,
            InstanceState::Unfit { after, .. } | InstanceState::Starting { after, .. } => match after {
                Some(ended) => Life::Ended { exit_code: ended.exit.exit_code, restarts: true },
                None => Life::New,
            },
        }
    }
}
