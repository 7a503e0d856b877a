//! Pods that start, become ready, restart, stop; their logs and events.

use serde_json::{Value, json};

use crate::{Up, condition, is_ready, script, server};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[test]
fn a_late_server_becomes_ready_and_is_probed_once_per_second_then() {
    let up = Up::start_with(&["-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/fast-ready.yaml")]);
    let pod = up.wait_for(PODS, "fast-ready", "ready", is_ready);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["containerStatuses"][0]["started"], true);
    assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("127."), "{}", pod["status"]["podIP"]);
    let listened = up.text(&format!("{PODS}/fast-ready/log"));
    assert!(listened.contains("LISTEN "), "{listened}");
    // The node says where its agent answers; what the agent knows of the worker is asked through that.
    let probes: Value = serde_json::from_str(&up.agent_text("/debug/probes")).unwrap();
    let worker =
        probes["workers"].as_array().unwrap().iter().find(|worker| worker["pod"] == "fast-ready").expect("a worker of the pod");
    assert_eq!(worker["periodMilliseconds"], 1000, "slow after the first success: {worker}");
}

#[test]
fn a_container_that_ends_is_started_again_and_its_last_words_are_kept() {
    let up = Up::start();
    up.create_pod(&script("flaky", "echo instance of $POD_NAME; exit 3"));
    let pod = up.wait_for(PODS, "flaky", "restarted", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0) >= 1
            && pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(up.text(&format!("{PODS}/flaky/log?previous=true")).trim(), "instance of flaky");
}

#[test]
fn a_pod_that_never_restarts_completes_with_its_exit_code() {
    let up = Up::start();
    let mut pod = script("once", "echo done; exit 0");
    pod["spec"]["restartPolicy"] = json!("Never");
    up.create_pod(&pod);
    let pod = up.wait_for(PODS, "once", "done", |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(condition(&pod, "Ready").unwrap()["reason"], "PodCompleted");
}

#[test]
fn a_deleted_pod_drains_and_leaves_nothing_behind() {
    let mut up = Up::start();
    up.create_pod(&server("web", &["--drain", "200ms"]));
    up.wait_ready("web");
    let (code, _) = up.call("DELETE", &format!("{PODS}/web"), &Value::Null);
    assert_eq!(code, 200);
    up.wait_gone(PODS, "web");
    assert!(up.plane.stop().success());
    assert_eq!(crate::processes_below(&up.plane), Vec::<String>::new());
}

#[test]
fn a_failed_liveness_probe_restarts_the_container_and_says_so() {
    let up = Up::start();
    let mut pod = server("sick", &["--fail-after", "300ms"]);
    let container = &mut pod["spec"]["containers"][0];
    container["livenessProbe"] = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1});
    up.create_pod(&pod);
    up.wait_for(PODS, "sick", "restarted", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0) >= 1
    });
    let killing = up.wait_for_event("sick", "Killing");
    assert!(killing["message"].as_str().unwrap().contains("server"), "{killing}");
}

#[test]
fn a_server_on_every_address_does_not_make_another_pod_ready() {
    let up = Up::start();
    up.create_pod(&server("wide", &["--address", "0.0.0.0"]));
    let mut silent = server("silent", &[]);
    silent["spec"]["containers"][0]["command"] = json!(["sleep", "1000"]);
    up.create_pod(&silent);
    let event = up.wait_for_event("silent", "Unhealthy");
    assert!(!event["message"].as_str().unwrap().is_empty());
    let pod = up.get(&format!("{PODS}/silent"));
    assert!(!is_ready(&pod), "{pod:#}");
}

impl Up {
    /// Waits for an event about a pod.
    fn wait_for_event(&self, pod: &str, reason: &str) -> Value {
        let path =
            format!("/api/v1/namespaces/default/events?watch=true&fieldSelector=involvedObject.name%3D{pod},reason%3D{reason}");
        let event = self.patiently(self.follow(&path, |type_, _| type_ == "ADDED"));
        event.unwrap_or_else(|| panic!("no event {reason} about {pod}; log:\n{}", self.plane.log()))
    }
}
