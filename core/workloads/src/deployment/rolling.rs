//! RollingUpdate: the new ReplicaSet up, the old ones down, within the bounds.

use super::Rollout;
use super::draft::Draft;

impl Rollout<'_> {
    /// Goes one step of a rolling update; returns whether the new ReplicaSet must be made.
    pub(super) fn roll(&mut self) -> bool {
        if self.new.is_none() {
            return true;
        }
        if !self.scale_up_new() && !self.scale_down_old() && self.is_complete() {
            self.clean_up();
        }
        false
    }

    /// Returns how many pods the new ReplicaSet may have, if it has `current` now.
    pub(super) fn new_replicas(&self, current: i64) -> i64 {
        if self.deployment.spec.strategy.type_ == "Recreate" {
            return self.size.replicas;
        }
        let total: i64 = self.all().map(|draft| draft.replicas).sum();
        let room = self.size.max_total() - total;
        if room <= 0 { current } else { current + room.min(self.size.replicas - current) }
    }

    fn scale_up_new(&mut self) -> bool {
        let (size, current) = (self.size, self.new.as_ref().map_or(0, |new| new.replicas));
        let wanted = if current > size.replicas { size.replicas } else { self.new_replicas(current) };
        match &mut self.new {
            Some(new) if wanted != current => {
                new.scale(wanted, &size);
                true
            }
            _ => false,
        }
    }

    fn scale_down_old(&mut self) -> bool {
        let old: i64 = self.old.iter().map(|draft| draft.replicas).sum();
        let Some(new) = self.new.as_ref().filter(|_| old > 0) else { return false };
        let unavailable = new.replicas - new.available();
        let room = old + new.replicas - self.size.min_available() - unavailable;
        if room <= 0 {
            return false;
        }
        let cleaned = self.scale_down_unavailable(room);
        self.scale_down_available() || cleaned
    }

    /// Scales down old pods that are not available: nobody misses them, and they could hold up the rollout for ever.
    fn scale_down_unavailable(&mut self, room: i64) -> bool {
        let (size, mut done) = (self.size, 0);
        for draft in &mut self.old {
            let count = (draft.replicas - draft.available()).min(room - done);
            if draft.replicas > 0 && count > 0 {
                draft.scale(draft.replicas - count, &size);
                done += count;
            }
        }
        done > 0
    }

    /// Scales down old pods as far as enough are available without them.
    fn scale_down_available(&mut self) -> bool {
        let size = self.size;
        let available: i64 = self.all().map(Draft::available).sum();
        let (spare, mut done) = (available - size.min_available(), 0);
        for draft in &mut self.old {
            let count = draft.replicas.min(spare - done);
            if count > 0 {
                draft.scale(draft.replicas - count, &size);
                done += count;
            }
        }
        done > 0
    }
}
