//! Leases.

use api::field::{Error, Path};
use api::json;
use serde_json::Value;

use super::check::{Errors, at_least};

/// Judges a lease.
pub(super) fn validate(lease: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    let spec = &lease["spec"];
    if let Some(seconds) = json::int(spec, &["leaseDurationSeconds"]).filter(|seconds| *seconds <= 0) {
        errors.push(Error::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    at_least(spec, "leaseTransitions", 0, &path, errors);
    let set = |key| json::get(spec, key).is_some();
    if set("preferredHolder") && !set("strategy") {
        errors.push(Error::forbidden(&path.child("preferredHolder"), "may only be specified if `strategy` is defined"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spans_and_counts_are_judged() {
        let judge = |spec: Value| {
            let mut errors = Vec::new();
            validate(&json!({ "spec": spec }), &mut errors);
            errors.into_iter().map(|error| error.path).collect::<Vec<_>>()
        };
        assert!(judge(json!({"leaseDurationSeconds": 40, "leaseTransitions": 0, "holderIdentity": "n"})).is_empty());
        assert_eq!(
            judge(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1, "preferredHolder": "x"})),
            ["spec.leaseDurationSeconds", "spec.leaseTransitions", "spec.preferredHolder"]
        );
    }
}
