//! The Service.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::IntOrString;
use crate::meta::{Kind, ObjectMeta, Scope, null_default};

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ServiceSpec,
}

impl Kind for Service {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Service";
    const PLURAL: &'static str = "services";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// What a service is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP` (also when empty), `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Labels of the pods behind it; empty: somebody else manages its endpoints.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// The address, or `None` for a headless service.
    #[serde(rename = "clusterIP", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cluster_ip: String,
    /// `IPv4`, `IPv6`, in order of preference.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<String>,
    /// The ports.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePort>,
    /// Whether pods that are not ready are published as ready.
    #[serde(deserialize_with = "null_default")]
    pub publish_not_ready_addresses: bool,
    /// `PreferClose`, `PreferSameZone`, `PreferSameNode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
    /// `Cluster` (also when empty) or `Local`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub internal_traffic_policy: String,
    /// `None` (also when empty) or `ClientIP`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub session_affinity: String,
    /// How long a client stays with its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
}

/// How clients stay with their endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionAffinityConfig {
    /// By address of the client.
    #[serde(rename = "clientIP", skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<ClientIpConfig>,
}

/// How clients stay with their endpoint, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// For how long after their last connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Its name; may be empty if it is the only one.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// The protocol spoken inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// The number clients use.
    pub port: i64,
    /// Number or name at the pods; absent: `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    /// The number on the node, if the type has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i64>,
}
