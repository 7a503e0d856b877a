//! The gate of sub-second probes, off and on again.

use serde_json::Value;

use crate::{Up, is_ready, server};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn period_offset(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["readinessProbe"]["periodMilliseconds"]
}

#[test]
fn the_gate_drops_on_create_and_brings_stored_fields_back_to_life() {
    let mut up = Up::start();
    up.create_pod(&server("stored", &[]));
    up.wait_ready("stored");
    assert!(up.plane.stop().success());

    up.start_again(&["--feature-gates", "SubSecondProbes=false"]);
    let created = up.create_pod(&server("new", &[]));
    assert!(period_offset(&created).is_null(), "dropped on create");
    assert_eq!(period_offset(&up.get(&format!("{PODS}/stored"))), -800, "kept where it is stored");
    let (code, patched) = up.call("PATCH", &format!("{PODS}/stored"), &serde_json::json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!((code, period_offset(&patched)), (200, &Value::from(-800)), "kept on update");
    up.wait_for(PODS, "stored", "ready again", is_ready);
    assert!(up.plane.stop().success());

    up.start_again(&[]);
    assert_eq!(period_offset(&up.wait_ready("stored")), -800, "alive again without a write");
    assert!(period_offset(&up.wait_ready("new")).is_null());
}
