//! How late do attempts start when there are many workers?
//!
//! The real binary runs pods whose containers sleep; each has a readiness probe that asks a server of this benchmark, which is
//! another process on the same two cores. After a warm-up the agent's own histogram of start lag is read twice, and the
//! difference tells the attempts in between. Processes are the limit of this: more than 2,000 workers are made of markers, 100 pods
//! with as many custom probes each as it takes. Run with `cargo bench -p lifesign --bench lateness -- WORKERS PERIOD_MS SECONDS WARM_UP`.
//!
//! `cargo bench -p lifesign --bench lateness -- waiting WORKERS SECONDS` measures what containers cost that do not listen yet: nobody
//! is where their probes ask, so that each is knocked at all the while.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::floods;
use testkit::plane::{Plane, serve_ok};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Containers of one pod: fewer objects, the same workers.
const CONTAINERS: usize = 50;
const CONTAINERS_MAX: usize = 2_000;
const MARKED_PODS: usize = 100;
const LAG: &str = "lifesign_probe_start_lag_seconds_bucket";

fn main() {
    let mut numbers = std::env::args().filter_map(|text| text.parse::<usize>().ok());
    let workers = numbers.next().unwrap_or(1_000);
    let period = i64::try_from(numbers.next().unwrap_or(200)).unwrap();
    let seconds = u64::try_from(numbers.next().unwrap_or(20)).unwrap();
    let warm_up = u64::try_from(numbers.next().unwrap_or(5)).unwrap();
    let waiting = std::env::args().any(|text| text == "waiting");
    let port = serve_ok();
    let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
    plane.set_arguments(["--sub-second-probe-policy", "Always"]);
    plane.start().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if waiting {
        return runtime.block_on(wait(&plane, workers, Duration::from_secs(u64::try_from(period).unwrap())));
    }
    runtime.block_on(measure(&plane, workers, period, Duration::from_secs(warm_up), Duration::from_secs(seconds), port));
}

async fn measure(plane: &Plane, workers: usize, period: i64, warm_up: Duration, span: Duration, port: u16) {
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    if workers > CONTAINERS_MAX {
        mark(&client, workers / MARKED_PODS, period).await;
    }
    let containers = if workers > CONTAINERS_MAX { 0 } else { workers };
    create(&client, containers, &probe(period, json!({"host": "127.0.0.1", "port": port}))).await;
    let started = Instant::now();
    loop {
        let pods = client.call("GET", PODS, &Value::Null).await.unwrap().json();
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        };
        let pods = pods["items"].as_array().unwrap();
        if pods.iter().filter(ready).count() == pods.len() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(300), "the pods do not become ready");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    println!("{workers} workers every {period} ms: all ready after {:.1} s", started.elapsed().as_secs_f64());
    tokio::time::sleep(warm_up).await;
    let agent = agent(plane, &client).await;
    let (before, cpu) = (histogram(&agent).await, cpu_seconds(plane));
    tokio::time::sleep(span).await;
    let (after, cpu) = (histogram(&agent).await, cpu_seconds(plane) - cpu);
    report(&before, &after, span, cpu);
}

/// Makes pods with a server each, and a marker with this many probes for each of them: markers ask the pod itself.
async fn mark(client: &Client, probes: usize, period: i64) {
    let probe = |index: usize| {
        json!({
            "name": format!("p{index}"), "containerName": "c", "podConditionType": format!("bench.lifesign.dev/p{index}"),
            "probe": probe(period, json!({"port": 8080})),
        })
    };
    let marker = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "many"},
        "spec": {"selector": {"matchLabels": {"app": "many"}}, "probes": (0..probes).map(probe).collect::<Vec<_>>()},
    });
    let path = "/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers";
    let answer = client.call("POST", path, &marker).await.unwrap();
    assert_eq!(answer.code, 201, "{}", answer.json()["message"]);
    for index in 0..MARKED_PODS {
        let pod = json!({
            "metadata": {"name": format!("many-{index}"), "labels": {"app": "many"}},
            "spec": {"containers": [{"name": "c", "image": "none", "command": ["lifesign", "serve", "--port", "8080"]}]},
        });
        assert_eq!(client.call("POST", PODS, &pod).await.unwrap().code, 201);
    }
}

fn probe(period: i64, http_get: Value) -> Value {
    let seconds = (period + 999) / 1_000;
    let mut probe = json!({"httpGet": http_get, "periodSeconds": seconds});
    if period != seconds * 1_000 {
        probe["periodMilliseconds"] = (period - seconds * 1_000).into();
    }
    probe
}

/// Makes pods of containers that sleep, each with this probe.
async fn create(client: &Client, containers: usize, probe: &Value) {
    let container = |index: usize| json!({"name": format!("c{index}"), "image": "none", "command": ["sleep", "100000"], "readinessProbe": probe});
    for first in (0..containers).step_by(CONTAINERS) {
        let pod = json!({
            "metadata": {"name": format!("many-{first}")},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": (first..containers.min(first + CONTAINERS)).map(container).collect::<Vec<_>>(),
            },
        });
        let answer = client.call("POST", PODS, &pod).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.json());
    }
}

async fn agent(plane: &Plane, client: &Client) -> Client {
    let node = client.call("GET", "/api/v1/nodes", &Value::Null).await.unwrap().json()["items"][0].clone();
    let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    Client::of_agent(&plane.kubeconfig(), &format!("127.0.0.1:{port}")).unwrap()
}

/// Tells what waiting for containers costs that never listen.
async fn wait(plane: &Plane, workers: usize, span: Duration) {
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    // The default period: it is the knocks that are measured.
    create(&client, workers, &json!({"httpGet": {"port": 9}})).await;
    let (agent, started) = (agent(plane, &client).await, Instant::now());
    // One whose attempt is under way is not knocked at.
    while knocking(&agent).await * 100 < workers * 95 {
        assert!(started.elapsed() < Duration::from_secs(300), "not every worker waits");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let waited = format!("{:.0} s after they began to be created", started.elapsed().as_secs_f64());
    // Starting is not waiting: what was said about so many starts is written first.
    let mut written = writes(&client).await;
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = writes(&client).await;
        if now - std::mem::replace(&mut written, now) <= 3.0 {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(300), "the plane does not come to rest");
    }
    println!("all wait {waited}; at rest after {:.0} s", started.elapsed().as_secs_f64());
    let (began, refused, cpu) = (Instant::now(), refused(&agent).await, cpu_seconds(plane));
    tokio::time::sleep(span).await;
    let (knocks, cpu) = (self::refused(&agent).await - refused, cpu_seconds(plane) - cpu);
    let seconds = began.elapsed().as_secs_f64();
    println!("{workers} workers wait for {seconds:.0} s: {:.0} knocks/s", knocks / seconds);
    println!("CPU of the plane: {:.2} % of a core, RSS {} MB", 100.0 * cpu / seconds, floods::resident_mb(plane));
}

/// Returns how many writes the API server has answered.
async fn writes(client: &Client) -> f64 {
    let answer = client.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let writes = |line: &&str| ["create", "patch", "update"].iter().any(|verb| line.contains(&format!("{{verb=\"{verb}\"")));
    let lines = text.lines().filter(|line| line.starts_with("apiserver_request_total")).filter(writes);
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Returns how many workers are knocked at.
async fn knocking(agent: &Client) -> usize {
    let probes = agent.call("GET", "/debug/probes", &Value::Null).await.unwrap().json();
    probes["workers"].as_array().unwrap().iter().filter(|worker| worker["knocking"] == true).count()
}

async fn refused(agent: &Client) -> f64 {
    let answer = agent.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("lifesign_probe_knocks_total{result=\"refused\"} "));
    line.unwrap().parse().unwrap()
}

/// Returns upper bound in seconds to the number of attempts that started at most so late.
async fn histogram(agent: &Client) -> BTreeMap<String, f64> {
    let answer = agent.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let lines = text.lines().filter(|line| line.starts_with(LAG));
    let bound = |line: &str| line.split("le=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    lines.map(|line| (bound(line), line.rsplit(' ').next().unwrap().parse().unwrap())).collect()
}

fn report(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>, span: Duration, cpu: f64) {
    let mut counts: Vec<(f64, f64)> = after
        .iter()
        .map(|(bound, count)| {
            let upper = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
            (upper, count - before.get(bound).copied().unwrap_or(0.0))
        })
        .collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total = counts.last().unwrap().1;
    let at_most = |share: f64| counts.iter().find(|(_, count)| *count >= total * share).unwrap().0 * 1e3;
    println!("attempts: {total:.0}, {:.0}/s", total / span.as_secs_f64());
    println!("start lag: p50 <= {:.1} ms, p99 <= {:.1} ms, p99.9 <= {:.1} ms", at_most(0.5), at_most(0.99), at_most(0.999));
    println!("CPU of the plane: {:.2} cores, {:.0} us/attempt", cpu / span.as_secs_f64(), cpu / total * 1e6);
}

/// Returns the CPU seconds of the plane's process.
fn cpu_seconds(plane: &Plane) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", plane.pid().as_raw_nonzero())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
