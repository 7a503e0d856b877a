//! Which events probes cause, and how often: a fast worker writes no more of them than a slow one.

use std::time::Duration;

use api::ProbeType;
use api::event::EventType;
use machine::Time;

/// Within a run of failures, a worker repeats its event at most this often.
const REPEAT_AFTER: Duration = Duration::from_secs(60);
/// The same when the cause is another one than that of the last event.
const NEW_CAUSE_AFTER: Duration = Duration::from_secs(10);
/// The API refuses events whose text is longer.
const MESSAGE_BYTES_MAX: usize = 1024;

/// An attempt failed, or could not be carried out.
pub const UNHEALTHY: &str = "Unhealthy";
/// An attempt succeeded in a way that deserves a look, or a stored value had to be corrected.
pub const PROBE_WARNING: &str = "ProbeWarning";
/// A container is ready again.
pub const HEALTHY: &str = "Healthy";
/// A container is about to be stopped.
pub const KILLING: &str = "Killing";
/// A container waits before it is started again.
pub const BACK_OFF: &str = "BackOff";

/// An event about a container; the shell adds the object (`spec.containers{name}`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEvent {
    /// Good or bad news.
    pub type_: EventType,
    /// One of the constants of this module.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// How many occurrences this one stands for, itself included.
    pub count: u32,
}

impl ContainerEvent {
    fn new(type_: EventType, reason: &'static str, message: String, count: u32) -> ContainerEvent {
        ContainerEvent { type_, reason, message: cut(message, MESSAGE_BYTES_MAX), count }
    }

    pub(crate) fn failed(probe: ProbeType, output: &str, count: u32) -> ContainerEvent {
        ContainerEvent::new(EventType::Warning, UNHEALTHY, format!("{} probe failed: {output}", probe.name()), count)
    }

    pub(crate) fn errored(probe: ProbeType, cause: &str, count: u32) -> ContainerEvent {
        let message = format!("{} probe errored and was discarded: {cause}", probe.name());
        ContainerEvent::new(EventType::Warning, UNHEALTHY, message, count)
    }

    pub(crate) fn warning(probe: ProbeType, text: &str, count: u32) -> ContainerEvent {
        ContainerEvent::new(EventType::Warning, PROBE_WARNING, format!("{} probe warning: {text}", probe.name()), count)
    }

    pub(crate) fn healthy(probe: ProbeType) -> ContainerEvent {
        ContainerEvent::new(EventType::Normal, HEALTHY, format!("{} probe succeeded again", probe.name()), 1)
    }

    /// Says that a probe has a container killed.
    pub fn killing(container: &str, probe: ProbeType, grace_seconds: i64, restart: bool) -> ContainerEvent {
        let after = if restart { "will be restarted" } else { "will not be restarted" };
        let message = format!("Container {container} failed {} probe and {after} (grace period {grace_seconds}s)", word(probe));
        ContainerEvent::new(EventType::Normal, KILLING, message, 1)
    }

    /// Says that a container waits before it is started again.
    pub fn back_off(container: &str, delay: Duration) -> ContainerEvent {
        let message = format!("Back-off {} restarting failed container {container}", api::duration::format(delay));
        ContainerEvent::new(EventType::Warning, BACK_OFF, message, 1)
    }
}

fn word(probe: ProbeType) -> &'static str {
    match probe {
        ProbeType::Liveness => "liveness",
        ProbeType::Readiness => "readiness",
        ProbeType::Startup => "startup",
    }
}

/// Cuts a text to at most `max` bytes, on a character boundary.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}

/// When an event of one kind was last written for a worker, and how many were left out since.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    last: Option<Time>,
    /// That of the last event.
    cause: u64,
    left_out: u32,
}

impl Rate {
    /// Returns the count to write an event with, or `None` to leave it out. `always`: it is worth an event of its own.
    pub(crate) fn admit(&mut self, now: Time, always: bool, cause: u64) -> Option<u32> {
        let pause = if cause == self.cause { REPEAT_AFTER } else { NEW_CAUSE_AFTER };
        let quiet = self.last.is_none_or(|last| now.since(last) >= pause);
        if !always && !quiet {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        (self.last, self.cause) = (Some(now), cause);
        Some(std::mem::take(&mut self.left_out).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_counted_and_come_once_a_minute() {
        let mut rate = Rate::default();
        assert_eq!(rate.admit(Time::ZERO, false, 1), Some(1));
        for second in 1..60 {
            assert_eq!(rate.admit(Time::from_secs(second), false, 1), None);
        }
        assert_eq!(rate.admit(Time::from_secs(60), false, 1), Some(60));
        assert_eq!(rate.admit(Time::from_secs(61), true, 1), Some(1));
    }

    #[test]
    fn another_cause_does_not_wait_a_minute_but_two_that_take_turns_do_not_flood() {
        let mut rate = Rate::default();
        assert_eq!(rate.admit(Time::ZERO, false, 1), Some(1));
        assert_eq!(rate.admit(Time::from_secs(9), false, 2), None);
        assert_eq!(rate.admit(Time::from_secs(10), false, 2), Some(2));
        assert_eq!(rate.admit(Time::from_secs(20), false, 2), None, "the same cause as that of the last event");
        let written = (21..=80).filter(|second| rate.admit(Time::from_secs(*second), false, *second as u64 % 2).is_some());
        assert!(written.count() <= 6, "at most every ten seconds");
    }

    #[test]
    fn messages_fit_into_an_event() {
        let event = ContainerEvent::failed(ProbeType::Liveness, &"ä".repeat(1000), 1);
        assert!(event.message.len() <= 1024 && event.message.starts_with("Liveness probe failed: ä"));
    }

    #[test]
    fn a_kill_says_what_happens_next() {
        let message = ContainerEvent::killing("app", ProbeType::Startup, 7, true).message;
        assert!(["app", "startup", "7s", "will be restarted"].iter().all(|part| message.contains(part)), "{message}");
    }
}
