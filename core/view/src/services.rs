//! Services: their endpoints, each ready, serving or terminating.

use api::{EndpointSlice, Service};
use serde::Serialize;

/// Endpoints that a row shows; a Service with more says how many more.
const ENDPOINTS_MAX: usize = 250;

/// A Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRow {
    /// Namespace and name.
    pub key: String,
    /// Its type; `ClusterIP` where nothing is said.
    pub type_: String,
    /// Its address; empty or `None`: it has none.
    pub cluster_ip: String,
    /// Its ports: `http 80/TCP`.
    pub ports: Vec<String>,
    /// How many endpoints are ready.
    pub ready: usize,
    /// How many are terminating and still serving.
    pub draining: usize,
    /// How many are neither ready nor draining.
    pub not_ready: usize,
    /// The endpoints, at most 250.
    pub endpoints: Vec<EndpointRow>,
    /// Connections that the proxy of this plane has carried so far; absent: another proxy carries them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointRow {
    /// What it leads to: the name of a pod, or an address.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its node; empty: unknown.
    pub node: String,
    /// New traffic may go there.
    pub ready: bool,
    /// It answers.
    pub serving: bool,
    /// It is going.
    pub terminating: bool,
}

impl ServiceRow {
    pub(crate) fn of<'a>(
        service: &Service,
        slices: impl Iterator<Item = &'a EndpointSlice>,
        connections: Option<u64>,
    ) -> ServiceRow {
        let mut endpoints: Vec<EndpointRow> = slices.flat_map(|slice| &slice.endpoints).map(EndpointRow::of).collect();
        endpoints.sort();
        endpoints.dedup();
        let count = |good: fn(&EndpointRow) -> bool| endpoints.iter().filter(|endpoint| good(endpoint)).count();
        let (ready, draining) = (count(|e| e.ready), count(|e| !e.ready && e.terminating && e.serving));
        let not_ready = endpoints.len() - ready - draining;
        endpoints.truncate(ENDPOINTS_MAX);
        let port = |port: &api::service::ServicePort| {
            let protocol = if port.protocol.is_empty() { "TCP" } else { port.protocol.as_str() };
            format!("{} {}/{protocol}", port.name, port.port).trim_start().to_owned()
        };
        let type_ = service.spec.type_.as_str();
        ServiceRow {
            key: service.metadata.key(),
            type_: if type_.is_empty() { "ClusterIP" } else { type_ }.to_owned(),
            cluster_ip: service.spec.cluster_ip.clone(),
            ports: service.spec.ports.iter().map(port).collect(),
            ready,
            draining,
            not_ready,
            endpoints,
            connections,
        }
    }
}

impl EndpointRow {
    fn of(endpoint: &api::endpointslice::Endpoint) -> EndpointRow {
        let address = endpoint.addresses.first().cloned().unwrap_or_default();
        let pod = endpoint.target_ref.as_ref().map(|target| target.name.clone()).filter(|name| !name.is_empty());
        let conditions = &endpoint.conditions;
        EndpointRow {
            name: pod.unwrap_or_else(|| address.clone()),
            address,
            node: endpoint.node_name.clone().unwrap_or_default(),
            ready: conditions.is_ready(),
            serving: conditions.is_serving(),
            terminating: conditions.is_terminating(),
        }
    }
}
