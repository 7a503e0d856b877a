//! The `Scale` of an object: how many replicas it has and shall have, whatever its kind calls them.

use api::json;
use api::status::{Status, Subject};
use serde_json::{Value, json};

use crate::kind::ServedKind;

/// Returns the `Scale` of an object.
pub fn scale_of(kind: &ServedKind, object: &Value) -> Value {
    if let Some(scale) = kind.custom().and_then(|custom| custom.version.scale.as_ref()?.read(object)) {
        return scale;
    }
    let metadata = |field: &str| object["metadata"][field].clone();
    let number = |path: &[&str]| json::int(object, path).unwrap_or(0);
    let selector = json::at(object, &["spec", "selector"]).cloned().unwrap_or_default();
    // A ReplicationController selects by labels alone.
    let by_labels = kind.resource.is_core("replicationcontrollers");
    let selector = if by_labels { json!({"matchLabels": selector}) } else { selector };
    let selector = kinds::table::label_selector(&selector);
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": metadata("name"), "namespace": metadata("namespace"), "uid": metadata("uid"),
            "resourceVersion": metadata("resourceVersion"), "creationTimestamp": metadata("creationTimestamp"),
        },
        "spec": {"replicas": number(&["spec", "replicas"])},
        "status": {"replicas": number(&["status", "replicas"]), "selector": selector},
    })
}

/// Writes the number of replicas that an object shall have.
pub fn set_replicas(kind: &ServedKind, object: &mut Value, replicas: i64) {
    match kind.custom().and_then(|custom| custom.version.scale.as_ref()) {
        Some(paths) => paths.write(object, replicas),
        None => drop(json::object_mut(object, &["spec"]).insert("replicas".into(), replicas.into())),
    }
}

/// Returns the number of replicas that a `Scale` asks for, if it does.
pub fn replicas_of(scale: &Value, name: &str) -> Result<Option<i64>, Status> {
    let replicas = json::int(scale, &["spec", "replicas"]);
    let Some(negative) = replicas.filter(|replicas| *replicas < 0) else { return Ok(replicas) };
    let path = api::field::Path::root().child("spec").child("replicas");
    let subject =
        Subject { group: "autoscaling".into(), kind: "Scale".into(), resource: "scales".into(), name: name.to_owned() };
    let error = api::field::Error::invalid(&path, negative, "must be greater than or equal to 0");
    Err(Status::invalid(&subject, &[error]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_below_zero_is_refused_and_none_asks_for_nothing() {
        assert_eq!(replicas_of(&json!({"spec": {"replicas": 3}}), "web"), Ok(Some(3)));
        assert_eq!(replicas_of(&json!({"spec": {}}), "web"), Ok(None));
        let refused = replicas_of(&json!({"spec": {"replicas": -1}}), "web").expect_err("below zero");
        assert_eq!(refused.code, 422);
        assert!(
            refused.message.contains("spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
            "{refused:?}"
        );
    }

    #[test]
    fn a_scale_shows_replicas_and_the_selector_as_text() {
        let deployments = kinds::resource::builtins().into_iter().find(|resource| resource.kind == "Deployment");
        let kind = &ServedKind::builtin_kind(deployments.expect("built in"));
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}}, "status": {"replicas": 2},
        });
        let scale = scale_of(kind, &object);
        assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(3), &json!(2)));
        assert_eq!(scale["status"]["selector"], "app=web");
        set_replicas(kind, &mut object, 5);
        assert_eq!(object["spec"]["replicas"], 5);
    }
}
