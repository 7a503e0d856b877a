//! A probe as it is stored.

use serde::{Deserialize, Serialize};

use crate::IntOrString;
use crate::meta::null_default;

/// A probe, with the millisecond offsets of KEP-3066. Numbers are as stored: see `probe::timing` for what they mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Runs a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecAction>,
    /// Sends a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGetAction>,
    /// Opens a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocketAction>,
    /// Asks the gRPC health service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAction>,
    /// Seconds after the container's start.
    #[serde(deserialize_with = "null_default")]
    pub initial_delay_seconds: i64,
    /// Seconds for one attempt; 0: 1.
    #[serde(deserialize_with = "null_default")]
    pub timeout_seconds: i64,
    /// Seconds between attempts; 0: 10.
    #[serde(deserialize_with = "null_default")]
    pub period_seconds: i64,
    /// Successes in a row that count; 0: 1.
    #[serde(deserialize_with = "null_default")]
    pub success_threshold: i64,
    /// Failures in a row that count; 0: 3.
    #[serde(deserialize_with = "null_default")]
    pub failure_threshold: i64,
    /// Grace of a kill by this probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Added to `initialDelaySeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_delay_milliseconds: Option<i64>,
    /// Added to `periodSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_milliseconds: Option<i64>,
    /// Added to `timeoutSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<i64>,
}

/// Runs a command in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecAction {
    /// Program and arguments; no shell.
    #[serde(deserialize_with = "null_default")]
    pub command: Vec<String>,
}

/// Sends a GET request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpGetAction {
    /// Path and query.
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    /// Number or name.
    #[serde(deserialize_with = "null_default")]
    pub port: IntOrString,
    /// Instead of the pod's address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// `HTTP` (also when empty) or `HTTPS`.
    #[serde(deserialize_with = "null_default")]
    pub scheme: String,
    /// Headers, repeated ones included.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub http_headers: Vec<HttpHeader>,
}

/// A header of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpHeader {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Opens a TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpSocketAction {
    /// Number or name.
    #[serde(deserialize_with = "null_default")]
    pub port: IntOrString,
    /// Instead of the pod's address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// Asks the gRPC health service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrpcAction {
    /// Number.
    #[serde(deserialize_with = "null_default")]
    pub port: i64,
    /// The service asked about.
    #[serde(deserialize_with = "null_default")]
    pub service: String,
}
