//! What a stock kubelet does with the same probe.
//!
//! It knows whole seconds, no second look and no knocks. Its worker ticks every period from before the container runs, so the
//! first attempt comes at any time within a period after the delay; it hears of a start from the runtime, once a second. For one
//! probe, with the letters of [`times`](crate::times) and `G = max(P, T)`:
//!
//! ```text
//! first attempt     between d and d + P + 1 s after the start
//! Success           at most n P after it answers well, hanging: n G + T
//! never up          Failure between d + (f - 1) P and d + P + 1 s + (f - 1) G + T
//! fails             Failure between (f - 1) P and f G + T later
//! ```

use serde::Serialize;

use crate::findings::span;
use crate::report::{Action, Container, Probe};
use crate::times::{Span, Times};

/// How late a kubelet may hear of the start of a container.
const NOTICE_MS: u64 = 1_000;

/// The times of one probe on a stock kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnKubelet {
    /// From the start of the container to the first attempt.
    pub first_attempt: Span,
    /// How long after it answers well Success is reached at most: prompt and hanging bound.
    pub succeeding: Span,
    /// When Failure is reached by a container that never answers well, from its start.
    pub never_up: Span,
    /// How long after it began to fail a container that was well has the result Failure.
    pub failing: Span,
}

impl OnKubelet {
    /// Returns the times of a probe; `times` are those with every gate off.
    pub(super) fn of(times: &Times) -> OnKubelet {
        let Times { delay_ms: delay, period_ms: period, timeout_ms: timeout, .. } = *times;
        let (successes, failures) = (u64::from(times.success_threshold), u64::from(times.failure_threshold));
        let gap = period.max(timeout);
        let first = Span { from_ms: delay, to_ms: delay.saturating_add(period).saturating_add(NOTICE_MS) };
        let up_to = |count: u64| gap.saturating_mul(count).saturating_add(timeout);
        let before = failures.saturating_sub(1);
        OnKubelet {
            first_attempt: first,
            succeeding: Span { from_ms: period.saturating_mul(successes), to_ms: up_to(successes) },
            never_up: Span {
                from_ms: delay.saturating_add(period.saturating_mul(before)),
                to_ms: first.to_ms.saturating_add(up_to(before)),
            },
            failing: Span { from_ms: period.saturating_mul(before), to_ms: up_to(failures) },
        }
    }
}

/// Returns the rows that put both side by side, with their head; none if nobody asked.
pub(super) fn rows(shown: &Container) -> Vec<[String; 4]> {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for probe in &shown.probes {
        let Some(other) = &probe.kubelet else { continue };
        if rows.is_empty() {
            rows.push(["PROBE", "", "LIFESIGN", "STOCK KUBELET"].map(str::to_owned));
        }
        rows.extend(compare(shown, probe, other));
    }
    rows
}

fn compare(shown: &Container, probe: &Probe, other: &OnKubelet) -> Vec<[String; 4]> {
    let row = |what: &str, own: String, kubelet: String| [probe.name.clone(), what.to_owned(), own, kubelet];
    let between = |times: Span| format!("{} to {}", span(times.from_ms), span(times.to_ms));
    let mut rows = vec![row("first attempt", span(probe.times.delay_ms), between(other.first_attempt))];
    if !matches!(probe.action, Action::Kill { .. }) || probe.failing.is_none() {
        let knocked = shown.ready.and_then(|ready| ready.lag_on_listen_ms).filter(|_| probe.times.probe_on_listen);
        let own = span(probe.times.succeeding().from_ms);
        let own = knocked.map_or_else(|| own.clone(), |knocked| format!("{own}; {} after it listens", span(knocked)));
        rows.push(row("counts after it answers, at most", own, span(other.succeeding.from_ms)));
    }
    match (probe.failing, probe.never_up) {
        (Some(own), _) => rows.push(row("acts after it fails", between(own), between(other.failing))),
        (None, Some(own)) => rows.push(row("acts if it never answers", between(own), between(other.never_up))),
        (None, None) => {}
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_waits_for_its_tick_and_knows_whole_seconds() {
        let times = Times {
            delay_ms: 5_000,
            period_ms: 10_000,
            period_after_success_ms: 10_000,
            period_after_loss_ms: 10_000,
            timeout_ms: 1_000,
            success_threshold: 1,
            failure_threshold: 3,
            second_look: false,
            probe_on_listen: false,
        };
        let on = OnKubelet::of(&times);
        assert_eq!(on.first_attempt, Span { from_ms: 5_000, to_ms: 16_000 });
        assert_eq!(on.succeeding, Span { from_ms: 10_000, to_ms: 11_000 });
        assert_eq!(on.never_up, Span { from_ms: 25_000, to_ms: 37_000 });
        assert_eq!(on.failing, Span { from_ms: 20_000, to_ms: 31_000 });
    }
}
