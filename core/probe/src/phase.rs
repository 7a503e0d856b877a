//! The phase of a pod, from its containers.
//!
//! Whether a container will be started again is the caller's knowledge (policy, rules, a probe kill): a pod that still has
//! such a container has not finished, whatever the exit code.

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not everything has been started yet.
    Pending,
    /// Everything was started, and something runs or will run again.
    Running,
    /// Everything has ended for good, without a failure.
    Succeeded,
    /// Everything has ended for good, and something failed.
    Failed,
}

impl PodPhase {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
        }
    }
}

/// What a container is in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Runs to its end before the regular ones.
    Init,
    /// Runs beside them.
    Sidecar,
    /// A regular container.
    Regular,
}

/// What a container does, as far as the phase depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// Was never started.
    New,
    /// Runs.
    Running {
        /// Its startup probe has succeeded, or it has none.
        started: bool,
    },
    /// Has ended, and waits to be started again if `restarts`.
    Ended {
        /// How.
        exit_code: i32,
        /// Whether it will be started again.
        restarts: bool,
    },
}

/// Returns the phase of a pod. `initialized`: its regular containers have begun once; a sidecar that restarts does not
/// take that back.
pub fn pod_phase(containers: impl IntoIterator<Item = (Role, Life)>, initialized: bool) -> PodPhase {
    let (mut pending, mut running, mut ended, mut failed, mut coming_back) = (false, false, false, false, false);
    for (role, life) in containers {
        match (role, life) {
            (Role::Init, Life::Ended { exit_code: 0, .. }) => {}
            (Role::Init, Life::Ended { restarts: false, .. }) => return PodPhase::Failed,
            (Role::Init, _) => pending = true,
            (Role::Sidecar, Life::Running { started }) => {
                running = true;
                pending |= !started && !initialized;
            }
            (Role::Sidecar, Life::New) => pending |= !initialized,
            // One that has ended counts neither way: it follows the regular containers.
            (Role::Sidecar, Life::Ended { .. }) => {}
            (Role::Regular, Life::New) => pending = true,
            (Role::Regular, Life::Running { .. }) => running = true,
            (Role::Regular, Life::Ended { exit_code, restarts }) => {
                ended = true;
                failed |= exit_code != 0;
                coming_back |= restarts;
            }
        }
    }
    if pending {
        PodPhase::Pending
    } else if running || coming_back {
        PodPhase::Running
    } else if !ended {
        PodPhase::Pending
    } else if failed {
        PodPhase::Failed
    } else {
        PodPhase::Succeeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Life = Life::Running { started: true };

    fn ended(exit_code: i32, restarts: bool) -> Life {
        Life::Ended { exit_code, restarts }
    }

    #[test]
    fn a_pod_runs_once_everything_was_started() {
        use Role::{Init, Regular, Sidecar};
        for (containers, phase) in [
            (vec![(Regular, Life::New)], PodPhase::Pending),
            (vec![(Regular, RUNS), (Regular, Life::New)], PodPhase::Pending),
            (vec![(Regular, RUNS)], PodPhase::Running),
            (vec![(Init, RUNS), (Regular, Life::New)], PodPhase::Pending),
            (vec![(Init, ended(0, false)), (Regular, RUNS)], PodPhase::Running),
            (vec![(Init, ended(1, true)), (Regular, Life::New)], PodPhase::Pending),
            (vec![(Init, ended(1, false)), (Regular, Life::New)], PodPhase::Failed),
            (vec![(Sidecar, Life::Running { started: false }), (Regular, RUNS)], PodPhase::Pending),
        ] {
            assert_eq!(pod_phase(containers.clone(), false), phase, "{containers:?}");
        }
    }

    #[test]
    fn a_pod_has_finished_when_nothing_comes_back() {
        use Role::{Regular, Sidecar};
        for (containers, phase) in [
            (vec![(Regular, ended(0, false))], PodPhase::Succeeded),
            (vec![(Regular, ended(0, false)), (Regular, ended(3, false))], PodPhase::Failed),
            (vec![(Regular, ended(0, false)), (Regular, RUNS)], PodPhase::Running),
            (vec![(Regular, ended(0, true))], PodPhase::Running),
            (vec![(Sidecar, RUNS), (Regular, ended(0, false))], PodPhase::Running),
            (vec![(Sidecar, ended(137, false)), (Regular, ended(0, false))], PodPhase::Succeeded),
        ] {
            assert_eq!(pod_phase(containers.clone(), true), phase, "{containers:?}");
        }
    }

    #[test]
    fn a_restarting_sidecar_does_not_take_a_pod_back_to_pending() {
        let containers = [(Role::Sidecar, Life::Running { started: false }), (Role::Regular, RUNS)];
        assert_eq!(pod_phase(containers, true), PodPhase::Running);
    }
}
