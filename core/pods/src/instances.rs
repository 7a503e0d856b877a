//! What becomes of a container: it starts, runs its hooks, ends, or cannot be set up.
//!
//! Every fact names its instance; what belongs to another one is dropped.

use std::sync::Arc;

use api::event::EventType;
use machine::{Failures, Time};

use crate::container::{Ended, Instance, InstanceState, Next, Waiting};
use crate::events;
use crate::machine::PodMachine;
use crate::messages::{Effect, Exit, Hook, HookResult};
use crate::settings::RETRY_SETUP;
use crate::stop::{Cause, give_up};

impl PodMachine {
    pub(crate) fn started(&mut self, now: Time, container: &str, id: Arc<str>, at: Time, out: &mut Vec<Effect>) {
        let Some(index) = self.find(container) else { return };
        let container = &mut self.containers[index];
        match &mut container.state {
            InstanceState::Starting { id: wanted, after, .. } if *wanted == id => {
                container.last = after.take().map(|ended| *ended).or(container.last.take())
            }
            _ => return,
        }
        container.instances += 1;
        container.setup_failures = Failures::default();
        let hook = container.spec(&self.pod).lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some());
        let in_post_start = hook && self.ending.is_none();
        container.state =
            InstanceState::Running(Box::new(Instance { id, started_at: at, in_post_start, stop: None, restart_anyway: false }));
        self.changed = true;
        let name = &self.containers[index].name;
        let (created, started) = (format!("Created container: {name}"), format!("Started container {name}"));
        self.event(index, EventType::Normal, events::CREATED, created, out);
        self.event(index, EventType::Normal, events::STARTED, started, out);
        if in_post_start {
            self.post_start(index, out);
        } else {
            self.counts_as_running(now, index, out);
        }
        if let Some(until) = self.ending.as_ref().map(|ending| ending.until) {
            self.stop(now, index, until, out);
        }
    }

    pub(crate) fn post_start(&mut self, index: usize, out: &mut Vec<Effect>) {
        let container = &self.containers[index];
        let handler = container.spec(&self.pod).lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.clone());
        let (Some(handler), Some(instance)) = (handler, container.instance()) else { return };
        let (container, id) = (container.name.clone(), instance.id.clone());
        out.push(Effect::Hook { container, id, hook: Hook::PostStart, handler, timeout: None });
    }

    pub(crate) fn counts_as_running(&mut self, now: Time, index: usize, out: &mut Vec<Effect>) {
        let Some(instance) = self.containers[index].instance_mut() else { return };
        instance.in_post_start = false;
        let (id, started_at) = (Box::from(&*instance.id), instance.started_at);
        self.changed = true;
        self.probe(now, index, Some(probe::Input::Running { id, started_at }), out);
    }

    pub(crate) fn exited(&mut self, now: Time, container: &str, id: &str, exit: Exit, out: &mut Vec<Effect>) {
        let Some(index) = self.find(container) else { return };
        let container = &mut self.containers[index];
        let started_at = match &mut container.state {
            InstanceState::Running(instance) if &*instance.id == id => instance.started_at,
            // It could not be started: the instance counts all the same.
            InstanceState::Starting { id: wanted, after, .. } if &**wanted == id => {
                container.last = after.take().map(|ended| *ended).or(container.last.take());
                container.instances += 1;
                now
            }
            _ => return,
        };
        let never_ran = matches!(container.state, InstanceState::Starting { .. });
        let restart_anyway = container.instance().is_some_and(|instance| instance.restart_anyway);
        let signaled = container.instance().is_some_and(Instance::was_signaled);
        let (id, name) = (Arc::<str>::from(id), container.name.clone());
        if let Some(instance) = container.instance() {
            for (hook, runs) in [
                (Hook::PostStart, instance.in_post_start && instance.stop.is_none()),
                (Hook::PreStop, instance.is_in_pre_stop()),
            ] {
                if runs {
                    out.push(Effect::CancelHook { container: name.clone(), id: id.clone(), hook });
                }
            }
        }
        if never_ran {
            self.event(index, EventType::Warning, events::FAILED, format!("Error: {}", exit.message), out);
        }
        let next = self.next_after(now, index, &exit, started_at, restart_anyway, signaled);
        let ended = Ended { id, exit, next };
        let exit_code = self.exit_code_for_prober(&ended);
        self.containers[index].state = InstanceState::Ended(Box::new(ended));
        self.changed = true;
        self.probe(now, index, Some(probe::Input::NotRunning { exit_code }), out);
        if let Next::At { delay, .. } = next
            && !delay.is_zero()
        {
            let event = probe::ContainerEvent::back_off(&name, delay);
            self.event(index, event.type_, events::BACK_OFF, event.message, out);
        }
    }

    /// Decides what follows the end of an instance.
    fn next_after(
        &mut self,
        now: Time,
        index: usize,
        exit: &Exit,
        started_at: Time,
        restart_anyway: bool,
        signaled: bool,
    ) -> Next {
        let steps = self.settings.back_off;
        let container = &mut self.containers[index];
        let follows = restart_anyway || container.restarts.follow(Some(exit.exit_code));
        match self.ending.as_ref().map(|ending| ending.cause) {
            None if follows => {
                let at = container.back_off.restart_at(&steps, started_at, now);
                Next::At { at, delay: at.since(now) }
            }
            // It was the agent that ended it, so its exit code says nothing.
            Some(Cause::Stopped) if follows || (signaled && container.restarts.follow_kill()) => Next::Resume,
            _ => Next::Never,
        }
    }

    /// Returns the exit code as a prober may judge it: none if another instance follows whatever the code was.
    pub(crate) fn exit_code_for_prober(&self, ended: &Ended) -> Option<i32> {
        (ended.next == Next::Never).then_some(ended.exit.exit_code)
    }

    pub(crate) fn start_failed(&mut self, now: Time, container: &str, id: &str, why: Waiting, out: &mut Vec<Effect>) {
        let Some(index) = self.find(container) else { return };
        let container = &mut self.containers[index];
        let after = match &mut container.state {
            InstanceState::Starting { id: wanted, after, .. } if &**wanted == id => after.take(),
            _ => return,
        };
        let retry_at = now + container.setup_failures.next(RETRY_SETUP);
        // The same problem is reported once, not with every try.
        let reported = self
            .report
            .waiting(&container.name)
            .is_some_and(|waiting| waiting.reason == why.reason && waiting.message == why.message);
        if !reported {
            self.event(index, EventType::Warning, events::FAILED, format!("Error: {}", why.message), out);
        }
        self.containers[index].state = InstanceState::Unfit { why: Box::new(why), retry_at, after };
        if let Some(ending) = &self.ending {
            give_up(&mut self.containers[index], ending.cause);
        }
        self.changed = true;
    }

    pub(crate) fn hook_finished(
        &mut self,
        now: Time,
        container: &str,
        id: &str,
        hook: Hook,
        result: HookResult,
        out: &mut Vec<Effect>,
    ) {
        let Some(index) = self.find(container) else { return };
        let Some(instance) = self.containers[index].running(id) else { return };
        match hook {
            Hook::PostStart if instance.in_post_start && instance.stop.is_none() => match result {
                Ok(()) => self.counts_as_running(now, index, out),
                Err(error) => {
                    let message = format!("PostStartHook failed: {error}");
                    self.event(index, EventType::Warning, events::FAILED_POST_START, message, out);
                    let restart = self.containers[index].restarts.follow_kill();
                    self.restart(now, index, restart, out);
                }
            },
            Hook::PreStop if instance.is_in_pre_stop() => {
                if let Err(error) = result {
                    let message = format!("PreStopHook failed: {error}");
                    self.event(index, EventType::Warning, events::FAILED_PRE_STOP, message, out);
                }
                self.await_signal(index);
            }
            Hook::PostStart | Hook::PreStop => {}
        }
    }
}
