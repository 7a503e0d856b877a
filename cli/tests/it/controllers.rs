//! `lifesign controllers` as processes beside an API server: one leads, another takes over.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::{LIFESIGN, until};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lifesign-controllers";

/// A process that ends with the test.
struct Controllers(Child);

impl Controllers {
    fn start(plane: &Plane) -> Controllers {
        Controllers::on_a_clock(plane, 1)
    }

    /// Starts controllers whose clock runs so many times as fast as the world.
    fn on_a_clock(plane: &Plane, speed: u32) -> Controllers {
        let credentials = plane.command("kubeconfig").args(["--role", "controllers"]).output().unwrap();
        let path = plane.folder().join("controllers");
        std::fs::write(&path, credentials.stdout).unwrap();
        let child = Command::new(LIFESIGN)
            .args(["controllers", "--kubeconfig"])
            .arg(&path)
            .env("LIFESIGN_CLOCK_SPEED", speed.to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Controllers(child)
    }

    fn stop(mut self) -> bool {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap().success()
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn get(client: &Client, path: &str) -> Value {
    client.call("GET", path, &Value::Null).await.unwrap().json()
}

/// Waits until a Service that is made now has a slice: somebody works.
async fn slices_are_made(client: &Client, name: &str) {
    let service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}});
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/services", &service).await.unwrap().code, 201);
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3D{name}"
    );
    let deadline = std::time::Instant::now() + crate::PATIENCE;
    while get(client, &path).await["items"].as_array().is_none_or(Vec::is_empty) {
        assert!(std::time::Instant::now() < deadline, "no slice for {name}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_another_takes_over() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let first = Controllers::start(&plane);
    slices_are_made(&client, "one").await;
    let leader = get(&client, LEASE).await["spec"]["holderIdentity"].clone();
    assert!(leader.as_str().is_some_and(|name| !name.is_empty()), "{leader}");

    let second = Controllers::start(&plane);
    assert!(first.stop(), "a clean stop");
    slices_are_made(&client, "two").await;
    let lease = get(&client, LEASE).await;
    assert_ne!(lease["spec"]["holderIdentity"], leader);
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease}");
    assert!(second.stop());
    assert_eq!(get(&client, LEASE).await["spec"]["holderIdentity"], "", "given up, so that nobody waits for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plane_that_stops_takes_leadership_with_it() {
    let mut plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    // The ten seconds in which a leader must renew take one.
    let mut only = Controllers::on_a_clock(&plane, 10);
    slices_are_made(&client, "one").await;
    assert!(plane.stop().success());
    let mut status = None;
    until("it ends because it cannot renew", || {
        status = only.0.try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert_eq!(status.unwrap().code(), Some(1));
}

#[test]
fn values_out_of_range_are_refused_with_flag_and_bounds() {
    for (command, flag, value) in
        [("controllers", "--max-endpoints-per-slice", "1001"), ("up", "--concurrent-service-endpoint-syncs", "0")]
    {
        let output = Command::new(LIFESIGN).args([command, flag, value]).env("KUBECONFIG", "none").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(flag) && text.contains(&format!("not {value}")), "{text}");
    }
}
