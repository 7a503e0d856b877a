//! A container that a kubelet runs: which instance of it there is, and whether that may be probed.

use std::sync::Arc;

use api::moved::bare_id;
use api::pod::{Container, ContainerStatus, Probe};
use machine::Time;
use probe::timing::handler_of;
use probe::{ContainerProber, Role};

use crate::messages::{ObservedContainer, ObservedState};
use crate::view::{ContainerPhase, ContainerView};

/// A container.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) role: Role,
    /// Its readiness probe, if it was moved.
    pub(super) moved: Option<Probe>,
    pub(super) prober: Option<Box<ContainerProber>>,
    /// The kubelet has to see a startup probe succeed first.
    has_startup_probe: bool,
    instance: Option<Instance>,
    /// The instance before this one.
    replaced: Option<Arc<str>>,
    /// The instance whose startup probe has succeeded.
    started: Option<Arc<str>>,
    /// The instance that the prober takes to be running.
    probed: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Instance {
    id: Arc<str>,
    started_at: Time,
    running: bool,
    /// It has run, or runs.
    began: bool,
}

impl Member {
    pub(super) fn new(role: Role, spec: &Container, moved: Option<Probe>, prober: Option<Box<ContainerProber>>) -> Member {
        Member {
            name: spec.name.as_str().into(),
            role,
            moved,
            prober,
            has_startup_probe: spec.startup_probe.is_some(),
            instance: None,
            replaced: None,
            started: None,
            probed: None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.running)
    }

    /// Returns when the instance that runs was started.
    pub(super) fn started_at(&self) -> Option<Time> {
        self.instance.as_ref().filter(|instance| instance.running).map(|instance| instance.started_at)
    }

    /// Returns the ID of the instance; empty: there is none.
    pub(super) fn id(&self) -> &str {
        self.instance.as_ref().map_or("", |instance| &instance.id)
    }

    fn is_started(&self) -> bool {
        self.is_running() && (!self.has_startup_probe || self.started.as_deref() == Some(self.id()))
    }

    pub(super) fn view(&self) -> ContainerView<'_> {
        let instance = self.instance.as_ref().filter(|instance| instance.began);
        ContainerView {
            name: &self.name,
            id: instance.map(|instance| &*instance.id),
            phase: match instance {
                None => ContainerPhase::New,
                Some(instance) if instance.running => ContainerPhase::Running,
                Some(_) => ContainerPhase::Ended,
            },
            started_at: self.started_at(),
            started: self.is_started(),
        }
    }

    /// Returns what keeps the container from being ready.
    pub(super) fn lacks(&self, has_ip: bool) -> Option<&'static str> {
        match &self.instance {
            None => Some("the container has not started"),
            Some(instance) if !instance.running => Some("the container is not running"),
            Some(_) if !self.is_started() => Some("its startup probe has not succeeded"),
            Some(_) if !self.may_be_probed(has_ip) => Some("the pod has no address yet"),
            Some(_) if self.prober.as_ref().is_some_and(|prober| prober.ready()) => None,
            Some(_) => Some("its readiness probe has not succeeded"),
        }
    }

    fn may_be_probed(&self, has_ip: bool) -> bool {
        let exec = self.moved.as_ref().and_then(handler_of) == Some(api::HandlerKind::Exec);
        self.is_started() && (has_ip || exec)
    }

    /// Returns what the prober is to be told of the instance.
    pub(super) fn news(&mut self, has_ip: bool) -> Vec<probe::Input> {
        let wanted = self.instance.clone().filter(|_| self.may_be_probed(has_ip));
        let mut news = Vec::new();
        if self.probed.is_some() && self.probed.as_ref() != wanted.as_ref().map(|instance| &instance.id) {
            self.probed = None;
            // How it ended decides nothing here: the kubelet starts it again or not.
            news.push(probe::Input::NotRunning { exit_code: None });
        }
        if let Some(instance) = wanted
            && self.probed.is_none()
        {
            self.probed = Some(Arc::clone(&instance.id));
            news.push(probe::Input::Running { id: (&*instance.id).into(), started_at: instance.started_at });
        }
        news
    }

    /// Takes what the runtime shows; `None`: no instance. Returns whether that is news.
    pub(super) fn observe(&mut self, seen: Option<&ObservedContainer>) -> bool {
        match seen {
            None => self.ends(),
            Some(seen) => match seen.state {
                ObservedState::Created => self.set(&seen.id, Time::ZERO, false, false),
                ObservedState::Running { started_at } => self.set(&seen.id, started_at, true, true),
                ObservedState::Ended => self.set(&seen.id, Time::ZERO, false, true),
            },
        }
    }

    /// Takes what a status says of the startup probe. Returns whether that is news.
    pub(super) fn take_started(&mut self, status: &ContainerStatus) -> bool {
        let id = bare_id(&status.container_id);
        if status.started != Some(true) || id.is_empty() || self.started.as_deref() == Some(id) {
            return false;
        }
        self.started = Some(id.into());
        true
    }

    /// Takes the instance that a status shows. Returns whether that is news.
    pub(super) fn take_status(&mut self, status: &ContainerStatus) -> bool {
        let id = bare_id(&status.container_id);
        let ended_before = |known: &str| {
            let last = status.last_state.terminated.as_ref();
            last.is_some_and(|last| bare_id(&last.container_id) == known)
        };
        if let Some(running) = status.state.running.as_ref().filter(|_| !id.is_empty()) {
            // A status is older than what the runtime said: what has ended or was replaced has.
            let known = self.instance.as_ref().is_some_and(|instance| *instance.id == *id && instance.began);
            if known || self.replaced.as_deref() == Some(id) {
                return false;
            }
            let started_at = running.started_at.map_or(Time::ZERO, |at| at.0);
            return self.set(id, started_at, true, true);
        }
        let over = status.state.terminated.is_some() && self.id() == id;
        let over = over || (status.state.waiting.is_some() && !self.id().is_empty() && ended_before(self.id()));
        over && self.ends()
    }

    fn ends(&mut self) -> bool {
        self.instance.as_mut().is_some_and(|instance| std::mem::take(&mut instance.running))
    }

    fn set(&mut self, id: &str, started_at: Time, running: bool, began: bool) -> bool {
        match &mut self.instance {
            Some(known) if *known.id == *id => {
                let before = known.clone();
                known.running = running;
                known.began |= began;
                if running {
                    known.started_at = started_at;
                }
                *known != before
            }
            known => {
                self.replaced = known.as_ref().map(|known| Arc::clone(&known.id));
                *known = Some(Instance { id: id.into(), started_at, running, began });
                true
            }
        }
    }
}
