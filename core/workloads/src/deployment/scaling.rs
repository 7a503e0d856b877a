//! Scaling of a Deployment, also in the middle of a rollout: every ReplicaSet in proportion to its size.

use std::cmp::Reverse;

use super::Rollout;
use super::draft::Draft;

impl Rollout<'_> {
    /// Scales the ReplicaSets to the size of the Deployment without rolling anything out.
    pub(super) fn scale(&mut self) {
        let size = self.size;
        if let Some(only) = self.active_or_latest().and_then(|at| self.old.iter_mut().chain(&mut self.new).nth(at)) {
            // Also when the number is right, so that the Deployment does not count as being scaled for ever.
            if only.replicas != size.replicas || only.desired() != Some(size.replicas) {
                only.scale(size.replicas, &size);
            }
        } else if self.new.as_ref().is_some_and(|new| is_saturated(new, size.replicas)) {
            self.old.iter_mut().filter(|draft| draft.replicas > 0).for_each(|draft| draft.scale(0, &size));
        } else if self.deployment.spec.strategy.type_ != "Recreate" {
            self.scale_in_proportion();
        }
    }

    /// Returns the place of the only ReplicaSet with pods; without any: of the new one, or else of the youngest.
    fn active_or_latest(&self) -> Option<usize> {
        match self.all().filter(|draft| draft.replicas > 0).count() {
            0 if self.new.is_some() => Some(self.old.len()),
            0 => self.old.len().checked_sub(1),
            1 => self.all().position(|draft| draft.replicas > 0),
            _ => None,
        }
    }

    fn scale_in_proportion(&mut self) {
        let (size, before) = (self.size, self.deployment.status.replicas);
        let mut drafts: Vec<&mut Draft<'_>> =
            self.old.iter_mut().chain(&mut self.new).filter(|draft| draft.replicas > 0).collect();
        let total: i64 = drafts.iter().map(|draft| draft.replicas).sum();
        let allowed = if size.replicas > 0 { size.max_total() } else { 0 };
        let to_add = allowed - total;
        // The largest first, because it takes what the shares leave over; of two the newer grows and the older shrinks.
        if to_add > 0 {
            drafts.sort_by(|a, b| b.replicas.cmp(&a.replicas).then_with(|| b.age().cmp(&a.age())));
        } else {
            drafts.sort_by_key(|draft| (Reverse(draft.replicas), draft.age()));
        }
        let (mut added, mut wanted) = (0, Vec::new());
        for draft in &drafts {
            let share = share(draft, &size, before);
            let room = to_add - added;
            let share = if to_add > 0 { share.min(room) } else { share.max(room) };
            let share = if to_add == 0 || room == 0 { 0 } else { share };
            added += share;
            wanted.push(draft.replicas + share);
        }
        if let Some(first) = wanted.first_mut() {
            *first += to_add - added;
        }
        for (draft, wanted) in drafts.into_iter().zip(wanted) {
            draft.scale(wanted, &size);
        }
    }
}

/// Returns how many pods a ReplicaSet gets more so that it keeps its share of the Deployment.
fn share(draft: &Draft<'_>, size: &super::draft::Size, status_replicas: i64) -> i64 {
    if size.replicas == 0 {
        return -draft.replicas;
    }
    let before = draft.max().filter(|max| *max != 0).unwrap_or(status_replicas);
    if before == 0 {
        return 0;
    }
    // Halves are rounded away from zero, in whole numbers.
    let (scaled, before) = (draft.replicas * size.max_total() * 2 + before, before * 2);
    scaled.div_euclid(before) - draft.replicas
}

/// Returns whether a ReplicaSet has all the pods of its Deployment, and all are available.
fn is_saturated(new: &Draft<'_>, replicas: i64) -> bool {
    new.replicas == replicas && new.desired() == Some(replicas) && new.available() == replicas
}
