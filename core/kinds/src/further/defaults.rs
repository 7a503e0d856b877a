//! Defaults of further kinds: what Kubernetes fills in, as data, and the few that depend on other fields.
//!
//! A default belongs to a field of a message of the model, so it holds wherever the message is used. Pod templates get what
//! every pod template gets.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::builtin::default_template;
use crate::model::{Message, Type};

/// Message, field, and the JSON of what stands there when nothing does; Kubernetes v1.36.
const TABLE: [(&str, &str, &str); 36] = [
    ("ReplicationController", "spec", "{}"),
    ("ReplicationControllerSpec", "replicas", "1"),
    ("PersistentVolumeSpec", "persistentVolumeReclaimPolicy", "\"Retain\""),
    ("PersistentVolumeSpec", "volumeMode", "\"Filesystem\""),
    ("PersistentVolumeClaimSpec", "volumeMode", "\"Filesystem\""),
    ("core.EndpointPort", "protocol", "\"TCP\""),
    ("apps.DaemonSetSpec", "updateStrategy", "{}"),
    ("apps.DaemonSetSpec", "revisionHistoryLimit", "10"),
    ("apps.DaemonSetUpdateStrategy", "type", "\"RollingUpdate\""),
    ("apps.RollingUpdateDaemonSet", "maxUnavailable", "1"),
    ("apps.RollingUpdateDaemonSet", "maxSurge", "0"),
    ("apps.StatefulSetSpec", "podManagementPolicy", "\"OrderedReady\""),
    ("apps.StatefulSetSpec", "persistentVolumeClaimRetentionPolicy", "{}"),
    ("apps.StatefulSetSpec", "replicas", "1"),
    ("apps.StatefulSetSpec", "revisionHistoryLimit", "10"),
    ("apps.StatefulSetSpec", "updateStrategy", "{\"rollingUpdate\": {}}"),
    ("apps.StatefulSetUpdateStrategy", "type", "\"RollingUpdate\""),
    ("apps.RollingUpdateStatefulSetStrategy", "partition", "0"),
    ("apps.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted", "\"Retain\""),
    ("apps.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled", "\"Retain\""),
    ("batch.CronJobSpec", "concurrencyPolicy", "\"Allow\""),
    ("batch.CronJobSpec", "suspend", "false"),
    ("batch.CronJobSpec", "successfulJobsHistoryLimit", "3"),
    ("batch.CronJobSpec", "failedJobsHistoryLimit", "1"),
    ("autoscaling.HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("autoscaling.HorizontalPodAutoscalerSpec", "metrics", CPU_METRIC),
    ("scheduling.PriorityClass", "preemptionPolicy", "\"PreemptLowerPriority\""),
    ("storage.StorageClass", "reclaimPolicy", "\"Delete\""),
    ("storage.StorageClass", "volumeBindingMode", "\"Immediate\""),
    ("storage.CSIDriverSpec", "attachRequired", "true"),
    ("storage.CSIDriverSpec", "podInfoOnMount", "false"),
    ("storage.CSIDriverSpec", "storageCapacity", "false"),
    ("storage.CSIDriverSpec", "fsGroupPolicy", "\"ReadWriteOnceWithFSType\""),
    ("storage.CSIDriverSpec", "volumeLifecycleModes", "[\"Persistent\"]"),
    ("storage.CSIDriverSpec", "requiresRepublish", "false"),
    ("rbac.RoleRef", "apiGroup", "\"rbac.authorization.k8s.io\""),
];

/// What an autoscaler without metrics follows.
const CPU_METRIC: &str =
    r#"[{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]"#;

static PARSED: LazyLock<BTreeMap<&str, Vec<(&str, Value)>>> = LazyLock::new(|| {
    let mut found: BTreeMap<&str, Vec<(&str, Value)>> = BTreeMap::new();
    for (message, field, text) in TABLE {
        let value = serde_json::from_str(text).expect("the table's own JSON parses; a test reads it");
        found.entry(message).or_default().push((field, value));
    }
    found
});

/// Fills in what was left out of an object of a message; its status is left alone.
pub(super) fn fill(message: &'static Message, object: &mut Value) {
    let Value::Object(members) = object else { return };
    let status = members.remove("status");
    walk(message, members);
    members.extend(status.map(|status| ("status".to_owned(), status)));
}

fn walk(message: &'static Message, members: &mut Map<String, Value>) {
    if message.name() == "PodTemplateSpec" {
        return default_template(members);
    }
    by_other_fields(message.name(), members);
    for (field, value) in PARSED.get(message.name()).into_iter().flatten() {
        if members.get(*field).is_none_or(is_absent) {
            members.insert((*field).to_owned(), value.clone());
        }
    }
    for field in message.fields() {
        if let Some(value) = members.get_mut(field.name) {
            descend(&field.kind, value);
        }
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn descend(kind: &Type, value: &mut Value) {
    match (kind, value) {
        (Type::Message(id), Value::Object(members)) => walk(id.get(), members),
        (Type::List(item), Value::Array(items)) => items.iter_mut().for_each(|value| descend(item, value)),
        (Type::Map(item), Value::Object(members)) => members.values_mut().for_each(|value| descend(item, value)),
        _ => {}
    }
}

/// Defaults that depend on what else is there.
fn by_other_fields(message: &str, members: &mut Map<String, Value>) {
    match message {
        "batch.JobSpec" => job(members),
        "apps.DaemonSetUpdateStrategy" if !is_type(members, "OnDelete") => {
            members.entry("rollingUpdate").or_insert_with(|| json!({}));
        }
        "rbac.Subject" if !is_kind(members, "ServiceAccount") => put(members, "apiGroup", "rbac.authorization.k8s.io"),
        "resource.ExactDeviceRequest" | "resource.DeviceSubRequest" => {
            put(members, "allocationMode", "ExactCount");
            let count = members.get("count").and_then(Value::as_i64).unwrap_or(0);
            if members["allocationMode"] == "ExactCount" && count == 0 {
                members.insert("count".to_owned(), 1.into());
            }
        }
        _ => {}
    }
}

fn put(members: &mut Map<String, Value>, key: &str, value: &str) {
    if members.get(key).is_none_or(is_absent) {
        members.insert(key.to_owned(), value.into());
    }
}

fn is_type(members: &Map<String, Value>, wanted: &str) -> bool {
    members.get("type").and_then(Value::as_str) == Some(wanted)
}

fn is_kind(members: &Map<String, Value>, wanted: &str) -> bool {
    members.get("kind").and_then(Value::as_str) == Some(wanted)
}

fn job(spec: &mut Map<String, Value>) {
    let has = |spec: &Map<String, Value>, key: &str| spec.get(key).is_some_and(|value| !value.is_null());
    let mut defaults: Vec<(&str, Value)> = Vec::new();
    if !has(spec, "completions") && !has(spec, "parallelism") {
        defaults.push(("completions", 1.into()));
    }
    let by_index = has(spec, "backoffLimitPerIndex");
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    defaults.extend([
        ("parallelism", json!(1)),
        ("backoffLimit", if by_index { i32::MAX.into() } else { 6.into() }),
        ("completionMode", "NonIndexed".into()),
        ("suspend", false.into()),
        ("podReplacementPolicy", replacement.into()),
        ("manualSelector", false.into()),
    ]);
    for (key, value) in defaults {
        if !has(spec, key) {
            spec.insert(key.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message;

    #[test]
    fn every_default_is_of_a_field_that_exists() {
        for (name, field, _) in TABLE {
            assert!(message(name).is_some_and(|message| message.field(field).is_some()), "{name}.{field}");
        }
        assert!(!PARSED.is_empty());
    }

    #[test]
    fn defaulting_twice_changes_nothing() {
        let mut set = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
        fill(message("apps.StatefulSet").unwrap(), &mut set);
        assert_eq!((&set["spec"]["replicas"], &set["spec"]["updateStrategy"]["type"]), (&json!(1), &json!("RollingUpdate")));
        assert_eq!(set["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 0);
        assert_eq!(set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"], "Retain");
        assert_eq!(set["spec"]["template"]["spec"]["restartPolicy"], "Always");
        let once = set.clone();
        fill(message("apps.StatefulSet").unwrap(), &mut set);
        assert_eq!(set, once);
    }

    #[test]
    fn a_job_counts_by_what_it_says() {
        let filled = |spec: Value| {
            let mut job = json!({"spec": spec});
            fill(message("batch.Job").unwrap(), &mut job);
            job["spec"].take()
        };
        let plain = filled(json!({}));
        assert_eq!((&plain["completions"], &plain["parallelism"], &plain["backoffLimit"]), (&json!(1), &json!(1), &json!(6)));
        let queue = filled(json!({"parallelism": 3, "podFailurePolicy": {"rules": []}}));
        assert_eq!((queue.get("completions"), &queue["podReplacementPolicy"]), (None, &json!("Failed")));
    }
}
