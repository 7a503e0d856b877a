//! The third scene: a rolling update under load, with the endpoints as they go.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use api::{Deployment, EndpointSlice};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::plane::{DEPLOYMENTS, DemoPlane, SERVICES};
use super::screen::{Screen, span};
use super::wait::until;
use crate::error::Failure;

const REPLICAS: usize = 4;
/// Clients that ask all the time.
const CLIENTS: usize = 4;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(5);
/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A roll ends only after so many requests: there must have been some to lose.
const ENOUGH: u64 = 500;

/// What the clients of the load have seen.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
    /// What the first one that failed has met.
    first: OnceLock<String>,
    stop: AtomicBool,
}

/// Shows the scene.
pub(super) async fn show(plane: &DemoPlane, screen: &Screen) -> Result<(), Failure> {
    screen.heading(3, "A rolling update loses no request");
    let service = plane.create(SERVICES, &service()).await?;
    plane.create(DEPLOYMENTS, &servers(plane)).await?;
    let address = address(&service).ok_or_else(|| Failure::bug(format!("the Service has no address: {service}")))?;
    screen.status("starting servers");
    let mut old = BTreeSet::new();
    until::<EndpointSlice>(plane, "endpoints that are ready", |slices| {
        old = pods(slices.values());
        endpoints(slices.values()) == (REPLICAS, 0)
    })
    .await?;
    let (counts, mut clients) = (Arc::<Counts>::default(), JoinSet::new());
    for _ in 0..CLIENTS {
        clients.spawn(load(address, Arc::clone(&counts)));
    }
    let began = Instant::now();
    let template = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    plane.patch(&format!("{DEPLOYMENTS}/web"), &template).await?;
    let mut trail: Vec<(usize, usize)> = Vec::new();
    let rolled =
        until::<Deployment>(plane, "a rollout that is complete", |all| all.get("web").is_some_and(|web| rolled_out(web)));
    let followed = until::<EndpointSlice>(plane, "endpoints of the new pods alone", |slices| {
        let now = endpoints(slices.values());
        if trail.last() != Some(&now) {
            trail.push(now);
        }
        let sent = counts.sent.load(Ordering::Relaxed);
        screen.status(&format!("{sent} requests   {}", shown(&trail)));
        // Steps between two looks are not seen, so what counts is which pods there are.
        now == (REPLICAS, 0) && pods(slices.values()).is_disjoint(&old)
    });
    tokio::try_join!(rolled, followed)?;
    let took = began.elapsed();
    while counts.sent.load(Ordering::Relaxed) < ENOUGH {
        tokio::time::sleep(PAUSE).await;
    }
    counts.stop.store(true, Ordering::Relaxed);
    while clients.join_next().await.is_some() {}
    let (sent, failed) = (counts.sent.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed));
    screen.line(&format!(
        "{REPLICAS} pods were replaced within {}, under {sent} requests to their Service: {failed} failed",
        span(took)
    ));
    screen.line(&format!("endpoints, ready + still serving while terminating: {}", shown(&trail)));
    plane.delete(&format!("{DEPLOYMENTS}/web")).await?;
    match counts.first.get() {
        Some(first) => Err(Failure::no(format!("{failed} of {sent} requests failed, the first one by: {first}"))),
        None => Ok(()),
    }
}

/// So long a server has for its last requests, by the clock of this machine: a busy one is slow.
const GRACE_SECONDS: u32 = 10;

/// Sends requests until it is told to stop.
async fn load(address: SocketAddr, counts: Arc<Counts>) {
    while !counts.stop.load(Ordering::Relaxed) {
        let failure = match tokio::time::timeout(TIMEOUT, request(address)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {}", span(TIMEOUT))),
        };
        counts.sent.fetch_add(1, Ordering::Relaxed);
        if let Some(failure) = failure {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            counts.first.get_or_init(|| failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends one request on a connection of its own; anything but an answer with 200 is an error.
async fn request(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    if line.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(std::io::Error::other(format!("the answer was {:?}", String::from_utf8_lossy(line))))
}

/// Returns how many endpoints are ready, and how many serve while they terminate.
fn endpoints<'a>(slices: impl Iterator<Item = &'a Arc<EndpointSlice>>) -> (usize, usize) {
    let all: Vec<_> = slices.filter(|slice| slice.service_name() == "web").flat_map(|slice| &slice.endpoints).collect();
    let ready = all.iter().filter(|endpoint| endpoint.conditions.ready == Some(true)).count();
    let draining = all
        .iter()
        .filter(|endpoint| endpoint.conditions.terminating == Some(true) && endpoint.conditions.serving == Some(true));
    (ready, draining.count())
}

/// Returns the pods that the endpoints lead to, by uid.
fn pods<'a>(slices: impl Iterator<Item = &'a Arc<EndpointSlice>>) -> BTreeSet<String> {
    let endpoints = slices.filter(|slice| slice.service_name() == "web").flat_map(|slice| &slice.endpoints);
    endpoints.filter_map(|endpoint| Some(endpoint.target_ref.as_ref()?.uid.clone())).collect()
}

fn shown(trail: &[(usize, usize)]) -> String {
    trail.iter().map(|(ready, draining)| format!("{ready}+{draining}")).collect::<Vec<_>>().join(" ")
}

fn rolled_out(web: &Deployment) -> bool {
    let status = &web.status;
    let wanted = i64::try_from(REPLICAS).unwrap_or(i64::MAX);
    status.observed_generation == web.metadata.generation
        && web.metadata.annotations.get("deployment.kubernetes.io/revision").is_some_and(|revision| revision == "2")
        && [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| *count == wanted)
}

fn address(service: &Value) -> Option<SocketAddr> {
    format!("{}:8080", service["spec"]["clusterIP"].as_str()?).parse().ok()
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080, "targetPort": 8080}]},
    })
}

fn servers(plane: &DemoPlane) -> Value {
    // The servers have a clock of their own. Where that of the plane runs faster, it waits less for its proxy before it stops them,
    // and for their answers: a probe that gives up too soon takes readiness from all of them, and traffic goes to those that drain.
    let drain = if plane.speed() > 1 { "3s" } else { "300ms" };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"nodeName": "near", "terminationGracePeriodSeconds": GRACE_SECONDS * plane.speed(), "containers": [{
                    "name": "server", "image": "none",
                    "command": plane.command(["serve", "--port", "8080", "--listen-after", "400ms", "--drain", drain]),
                    "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": plane.speed()},
                }]},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_is_over_when_every_endpoint_is_of_another_pod() {
        let slice = |uids: &[&str]| -> Arc<EndpointSlice> {
            let endpoint =
                |uid: &&str| json!({"addresses": ["127.0.0.1"], "targetRef": {"kind": "Pod", "name": "web", "uid": uid}});
            let endpoints: Vec<Value> = uids.iter().map(endpoint).collect();
            let metadata = json!({"name": "web-a", "labels": {"kubernetes.io/service-name": "web"}});
            let slice = json!({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints});
            Arc::new(serde_json::from_value(slice).expect("a slice"))
        };
        let old = pods([slice(&["a", "b"])].iter());
        assert!(!pods([slice(&["b", "c"])].iter()).is_disjoint(&old));
        assert!(pods([slice(&["c", "d"])].iter()).is_disjoint(&old));
        assert_eq!(shown(&[(2, 0), (3, 0), (2, 1)]), "2+0 3+0 2+1");
    }
}
