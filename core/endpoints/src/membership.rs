//! Which pods are endpoints of a Service, and what each of them says.

use std::sync::Arc;

use api::ip::Family;

use crate::conditions::conditions;
use crate::pod::PodRecord;
use crate::record::Record;
use crate::service::ServiceRecord;
use crate::settings::Settings;

/// What is known of the node of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFact<'a> {
    /// There is no such node, or the pod has none.
    Unknown,
    /// The node is there, in this zone if it has one.
    Known(Option<&'a Arc<str>>),
}

/// Where a pod stands with a Service that selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It is no endpoint.
    Out,
    /// It would be one, were its node known: the sync is retried.
    NodeUnknown,
    /// It is an endpoint in each family that it has an address of.
    In,
}

/// Returns whether a selected pod can be an endpoint, its node and its address families aside.
pub fn eligible(pod: &PodRecord, publish_not_ready: bool, settings: &Settings) -> bool {
    let listed = settings.terminating_condition || !pod.terminating() || publish_not_ready;
    !pod.terminal && pod.has_addresses && listed
}

/// Returns where a pod that the Service selects stands.
pub fn membership(pod: &PodRecord, service: &ServiceRecord, node: NodeFact<'_>, settings: &Settings) -> Membership {
    let publish_not_ready = service.spec.publish_not_ready;
    if !eligible(pod, publish_not_ready, settings) {
        Membership::Out
    } else if node == NodeFact::Unknown && !publish_not_ready {
        Membership::NodeUnknown
    } else {
        Membership::In
    }
}

/// Returns the endpoint of a pod in a family, if it has an address there; its standing is [`Membership::In`].
pub fn record(
    pod: &PodRecord,
    service: &ServiceRecord,
    family: Family,
    node: NodeFact<'_>,
    settings: &Settings,
) -> Option<Record> {
    let address = pod.address(family)?;
    let published = !pod.hostname.is_empty() && *pod.subdomain == *service.name;
    let zone = match node {
        NodeFact::Known(zone) => zone.filter(|zone| !zone.is_empty()).cloned(),
        NodeFact::Unknown => None,
    };
    Some(Record {
        ordinal: 0,
        pod: Arc::clone(&pod.name),
        uid: Arc::clone(&pod.uid),
        address,
        hostname: published.then(|| Arc::clone(&pod.hostname)),
        conditions: conditions(pod, service.spec.publish_not_ready, settings),
        node: (!pod.node.is_empty()).then(|| Arc::clone(&pod.node)),
        zone,
    })
}
