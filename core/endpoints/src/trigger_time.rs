//! The trigger time: when that happened for which slices are written.
//!
//! Consumers measure the programming latency with it. Kubernetes has a value only for readiness changes, so the latency of
//! terminations, which KEP-1672 names, is missing there; here every change of the set has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Time;

use crate::pod::PodRecord;

/// What the trigger time depends on, of a pod that is an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The very pod.
    pub uid: Arc<str>,
    /// Whether it is ready.
    pub ready: bool,
    /// When that last changed, in whole seconds.
    pub ready_transition: Option<Time>,
    /// When its deletion was asked for.
    pub deletion_asked: Option<Time>,
}

impl From<&PodRecord> for Stamp {
    fn from(pod: &PodRecord) -> Stamp {
        Stamp {
            uid: Arc::clone(&pod.uid),
            ready: pod.ready,
            ready_transition: pod.ready_transition,
            deletion_asked: pod.deletion_asked,
        }
    }
}

/// Returns the time of what changed in one pod between two syncs; `seen_at`: when it was seen to enter or leave the set.
pub fn change_time(before: Option<&Stamp>, after: Option<&Stamp>, seen_at: Time, previous_sync: Time) -> Option<Time> {
    match (before, after) {
        (None, None) => None,
        (Some(_), None) => Some(seen_at),
        // An older transition is not what put the pod into the set: labels or the selector did.
        (None, Some(after)) => Some(after.ready_transition.filter(|&time| time > previous_sync).unwrap_or(seen_at)),
        (Some(before), Some(after)) if before.uid != after.uid => change_time(None, Some(after), seen_at, previous_sync),
        (Some(before), Some(after)) => {
            let turned = after.ready_transition > before.ready_transition;
            // The transition counts whole seconds, so a flip within one shows only in the status.
            let readiness = (turned || before.ready != after.ready).then(|| after.ready_transition.unwrap_or(seen_at));
            let deletion = after.deletion_asked.filter(|_| before.deletion_asked.is_none());
            readiness.into_iter().chain(deletion).min()
        }
    }
}

/// The trigger times of one Service, by full comparison of its pods from sync to sync.
#[derive(Clone, Debug, Default)]
pub struct TriggerTimes {
    previous_sync: Option<Time>,
    pods: BTreeMap<String, Stamp>,
}

/// What one sync sees.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When the Service was made.
    pub service_created: Option<Time>,
    /// Every pod that is an endpoint, and when it was seen to become one.
    pub pods: BTreeMap<String, (Stamp, Time)>,
    /// When pods that are no longer endpoints were seen to stop; if missing: now.
    pub left: BTreeMap<String, Time>,
    /// When the spec of the Service was seen to change, if it did since the previous sync.
    pub spec_changed: Option<Time>,
}

impl TriggerTimes {
    /// Returns the trigger time of a sync that begins now.
    pub fn sync(&mut self, now: Time, seen: Seen) -> Option<Time> {
        let pods = seen.pods.iter().map(|(name, (stamp, _))| (name.clone(), stamp.clone())).collect();
        let before = std::mem::replace(&mut self.pods, pods);
        let Some(previous_sync) = self.previous_sync.replace(now) else { return seen.service_created };
        let changed = seen
            .pods
            .iter()
            .filter_map(|(name, (after, seen_at))| change_time(before.get(name), Some(after), *seen_at, previous_sync));
        let left = before.iter().filter(|(name, _)| !seen.pods.contains_key(*name)).filter_map(|(name, stamp)| {
            change_time(Some(stamp), None, seen.left.get(name).copied().unwrap_or(now), previous_sync)
        });
        changed.chain(left).chain(seen.spec_changed).min()
    }

    /// Forgets everything: the Service is gone.
    pub fn forget(&mut self) {
        *self = TriggerTimes::default();
    }
}
