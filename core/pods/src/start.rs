//! Which containers start, and when: address and volumes, then init containers in their order, then the rest.
//!
//! A plain init container must end with 0, a sidecar be started, before the next one begins. Regular containers start in
//! their order, each after the hook of the one before; later restarts do not wait for one another.

use machine::Time;
use probe::Role;

use crate::machine::{PodMachine, Sandbox, earlier};
use crate::member::{Member, Next, State};
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
        for index in 0..self.members.len() {
            let role = self.members[index].role;
            if role == Role::Init && (self.initialized || self.members[index].has_succeeded()) {
                continue;
            }
            if role == Role::Regular {
                self.initialized = true;
                if self.waits_for_another(index) {
                    continue;
                }
            }
            next = earlier(next, self.start(now, index, out));
            let passed = self.initialized || (role == Role::Sidecar && self.members[index].is_started());
            if !passed {
                return next;
            }
        }
        next
    }

    /// Returns whether a regular container that never ran waits for the start of an earlier one.
    fn waits_for_another(&self, index: usize) -> bool {
        let beginning = |member: &Member| {
            member.role == Role::Regular
                && match &member.state {
                    State::Starting { after, .. } => after.is_none(),
                    State::Running(instance) => member.instances == 1 && instance.in_post_start && instance.stop.is_none(),
                    _ => false,
                }
        };
        matches!(self.members[index].state, State::New) && self.members[..index].iter().any(beginning)
    }

    /// Starts a container if the time has come; returns when it will have.
    fn start(&mut self, now: Time, index: usize, out: &mut Vec<Effect>) -> Option<Time> {
        let member = &mut self.members[index];
        let at = match &member.state {
            State::New => now,
            State::Unfit { retry_at, .. } => *retry_at,
            State::Ended(ended) => match ended.next {
                Next::At { at, .. } => at,
                Next::Never | Next::Resume => return None,
            },
            State::Starting { .. } | State::Running(_) => return None,
        };
        if at > now {
            return Some(at);
        }
        let id = member.next_id(&self.pod.metadata.uid);
        let (why, after) = match std::mem::replace(&mut member.state, State::New) {
            State::Ended(ended) => (None, Some(ended)),
            State::Unfit { why, after, .. } => (Some(why), after),
            _ => (None, None),
        };
        member.state = State::Starting { id: id.clone(), why, after };
        out.push(Effect::Start { container: member.name.clone(), number: member.instances, id });
        None
    }
}
