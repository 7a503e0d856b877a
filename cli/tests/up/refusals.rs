//! Bad input gets a clear error with the field and the limit.

use serde_json::json;

use crate::{Up, server};

#[test]
fn a_period_below_the_floor_is_refused_with_its_limit() {
    let up = Up::start();
    let mut pod = server("hasty", &[]);
    pod["spec"]["containers"][0]["readinessProbe"]["periodMilliseconds"] = json!(-850);
    let (code, answer) = up.call("POST", "/api/v1/namespaces/default/pods", &pod);
    assert_eq!(code, 422, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("spec.containers[0].readinessProbe.periodMilliseconds"), "{message}");
    assert!(message.contains("150ms") && message.contains("200ms"), "{message}");
}

#[test]
fn what_a_process_cannot_have_is_refused_with_advice() {
    let up = Up::start();
    let mut pod = server("fancy", &[]);
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]);
    up.create_pod(&pod);
    let pod = up.wait_for("/api/v1/namespaces/default/pods", "fancy", "refused", |pod| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    });
    let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    assert!(message.as_str().is_some_and(|text| text.contains("data")), "{message}");
}

#[test]
fn an_unreadable_manifest_stops_up_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.yaml");
    std::fs::write(&path, "kind: [").unwrap();
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_lifesign"))
        .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .arg("-f")
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("bad.yaml"), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!folder.path().join("data").exists(), "nothing was made");
}
