//! Validation of a probe and of all probes of a pod.
//!
//! Errors come in the order: handler, seconds, thresholds, grace, offsets, rules of the type. A sum is judged only if
//! both of its parts are good, so that one mistake is one error.

use serde_json::Value;

use super::{
    CONTAINER_LISTS, DEFAULT_PERIOD_SECONDS, DEFAULT_SUCCESS_THRESHOLD, DEFAULT_TIMEOUT_SECONDS, HandlerKind, OFFSET_MS_MAX,
    ProbeType, floor_handler, handlers, seconds_ms,
};
use crate::field::{Error, Path};
use crate::{json, names};

/// The number fields that may not be negative, in the order of their errors.
const NOT_NEGATIVE: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

/// Judges every probe of a pod spec, and the types of its readiness gates.
///
/// Init containers may have probes only as sidecars, ephemeral containers never; nothing inside a forbidden probe is
/// judged.
pub fn validate_pod_probes(spec: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    for list in CONTAINER_LISTS {
        for (index, container) in json::items(spec, &[list]).iter().enumerate() {
            for type_ in ProbeType::ALL {
                let Some(probe) = container.get(type_.field()).filter(|probe| probe.is_object()) else { continue };
                let path = path.child(list).index(index).child(type_.field());
                match (list, json::text(container, &["restartPolicy"])) {
                    ("containers", _) | ("initContainers", "Always") => errors.extend(validate_probe(probe, type_, &path)),
                    ("initContainers", _) => {
                        errors.push(Error::forbidden(&path, "may not be set for init containers without restartPolicy=Always"));
                    }
                    _ => errors.push(Error::forbidden(&path, "may not be set for ephemeral containers")),
                }
            }
        }
    }
    for (index, gate) in json::items(spec, &["readinessGates"]).iter().enumerate() {
        let type_ = json::text(gate, &["conditionType"]);
        if let Some(rule) = names::qualified_name(type_) {
            let path = path.child("readinessGates").index(index).child("conditionType");
            errors.push(Error::invalid(&path, type_, rule));
        }
    }
    errors
}

/// Judges one probe; `path` is that of the probe itself.
pub fn validate_probe(probe: &Value, type_: ProbeType, path: &Path) -> Vec<Error> {
    let (handler, mut errors) = validate_probe_handler(probe, path);
    for field in NOT_NEGATIVE {
        if let Some(value) = json::int(probe, &[field]).filter(|value| *value < 0) {
            errors.push(Error::invalid(&path.child(field), value, "must be greater than or equal to 0"));
        }
    }
    let grace = json::int(probe, &["terminationGracePeriodSeconds"]);
    let grace_path = || path.child("terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.push(Error::invalid(&grace_path(), grace, "must be greater than 0"));
    }
    errors.extend(validate_probe_offsets(probe, Some(type_), handler, DEFAULT_PERIOD_SECONDS, path));
    match (type_, grace) {
        (ProbeType::Readiness, Some(grace)) => {
            errors.push(Error::invalid(&grace_path(), grace, "must not be set for readinessProbes"));
        }
        (ProbeType::Readiness, None) => {}
        (ProbeType::Liveness | ProbeType::Startup, _) => {
            let successes = json::int(probe, &["successThreshold"]).unwrap_or(0);
            if successes != DEFAULT_SUCCESS_THRESHOLD && successes != 0 {
                errors.push(Error::invalid(&path.child("successThreshold"), successes, "must be 1"));
            }
        }
    }
    errors
}

/// Judges the handlers of a probe of a container: exactly one, and that one good. Returns the one that counts.
pub fn validate_probe_handler(probe: &Value, path: &Path) -> (Option<HandlerKind>, Vec<Error>) {
    let mut first = None;
    let mut errors = Vec::new();
    for handler in HandlerKind::ALL {
        let Some(action) = probe.get(handler.field()).filter(|action| action.is_object()) else { continue };
        let path = path.child(handler.field());
        if first.is_some() {
            errors.push(Error::forbidden(&path, "may not specify more than 1 handler type"));
            continue;
        }
        first = Some(handler);
        errors.extend(match handler {
            HandlerKind::Exec => handlers::validate_exec(action, &path),
            HandlerKind::HttpGet => handlers::validate_http_get(action, &path),
            HandlerKind::TcpSocket => handlers::validate_tcp_socket(action, &path),
            HandlerKind::Grpc => handlers::validate_grpc(action, &path),
        });
    }
    if first.is_none() {
        errors.push(Error::required(path, "must specify a handler type"));
    }
    (first, errors)
}

/// Judges the three offsets: range, then the sum with the seconds.
///
/// `type_` is `None` for probes that belong to no container status (markers); `default_period_seconds` is what an absent
/// or zero `periodSeconds` means for the kind at hand.
pub fn validate_probe_offsets(
    probe: &Value,
    type_: Option<ProbeType>,
    handler: Option<HandlerKind>,
    default_period_seconds: i64,
    path: &Path,
) -> Vec<Error> {
    let floors = floor_handler(handler);
    let of = handler.map_or_else(String::new, |handler| format!(" for {}", handler.field()));
    let mut errors = Vec::new();
    errors.extend(offset_error(probe, Sum { what: "initial delay", stem: "initialDelay", default: 0, floor: 0 }, "", path));
    if type_ != Some(ProbeType::Liveness) {
        let period = Sum { what: "period", stem: "period", default: default_period_seconds, floor: floors.period_floor_ms() };
        errors.extend(offset_error(probe, period, &of, path));
    } else if json::int(probe, &["periodMilliseconds"]).is_some() {
        let path = path.child("periodMilliseconds");
        errors.push(Error::forbidden(&path, "only allowed on readiness and startup probes"));
    }
    let timeout = Sum { what: "timeout", stem: "timeout", default: DEFAULT_TIMEOUT_SECONDS, floor: floors.timeout_floor_ms() };
    errors.extend(offset_error(probe, timeout, &of, path));
    errors
}

/// A sum of a seconds field and its offset.
struct Sum {
    what: &'static str,
    stem: &'static str,
    default: i64,
    floor: i64,
}

/// Judges one offset, if it is set.
fn offset_error(probe: &Value, sum: Sum, of: &str, path: &Path) -> Option<Error> {
    let field = format!("{}Milliseconds", sum.stem);
    let offset = json::int(probe, &[&field])?;
    if !(-OFFSET_MS_MAX..=OFFSET_MS_MAX).contains(&offset) {
        let rule = format!("must be between -{OFFSET_MS_MAX} and {OFFSET_MS_MAX}, inclusive");
        return Some(Error::invalid(&path.child(&field), offset, rule));
    }
    let seconds = seconds_ms(probe, &format!("{}Seconds", sum.stem), sum.default);
    let effective = seconds.saturating_add(offset);
    if seconds < 0 || effective >= sum.floor {
        return None;
    }
    let rule = format!("effective {} {effective}ms is below the minimum of {}ms{of}", sum.what, sum.floor);
    Some(Error::invalid(&path.child(&field), offset, rule))
}
