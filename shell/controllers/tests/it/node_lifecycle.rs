//! The node lifecycle controller on a paused clock: from silence to a taint to the pods.

use std::time::Duration;

use nodes::monitor::Config;
use serde_json::{Value, json};

use crate::support::Paused;

fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == "Ready").unwrap()["status"].as_str().unwrap()
}

fn has_taint(node: &Value, key: &str, effect: &str) -> bool {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().any(|taint| taint["key"] == key && taint["effect"] == effect)
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_go_when_their_time_has_come() {
    let plane = Paused::start(|config| config.node_lifecycle = Some(Config::default())).await;
    for name in ["silent", "steady", "third"] {
        plane.node(name).await;
    }
    plane.patch("/api/v1/nodes/silent", json!({"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})).await;
    let tolerates = |seconds: i64| {
        let toleration =
            |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        json!([toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable")])
    };
    plane.pod("hasty", "silent", tolerates(5)).await;
    plane.pod("patient", "silent", tolerates(3_600)).await;
    let beating = async {
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            plane.beat("steady", 40).await;
            plane.beat("third", 40).await;
        }
    };
    let watching = async {
        let (_, after) = plane.until("/api/v1/nodes/silent", "unknown", |node| ready(node) == "Unknown").await;
        assert!((40..=60).contains(&after.as_secs()), "{after:?}");
        let unreachable = "node.kubernetes.io/unreachable";
        let (node, _) = plane.until("/api/v1/nodes/silent", "tainted", |node| has_taint(node, unreachable, "NoExecute")).await;
        assert!(has_taint(&node, "mine", "NoSchedule"), "taints of others stay: {node:#}");
        let pod = "/api/v1/namespaces/default/pods/hasty";
        let gone = |pod: &Value| pod.is_null() || pod["metadata"]["deletionTimestamp"].is_string();
        let (_, after) = plane.until(pod, "evicted", gone).await;
        assert!(after <= Duration::from_secs(10), "{after:?}");
        let patient = plane.get("/api/v1/namespaces/default/pods/patient").await;
        assert!(!gone(&patient), "{patient:#}");
        let marked = |pod: &Value| ready(pod) == "False";
        plane.until("/api/v1/namespaces/default/pods/patient", "marked", marked).await;
        assert_eq!(ready(&plane.get("/api/v1/nodes/steady").await), "True", "the others are left alone");
    };
    tokio::select! {
        () = beating => {}
        () = watching => {}
    }
}
