//! How long do `why` and `explain` take on a cluster with 5,000 pods?
//!
//! `lifesign apiserver` holds so many pods with their nodes, Leases, Services and slices; no process is behind them. Each question is
//! asked five times, as a new process each time; the middle one is printed, with the requests that it took. `explain` reads all pods
//! and Services as `kubectl get -o json` prints them. Run with `cargo bench -p lifesign --bench large -- PODS`; `LIFESIGN_BENCH_BINARY`
//! names another binary to measure.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::large;
use testkit::plane::Plane;

const TIMES: usize = 5;

fn main() {
    let pods = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(5_000);
    let plane = Plane::started(binary());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (file, objects) = runtime.block_on(async {
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
        large::fill(&client, pods).await;
        all(&client, &plane).await
    });
    println!("{pods} pods, {} nodes, {} Services", pods.div_ceil(100), pods.div_ceil(100));
    let middle = large::pod_name(pods / 2);
    for object in [format!("pod/{middle}"), "pod/sick".to_owned(), "svc/app-1".to_owned(), "node/n1".to_owned()] {
        let (took, out) =
            timed(|| lifesign().args(["why", &object, "-o", "json", "--kubeconfig"]).arg(plane.kubeconfig()).output().unwrap());
        let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
        println!("why {object}: {took:.0?}, {} requests: {}", answer["requests"], answer["headline"].as_str().unwrap());
    }
    for more in [&[][..], &["-o", "json"], &["--patches"]] {
        let (took, out) = timed(|| lifesign().args(["explain", "-f"]).arg(&file).args(more).output().unwrap());
        let text = String::from_utf8_lossy(&out.stdout);
        println!("explain {}: {took:.2?} for {objects} objects, {} lines", more.join(" "), text.lines().count());
    }
}

fn binary() -> String {
    std::env::var("LIFESIGN_BENCH_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_lifesign").to_owned())
}

fn lifesign() -> Command {
    Command::new(binary())
}

/// Writes all pods and Services to a file; returns how many there are.
async fn all(client: &Client, plane: &Plane) -> (std::path::PathBuf, usize) {
    let mut items = Vec::new();
    for (resource, kind) in [("pods", "Pod"), ("services", "Service")] {
        let list = client.call("GET", &format!("/api/v1/{resource}"), &Value::Null).await.unwrap().json();
        items.extend(list["items"].as_array().unwrap().iter().cloned().map(|mut item| {
            item["apiVersion"] = json!("v1");
            item["kind"] = json!(kind);
            item
        }));
    }
    let (file, count) = (plane.folder().join("all.json"), items.len());
    std::fs::write(&file, format!("{:#}", json!({"apiVersion": "v1", "kind": "List", "items": items}))).unwrap();
    (file, count)
}

/// Returns the middle of the times that something took, and its last result.
fn timed<T>(mut run: impl FnMut() -> T) -> (Duration, T) {
    let mut runs: Vec<(Duration, T)> = (0..TIMES)
        .map(|_| {
            let began = Instant::now();
            let result = run();
            (began.elapsed(), result)
        })
        .collect();
    runs.sort_by_key(|(took, _)| *took);
    runs.swap_remove(TIMES / 2)
}
