//! Zones: how broken each is, and at which rate its nodes are tainted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use machine::{Bucket, Time};

use super::{Config, NodeId};

/// How broken a zone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneState {
    /// Most nodes are ready.
    Normal,
    /// Three nodes or more are not, and they are many.
    PartialDisruption,
    /// No node is ready.
    FullDisruption,
}

impl ZoneState {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            ZoneState::Normal => "Normal",
            ZoneState::PartialDisruption => "PartialDisruption",
            ZoneState::FullDisruption => "FullDisruption",
        }
    }
}

/// A zone.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) name: Arc<str>,
    /// All nodes; those without the exclusion label; the ready ones of these.
    pub(super) nodes: usize,
    pub(super) counted: usize,
    pub(super) ready: usize,
    pub(super) state: Option<ZoneState>,
    pub(super) bucket: TaintBucket,
    /// Who waits for a NoExecute taint, by (enqueue instant, name).
    pub(super) queue: BTreeMap<(Time, Arc<str>), NodeId>,
}

impl Zone {
    pub(super) fn new(name: Arc<str>, now: Time) -> Zone {
        Zone { name, nodes: 0, counted: 0, ready: 0, state: None, bucket: TaintBucket::new(now), queue: BTreeMap::new() }
    }

    /// Returns the state that follows from the counters; a zone of excluded nodes only has none.
    pub(super) fn judge(&self, config: &Config) -> Option<ZoneState> {
        if self.counted == 0 {
            return None;
        }
        let not_ready = self.counted - self.ready;
        let broken = not_ready as f64 / self.counted as f64 >= config.unhealthy_zone_threshold;
        Some(if self.ready == 0 {
            ZoneState::FullDisruption
        } else if not_ready > 2 && broken {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        })
    }

    /// Returns the time per tainted node; `None`: none is tainted.
    pub(super) fn pace(&self, config: &Config) -> Option<Duration> {
        let rate = match self.state {
            Some(ZoneState::PartialDisruption) if self.counted > config.large_zone => config.secondary_eviction_rate,
            Some(ZoneState::PartialDisruption) => 0.0,
            Some(ZoneState::Normal | ZoneState::FullDisruption) | None => config.eviction_rate,
        };
        (rate > 0.0).then(|| Duration::from_secs_f64(1.0 / rate))
    }
}

/// The tokens for taints of a zone: one at a time, at a pace that changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaintBucket {
    pace: Option<Duration>,
    bucket: Bucket,
    fresh: bool,
}

impl TaintBucket {
    fn new(now: Time) -> TaintBucket {
        TaintBucket { pace: None, bucket: Bucket::holding(1, now, 1, Duration::ZERO), fresh: true }
    }

    /// Changes the pace. The new bucket is full if the old one had a token; without a pace it never has one.
    pub(super) fn set_pace(&mut self, now: Time, pace: Option<Duration>) {
        if pace == self.pace && !self.fresh {
            return;
        }
        let tokens = u32::from(self.fresh || self.token(now));
        self.fresh = false;
        self.pace = pace;
        self.bucket = Bucket::holding(tokens, now, 1, pace.unwrap_or_default());
    }

    pub(super) fn token(&self, now: Time) -> bool {
        self.token_at().is_some_and(|at| at <= now)
    }

    /// Returns when the token is there.
    pub(super) fn token_at(&self) -> Option<Time> {
        self.pace.map(|_| self.bucket.next_at())
    }

    pub(super) fn take(&mut self, now: Time) {
        self.bucket.take(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_pace_keeps_a_token_but_makes_none() {
        let (ten, hundred) = (Some(Duration::from_secs(10)), Some(Duration::from_secs(100)));
        let at = Time::from_secs;
        let mut bucket = TaintBucket::new(at(0));
        bucket.set_pace(at(0), ten);
        assert!(bucket.token(at(0)), "full at the start");
        bucket.take(at(0));
        bucket.set_pace(at(9), hundred);
        assert_eq!(bucket.token_at(), Some(at(109)), "no token: begin again with an empty bucket");
        bucket.set_pace(at(109), ten);
        assert!(bucket.token(at(109)), "a token is kept");
        bucket.set_pace(at(110), None);
        assert!(!bucket.token(at(1000)) && bucket.token_at().is_none(), "without a pace there is never one");
        bucket.set_pace(at(1000), ten);
        assert_eq!(bucket.token_at(), Some(at(1010)));
    }
}
