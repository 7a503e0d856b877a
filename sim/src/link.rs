//! Links: what is lost, and how long the rest is under way.

use std::time::Duration;

use machine::{Rng, Time};

use crate::scenario::{Burst, Latency, Length, Link};

/// Nothing takes longer: a draw far out in the tail must not overflow.
const LONGEST_SECONDS: f64 = 1e8;

/// Returns a span of seconds; negative ones are none.
pub(crate) fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_SECONDS))
}

/// Draws the time until the next event of a process with a mean number of events per second.
pub(crate) fn exponential(rng: &mut Rng, per_second: f64) -> Duration {
    if per_second <= 0.0 {
        return Duration::MAX;
    }
    // 1 - fraction is never 0, so the logarithm is finite.
    span(-(1.0 - rng.fraction()).ln() / per_second)
}

/// Draws two numbers from the normal distribution of mean 0 and deviation 1 (Box and Muller).
fn normals(rng: &mut Rng) -> (f64, f64) {
    let radius = (-2.0 * (1.0 - rng.fraction()).ln()).sqrt();
    let (sine, cosine) = (std::f64::consts::TAU * rng.fraction()).sin_cos();
    (radius * cosine, radius * sine)
}

/// Draws how long something lasts.
pub(crate) fn length(rng: &mut Rng, length: Length) -> Duration {
    match length {
        Length::Seconds(seconds) => span(seconds),
        Length::Lognormal { median, sigma } => span(median * (sigma * normals(rng).0).exp()),
    }
}

/// The link of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeLink {
    rng: Rng,
    bad: bool,
    /// The second of two normal numbers: they come in pairs.
    spare: Option<f64>,
}

impl NodeLink {
    pub(crate) const fn new(rng: Rng) -> NodeLink {
        NodeLink { rng, bad: false, spare: None }
    }

    /// Draws whether an attempt gets through, outages aside.
    pub(crate) fn passes(&mut self, link: &Link) -> bool {
        if let Some(Burst { p_enter, p_leave, loss }) = link.burst {
            let turns = self.rng.fraction() < if self.bad { p_leave } else { p_enter };
            self.bad ^= turns;
            if self.bad && self.rng.fraction() < loss {
                return false;
            }
        }
        link.loss <= 0.0 || self.rng.fraction() >= link.loss
    }

    /// Draws when a message that is sent at an instant arrives.
    pub(crate) fn arrival(&mut self, sent: Time, link: &Link) -> Time {
        let seconds = match link.latency {
            Latency::Constant(seconds) => seconds,
            Latency::Uniform { a, b } => a + (b - a) * self.rng.fraction(),
            Latency::Lognormal { median, sigma } => median * (sigma * self.normal()).exp(),
        };
        // Rounded by hand: without SSE4.1 the compiler calls a function for it.
        Time::from_micros(sent.as_micros().saturating_add((seconds.min(LONGEST_SECONDS) * 1e6 + 0.5) as i64))
    }

    fn normal(&mut self) -> f64 {
        self.spare.take().unwrap_or_else(|| {
            let (one, other) = normals(&mut self.rng);
            self.spare = Some(other);
            one
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_right_mean() {
        let mut rng = Rng::new(1);
        let count = 20_000;
        let mean = |total: f64| total / f64::from(count);
        let gaps: f64 = (0..count).map(|_| exponential(&mut rng, 0.5).as_secs_f64()).sum();
        assert!((mean(gaps) - 2.0).abs() < 0.05, "{}", mean(gaps));
        let mut lengths: Vec<Duration> =
            (0..count).map(|_| length(&mut rng, Length::Lognormal { median: 3.0, sigma: 1.0 })).collect();
        lengths.sort();
        assert!((lengths[count as usize / 2].as_secs_f64() - 3.0).abs() < 0.1);
    }

    #[test]
    fn burst_loss_comes_in_runs() {
        let link = Link { burst: Some(Burst { p_enter: 0.01, p_leave: 0.1, loss: 1.0 }), ..Link::default() };
        let mut node = NodeLink::new(Rng::new(3));
        let outcomes: Vec<bool> = (0..100_000).map(|_| node.passes(&link)).collect();
        let lost = outcomes.iter().filter(|passes| !**passes).count();
        let runs = outcomes.windows(2).filter(|pair| pair[0] && !pair[1]).count();
        assert!((0.07..0.12).contains(&(lost as f64 / 1e5)), "{lost}: a share of pEnter / (pEnter + pLeave)");
        assert!((8.0..12.0).contains(&(lost as f64 / runs as f64)), "a run lasts 1 / pLeave attempts");
    }
}
