//! `fieldRef` and `resourceFieldRef`.

use api::json::{at, items, object, text};
use api::quantity::Quantity;
use serde_json::Value;

use super::{ConfigError, PodContext};

/// Returns the value of a field of the pod, as variables have it.
pub fn field(pod: &Value, path: &str, context: &PodContext) -> Result<String, ConfigError> {
    Ok(match path {
        "spec.nodeName" => text(pod, &["spec", "nodeName"]).to_owned(),
        "spec.serviceAccountName" => match text(pod, &["spec", "serviceAccountName"]) {
            "" => "default".to_owned(),
            name => name.to_owned(),
        },
        "status.podIP" | "status.podIPs" => context.pod_ip.clone(),
        "status.hostIP" | "status.hostIPs" => context.host_ip.clone(),
        // Whole maps are for files only.
        "metadata.labels" | "metadata.annotations" => return Err(ConfigError::FieldPath(path.to_owned())),
        _ => return pod_field(pod, path),
    })
}

/// Returns the value of a field of the pod's metadata, as files have it.
pub fn pod_field(pod: &Value, path: &str) -> Result<String, ConfigError> {
    let unsupported = || ConfigError::FieldPath(path.to_owned());
    let metadata = path.strip_prefix("metadata.").ok_or_else(unsupported)?;
    match metadata {
        "name" | "namespace" | "uid" => return Ok(text(pod, &["metadata", metadata]).to_owned()),
        "labels" | "annotations" => {
            let pairs = object(pod, &["metadata", metadata]).into_iter().flatten();
            let lines: Vec<String> =
                pairs.map(|(key, value)| format!("{key}={}", Value::from(value.as_str().unwrap_or_default()))).collect();
            return Ok(lines.join("\n"));
        }
        _ => {}
    }
    let (map, key) = metadata.split_once("['").ok_or_else(unsupported)?;
    let key = key.strip_suffix("']").ok_or_else(unsupported)?;
    if !matches!(map, "labels" | "annotations") {
        return Err(unsupported());
    }
    Ok(text(pod, &["metadata", map, key]).to_owned())
}

/// Returns an amount of a container's resources in units of the divisor, rounded up.
///
/// A limit that is not set is what the node has, a request that is not set is nothing.
pub fn resource(pod: &Value, own: Option<&Value>, reference: &Value, context: &PodContext) -> Result<String, ConfigError> {
    let (name, wanted) = (text(reference, &["containerName"]), text(reference, &["resource"]));
    let unsupported = || ConfigError::Resource { resource: wanted.to_owned(), container: name.to_owned() };
    let named = || {
        let all = items(pod, &["spec", "containers"]).iter().chain(items(pod, &["spec", "initContainers"]));
        all.into_iter().find(|container| text(container, &["name"]) == name)
    };
    let container = if name.is_empty() { own } else { named() }.ok_or_else(unsupported)?;
    let (kind, resource) = wanted.split_once('.').ok_or_else(unsupported)?;
    let known = matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if !known || !matches!(kind, "limits" | "requests") {
        return Err(unsupported());
    }
    let parse = |text: &str| Quantity::parse(text).ok();
    let set = |kind: &str| at(container, &["resources", kind, resource]).and_then(amount).and_then(|text| parse(&text));
    let quantity = match kind {
        "limits" => set("limits").or_else(|| context.allocatable.get(resource).and_then(|text| parse(text))),
        // The API server copies a limit into a request that is not set.
        _ => set("requests").or_else(|| set("limits")),
    };
    let quantity = quantity.unwrap_or(Quantity::ZERO);
    let one = Quantity::from_whole(1);
    let divisor = at(reference, &["divisor"]).and_then(amount).and_then(|text| parse(&text));
    let divisor = divisor.filter(|divisor| !divisor.is_zero() && !divisor.is_negative()).unwrap_or(one);
    let (amount, unit) = match resource {
        "cpu" => (quantity.milli(), divisor.milli()),
        _ => (quantity.whole(), divisor.whole()),
    };
    Ok(amount.max(0).unsigned_abs().div_ceil(unit.max(1).unsigned_abs()).to_string())
}

/// Returns the text of an amount, which may also be written as a number.
fn amount(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
