//! Validation of the four handlers, in parts, so that other kinds with probes reuse what agrees.
//!
//! Each function judges one action (`exec`, `httpGet`, ...) and not whether it may stand beside another one.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::{json, names};

/// Judges an `exec` action: its command may not be empty.
pub fn validate_exec(exec: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    if json::items(exec, &["command"]).is_empty() {
        errors.push(Error::required(&path.child("command"), ""));
    }
    errors
}

/// Judges an `httpGet` action: port, scheme, header names.
pub fn validate_http_get(http: &Value, path: &Path) -> Vec<Error> {
    let mut errors = validate_port(json::get(http, "port"), &path.child("port"));
    errors.extend(validate_http_scheme(http, path));
    errors.extend(validate_http_headers(http, path));
    errors
}

/// Judges the scheme of an `httpGet` action; absent and empty mean HTTP.
pub fn validate_http_scheme(http: &Value, path: &Path) -> Option<Error> {
    match json::text(http, &["scheme"]) {
        "" | "HTTP" | "HTTPS" => None,
        other => Some(Error::not_supported(&path.child("scheme"), other, &["HTTP", "HTTPS"])),
    }
}

/// Judges the header names of an `httpGet` action; errors are on the list, as in Kubernetes.
pub fn validate_http_headers(http: &Value, path: &Path) -> Vec<Error> {
    let bad = |header: &Value| {
        let name = json::text(header, &["name"]);
        let rule = names::http_header_name(name)?;
        Some(Error::invalid(&path.child("httpHeaders"), name, rule))
    };
    json::items(http, &["httpHeaders"]).iter().filter_map(bad).collect()
}

/// Judges a `tcpSocket` action: its port.
pub fn validate_tcp_socket(tcp: &Value, path: &Path) -> Vec<Error> {
    validate_port(json::get(tcp, "port"), &path.child("port"))
}

/// Judges a `grpc` action: its port, a number.
pub fn validate_grpc(grpc: &Value, path: &Path) -> Vec<Error> {
    let port = json::int(grpc, &["port"]).unwrap_or(0);
    names::port_number(port).map(|rule| Error::invalid(&path.child("port"), port, rule)).into_iter().collect()
}

/// Judges a port that is a number or a name; an absent one counts as 0. A name gets one error per rule that it breaks.
pub fn validate_port(port: Option<&Value>, path: &Path) -> Vec<Error> {
    match port {
        Some(Value::String(name)) => {
            names::port_name(name).into_iter().map(|rule| Error::invalid(path, name.as_str(), rule)).collect()
        }
        other => {
            let number = other.and_then(Value::as_i64).unwrap_or(0);
            names::port_number(number).map(|rule| Error::invalid(path, number, rule)).into_iter().collect()
        }
    }
}
