//! What is kept of a pod: the facts that endpoints depend on, read once when the pod arrives.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::ip::{self, Family};
use api::pod::ContainerPort;
use api::{Pod, Timestamp};
use machine::Time;

/// A pod as far as endpoints depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRecord {
    /// Its name.
    pub name: Arc<str>,
    /// The very pod.
    pub uid: Arc<str>,
    /// The revision of the object; equal ones mean that nothing changed.
    pub resource_version: String,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Whether it has finished for good.
    pub terminal: bool,
    /// Whether it has any address, readable or not.
    pub has_addresses: bool,
    /// Its readable addresses, in order.
    pub addresses: Vec<IpAddr>,
    /// Whether the condition `Ready` is exactly `True`.
    pub ready: bool,
    /// When that condition last changed.
    pub ready_transition: Option<Time>,
    /// When its deletion was asked for; its presence means that it is terminating.
    pub deletion_asked: Option<Time>,
    /// The node that runs it; empty: none yet.
    pub node: Arc<str>,
    /// Its own host name; may be empty.
    pub hostname: Arc<str>,
    /// The Service under which the host name is published; may be empty.
    pub subdomain: String,
    /// The named ports of its containers, then of its sidecars.
    pub ports: Arc<Vec<NamedPort>>,
}

/// A port that a Service can refer to by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedPort {
    /// The name.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The number.
    pub number: i64,
}

impl From<&ContainerPort> for NamedPort {
    fn from(port: &ContainerPort) -> NamedPort {
        NamedPort { name: port.name.clone(), protocol: protocol_or_tcp(&port.protocol).to_owned(), number: port.container_port }
    }
}

/// Returns the protocol, which is TCP when it is left out.
pub(crate) fn protocol_or_tcp(protocol: &str) -> &str {
    if protocol.is_empty() { "TCP" } else { protocol }
}

impl From<&Pod> for PodRecord {
    fn from(pod: &Pod) -> PodRecord {
        PodRecord {
            resource_version: pod.metadata.resource_version.clone(),
            labels: Arc::new(pod.metadata.labels.clone()),
            ..PodRecord::read(pod)
        }
    }
}

impl PodRecord {
    /// Reads everything but what can be taken over.
    fn read(pod: &Pod) -> PodRecord {
        let ready = pod.condition("Ready");
        let time = |stamp: &Timestamp| stamp.0;
        let grace = Duration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0).unsigned_abs());
        let named = pod.spec.containers.iter().chain(pod.sidecars()).flat_map(|container| &container.ports);
        PodRecord {
            name: pod.metadata.name.as_str().into(),
            uid: pod.metadata.uid.as_str().into(),
            resource_version: String::new(),
            labels: Arc::default(),
            terminal: pod.terminal(),
            has_addresses: !pod.status.pod_ips.is_empty(),
            addresses: pod.status.pod_ips.iter().filter_map(|address| ip::parse(&address.ip)).collect(),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_transition: ready.and_then(|condition| condition.last_transition_time.as_ref()).map(time),
            deletion_asked: pod.metadata.deletion_timestamp.as_ref().map(|stamp| stamp.0 - grace),
            node: pod.spec.node_name.as_str().into(),
            hostname: if pod.spec.hostname.is_empty() { Arc::default() } else { pod.spec.hostname.as_str().into() },
            subdomain: pod.spec.subdomain.clone(),
            ports: Arc::new(named.filter(|port| !port.name.is_empty()).map(NamedPort::from).collect()),
        }
    }

    /// Takes from an older version what both have alike, so that it stays where it is and is shared with whoever shares it.
    pub(crate) fn share(&mut self, old: &PodRecord) {
        fn same<T: ?Sized + PartialEq>(new: &mut Arc<T>, old: &Arc<T>) {
            if **new == **old {
                *new = Arc::clone(old);
            }
        }
        same(&mut self.name, &old.name);
        same(&mut self.uid, &old.uid);
        same(&mut self.labels, &old.labels);
        same(&mut self.node, &old.node);
        same(&mut self.hostname, &old.hostname);
        same(&mut self.ports, &old.ports);
    }

    /// Returns whether both say the same, the revision aside.
    pub fn same_but_version(&self, other: &PodRecord) -> bool {
        let state = |pod: &PodRecord| (pod.terminal, pod.has_addresses, pod.ready, pod.ready_transition, pod.deletion_asked);
        state(self) == state(other)
            && self.name == other.name
            && self.uid == other.uid
            && self.addresses == other.addresses
            && self.node == other.node
            && self.labels == other.labels
            && self.hostname == other.hostname
            && self.subdomain == other.subdomain
            && self.ports == other.ports
    }

    /// Returns whether the pod is being deleted.
    pub fn terminating(&self) -> bool {
        self.deletion_asked.is_some()
    }

    /// Returns the first address of a family.
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| Family::of(*address) == family)
    }

    /// Returns whether a change from `old` to this matters to the endpoints of Services that select both.
    ///
    /// The uid counts (a pod replaced by one of the same name and address while the watch was away), so does a terminal
    /// phase, and of the deletion only its presence: a terminating pod is updated often, and nothing comes of it.
    pub fn view_differs(&self, old: &PodRecord) -> bool {
        let view = |pod: &PodRecord| (pod.terminal, pod.has_addresses, pod.ready, pod.terminating());
        view(self) != view(old) || self.uid != old.uid || self.addresses != old.addresses || self.node != old.node
    }
}
