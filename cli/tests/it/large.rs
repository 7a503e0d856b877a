//! `lifesign why` asks a large cluster for what it needs and no more: the API server counts.

use std::process::Command;

use serde_json::Value;
use testkit::client::{Client, Protocol};
use testkit::{large, plane::Plane};

use crate::LIFESIGN;

/// Enough that a list without a selector would be seen; the figures for 5,000 are those of the benchmark `large`.
const PODS: usize = 300;

/// Returns how many requests for objects the API server has answered.
async fn answered(client: &Client) -> u64 {
    let metrics = client.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    // What is no object, such as the metrics, has no resource.
    let of_objects = |line: &&str| line.starts_with("apiserver_request_total{") && !line.contains(",resource=\"\",");
    text.lines().filter(of_objects).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn why_asks_a_large_cluster_only_for_what_it_needs() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    large::fill(&client, PODS).await;
    // What is asked, the exit code, the most requests that it takes, and a part of the answer.
    let healthy = format!("pod/{}", large::pod_name(250));
    for (object, code, most, part) in [
        (healthy.as_str(), 0, 6, "behind Service app-2"),
        ("pod/sick", 1, 4, "the readiness probe of container app"),
        ("svc/app-1", 0, 3, "50 of the first 50 pods ready, and there are more; 100 usable endpoints"),
        ("node/n1", 0, 3, "is Ready since"),
    ] {
        let before = answered(&client).await;
        let mut why = Command::new(LIFESIGN);
        let out = why.args(["why", object, "-o", "json", "--kubeconfig"]).arg(plane.kubeconfig()).output().unwrap();
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        let asked = answered(&client).await - before;
        assert_eq!(out.status.code(), Some(code), "{object}: {answer:#} {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(answer["requests"], asked, "{object}: it counts as the API server does");
        assert!(asked <= most, "{object}: {asked} requests");
        assert!(answer["headline"].as_str().is_some_and(|line| line.contains(part)), "{object}: {answer:#}");
    }
}
