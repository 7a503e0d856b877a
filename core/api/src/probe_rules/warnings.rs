//! What is allowed but will surprise: the texts of `Warning` headers for pods and pod templates.

use serde_json::Value;

use super::{
    DEFAULT_FAILURE_THRESHOLD, DEFAULT_PERIOD_SECONDS, DEFAULT_TIMEOUT_SECONDS, HandlerKind, ProbeType, pod_spec_path,
    seconds_ms,
};
use crate::field::Path;
use crate::{FeatureGates, Gate, json};

/// A startup budget below this is worth a word when it comes from an offset.
const STARTUP_BUDGET_MS_MIN: i64 = 10_000;

/// Returns the warnings about the probes of a pod or a kind with a pod template.
pub fn probe_warnings(kind: &str, object: &Value, gates: &FeatureGates) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(members) = pod_spec_path(kind) else { return warnings };
    let Some(spec) = json::at(object, members) else { return warnings };
    for list in ["initContainers", "containers"] {
        for (index, container) in json::items(spec, &[list]).iter().enumerate() {
            for type_ in ProbeType::ALL {
                let Some(probe) = container.get(type_.field()).filter(|probe| probe.is_object()) else { continue };
                let path = Path::new(members.join(".")).child(list).index(index).child(type_.field());
                warnings.extend(undeclared_port(container, probe, &path));
                warnings.extend(short_startup(type_, probe, gates, &path));
                warnings.extend(timeout_beyond_period(type_, probe, gates, &path));
            }
        }
    }
    warnings
}

fn undeclared_port(container: &Value, probe: &Value, path: &Path) -> Option<String> {
    let handler = HandlerKind::of(probe)?;
    let port = json::at(probe, &[handler.field(), "port"])?.as_str()?;
    // A text that is a number is used as the number.
    let declared = json::items(container, &["ports"]).iter().any(|declared| json::text(declared, &["name"]) == port);
    (!declared && port.parse::<u16>().is_err()).then(|| {
        format!(
            "{}: container {:?} declares no port named {port:?}, so every attempt will fail",
            path.child(handler.field()).child("port"),
            json::text(container, &["name"]),
        )
    })
}

/// Returns the offset of a field, if it is set and its gate is on.
fn offset(probe: &Value, field: &str, gate: Gate, gates: &FeatureGates) -> Option<i64> {
    json::int(probe, &[field]).filter(|_| gates.enabled(gate))
}

fn period_ms(type_: ProbeType, probe: &Value, gates: &FeatureGates) -> i64 {
    let offset = offset(probe, "periodMilliseconds", Gate::SubSecondProbes, gates).filter(|_| type_ != ProbeType::Liveness);
    seconds_ms(probe, "periodSeconds", DEFAULT_PERIOD_SECONDS).saturating_add(offset.unwrap_or(0))
}

fn short_startup(type_: ProbeType, probe: &Value, gates: &FeatureGates, path: &Path) -> Option<String> {
    // An offset that makes the period longer takes nothing away from the budget.
    offset(probe, "periodMilliseconds", Gate::SubSecondProbes, gates)
        .filter(|offset| type_ == ProbeType::Startup && *offset <= 0)?;
    let delay = offset(probe, "initialDelayMilliseconds", Gate::SubSecondProbes, gates).unwrap_or(0);
    let delay = seconds_ms(probe, "initialDelaySeconds", 0).saturating_add(delay);
    let failures = json::int(probe, &["failureThreshold"]).filter(|count| *count != 0).unwrap_or(DEFAULT_FAILURE_THRESHOLD);
    let budget = period_ms(type_, probe, gates).saturating_mul(failures).saturating_add(delay);
    (budget < STARTUP_BUDGET_MS_MIN).then(|| {
        format!(
            "{path}: the container is killed if it is not started within {budget}ms; raise failureThreshold to give it longer"
        )
    })
}

fn timeout_beyond_period(type_: ProbeType, probe: &Value, gates: &FeatureGates, path: &Path) -> Option<String> {
    // With the gate off every fast probe would be warned of something that it cannot change.
    let on = gates.enabled(Gate::SubSecondProbeTimeouts);
    let extra = offset(probe, "timeoutMilliseconds", Gate::SubSecondProbeTimeouts, gates).unwrap_or(0);
    let timeout = seconds_ms(probe, "timeoutSeconds", DEFAULT_TIMEOUT_SECONDS).saturating_add(extra);
    let period = period_ms(type_, probe, gates);
    (on && period < 1_000 && timeout > period).then(|| {
        format!("{path}: timeout {timeout}ms is longer than the period {period}ms; a target that hangs is asked less often")
    })
}
