//! The API rules of probes: defaults, validation, gated fields, warnings.
//!
//! Everything here works on JSON values and is total: no input makes a rule panic. The order of a write is drop, default,
//! validate; validation does not look at gates, because a field that survived dropping is always judged. What the numbers
//! then mean on a node (effective times, clamping) is decided by `probe::timing`, from the same constants.

mod fields;
mod handlers;
mod validate;
mod warnings;

use serde_json::{Map, Value};

use crate::json;

pub use fields::{disabled_field_warnings, drop_disabled_probe_fields, drop_disabled_template_fields, pod_spec_path};
pub use fields::{removed_sub_second_fields, sub_second_fields};
pub use handlers::{validate_exec, validate_grpc, validate_http_get, validate_http_headers, validate_http_scheme};
pub use handlers::{validate_port, validate_tcp_socket};
pub use validate::{validate_pod_probes, validate_probe, validate_probe_handler, validate_probe_offsets};
pub use warnings::probe_warnings;

/// `timeoutSeconds` where it is absent or 0; Kubernetes default.
pub const DEFAULT_TIMEOUT_SECONDS: i64 = 1;
/// `periodSeconds` where it is absent or 0; Kubernetes default.
pub const DEFAULT_PERIOD_SECONDS: i64 = 10;
/// `successThreshold` where it is absent or 0; Kubernetes default.
pub const DEFAULT_SUCCESS_THRESHOLD: i64 = 1;
/// `failureThreshold` where it is absent or 0; Kubernetes default.
pub const DEFAULT_FAILURE_THRESHOLD: i64 = 3;
/// The largest offset, in either direction; KEP-3066.
pub const OFFSET_MS_MAX: i64 = 999;
/// The millisecond fields of a probe; KEP-3066.
pub const OFFSET_FIELDS: [&str; 3] = ["initialDelayMilliseconds", "periodMilliseconds", "timeoutMilliseconds"];

/// The members of a container that hold probes, in the order of [`ProbeType::ALL`].
pub(crate) const PROBE_FIELDS: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
/// The lists of a pod spec that hold containers.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// What a probe of a container decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeType {
    /// Whether the container must be restarted.
    Liveness,
    /// Whether it may take traffic.
    Readiness,
    /// Whether it is up, so that the other two may begin.
    Startup,
}

impl ProbeType {
    /// Every type, in the order in which Kubernetes validates them.
    pub const ALL: [ProbeType; 3] = [ProbeType::Liveness, ProbeType::Readiness, ProbeType::Startup];

    /// Returns the member of a container, for example `readinessProbe`.
    pub const fn field(self) -> &'static str {
        match self {
            ProbeType::Liveness => "livenessProbe",
            ProbeType::Readiness => "readinessProbe",
            ProbeType::Startup => "startupProbe",
        }
    }

    /// Returns the word that opens an event, for example `Readiness`.
    pub const fn name(self) -> &'static str {
        match self {
            ProbeType::Liveness => "Liveness",
            ProbeType::Readiness => "Readiness",
            ProbeType::Startup => "Startup",
        }
    }
}

/// How a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandlerKind {
    /// Runs a command.
    Exec,
    /// Sends a request.
    HttpGet,
    /// Opens a connection.
    TcpSocket,
    /// Asks the gRPC health service.
    Grpc,
}

impl HandlerKind {
    /// Every handler, in the order that decides which of several counts.
    pub const ALL: [HandlerKind; 4] = [HandlerKind::Exec, HandlerKind::HttpGet, HandlerKind::TcpSocket, HandlerKind::Grpc];

    /// Returns the member of a probe, for example `httpGet`.
    pub const fn field(self) -> &'static str {
        match self {
            HandlerKind::Exec => "exec",
            HandlerKind::HttpGet => "httpGet",
            HandlerKind::TcpSocket => "tcpSocket",
            HandlerKind::Grpc => "grpc",
        }
    }

    /// Returns the first handler that a probe has.
    pub fn of(probe: &Value) -> Option<HandlerKind> {
        HandlerKind::ALL.into_iter().find(|handler| json::object(probe, &[handler.field()]).is_some())
    }

    /// Returns the shortest period that an offset may make, in milliseconds; KEP-3066: exec pays for a process start.
    pub const fn period_floor_ms(self) -> i64 {
        match self {
            HandlerKind::Exec => 500,
            HandlerKind::HttpGet | HandlerKind::TcpSocket | HandlerKind::Grpc => 200,
        }
    }

    /// Returns the shortest timeout that an offset may make: half the period floor, one CFS period for the network.
    pub const fn timeout_floor_ms(self) -> i64 {
        self.period_floor_ms() / 2
    }
}

/// Returns the floors of a probe whose handler may be missing; then those of the network count.
pub(crate) fn floor_handler(handler: Option<HandlerKind>) -> HandlerKind {
    handler.unwrap_or(HandlerKind::HttpGet)
}

/// Fills in what the user left out of a probe.
pub fn default_probe(probe: &mut Value) {
    let Some(probe) = probe.as_object_mut() else { return };
    default_int(probe, "timeoutSeconds", DEFAULT_TIMEOUT_SECONDS);
    default_int(probe, "periodSeconds", DEFAULT_PERIOD_SECONDS);
    default_int(probe, "successThreshold", DEFAULT_SUCCESS_THRESHOLD);
    default_int(probe, "failureThreshold", DEFAULT_FAILURE_THRESHOLD);
    if let Some(http) = probe.get_mut("httpGet") {
        default_http_get(http);
    }
    if let Some(Value::Object(grpc)) = probe.get_mut("grpc") {
        default_text(grpc, "service", "");
    }
}

/// Fills in what the user left out of an `httpGet` action, of a probe or of a lifecycle hook.
pub fn default_http_get(http: &mut Value) {
    if let Value::Object(http) = http {
        default_text(http, "path", "/");
        default_text(http, "scheme", "HTTP");
    }
}

/// Fills in the probes of every container of a pod spec.
pub fn default_pod_probes(spec: &mut Value) {
    for list in CONTAINER_LISTS {
        for container in json::items_mut(spec, &[list]).into_iter().flatten() {
            for type_ in ProbeType::ALL {
                if let Some(probe) = container.get_mut(type_.field()) {
                    default_probe(probe);
                }
            }
        }
    }
}

fn default_int(object: &mut Map<String, Value>, key: &str, default: i64) {
    if object.get(key).is_none_or(|value| value.is_null() || value.as_i64() == Some(0)) {
        object.insert(key.to_owned(), default.into());
    }
}

fn default_text(object: &mut Map<String, Value>, key: &str, default: &str) {
    if object.get(key).is_none_or(|value| value.is_null() || value.as_str() == Some("")) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Returns `seconds` in milliseconds, with the default where it is absent or 0. Never overflows.
pub(crate) fn seconds_ms(probe: &Value, field: &str, default: i64) -> i64 {
    let seconds = json::int(probe, &[field]).filter(|seconds| *seconds != 0).unwrap_or(default);
    seconds.saturating_mul(1_000)
}

#[cfg(test)]
mod tests;
