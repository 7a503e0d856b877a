//! A ReplicaSet as a plan changes it, and the sizes that bound the changes.

use api::int_or_string::Rounding;
use api::{Deployment, ReplicaSet, Timestamp, Verb, Write};
use serde_json::{Map, Value, json};

use super::annotations::{self, Annotations, DESIRED_REPLICAS, MAX_REPLICAS};
use super::{ReplicaSetWrite, scaled};

/// How many pods a Deployment wants, and how far a rollout may go from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) replicas: i64,
    /// Pods above.
    pub(super) max_surge: i64,
    /// Pods below.
    pub(super) max_unavailable: i64,
}

impl Size {
    pub(super) fn of(deployment: &Deployment) -> Size {
        let (replicas, strategy) = (deployment.spec.replicas, &deployment.spec.strategy);
        if strategy.type_ == "Recreate" {
            return Size { replicas, max_surge: 0, max_unavailable: 0 };
        }
        let max_surge = strategy.rolling_update.max_surge.of(replicas, Rounding::Up);
        let max_unavailable = match strategy.rolling_update.max_unavailable.of(replicas, Rounding::Down) {
            // Neither more nor fewer would be a rollout that never moves: shares of a few pods can come to that.
            0 if max_surge == 0 => 1,
            unavailable => unavailable,
        };
        Size { replicas, max_surge, max_unavailable: max_unavailable.min(replicas) }
    }

    /// Returns how many pods must stay available.
    pub(super) fn min_available(&self) -> i64 {
        self.replicas - self.max_unavailable
    }

    /// Returns how many pods there may be.
    pub(super) fn max_total(&self) -> i64 {
        self.replicas + self.max_surge
    }
}

/// A ReplicaSet as a plan changes it.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    pub(super) set: &'a ReplicaSet,
    pub(super) replicas: i64,
    pub(super) min_ready_seconds: i64,
    pub(super) annotations: Annotations,
}

impl<'a> Draft<'a> {
    pub(super) fn new(set: &'a ReplicaSet) -> Draft<'a> {
        Draft {
            set,
            replicas: set.spec.replicas,
            min_ready_seconds: set.spec.min_ready_seconds,
            annotations: set.metadata.annotations.clone(),
        }
    }

    pub(super) fn revision(&self) -> i64 {
        annotations::revision(&self.annotations)
    }

    /// Returns what orders ReplicaSets by age, the oldest first.
    pub(super) fn age(&self) -> (Option<Timestamp>, &'a str) {
        (self.set.metadata.creation_timestamp, &self.set.metadata.name)
    }

    pub(super) fn available(&self) -> i64 {
        self.set.status.available_replicas
    }

    /// Returns the size of the Deployment when the ReplicaSet was scaled.
    pub(super) fn desired(&self) -> Option<i64> {
        self.annotations.get(DESIRED_REPLICAS).and_then(|text| text.parse().ok())
    }

    /// Returns the same with the surge.
    pub(super) fn max(&self) -> Option<i64> {
        self.annotations.get(MAX_REPLICAS).and_then(|text| text.parse().ok())
    }

    /// Scales it, and events for which size of the Deployment.
    pub(super) fn scale(&mut self, replicas: i64, size: &Size) {
        self.replicas = replicas.max(0);
        annotations::set_sizes(&mut self.annotations, size);
    }

    /// Returns the request that makes the ReplicaSet what the draft is.
    pub(super) fn request(&self, deployment: &Deployment) -> Option<ReplicaSetWrite> {
        let metadata = &self.set.metadata;
        let changed = self.annotations.iter().filter(|(name, value)| metadata.annotations.get(*name) != Some(value));
        let annotations: Map<String, Value> = changed.map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut spec = Map::new();
        if self.replicas != self.set.spec.replicas {
            spec.insert("replicas".to_owned(), self.replicas.into());
        }
        if self.min_ready_seconds != self.set.spec.min_ready_seconds {
            spec.insert("minReadySeconds".to_owned(), self.min_ready_seconds.into());
        }
        if annotations.is_empty() && spec.is_empty() {
            return None;
        }
        let mut patch = json!({"metadata": {"uid": metadata.uid}});
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = annotations.into();
        }
        let before = self.set.spec.replicas;
        let event = (before != self.replicas).then(|| scaled(deployment, &metadata.name, before, self.replicas));
        if !spec.is_empty() {
            patch["spec"] = spec.into();
        }
        let write = Write::to::<ReplicaSet>(&metadata.namespace, &metadata.name, Verb::Merge(patch));
        Some(ReplicaSetWrite { name: metadata.name.clone(), write, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::IntOrString;

    #[test]
    fn surge_rounds_up_and_unavailable_down_and_both_zero_is_one() {
        let size = |replicas: i64, surge: &str, unavailable: &str| {
            let share = |text: &str| text.parse().map_or(IntOrString::String(text.into()), IntOrString::Int);
            let mut deployment = Deployment::default();
            deployment.spec.replicas = replicas;
            deployment.spec.strategy.rolling_update.max_surge = share(surge);
            deployment.spec.strategy.rolling_update.max_unavailable = share(unavailable);
            let size = Size::of(&deployment);
            (size.max_surge, size.max_unavailable)
        };
        assert_eq!(size(10, "25%", "25%"), (3, 2));
        assert_eq!(size(1, "25%", "25%"), (1, 0));
        assert_eq!(size(3, "0%", "25%"), (0, 1));
        assert_eq!(size(3, "0", "50"), (0, 3));
        assert_eq!(size(0, "25%", "25%"), (0, 0));
    }
}
