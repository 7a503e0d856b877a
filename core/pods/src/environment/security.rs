//! `securityContext`: which user a container runs as, and what a plain process cannot be held to.
//!
//! What would change how the program runs is refused. What would only have restricted it is told and left out: the program
//! works the same, but nobody should believe that it is confined.

use api::json::{at, boolean, int, items, text};
use serde_json::Value;

use super::{ConfigError, PodContext};

/// The user and group of a container, where they are not lifesign's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
}

pub(super) fn user(pod: &Value, container: &Value, context: &PodContext) -> Result<User, ConfigError> {
    let set = |name: &str| int(container, &["securityContext", name]).or_else(|| int(pod, &["spec", "securityContext", name]));
    let may = |field: &'static str, wanted: Option<i64>, own: u32| match wanted {
        None => Ok(None),
        Some(id) if id == i64::from(own) => Ok(None),
        Some(id) if context.uid == 0 => u32::try_from(id).map(Some).map_err(|_| ConfigError::NeedsRoot { field, id, own }),
        Some(id) => Err(ConfigError::NeedsRoot { field, id, own }),
    };
    let user = may("runAsUser", set("runAsUser"), context.uid)?;
    let group = may("runAsGroup", set("runAsGroup"), context.gid)?;
    let flag = |name: &str| {
        boolean(container, &["securityContext", name]).or_else(|| boolean(pod, &["spec", "securityContext", name]))
    };
    if flag("runAsNonRoot") == Some(true) && user.unwrap_or(context.uid) == 0 {
        return Err(ConfigError::WouldBeRoot);
    }
    if context.uid != 0 {
        let unsupported = |field: String| ConfigError::Unsupported { field, hint: "remove it or start lifesign as root" };
        if let Some(capability) = items(container, &["securityContext", "capabilities", "add"]).first() {
            return Err(unsupported(format!("capabilities.add {}", capability.as_str().unwrap_or_default())));
        }
        if flag("privileged") == Some(true) {
            return Err(unsupported("privileged".to_owned()));
        }
    }
    if !items(pod, &["spec", "securityContext", "supplementalGroups"]).is_empty() {
        let field = "supplementalGroups".to_owned();
        return Err(ConfigError::Unsupported { field, hint: "remove it and use runAsGroup" });
    }
    Ok(User { user, group })
}

/// Returns what a plain process is not held to.
pub(super) fn warnings(pod: &Value, container: &Value) -> Vec<String> {
    let own = |path: &[&str]| at(container, &[&["securityContext"], path].concat());
    let either = |path: &[&str]| own(path).or_else(|| at(pod, &[&["spec", "securityContext"], path].concat()));
    let mut found = Vec::new();
    if own(&["readOnlyRootFilesystem"]).and_then(Value::as_bool) == Some(true) {
        found.push("readOnlyRootFilesystem");
    }
    if own(&["capabilities", "drop"]).and_then(Value::as_array).is_some_and(|dropped| !dropped.is_empty()) {
        found.push("capabilities.drop");
    }
    if own(&["allowPrivilegeEscalation"]).and_then(Value::as_bool) == Some(false) {
        found.push("allowPrivilegeEscalation");
    }
    if either(&["seccompProfile", "type"]).and_then(Value::as_str).is_some_and(|type_| type_ != "Unconfined") {
        found.push("seccompProfile");
    }
    for (name, field) in [("seLinuxOptions", "seLinuxOptions"), ("appArmorProfile", "appArmorProfile")] {
        if either(&[name]).is_some() {
            found.push(field);
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let container = text(container, &["name"]);
    vec![format!("container {container:?} runs as a plain process and is not confined by {}", found.join(", "))]
}
