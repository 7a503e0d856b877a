//! Which containers start, and when: address and volumes, then init containers in their order, then the rest.
//!
//! A plain init container must end with 0, a sidecar be started, before the next one begins. Regular containers start in
//! their order, each after the hook of the one before; later restarts do not wait for one another.

use machine::Time;
use probe::Role;

use crate::container::{InstanceState, Next, PodContainer};
use crate::machine::{PodMachine, Sandbox, earlier};
use crate::messages::Effect;

impl PodMachine {
    /// Starts what may start; returns when more may.
    pub(crate) fn start_due(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        if self.ending.is_some() {
            return None;
        }
        match &mut self.sandbox {
            Sandbox::Missing { retry_at, .. } if *retry_at > now => return Some(*retry_at),
            Sandbox::Missing { failures, why, .. } => {
                self.sandbox = Sandbox::Asked { failures: *failures, why: why.take() };
                out.push(Effect::Prepare);
                return None;
            }
            Sandbox::Asked { .. } => return None,
            Sandbox::Ready => {}
        }
        let mut next = None;
        for index in 0..self.containers.len() {
            let role = self.containers[index].role;
            if role == Role::Init && (self.initialized || self.containers[index].has_succeeded()) {
                continue;
            }
            if role == Role::Regular {
                self.initialized = true;
                if self.waits_for_another(index) {
                    continue;
                }
            }
            next = earlier(next, self.start(now, index, out));
            let passed = self.initialized || (role == Role::Sidecar && self.containers[index].is_started());
            if !passed {
                return next;
            }
        }
        next
    }

    /// Returns whether a regular container that never ran waits for the start of an earlier one.
    fn waits_for_another(&self, index: usize) -> bool {
        let beginning = |container: &PodContainer| {
            container.role == Role::Regular
                && match &container.state {
                    InstanceState::Starting { after, .. } => after.is_none(),
                    InstanceState::Running(instance) => {
                        container.instances == 1 && instance.in_post_start && instance.stop.is_none()
                    }
                    _ => false,
                }
        };
        matches!(self.containers[index].state, InstanceState::New) && self.containers[..index].iter().any(beginning)
    }

    /// Starts a container if the time has come; returns when it will have.
    fn start(&mut self, now: Time, index: usize, out: &mut Vec<Effect>) -> Option<Time> {
        let container = &mut self.containers[index];
        let at = match &container.state {
            InstanceState::New => now,
            InstanceState::Unfit { retry_at, .. } => *retry_at,
            InstanceState::Ended(ended) => match ended.next {
                Next::At { at, .. } => at,
                Next::Never | Next::Resume => return None,
            },
            InstanceState::Starting { .. } | InstanceState::Running(_) => return None,
        };
        if at > now {
            return Some(at);
        }
        let id = container.next_id(&self.pod.metadata.uid);
        let (why, after) = match std::mem::replace(&mut container.state, InstanceState::New) {
            InstanceState::Ended(ended) => (None, Some(ended)),
            InstanceState::Unfit { why, after, .. } => (Some(why), after),
            _ => (None, None),
        };
        container.state = InstanceState::Starting { id: id.clone(), why, after };
        out.push(Effect::Start { container: container.name.clone(), number: container.instances, id });
        None
    }
}
