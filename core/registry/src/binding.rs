//! The binding of a pod to a node: once, never of a pod that is being deleted.

use api::status::{Status, Subject};
use api::{Timestamp, json};
use serde_json::{Map, Value, json};

use crate::meta;

/// What a `Binding` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    node: String,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
}

impl Binding {
    /// Reads what a client has sent for a pod.
    pub fn read(binding: &Value, pod: &str) -> Result<Binding, Status> {
        let node = json::text(binding, &["target", "name"]).to_owned();
        if node.is_empty() {
            let path = api::field::Path::root().child("target").child("name");
            let subject =
                Subject { kind: "Binding".into(), resource: "bindings".into(), name: pod.into(), ..Subject::default() };
            return Err(Status::invalid(&subject, &[api::field::Error::required(&path, "")]));
        }
        let metadata = |field| json::object(binding, &["metadata", field]).cloned().unwrap_or_default();
        Ok(Binding { node, labels: metadata("labels"), annotations: metadata("annotations") })
    }

    /// Returns the pod as it is when it is bound.
    pub fn bind(&self, mut pod: Value, deleting: bool, subject: &Subject, now: Timestamp) -> Result<Value, Status> {
        let name = &subject.name;
        if deleting {
            return Err(Status::conflict(subject, format!("pod {name} is being deleted, cannot be assigned to a host")));
        }
        let assigned = json::text(&pod, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return Err(Status::conflict(subject, format!("pod {name} is already assigned to node {assigned:?}")));
        }
        json::object_mut(&mut pod, &["spec"]).insert("nodeName".into(), self.node.clone().into());
        for (field, wanted) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !wanted.is_empty() {
                json::object_mut(&mut pod, &["metadata", field]).extend(wanted.clone());
            }
        }
        let condition =
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now.to_string()});
        let status = json::object_mut(&mut pod, &["status"]);
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.retain(|other| json::text(other, &["type"]) != "PodScheduled");
            conditions.push(condition);
        }
        let generation = json::int(&pod, &["metadata", "generation"]).unwrap_or(0);
        meta::set_generation(&mut pod, generation + 1);
        Ok(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { resource: "pods".into(), name: "a".into(), ..Subject::default() }
    }

    fn binding() -> Binding {
        let sent = json!({"target": {"name": "n1"}, "metadata": {"annotations": {"by": "scheduler"}}});
        Binding::read(&sent, "a").expect("it names a node")
    }

    #[test]
    fn a_pod_is_bound_once_with_what_the_binding_carries() {
        let pod = json!({"metadata": {"name": "a", "generation": 1, "annotations": {"own": "1"}}, "spec": {},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "False"}]}});
        let now = Timestamp(machine::Time::from_secs(0));
        let bound = binding().bind(pod, false, &subject(), now).expect("it has no node");
        assert_eq!(bound["spec"]["nodeName"], "n1");
        assert_eq!(bound["metadata"]["annotations"], json!({"own": "1", "by": "scheduler"}));
        assert_eq!(bound["metadata"]["generation"], 2);
        let scheduled: Vec<&Value> = bound["status"]["conditions"].as_array().expect("a list").iter().collect();
        assert_eq!(scheduled.len(), 2);
        assert_eq!((&scheduled[1]["type"], &scheduled[1]["status"]), (&json!("PodScheduled"), &json!("True")));
        let again = binding().bind(bound, false, &subject(), now).expect_err("it has a node");
        assert_eq!(again.code, 409);
        assert!(again.message.contains("already assigned to node \"n1\""), "{again:?}");
    }

    #[test]
    fn a_pod_that_is_being_deleted_and_a_binding_without_a_node_are_refused() {
        let now = Timestamp(machine::Time::from_secs(0));
        let refused = binding().bind(json!({}), true, &subject(), now).expect_err("it goes");
        assert!(refused.code == 409 && refused.message.contains("being deleted"), "{refused:?}");
        let refused = Binding::read(&json!({"target": {}}), "a").expect_err("no node");
        assert!(refused.code == 422 && refused.message.contains("target.name: Required"), "{refused:?}");
    }
}
