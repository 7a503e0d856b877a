//! The EndpointSlice of `discovery.k8s.io/v1`.

use serde::{Deserialize, Serialize};

use crate::ObjectReference;
use crate::meta::{Kind, ObjectMeta, Scope, null_default};

/// The label that names the Service of a slice.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// The label that names the controller of a slice.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of slices whose Service has no cluster address.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// The annotation with the time of the change that a slice was last written for.
pub const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The value of [`MANAGED_BY_LABEL`] on the slices of the controller of Services with a selector.
pub const CONTROLLER_NAME: &str = "endpointslice-controller.k8s.io";
/// The value of [`MANAGED_BY_LABEL`] on the slices that mirror Endpoints objects.
pub const MIRRORING_CONTROLLER_NAME: &str = "endpointslicemirroring-controller.k8s.io";

/// Some of the endpoints of a Service: those of one address family with the same ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The endpoints.
    #[serde(deserialize_with = "null_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports that every endpoint has.
    #[serde(deserialize_with = "null_default")]
    pub ports: Vec<EndpointPort>,
}

impl Kind for EndpointSlice {
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "EndpointSlice";
    const PLURAL: &'static str = "endpointslices";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl EndpointSlice {
    /// Returns the name of the Service that the slice belongs to; empty: none.
    pub fn service_name(&self) -> &str {
        self.metadata.labels.get(SERVICE_NAME_LABEL).map_or("", String::as_str)
    }

    /// Returns the name of the controller that writes the slice; empty: none.
    pub fn managed_by(&self) -> &str {
        self.metadata.labels.get(MANAGED_BY_LABEL).map_or("", String::as_str)
    }
}

/// One place where traffic may go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// The addresses; consumers read only the first.
    #[serde(deserialize_with = "null_default")]
    pub addresses: Vec<String>,
    /// Its state.
    #[serde(deserialize_with = "null_default")]
    pub conditions: EndpointConditions,
    /// The host name under which it is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The object behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<ObjectReference>,
    /// The node that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The zone that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Who should use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<EndpointHints>,
}

/// The state of an endpoint; what an absent condition means is written at each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Takes traffic; absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Would take traffic, were it not terminating; absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Is on its way out; absent: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

impl EndpointConditions {
    /// Returns whether the endpoint takes traffic.
    pub fn is_ready(&self) -> bool {
        self.ready.unwrap_or(true)
    }

    /// Returns whether the endpoint would take traffic, were it not terminating.
    pub fn is_serving(&self) -> bool {
        self.serving.unwrap_or(true)
    }

    /// Returns whether the endpoint is on its way out.
    pub fn is_terminating(&self) -> bool {
        self.terminating.unwrap_or(false)
    }
}

/// Who should use an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Consumers in these zones.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<ForName>,
    /// Consumers on these nodes.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<ForName>,
}

/// A zone or a node, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForName {
    /// The name.
    pub name: String,
}

impl From<&str> for ForName {
    fn from(name: &str) -> ForName {
        ForName { name: name.to_owned() }
    }
}

/// A port of every endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// The name of the Service port; may be empty.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The number; absent: every port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// The protocol spoken inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_placeholder_reads_back_with_null_or_empty_lists() {
        for lists in [json!({"endpoints": null, "ports": null}), json!({"endpoints": [], "ports": []}), json!({})] {
            let slice: EndpointSlice = serde_json::from_value(lists).unwrap();
            assert!(slice.endpoints.is_empty() && slice.ports.is_empty());
        }
    }

    #[test]
    fn conditions_and_lists_are_always_written() {
        let slice = EndpointSlice { endpoints: vec![Endpoint::default()], ..EndpointSlice::default() };
        let value = serde_json::to_value(&slice).unwrap();
        assert_eq!(value["endpoints"], json!([{"addresses": [], "conditions": {}}]));
        assert_eq!(value["ports"], json!([]));
    }
}
