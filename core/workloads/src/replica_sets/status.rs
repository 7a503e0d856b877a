//! What is reported of a ReplicaSet: one write for all that has changed since the last.

use api::workload::condition;
use api::{Key, ReplicaSet, Timestamp, Verb, Write};
use machine::Time;
use serde_json::{Map, Value, json};

use super::entry::Entry;
use super::{ReplicaSets, What};
use crate::Effect;

/// The condition of a ReplicaSet whose pods cannot be made or deleted.
const REPLICA_FAILURE: &str = "ReplicaFailure";

impl ReplicaSets {
    /// Sends the status if it is not what is stored.
    pub(super) fn report(&mut self, now: Time, key: &Key, effects: &mut Vec<Effect>) {
        let entry = &self.sets[key];
        if entry.report_at.is_some() {
            return;
        }
        if let Some(patch) = status_patch(now, entry) {
            let write = Write::to::<ReplicaSet>(&key.namespace, &key.name, Verb::Strategic(patch)).status();
            self.send(key, What::Status, write, effects);
        }
    }
}

/// Returns what must be written; zeros are left out where Kubernetes leaves them out.
fn status_patch(now: Time, entry: &Entry) -> Option<Value> {
    let (stored, counts) = (&entry.set.status, &entry.counts);
    let mut status = Map::new();
    let mut set = |field: &str, new: i64, old: i64| {
        if new != old {
            status.insert(field.to_owned(), if new == 0 { Value::Null } else { new.into() });
        }
    };
    set("fullyLabeledReplicas", counts.fully_labeled, stored.fully_labeled_replicas);
    set("readyReplicas", counts.ready, stored.ready_replicas);
    set("availableReplicas", counts.available, stored.available_replicas);
    set("observedGeneration", entry.set.metadata.generation, stored.observed_generation);
    if counts.active != stored.replicas {
        status.insert("replicas".to_owned(), counts.active.into());
    }
    if Some(counts.terminating) != stored.terminating_replicas {
        status.insert("terminatingReplicas".to_owned(), counts.terminating.into());
    }
    match (&entry.replica_failure, condition(&stored.conditions, REPLICA_FAILURE)) {
        (Some(replica_failure), None) => {
            let shown = json!({
                "type": REPLICA_FAILURE, "status": "True", "reason": replica_failure.reason, "message": replica_failure.message,
                "lastTransitionTime": Timestamp(now).to_string(),
            });
            status.insert("conditions".to_owned(), json!([shown]));
        }
        (None, Some(_)) => {
            status.insert("conditions".to_owned(), json!([{"$patch": "delete", "type": REPLICA_FAILURE}]));
        }
        _ => {}
    }
    if status.is_empty() {
        return None;
    }
    // A status without `replicas` is not one.
    status.entry("replicas").or_insert_with(|| counts.active.into());
    Some(json!({"metadata": {"uid": entry.set.metadata.uid}, "status": status}))
}
