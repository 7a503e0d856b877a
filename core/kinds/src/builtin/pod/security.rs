//! Security contexts of pods and containers: numbers that are in range, settings that do not contradict each other.

use api::field::{Error, Path};
use api::json;
use serde_json::Value;

use crate::builtin::check::{Errors, ID_MAX, between, each, required, required_one_of};

const SECCOMP_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Judges the security context of a pod.
pub(super) fn validate_pod_security(spec: &Value, path: &Path, errors: &mut Errors) {
    let Some(context) = json::get(spec, "securityContext") else { return };
    let path = path.child("securityContext");
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        between(context, key, 0, ID_MAX, &path, errors);
    }
    for (group, path) in each(context, "supplementalGroups", &path) {
        if group.as_i64().is_some_and(|group| !(0..=ID_MAX).contains(&group)) {
            errors.push(Error::invalid(&path, group.clone(), format!("must be between 0 and {ID_MAX}, inclusive")));
        }
    }
    if let Some(policy) = json::get(context, "fsGroupChangePolicy").and_then(Value::as_str)
        && !["Always", "OnRootMismatch"].contains(&policy)
    {
        errors.push(Error::not_supported(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]));
    }
    for (sysctl, path) in each(context, "sysctls", &path) {
        required(sysctl, "name", &path, errors);
    }
    validate_seccomp(context, &path, errors);
}

/// Judges the security context of a container.
pub(super) fn validate_container_security(container: &Value, path: &Path, errors: &mut Errors) {
    let Some(context) = json::get(container, "securityContext") else { return };
    let path = path.child("securityContext");
    for key in ["runAsUser", "runAsGroup"] {
        between(context, key, 0, ID_MAX, &path, errors);
    }
    if let Some(mount) = json::get(context, "procMount").and_then(Value::as_str)
        && !["Default", "Unmasked"].contains(&mount)
    {
        errors.push(Error::not_supported(&path.child("procMount"), mount, &["Default", "Unmasked"]));
    }
    validate_seccomp(context, &path, errors);
    if json::boolean(context, &["allowPrivilegeEscalation"]) == Some(false) {
        if json::boolean(context, &["privileged"]) == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(Error::invalid(&path, context.clone(), detail));
        }
        let added = json::items(context, &["capabilities", "add"]);
        if added.iter().any(|capability| ["CAP_SYS_ADMIN", "SYS_ADMIN"].iter().any(|name| capability == name)) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(Error::invalid(&path, context.clone(), detail));
        }
    }
}

fn validate_seccomp(context: &Value, path: &Path, errors: &mut Errors) {
    let Some(profile) = json::get(context, "seccompProfile") else { return };
    let path = path.child("seccompProfile");
    required_one_of(profile, "type", &SECCOMP_TYPES, &path, errors);
    let (local, file) = (json::text(profile, &["type"]) == "Localhost", json::get(profile, "localhostProfile"));
    match file {
        None if local => {
            errors.push(Error::required(&path.child("localhostProfile"), "must be set when seccomp type is Localhost"))
        }
        Some(file) if !local => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(&path.child("localhostProfile"), file.clone(), detail));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(check: fn(&Value, &Path, &mut Errors), context: Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&json!({ "securityContext": context }), &Path::new("x"), &mut errors);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn numbers_are_in_range() {
        assert!(
            paths(validate_pod_security, json!({"runAsUser": 0, "fsGroup": 2_147_483_647, "supplementalGroups": [1]}))
                .is_empty()
        );
        let bad = json!({"runAsUser": -1, "fsGroup": 1i64 << 40, "supplementalGroups": [-1]});
        let expected = ["x.securityContext.runAsUser", "x.securityContext.fsGroup", "x.securityContext.supplementalGroups[0]"];
        assert_eq!(paths(validate_pod_security, bad), expected);
    }

    #[test]
    fn settings_do_not_contradict_each_other() {
        assert!(paths(validate_container_security, json!({"privileged": true, "runAsNonRoot": false})).is_empty());
        let bad = json!({"privileged": true, "allowPrivilegeEscalation": false});
        assert_eq!(paths(validate_container_security, bad), ["x.securityContext"]);
        let bad = json!({"seccompProfile": {"type": "Localhost"}, "procMount": "Odd"});
        let expected = ["x.securityContext.procMount", "x.securityContext.seccompProfile.localhostProfile"];
        assert_eq!(paths(validate_container_security, bad), expected);
        let bad = json!({"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "p"}});
        assert_eq!(paths(validate_container_security, bad), ["x.securityContext.seccompProfile.localhostProfile"]);
    }
}
