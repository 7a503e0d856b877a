//! Which profile suits a fleet: a prediction from the heartbeat gaps that were measured.

use std::time::Duration;

use profiles::Profile;
use serde::Serialize;

/// A profile is good enough below this many false alarms per node and day.
pub const RATE_MAX: f64 = 0.01;

/// So many heartbeats missed in a row are an outage; fewer are loss.
const OUTAGE_FROM: u64 = 3;

/// Heartbeat gaps that were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaps {
    /// The heartbeat interval that was in force.
    pub interval: Duration,
    /// How much was measured: nodes times days.
    pub node_days: f64,
    /// The time between one heartbeat and the next, each.
    pub gaps: Vec<Duration>,
}

/// What is predicted for one profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// The profile.
    #[serde(serialize_with = "by_name")]
    pub profile: Profile,
    /// Living nodes taken for dead.
    pub false_not_ready_per_node_day: f64,
    /// Whether that is few enough.
    pub acceptable: bool,
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// The quickest profile that is good enough; if none is, the one with the fewest false alarms.
    #[serde(serialize_with = "by_name")]
    pub profile: Profile,
    /// Whether it is good enough.
    pub acceptable: bool,
    /// The part of heartbeats that was lost, outages aside.
    pub loss: f64,
    /// Outages that were seen: three heartbeats or more missed in a row.
    pub outages: usize,
    /// The longest gap, in seconds.
    pub longest_gap_seconds: f64,
    /// Each profile, from the quickest to the slowest.
    pub predictions: Vec<Prediction>,
}

pub(crate) fn by_name<S: serde::Serializer>(profile: &Profile, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(profile.name())
}

/// Returns which profile suits a fleet. Nothing measured: the quickest, with nothing against it.
///
/// Short runs of missed heartbeats are taken for independent loss, long ones for outages; both have closed forms. Loss is
/// what remained after the retries of a heartbeat, so a slower profile, with its retries further apart, does no worse.
pub fn recommend(measured: &Gaps) -> Recommendation {
    let interval = measured.interval.as_secs_f64().max(1e-3);
    let missed = |gap: &Duration| ((gap.as_secs_f64() / interval).round() as u64).saturating_sub(1);
    let (mut lost, mut heard) = (0u64, 0u64);
    let mut outages = Vec::new();
    for gap in &measured.gaps {
        heard += 1;
        match missed(gap) {
            run if run >= OUTAGE_FROM => outages.push(gap.as_secs_f64() - interval),
            run => lost += run,
        }
    }
    let loss = if heard + lost > 0 { lost as f64 / (heard + lost) as f64 } else { 0.0 };
    let predictions: Vec<Prediction> = Profile::ALL
        .into_iter()
        .map(|profile| {
            let rate = predict(profile, loss, &outages, measured.node_days);
            Prediction { profile, false_not_ready_per_node_day: rate, acceptable: rate < RATE_MAX }
        })
        .collect();
    let fewest = |a: &&Prediction, b: &&Prediction| a.false_not_ready_per_node_day.total_cmp(&b.false_not_ready_per_node_day);
    let chosen = predictions.iter().find(|prediction| prediction.acceptable);
    let chosen = *chosen.or_else(|| predictions.iter().min_by(fewest)).expect("there are three");
    Recommendation {
        profile: chosen.profile,
        acceptable: chosen.acceptable,
        loss,
        outages: outages.len(),
        longest_gap_seconds: measured.gaps.iter().max().map_or(0.0, Duration::as_secs_f64),
        predictions,
    }
}

/// Returns false alarms per node and day: those from loss, and those from outages of the given seconds.
fn predict(profile: Profile, loss: f64, outages: &[f64], node_days: f64) -> f64 {
    let values = profile.values();
    let interval = values.lease_renew_interval().as_secs_f64();
    let chances = values.chances();
    let by_loss = 86_400.0 / interval * (1.0 - loss) * loss.powi(i32::try_from(chances).unwrap_or(i32::MAX));
    let survived = chances.saturating_sub(1) as f64 * interval;
    let by_outages: f64 = outages.iter().map(|seconds| ((seconds - survived) / interval).clamp(0.0, 1.0)).sum();
    by_loss + if node_days > 0.0 { by_outages / node_days } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(node_days: f64, odd: &[u64]) -> Gaps {
        let beats = (node_days * 8640.0) as usize;
        let gaps = std::iter::repeat_n(10, beats).chain(odd.iter().copied()).map(Duration::from_secs).collect();
        Gaps { interval: Duration::from_secs(10), node_days, gaps }
    }

    #[test]
    fn a_good_link_needs_no_patience() {
        let recommendation = recommend(&measured(10.0, &[20, 21, 19]));
        assert_eq!((recommendation.profile, recommendation.acceptable), (Profile::Default, true));
        assert_eq!(recommendation.outages, 0);
    }

    #[test]
    fn short_outages_ask_for_medium_and_long_ones_for_low() {
        assert_eq!(recommend(&measured(10.0, &[70, 80, 90])).profile, Profile::Medium);
        assert_eq!(recommend(&measured(10.0, &[200, 240])).profile, Profile::Low);
    }

    #[test]
    fn against_random_loss_medium_beats_low() {
        let third_lost: Vec<u64> = std::iter::repeat_n(20, 40_000).collect();
        let recommendation = recommend(&measured(10.0, &third_lost));
        let rate = |index: usize| recommendation.predictions[index].false_not_ready_per_node_day;
        assert!(rate(1) < rate(2) && rate(2) < rate(0), "{recommendation:?}");
    }

    #[test]
    fn if_nothing_is_good_enough_the_best_is_named_and_said_to_be_too_bad() {
        let recommendation = recommend(&measured(1.0, &[400, 500, 600]));
        assert!(!recommendation.acceptable && recommendation.predictions.iter().all(|prediction| !prediction.acceptable));
    }
}
