//! Readiness probes that were moved out of a pod's spec: their annotations, their readiness gate, and what its condition says.
//!
//! The probe of a container lies in an annotation, where no kubelet runs it; an agent of ours does, and says the result in the
//! condition that the gate waits for. The message of the condition names the container instances that were judged, so that
//! whoever reads it later, also another process, can tell whether it is about the instances that run.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Timestamp;
use crate::meta::ObjectMeta;
use crate::pod::{Pod, Probe};
use crate::write::{Verb, Write};

/// The condition that an agent writes, and the readiness gate that waits for it.
pub const CONDITION: &str = "lifesign.dev/ready";
/// The annotation by which a user asks for a probe to be moved.
pub const ANNOTATION_PROBES: &str = "lifesign.dev/probes";
/// The annotation that holds the probes that were moved, by container.
pub const ANNOTATION_MOVED_PROBES: &str = "lifesign.dev/moved-probes";
/// What stands before the name of a node in the name of its agent's Lease.
pub const AGENT_LEASE_PREFIX: &str = "lifesign-agent-";

/// Every moved probe succeeds.
pub const PROBES_SUCCEEDED: &str = "ProbesSucceeded";
/// A moved probe does not succeed, or its container does not run.
pub const CONTAINERS_NOT_READY: &str = "ContainersNotReady";
/// The agent of the node is gone.
pub const AGENT_LOST: &str = "AgentLost";
/// A container was started again since it was judged.
pub const INSTANCE_CHANGED: &str = "InstanceChanged";

/// What stands before the containers whose probes succeed.
const READY: &str = "ready: ";
/// What stands before the others.
const NOT_READY: &str = "not ready: ";

/// Returns whether a pod waits for the condition.
pub fn is_gated(pod: &Pod) -> bool {
    pod.spec.readiness_gates.iter().any(|gate| gate.condition_type == CONDITION)
}

/// Returns the probes that were moved out of a pod's spec, by container; none without the gate, or without the annotation.
pub fn moved_probes(pod: &Pod) -> Result<BTreeMap<String, Probe>, String> {
    match pod.metadata.annotations.get(ANNOTATION_MOVED_PROBES).filter(|_| is_gated(pod)) {
        None => Ok(BTreeMap::new()),
        Some(text) => {
            serde_json::from_str(text).map_err(|error| format!("annotation {ANNOTATION_MOVED_PROBES} cannot be read: {error}"))
        }
    }
}

/// Returns the name of the Lease of a node's agent.
pub fn agent_lease(node: &str) -> String {
    format!("{AGENT_LEASE_PREFIX}{node}")
}

/// Returns the ID of a container without the name of its runtime: `containerd://1234` is `1234`.
pub fn bare_id(container_id: &str) -> &str {
    container_id.split_once("://").map_or(container_id, |(_, id)| id)
}

/// Returns the request that says the condition of a pod, and nothing else of its status.
///
/// `transition`: when the status became another one; absent: it has not. `noticed`: makes it news although it says the same.
pub fn condition_write(
    pod: &ObjectMeta,
    status: &str,
    reason: &str,
    message: &str,
    transition: Option<Timestamp>,
    noticed: Option<Timestamp>,
) -> Write {
    let mut condition = json!({"type": CONDITION, "status": status, "reason": reason, "message": message});
    for (key, at) in [("lastTransitionTime", transition), ("lastProbeTime", noticed)] {
        if let Some(at) = at {
            condition[key] = Value::from(at.to_string());
        }
    }
    let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
    Write::to::<Pod>(&pod.namespace, &pod.name, Verb::Strategic(patch)).status()
}

/// Which container instances were judged, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Containers whose probe succeeds, and their IDs.
    pub ready: Vec<(String, String)>,
    /// The others: ID (empty: there is no instance) and why.
    pub not_ready: Vec<(String, String, String)>,
}

impl Judgement {
    /// Returns whether everything is ready.
    pub fn is_ready(&self) -> bool {
        self.not_ready.is_empty()
    }

    /// Returns the message of the condition.
    pub fn message(&self) -> String {
        let ready: Vec<String> = self.ready.iter().map(|(name, id)| instance(name, id)).collect();
        let not_ready: Vec<String> =
            self.not_ready.iter().map(|(name, id, why)| format!("{} ({why})", instance(name, id))).collect();
        let list = |head: &str, all: Vec<String>| (!all.is_empty()).then(|| format!("{head}{}", all.join(", ")));
        let parts = [list(NOT_READY, not_ready), list(READY, ready)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Reads the message of a condition; one that somebody else wrote judges nothing.
    pub fn parse(message: &str) -> Judgement {
        let mut judgement = Judgement::default();
        for part in message.split("; ") {
            if let Some(list) = part.strip_prefix(NOT_READY) {
                judgement.not_ready.extend(list.split(", ").filter_map(|entry| {
                    let (instance, why) = entry.strip_suffix(')')?.split_once(" (")?;
                    let (name, id) = instance.split_once('=').unwrap_or((instance, ""));
                    Some((name.to_owned(), id.to_owned(), why.to_owned()))
                }));
            } else if let Some(list) = part.strip_prefix(READY) {
                let entries = list.split(", ").filter_map(|entry| entry.split_once('='));
                judgement.ready.extend(entries.map(|(name, id)| (name.to_owned(), id.to_owned())));
            }
        }
        judgement
    }
}

fn instance(name: &str, id: &str) -> String {
    if id.is_empty() { name.to_owned() } else { format!("{name}={id}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::ReadinessGate;
    use proptest::prelude::*;

    #[test]
    fn probes_count_only_with_the_gate() {
        let mut pod = Pod::default();
        let text = r#"{"app": {"httpGet": {"port": 80}, "periodMilliseconds": -800}}"#;
        pod.metadata.annotations.insert(ANNOTATION_MOVED_PROBES.to_owned(), text.to_owned());
        assert_eq!(moved_probes(&pod), Ok(BTreeMap::new()));
        pod.spec.readiness_gates.push(ReadinessGate { condition_type: CONDITION.to_owned() });
        assert_eq!(moved_probes(&pod).unwrap()["app"].period_milliseconds, Some(-800));
        pod.metadata.annotations.insert(ANNOTATION_MOVED_PROBES.to_owned(), "[1".to_owned());
        assert!(moved_probes(&pod).unwrap_err().starts_with("annotation lifesign.dev/moved-probes cannot be read"));
    }

    #[test]
    fn a_message_says_what_was_judged() {
        let judgement = Judgement {
            ready: vec![("app".into(), "1a".into())],
            not_ready: vec![("db".into(), "2b".into(), "it fails".into()), ("web".into(), "".into(), "it does not run".into())],
        };
        assert_eq!(judgement.message(), "not ready: db=2b (it fails), web (it does not run); ready: app=1a");
        assert_eq!(Judgement::parse("the agent of node n1 is gone"), Judgement::default());
        assert_eq!((bare_id("containerd://12"), bare_id("12")), ("12", "12"));
    }

    proptest! {
        #[test]
        fn what_is_said_is_read(
            ready in prop::collection::vec(("[a-z0-9-]{1,9}", "[0-9a-f]{1,9}"), 0..4),
            not_ready in prop::collection::vec(("[a-z0-9-]{1,9}", "[0-9a-f]{0,9}", "[a-z ]{1,20}"), 0..4),
            any in ".{0,80}",
        ) {
            let judgement = Judgement { ready, not_ready };
            prop_assert_eq!(Judgement::parse(&judgement.message()), judgement);
            let _ = Judgement::parse(&any);
        }
    }
}
