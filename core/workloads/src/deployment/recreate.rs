//! Recreate: no pod of the new template before the last of the old ones is gone.

use super::Rollout;

impl Rollout<'_> {
    /// Goes one step; returns whether the new ReplicaSet must be made.
    pub(super) fn recreate(&mut self) -> bool {
        let size = self.size;
        let mut scaled = false;
        for draft in self.old.iter_mut().filter(|draft| draft.replicas > 0) {
            draft.scale(0, &size);
            scaled = true;
        }
        if scaled || self.old_pods_run() {
            return false;
        }
        let complete = self.is_complete();
        match &mut self.new {
            None => return true,
            Some(new) if new.replicas != size.replicas => new.scale(size.replicas, &size),
            Some(_) if complete => self.clean_up(),
            Some(_) => {}
        }
        false
    }

    /// Returns whether pods of an old template may still run: those on their way out do.
    fn old_pods_run(&self) -> bool {
        self.old.iter().any(|draft| {
            let status = &draft.set.status;
            let behind = status.observed_generation < draft.set.metadata.generation;
            behind || status.replicas > 0 || status.terminating_replicas.unwrap_or(0) > 0
        })
    }
}
