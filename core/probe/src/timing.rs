//! Effective times of a probe: seconds plus offset, as the node uses them.
//!
//! Stored values are not trusted: whatever the API accepted once, a [`Timing`] holds only times that a worker can run
//! with. What had to be corrected is told, so that it becomes an event.

use std::str::FromStr;
use std::time::Duration;

use api::pod::Probe;
use api::probe_rules;
use api::{FeatureGates, Gate, HandlerKind, ProbeType};

/// A period below this is fast: used only while the policy of the node says so; KEP-3066.
pub const FAST_BELOW: Duration = Duration::from_secs(1);

/// When a fast period is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubSecondProbePolicy {
    /// Until this container instance reaches Success.
    #[default]
    OnlyTheFirstTime,
    /// While the published result of this instance is not Success.
    AlwaysWhenWaitingForSuccess,
    /// Always.
    Always,
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown subSecondProbePolicy {0:?}: use OnlyTheFirstTime, AlwaysWhenWaitingForSuccess or Always")]
pub struct PolicyError(String);

impl SubSecondProbePolicy {
    /// Returns whether an instance counts as one that waits for success.
    pub fn waits_for_success(self, progress: Progress) -> bool {
        match self {
            SubSecondProbePolicy::OnlyTheFirstTime => !progress.reached_success,
            SubSecondProbePolicy::AlwaysWhenWaitingForSuccess | SubSecondProbePolicy::Always => !progress.is_success,
        }
    }
}

impl FromStr for SubSecondProbePolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<SubSecondProbePolicy, PolicyError> {
        match text {
            "OnlyTheFirstTime" => Ok(SubSecondProbePolicy::OnlyTheFirstTime),
            "AlwaysWhenWaitingForSuccess" => Ok(SubSecondProbePolicy::AlwaysWhenWaitingForSuccess),
            "Always" => Ok(SubSecondProbePolicy::Always),
            _ => Err(PolicyError(text.to_owned())),
        }
    }
}

/// What a node decides about all its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// Which millisecond fields count.
    pub gates: FeatureGates,
    /// When a fast period is used.
    pub policy: SubSecondProbePolicy,
    /// Whether a first attempt that did not succeed is repeated once after a second.
    pub second_look: bool,
}

impl Default for NodePolicy {
    fn default() -> NodePolicy {
        NodePolicy { gates: FeatureGates::default(), policy: SubSecondProbePolicy::default(), second_look: true }
    }
}

/// What fields that are absent or zero stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `periodSeconds`.
    pub period_seconds: i64,
    /// `timeoutSeconds`.
    pub timeout_seconds: i64,
    /// `successThreshold`.
    pub success_threshold: i64,
    /// `failureThreshold`.
    pub failure_threshold: i64,
    /// The delay where neither field of it is set.
    pub initial_delay_ms: i64,
}

impl Defaults {
    /// Those of Kubernetes, for the probes of containers.
    pub const CONTAINER: Defaults = Defaults {
        period_seconds: probe_rules::DEFAULT_PERIOD_SECONDS,
        timeout_seconds: probe_rules::DEFAULT_TIMEOUT_SECONDS,
        success_threshold: probe_rules::DEFAULT_SUCCESS_THRESHOLD,
        failure_threshold: probe_rules::DEFAULT_FAILURE_THRESHOLD,
        initial_delay_ms: 0,
    };

    /// Those of OpenKruise, for the probes of markers.
    pub const MARKER: Defaults =
        Defaults { period_seconds: 1, timeout_seconds: 1, success_threshold: 1, failure_threshold: 1, initial_delay_ms: 1_000 };
}

/// What an instance has achieved, as far as the choice of the period depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// This instance has reached Success at least once.
    pub reached_success: bool,
    /// The published result is Success.
    pub is_success: bool,
}

/// The times and thresholds of one probe, all usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the start of the container to the first attempt.
    pub initial_delay: Duration,
    /// For one attempt.
    pub timeout: Duration,
    /// Successes in a row that publish Success; at least 1.
    pub success_threshold: u32,
    /// Failures in a row that publish Failure; at least 1.
    pub failure_threshold: u32,
    period: Duration,
    slow: Duration,
}

impl Timing {
    /// Returns the times of a stored probe, and what had to be corrected in it (empty: nothing).
    ///
    /// `type_` is `None` for a probe that belongs to no container status, as markers have them.
    pub fn of(probe: &Probe, type_: Option<ProbeType>, gates: &FeatureGates, defaults: &Defaults) -> (Timing, Vec<String>) {
        let floors = handler_of(probe).unwrap_or(HandlerKind::HttpGet);
        let mut clamped = Vec::new();
        let mut whole = |field: &str, value: i64, default: i64| {
            if value < 0 {
                clamped.push(format!("{field} {value} counts as unset"));
            }
            if value <= 0 { default } else { value }
        };
        let delay_seconds = whole("initialDelaySeconds", probe.initial_delay_seconds, 0);
        let timeout_seconds = whole("timeoutSeconds", probe.timeout_seconds, defaults.timeout_seconds);
        let period_seconds = whole("periodSeconds", probe.period_seconds, defaults.period_seconds);
        let successes = whole("successThreshold", probe.success_threshold, defaults.success_threshold);
        let failures = whole("failureThreshold", probe.failure_threshold, defaults.failure_threshold);

        let gated = |offset: Option<i64>, gate: Gate| offset.filter(|_| gates.enabled(gate));
        let mut sum = |what: &str, seconds: i64, offset: Option<i64>, floor: i64| {
            let Some(offset) = offset else { return millis(seconds.saturating_mul(1_000)) };
            let effective = seconds.saturating_mul(1_000).saturating_add(offset);
            if effective < floor {
                clamped.push(format!("effective {what} {effective}ms is raised to {floor}ms"));
            }
            millis(effective.max(floor))
        };
        let delay_offset = gated(probe.initial_delay_milliseconds, Gate::SubSecondProbes);
        let initial_delay = match (delay_seconds, delay_offset) {
            (0, None) => millis(defaults.initial_delay_ms),
            _ => sum("initial delay", delay_seconds, delay_offset, 0),
        };
        let period_offset =
            gated(probe.period_milliseconds, Gate::SubSecondProbes).filter(|_| type_ != Some(ProbeType::Liveness));
        let timing = Timing {
            initial_delay,
            period: sum("period", period_seconds, period_offset, floors.period_floor_ms()),
            slow: millis(period_seconds.saturating_mul(1_000)),
            timeout: sum(
                "timeout",
                timeout_seconds,
                gated(probe.timeout_milliseconds, Gate::SubSecondProbeTimeouts),
                floors.timeout_floor_ms(),
            ),
            success_threshold: match type_ {
                Some(ProbeType::Liveness | ProbeType::Startup) => 1,
                Some(ProbeType::Readiness) | None => threshold(successes),
            },
            failure_threshold: threshold(failures),
        };
        (timing, clamped)
    }

    /// Returns the period that is valid now.
    pub fn period(&self, policy: SubSecondProbePolicy, progress: Progress) -> Duration {
        let fast_allowed = policy == SubSecondProbePolicy::Always || policy.waits_for_success(progress);
        if self.period >= FAST_BELOW || fast_allowed { self.period } else { self.slow }
    }
}

/// Returns the handler of a probe; of several the first counts.
pub fn handler_of(probe: &Probe) -> Option<HandlerKind> {
    let set = [probe.exec.is_some(), probe.http_get.is_some(), probe.tcp_socket.is_some(), probe.grpc.is_some()];
    HandlerKind::ALL.into_iter().zip(set).find(|(_, set)| *set).map(|(handler, _)| handler)
}

/// Returns whether a probe knocks at a target that refuses connections: it waits for success, and asks the pod itself over the
/// network.
pub fn knocks(probe: &Probe, type_: ProbeType, gates: &FeatureGates) -> bool {
    let asks_the_pod = match handler_of(probe) {
        Some(HandlerKind::HttpGet) => probe.http_get.as_ref().is_some_and(|action| action.host.is_empty()),
        Some(HandlerKind::TcpSocket) => probe.tcp_socket.as_ref().is_some_and(|action| action.host.is_empty()),
        Some(HandlerKind::Grpc) => true,
        Some(HandlerKind::Exec) | None => false,
    };
    asks_the_pod && type_ != ProbeType::Liveness && gates.enabled(Gate::ProbeOnListen)
}

fn millis(value: i64) -> Duration {
    Duration::from_millis(u64::try_from(value).unwrap_or(0))
}

fn threshold(value: i64) -> u32 {
    u32::try_from(value.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_policy_is_refused_with_the_known_ones() {
        let error = "Sometimes".parse::<SubSecondProbePolicy>().unwrap_err().to_string();
        assert!(error.contains("Sometimes") && error.contains("OnlyTheFirstTime"), "{error}");
    }

    #[test]
    fn what_is_corrected_is_told() {
        let bad = Probe { period_seconds: -3, timeout_milliseconds: Some(-999), ..Probe::default() };
        let gates = FeatureGates::default().with(Gate::SubSecondProbeTimeouts, true);
        let (timing, clamped) = Timing::of(&bad, Some(ProbeType::Readiness), &gates, &Defaults::CONTAINER);
        assert_eq!(timing.timeout, Duration::from_millis(100));
        assert_eq!(clamped.len(), 2, "{clamped:?}");
        let (_, clamped) = Timing::of(&Probe::default(), None, &gates, &Defaults::MARKER);
        assert_eq!(clamped, Vec::<String>::new());
    }

    #[test]
    fn a_marker_waits_a_second_unless_told_otherwise() {
        let delay = |probe: Probe| Timing::of(&probe, None, &FeatureGates::default(), &Defaults::MARKER).0.initial_delay;
        assert_eq!(delay(Probe::default()), Duration::from_secs(1));
        assert_eq!(delay(Probe { initial_delay_milliseconds: Some(0), ..Probe::default() }), Duration::ZERO);
        assert_eq!(delay(Probe { initial_delay_seconds: 4, ..Probe::default() }), Duration::from_secs(4));
    }

    #[test]
    fn huge_numbers_saturate() {
        let probe = Probe { period_seconds: i64::MAX, period_milliseconds: Some(i64::MAX), ..Probe::default() };
        let (timing, _) = Timing::of(&probe, None, &FeatureGates::default(), &Defaults::CONTAINER);
        assert!(timing.period(SubSecondProbePolicy::Always, Progress::default()) > Duration::from_secs(1 << 40));
    }
}
