//! What the probe of a marker may be: one handler that dials the pod only, and timing within its floors.

use serde_json::{Map, Value};

use super::read::{Read, integer, list, object, text};
use crate::field::{Error, Path};
use crate::probe_rules::{self, HandlerKind};
use crate::{json, names};

/// What an absent or zero `periodSeconds` means for a marker; the shipped daemon of OpenKruise.
const DEFAULT_PERIOD_SECONDS: i64 = 1;

/// Judges the member `probe` of an item of `spec.probes`.
pub(super) fn validate_probe(item: &Value, path: &Path, errors: &mut Vec<Error>) {
    let probe = match object(item, "probe", path, errors) {
        Read::Wrong => return,
        Read::Absent => return errors.push(Error::required(&path.child("probe"), "")),
        Read::Value(probe) => probe,
    };
    let path = path.child("probe");
    let mut given = HandlerKind::ALL.into_iter().filter(|handler| json::get(probe, handler.field()).is_some());
    let handler = given.next();
    match handler {
        None => errors.push(Error::required(&path, "one of exec, httpGet, tcpSocket and grpc must be given")),
        Some(handler) => validate_handler(probe, handler, &path, errors),
    }
    for further in given {
        errors.push(Error::forbidden(&path.child(further.field()), "may not specify more than 1 handler type"));
    }
    validate_timing(probe, handler, &path, errors);
}

fn validate_handler(probe: &Value, handler: HandlerKind, path: &Path, errors: &mut Vec<Error>) {
    if let (HandlerKind::Exec, Some(Value::String(bare))) = (handler, probe.get("exec")) {
        let form = format!("must be an object; write exec: {{command: [{bare:?}]}}");
        return errors.push(Error::type_invalid(&path.child("exec"), &probe["exec"], form));
    }
    let Read::Value(action) = object(probe, handler.field(), path, errors) else { return };
    let path = path.child(handler.field());
    match handler {
        HandlerKind::Exec => validate_exec(action, &path, errors),
        HandlerKind::HttpGet => validate_http_get(action, &path, errors),
        HandlerKind::TcpSocket => {
            validate_host(action, &path, errors);
            validate_port(action, &path, errors);
        }
        HandlerKind::Grpc => {
            match integer(action, "port", &path, errors) {
                Read::Absent => errors.push(Error::required(&path.child("port"), "")),
                Read::Wrong => {}
                Read::Value(_) => errors.extend(probe_rules::validate_grpc(action, &path)),
            }
            text(action, "service", &path, errors);
        }
    }
}

fn validate_exec(action: &Value, path: &Path, errors: &mut Vec<Error>) {
    let command = list(action, "command", path, errors);
    let at = path.child("command");
    if command.is_empty() {
        errors.push(Error::required(&at, ""));
    }
    for (index, word) in command.items().iter().enumerate().filter(|(_, word)| !word.is_string()) {
        errors.push(Error::type_invalid(&at.index(index), word, "must be a string; write it in quotes"));
    }
}

fn validate_http_get(action: &Value, path: &Path, errors: &mut Vec<Error>) {
    if let Read::Value(target) = text(action, "path", path, errors)
        && !good_escapes(target)
    {
        errors.push(Error::invalid(&path.child("path"), target, "'%' must be followed by two hexadecimal digits"));
    }
    validate_port(action, path, errors);
    validate_host(action, path, errors);
    if let Read::Value(_) = text(action, "scheme", path, errors) {
        errors.extend(probe_rules::validate_http_scheme(action, path));
    }
    let at = path.child("httpHeaders");
    for (index, header) in list(action, "httpHeaders", path, errors).items().iter().enumerate() {
        let item = at.index(index);
        if !header.is_object() {
            errors.push(Error::type_invalid(&item, header, "must be an object"));
            continue;
        }
        if let Read::Value(name) = text(header, "name", &item, errors).or("")
            && let Some(rule) = names::http_header_name(name)
        {
            errors.push(Error::invalid(&at, name, rule));
        }
        text(header, "value", &item, errors);
    }
}

fn validate_host(action: &Value, path: &Path, errors: &mut Vec<Error>) {
    if let Read::Value(host) = text(action, "host", path, errors)
        && !host.is_empty()
    {
        errors.push(Error::forbidden(&path.child("host"), "the address of the pod is dialled, no other"));
    }
}

fn validate_port(action: &Value, path: &Path, errors: &mut Vec<Error>) {
    let at = path.child("port");
    match json::get(action, "port") {
        None => errors.push(Error::required(&at, "")),
        Some(port) if port.is_string() || port.is_i64() => errors.extend(probe_rules::validate_port(Some(port), &at)),
        Some(port) => errors.push(Error::type_invalid(&at, port, "must be a number or a port name")),
    }
}

/// Returns whether every `%` before the query begins an escape.
fn good_escapes(path: &str) -> bool {
    let before = path.split('?').next().unwrap_or_default().as_bytes();
    let escape = |at: usize| matches!(before.get(at + 1..at + 3), Some(hex) if hex.iter().all(u8::is_ascii_hexdigit));
    (0..before.len()).filter(|&at| before[at] == b'%').all(escape)
}

fn validate_timing(probe: &Value, handler: Option<HandlerKind>, path: &Path, errors: &mut Vec<Error>) {
    let mut judged = Map::new();
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        let rule = match integer(probe, field, path, errors) {
            Read::Absent => continue,
            Read::Wrong => None,
            Read::Value(value) if value < 0 => Some("must be greater than or equal to 0"),
            Read::Value(value) if value > i64::from(i32::MAX) => Some("must fit in 32 bits"),
            Read::Value(value) => {
                judged.insert(field.to_owned(), value.into());
                continue;
            }
        };
        errors.extend(rule.map(|rule| Error::invalid(&path.child(field), probe[field].clone(), rule)));
        // A negative part keeps its sum from being judged; this one is reported already.
        judged.insert(field.to_owned(), (-1).into());
    }
    integer(probe, "terminationGracePeriodSeconds", path, errors);
    for field in probe_rules::OFFSET_FIELDS {
        if let Read::Value(offset) = integer(probe, field, path, errors) {
            judged.insert(field.to_owned(), offset.into());
        }
    }
    let judged = Value::Object(judged);
    errors.extend(probe_rules::validate_probe_offsets(&judged, None, handler, DEFAULT_PERIOD_SECONDS, path));
}
