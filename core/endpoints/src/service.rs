//! What is kept of a Service: the facts that its endpoints depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ip::{self, Family};
use api::{IntOrString, Service};
use machine::Time;

use crate::hints::Mode;
use crate::labels::wanted_labels;
use crate::pod::protocol_or_tcp;
use crate::settings::Settings;

/// A Service with a selector, as far as its endpoints depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The very Service.
    pub uid: String,
    /// When it was made.
    pub created: Option<Time>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The labels that its slices must have.
    pub labels: BTreeMap<String, String>,
    /// What a change of is a reason to look at every pod again.
    pub spec: Spec,
    /// `spec.trafficDistribution`, for metrics.
    pub traffic_distribution: Option<String>,
}

/// The parts of a Service's spec that its endpoints depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Labels of its pods; never empty.
    pub selector: BTreeMap<String, String>,
    /// Its address families, in order.
    pub families: Vec<Family>,
    /// Its ports, in order.
    pub ports: Vec<TargetPort>,
    /// Whether pods that are not ready are published as ready.
    pub publish_not_ready: bool,
    /// Which hints its endpoints carry.
    pub mode: Mode,
}

/// A port of a Service, as its endpoints see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// The name; may be empty.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The protocol spoken inside.
    pub app_protocol: Option<String>,
    /// The number, or the name of a port of the pod.
    pub target: IntOrString,
}

/// Returns whether the controller looks after the slices of a Service: it has a selector and is no alias.
pub fn managed(service: &Service) -> bool {
    service.spec.type_ != "ExternalName" && !service.spec.selector.is_empty()
}

/// Returns whether a Service has no address of its own.
pub fn headless(service: &Service) -> bool {
    matches!(service.spec.cluster_ip.as_str(), "" | "None")
}

/// Returns the address families of a Service, in order.
pub fn families(service: &Service) -> Vec<Family> {
    let mut families = Vec::new();
    for family in service.spec.ip_families.iter().filter_map(|name| Family::from_name(name)) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if !families.is_empty() {
        return families;
    }
    // From before Services had families.
    match ip::parse(&service.spec.cluster_ip).filter(|_| !headless(service)) {
        Some(address) => vec![Family::of(address)],
        None => vec![Family::IPv4, Family::IPv6],
    }
}

impl ServiceRecord {
    /// Reads what matters of a Service; `None` if the controller does not look after it.
    pub fn new(service: &Service, settings: &Settings) -> Option<ServiceRecord> {
        managed(service).then(|| ServiceRecord {
            namespace: service.metadata.namespace.as_str().into(),
            name: service.metadata.name.as_str().into(),
            uid: service.metadata.uid.clone(),
            created: service.metadata.creation_timestamp.map(|stamp| stamp.0),
            deleting: service.metadata.deleting(),
            labels: wanted_labels(service),
            traffic_distribution: service.spec.traffic_distribution.clone(),
            spec: Spec {
                selector: service.spec.selector.clone(),
                families: families(service),
                ports: service.spec.ports.iter().map(TargetPort::new).collect(),
                publish_not_ready: service.spec.publish_not_ready_addresses,
                mode: Mode::of(service, settings),
            },
        })
    }

    /// Returns whether the Service selects a pod of its namespace with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.spec.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl TargetPort {
    fn new(port: &api::service::ServicePort) -> TargetPort {
        let given = port.target_port.clone().filter(|target| match target {
            IntOrString::Int(number) => *number != 0,
            IntOrString::String(name) => !name.is_empty(),
        });
        TargetPort {
            name: port.name.clone(),
            protocol: protocol_or_tcp(&port.protocol).to_owned(),
            app_protocol: port.app_protocol.clone(),
            // The API defaults the target to the port itself.
            target: given.unwrap_or(IntOrString::Int(port.port)),
        }
    }
}
