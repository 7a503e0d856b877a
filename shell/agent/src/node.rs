//! The Node object of this agent: what it says about the machine, and how it gets into the API.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use api::config_node::{ANNOTATION_UPDATE_FREQUENCY, ConfigNode, NAME};
use api::{Node, Quantity, Timestamp, Verb, Write, WriteError, WriteFailure};
use machine::Time;
use processes::addresses::Cidr;
use runtime::{Client, Writer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::AgentError;
use crate::machine_facts::{MachineFacts, architecture};
use crate::requests;

/// The version of Kubernetes whose kubelet we stand in for.
const KUBELET_VERSION: &str = concat!("v1.36.0+lifesign-", env!("CARGO_PKG_VERSION"));
/// Reading the Node may take this long.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the Node object is made from.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    pub(crate) name: String,
    pub(crate) machine: MachineFacts,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) pod_cidr: Cidr,
    pub(crate) endpoint: SocketAddr,
    pub(crate) max_pods: u32,
    /// The heartbeat interval that a Node which is new asks for, if it begins with another one than usual.
    pub(crate) interval: Option<Duration>,
}

impl NodeFacts {
    /// Returns a request for the Node.
    fn write(&self, verb: Verb) -> Write {
        Write::to::<Node>("", self.name.as_str(), verb)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
        ] {
            labels.insert(key.to_owned(), value.to_owned());
        }
        labels
    }

    /// Returns the object to create.
    pub(crate) fn object(&self) -> Value {
        let cidr = self.pod_cidr.to_string();
        let interval = self.interval.map(|interval| (ANNOTATION_UPDATE_FREQUENCY, api::duration::format(interval)));
        let annotations: BTreeMap<&str, String> = interval.into_iter().collect();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels(), "annotations": annotations},
            "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        })
    }

    /// Returns what pods can have.
    pub(crate) fn allocatable(&self) -> BTreeMap<String, String> {
        let whole = |amount: u64| Quantity::from_whole(i64::try_from(amount).unwrap_or(i64::MAX)).to_string();
        let kibibytes = |bytes: u64| format!("{}Ki", bytes / 1024);
        [
            ("cpu", whole(self.machine.cpus as u64)),
            ("memory", kibibytes(self.machine.memory_bytes)),
            ("ephemeral-storage", kibibytes(self.machine.disk_bytes)),
            ("pods", whole(u64::from(self.max_pods))),
        ]
        .map(|(name, amount)| (name.to_owned(), amount))
        .into()
    }

    /// Returns the patch of the status. `ready_since`: since when the node is what it is now.
    pub(crate) fn status(&self, now: Time, ready_since: Time) -> Value {
        let condition = |type_: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": type_, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": Timestamp(now).to_string(), "lastTransitionTime": Timestamp(ready_since).to_string(),
            })
        };
        let amounts = self.allocatable();
        json!({"status": {
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "the agent does not limit memory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "the agent does not limit disk space"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "the agent does not limit processes"),
                condition("Ready", "True", "KubeletReady", "the agent runs pods"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": self.machine.hostname},
            ],
            "capacity": amounts,
            "allocatable": amounts,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.endpoint.port()}},
            "nodeInfo": {
                "architecture": architecture(),
                "bootID": self.machine.boot_id,
                "containerRuntimeVersion": concat!("lifesign://", env!("CARGO_PKG_VERSION")),
                "kernelVersion": self.machine.kernel,
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET_VERSION,
                "machineID": self.machine.machine_id,
                "operatingSystem": "linux",
                "osImage": self.machine.os_image,
                "systemUUID": self.machine.machine_id,
            },
        }})
    }
}

impl NodeFacts {
    /// Returns whether a stored Node shows the status that would be posted.
    pub(crate) fn shown_by(&self, stored: &Node) -> bool {
        // Timestamps are not compared.
        let own = serde_json::from_value(self.status(Time::ZERO, Time::ZERO));
        own.is_ok_and(|own| nodes::same_status(&own, stored))
    }
}

/// Returns the Node of that name, if the API has one; asks until it answers. `None` also when told to stop.
pub(crate) async fn stored(client: &Client, name: &str, stop: &CancellationToken) -> Option<Node> {
    let path = api::write::object::<Node>("", name);
    let get = || runtime::requests::get_opt(client, &path, TIMEOUT);
    requests::until_answered(stop, "read the node", get).await?.ok().flatten()
}

/// Returns the heartbeat interval that a new node begins with; `None`: the usual one. A plane that cannot say it changes it later.
pub(crate) async fn first_interval(client: &Client) -> Option<Duration> {
    let path = api::write::object::<ConfigNode>("", NAME);
    let cluster: Option<ConfigNode> = runtime::requests::get_opt(client, &path, TIMEOUT).await.ok().flatten();
    profiles::rollout::first_interval(&cluster?)
}

/// Returns since when a stored Node is ready, if it is.
pub(crate) fn ready_since(stored: Option<&Node>) -> Option<Time> {
    let ready = stored?.status.conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    ready.last_transition_time.map(|time| time.0)
}

/// Puts the Node into the API, or brings its labels up to date; asks until the API answers.
pub(crate) async fn register(writer: &Writer, facts: &NodeFacts, stop: &CancellationToken) -> Result<(), AgentError> {
    let refused = |source| AgentError::Register { node: facts.name.clone(), source: Box::new(source) };
    let create = || async {
        match writer.perform(&facts.write(Verb::Create(facts.object().into()))).await {
            Err(WriteFailure { error: WriteError::AlreadyExists, .. }) => {
                let labels = json!({"metadata": {"labels": facts.labels()}});
                writer.perform(&facts.write(Verb::Merge(labels))).await
            }
            other => other,
        }
    };
    match requests::until_answered(stop, "register the node", create).await {
        Some(Err(error)) => return Err(refused(error)),
        Some(Ok(stored)) => {
            let stored: Node = stored.read().unwrap_or_default();
            if stored.spec.pod_cidr != facts.pod_cidr.to_string() {
                // Only for people: nobody routes to loopback addresses. The API may not let it change.
                let cidr = facts.pod_cidr.to_string();
                let patch = json!({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}});
                if let Err(error) = writer.perform(&facts.write(Verb::Merge(patch))).await {
                    tracing::warn!(node = facts.name, pod_cidr = %facts.pod_cidr, %error, "the node shows another pod range");
                }
            }
        }
        None => {}
    }
    Ok(())
}

/// Posts the status.
pub(crate) async fn post_status(writer: &Writer, facts: &NodeFacts, now: Time, since: Time) -> Result<(), WriteFailure> {
    writer.perform(&facts.write(Verb::Strategic(facts.status(now, since))).status()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> NodeFacts {
        NodeFacts {
            name: "edge-1".to_owned(),
            machine: MachineFacts { cpus: 2, memory_bytes: 3 << 30, hostname: "box".to_owned(), ..MachineFacts::default() },
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            pod_cidr: "127.88.4.0/24".parse().unwrap(),
            endpoint: "127.0.0.1:4711".parse().unwrap(),
            max_pods: 110,
            interval: Some(Duration::from_secs(60)),
        }
    }

    #[test]
    fn the_node_says_what_pods_can_have_and_where_its_agent_is() {
        let node: Node = serde_json::from_value(facts().object()).unwrap();
        assert_eq!((node.spec.pod_cidr.as_str(), node.metadata.labels["zone"].as_str()), ("127.88.4.0/24", "a"));
        assert_eq!(node.metadata.labels["kubernetes.io/hostname"], "edge-1");
        assert_eq!(api::config_node::annotated_interval(&node), Ok(Some(Duration::from_secs(60))));
        let status = facts().status(Time::from_secs(20), Time::from_secs(10));
        let node: Node = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(node.ready(), Some("True"));
        assert_eq!(node.status.allocatable["cpu"], Quantity::from_whole(2));
        assert_eq!(node.status.allocatable["memory"], Quantity::parse("3Gi").unwrap());
        assert_eq!(status["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 4711);
        assert_eq!(status["status"]["conditions"][3]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert!(facts().shown_by(&node));
        assert!(!facts().shown_by(&Node::default()));
    }
}
