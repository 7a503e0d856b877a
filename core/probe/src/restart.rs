//! Whether a container is started again after it ended, and how long it waits before that.

use std::time::Duration;

use api::pod::{Container, RestartRule};
use machine::Time;

/// The words of `restartPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever the exit code.
    #[default]
    Always,
    /// When the exit code is not 0.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    /// Reads the word; an unknown or absent one is `Always`, as after defaulting.
    pub fn parse(text: &str) -> RestartPolicy {
        match text {
            "OnFailure" => RestartPolicy::OnFailure,
            "Never" => RestartPolicy::Never,
            _ => RestartPolicy::Always,
        }
    }
}

/// When one container is started again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restarts {
    policy: RestartPolicy,
    rules: Vec<RestartRule>,
}

impl Restarts {
    /// Returns what holds for a container of a pod: its own policy and rules, else the pod's policy.
    ///
    /// `Always` on an init container makes it a sidecar, which is restarted whatever the pod says.
    pub fn of(pod_policy: &str, container: &Container) -> Restarts {
        let policy = match container.restart_policy.as_str() {
            "" => pod_policy,
            own => own,
        };
        Restarts { policy: RestartPolicy::parse(policy), rules: container.restart_policy_rules.clone() }
    }

    /// Returns what holds for an init container that is no sidecar: once it succeeded it has done its work.
    pub fn of_init(pod_policy: &str, container: &Container) -> Restarts {
        let restarts = Restarts::of(pod_policy, container);
        match restarts.policy {
            RestartPolicy::Always if !container.is_sidecar() => Restarts { policy: RestartPolicy::OnFailure, ..restarts },
            _ => restarts,
        }
    }

    /// Returns whether a container that ended by itself is started again. An unknown exit code means that it did not end
    /// but waits to be started.
    pub fn follow(&self, exit_code: Option<i32>) -> bool {
        let Some(exit_code) = exit_code else { return true };
        let policy = match self.policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Never => false,
        };
        policy || self.rules.iter().any(|rule| rule.restarts(i64::from(exit_code)))
    }

    /// Returns whether a container that a probe kills is started again: the exit code of a kill says nothing.
    pub fn follow_kill(&self) -> bool {
        self.policy != RestartPolicy::Never
    }
}

/// An instance that exits later than this after its start begins a new ladder; kubelet.
const LADDER_FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The steps of the restart back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOffSteps {
    initial: Duration,
    max: Duration,
}

/// A period that the back-off cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be between 1s and 300s, not {got:?}")]
pub struct BackOffError {
    /// The option.
    pub field: &'static str,
    /// Its value.
    pub got: Duration,
}

impl BackOffSteps {
    /// Returns steps that double from `initial` (`crashLoopBackOff.initialPeriod`) to `max`
    /// (`crashLoopBackOff.maxContainerRestartPeriod`), which also cuts the first one.
    pub fn new(initial: Duration, max: Duration) -> Result<BackOffSteps, BackOffError> {
        let allowed = Duration::from_secs(1)..=Duration::from_secs(300);
        for (field, got) in [("crashLoopBackOff.initialPeriod", initial), ("crashLoopBackOff.maxContainerRestartPeriod", max)] {
            if !allowed.contains(&got) {
                return Err(BackOffError { field, got });
            }
        }
        Ok(BackOffSteps { initial, max })
    }
}

/// 10 s doubling to 300 s, as the kubelet.
impl Default for BackOffSteps {
    fn default() -> BackOffSteps {
        BackOffSteps { initial: Duration::from_secs(10), max: Duration::from_secs(300) }
    }
}

/// Where one container stands on the ladder. Make a new one when its image or resources change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackOff {
    /// What the restart after the next one waits; `None`: the next one is immediate.
    next: Option<Duration>,
}

impl BackOff {
    /// Returns the place after a restart that waited so long.
    pub fn after(wait: Duration, steps: &BackOffSteps) -> BackOff {
        BackOff { next: Some(wait.saturating_mul(2).clamp(steps.initial.min(steps.max), steps.max)) }
    }

    /// Returns when an instance may be started again that ran from `started` to `exited`, however it ended.
    pub fn restart_at(&mut self, steps: &BackOffSteps, started: Time, exited: Time) -> Time {
        if exited.since(started) > LADDER_FORGOTTEN_AFTER {
            self.next = None;
        }
        let wait = self.next.unwrap_or(Duration::ZERO);
        self.next = Some(self.next.map_or(steps.initial, |wait| wait.saturating_mul(2)).min(steps.max));
        exited + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::pod::ExitCodes;

    #[test]
    fn rules_and_policy_of_the_container_override_the_pod() {
        let container = |policy: &str, values: Vec<i64>| Container {
            restart_policy: policy.to_owned(),
            restart_policy_rules: vec![RestartRule {
                action: "Restart".to_owned(),
                exit_codes: Some(ExitCodes { operator: "In".to_owned(), values }),
            }],
            ..Container::default()
        };
        let restarts = Restarts::of("Always", &container("Never", vec![42]));
        assert!(restarts.follow(Some(42)) && !restarts.follow(Some(1)) && !restarts.follow_kill());
        assert!(Restarts::of("Never", &container("Always", vec![])).follow(Some(0)));
        assert!(!Restarts::of("OnFailure", &Container::default()).follow(Some(0)));
    }

    #[test]
    fn an_init_container_that_succeeded_is_not_started_again() {
        let plain = Restarts::of_init("Always", &Container::default());
        assert!(plain.follow(Some(1)) && !plain.follow(Some(0)));
        let sidecar = Container { restart_policy: "Always".to_owned(), ..Container::default() };
        assert!(Restarts::of_init("Never", &sidecar).follow(Some(0)));
    }

    #[test]
    fn waiting_to_be_started_is_no_end() {
        assert!(Restarts::of("Never", &Container::default()).follow(None));
    }

    #[test]
    fn periods_outside_the_range_are_refused() {
        let seconds = Duration::from_secs;
        assert!(BackOffSteps::new(seconds(1), seconds(60)).is_ok());
        assert!(BackOffSteps::new(seconds(10), seconds(301)).is_err());
        assert!(BackOffSteps::new(Duration::ZERO, seconds(60)).is_err());
    }
}
