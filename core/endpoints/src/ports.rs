//! The ports of endpoints: target ports resolved in a pod, and the sets that divide pods into groups.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::IntOrString;
use api::endpointslice::EndpointPort;

use crate::pod::{PodRecord, protocol_or_tcp};
use crate::service::TargetPort;

/// A set of ports. Two are equal if they hold the same ports in whatever order: slices of others match.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    listed: Vec<EndpointPort>,
    set: Vec<EndpointPort>,
}

impl Ports {
    /// Returns the set of these ports; they are listed in this order.
    pub fn new(listed: Vec<EndpointPort>) -> Ports {
        let mut set = listed.clone();
        for port in set.iter_mut().filter(|port| port.protocol.is_empty()) {
            port.protocol = protocol_or_tcp("").to_owned();
        }
        set.sort();
        set.dedup();
        Ports { listed, set }
    }

    /// Returns the ports in order, as a slice stores them.
    pub fn listed(&self) -> &[EndpointPort] {
        &self.listed
    }

    /// Returns whether there are no ports.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

impl PartialEq for Ports {
    fn eq(&self, other: &Ports) -> bool {
        self.set == other.set
    }
}

impl Eq for Ports {}

impl PartialOrd for Ports {
    fn partial_cmp(&self, other: &Ports) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ports {
    fn cmp(&self, other: &Ports) -> Ordering {
        self.set.cmp(&other.set)
    }
}

/// Returns the number of a Service port at a pod; `None`: the pod has no port of that name and protocol.
fn resolve(port: &TargetPort, pod: &PodRecord) -> Option<i64> {
    match &port.target {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let found = pod.ports.iter().find(|candidate| candidate.name == *name && candidate.protocol == port.protocol);
            found.map(|port| port.number)
        }
    }
}

/// Returns the ports of a pod behind a Service, in the order of the Service; those that do not resolve are left out.
pub fn endpoint_ports(ports: &[TargetPort], pod: &PodRecord) -> Ports {
    let listed = ports.iter().filter_map(|port| {
        resolve(port, pod).map(|number| EndpointPort {
            name: port.name.clone(),
            port: Some(number),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    });
    Ports::new(listed.collect())
}

/// The port sets of one Service, each made once: most Services have one, and every pod asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortCache {
    known: BTreeMap<Vec<Option<i64>>, Arc<Ports>>,
    /// The set of every pod, if no port is found by name.
    fixed: Option<Arc<Ports>>,
}

impl PortCache {
    /// How many sets are kept; pods that all have numbers of their own must not fill the memory.
    const MAX: usize = 1024;

    /// Returns what [`endpoint_ports`] returns, shared between the pods whose ports have the same numbers.
    pub(crate) fn ports(&mut self, ports: &[TargetPort], pod: &PodRecord) -> Arc<Ports> {
        if let Some(fixed) = &self.fixed {
            return Arc::clone(fixed);
        }
        if ports.iter().all(|port| matches!(port.target, IntOrString::Int(_))) {
            return Arc::clone(self.fixed.insert(Arc::new(endpoint_ports(ports, pod))));
        }
        let numbers: Vec<Option<i64>> = ports.iter().map(|port| resolve(port, pod)).collect();
        if let Some(known) = self.known.get(&numbers) {
            return Arc::clone(known);
        }
        if self.known.len() >= PortCache::MAX {
            self.known.clear();
        }
        let made = Arc::new(endpoint_ports(ports, pod));
        self.known.insert(numbers, Arc::clone(&made));
        made
    }
}
