//! When one pod leaves: the arithmetic of taints and tolerations.

use std::collections::BTreeMap;

use api::Timestamp;
use api::node::Taint;
use api::pod::Toleration;
use machine::Time;
use std::time::Duration;

use crate::taints::Health;
use crate::tolerations::{TolerationTime, toleration_time};

/// When a pod leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It may stay.
    Never,
    /// At a later instant.
    At(Time),
    /// At once.
    Now,
}

/// What must be remembered of one pod to know when it leaves.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Since when each taint counts: its `timeAdded`, or when it was first seen if that is absent or in the future.
    starts: BTreeMap<TaintId, Time>,
    /// Which of the two health taints are there.
    health: [bool; 2],
    /// The pod leaves no later than this: the health taint was swapped for the other one.
    bound: Option<Time>,
    /// The instant last found.
    instant: Option<Time>,
}

/// A taint is the same one as long as all of this is.
type TaintId = (String, String, Option<Timestamp>);

impl Schedule {
    /// The tolerations of the pod are no longer those of the last update: earlier promises end.
    pub fn tolerations_changed(&mut self) {
        self.bound = None;
    }

    /// Returns when the pod leaves, given the taints of its node, its tolerations and when it was bound.
    pub fn update(&mut self, now: Time, taints: &[Taint], tolerations: &[Toleration], bound_at: Option<Time>) -> Due {
        let no_execute: Vec<&Taint> = taints.iter().filter(|taint| taint.effect == "NoExecute").collect();
        self.note_health(&no_execute);
        let mut starts = BTreeMap::new();
        let mut instant: Option<Time> = None;
        let mut tolerated = true;
        for taint in no_execute {
            let id = (taint.key.clone(), taint.value.clone(), taint.time_added);
            let fresh = taint.time_added.map_or(now, |stamp| stamp.0.min(now));
            let start = *starts.entry(id.clone()).or_insert_with(|| self.starts.get(&id).copied().unwrap_or(fresh));
            match toleration_time(tolerations, taint) {
                TolerationTime::NotTolerated => tolerated = false,
                TolerationTime::Forever => {}
                TolerationTime::Seconds(seconds) => {
                    let counted_from = bound_at.map_or(start, |bound_at| start.max(bound_at));
                    let at = counted_from + Duration::from_secs(seconds.unsigned_abs());
                    instant = Some(instant.map_or(at, |earlier| earlier.min(at)));
                }
            }
        }
        self.starts = starts;
        self.instant = match (instant, self.bound) {
            (Some(instant), Some(bound)) => Some(instant.min(bound)),
            (instant, _) => instant,
        };
        match self.instant {
            _ if !tolerated => Due::Now,
            None => Due::Never,
            Some(instant) if instant <= now => Due::Now,
            Some(instant) => Due::At(instant),
        }
    }

    /// Keeps the instant as a bound when one health taint takes the place of the other, and lets it go with the last one.
    fn note_health(&mut self, taints: &[&Taint]) {
        let health = Health::ALL.map(|health| taints.iter().any(|taint| taint.key == health.key()));
        let before = std::mem::replace(&mut self.health, health);
        if health == [false, false] {
            self.bound = None;
        } else if before != [false, false] && before != health {
            self.bound = match (self.bound, self.instant) {
                (Some(bound), Some(instant)) => Some(bound.min(instant)),
                (bound, instant) => bound.or(instant),
            };
        }
    }
}
