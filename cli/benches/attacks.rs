//! What the worst client does to the others: while it floods the plane, how late are health and probes, how much memory is it?
//!
//! The real binary probes 50 containers every 200 ms. Each flood runs for a while on a plane of its own; meanwhile a stranger
//! asks for `/livez` ten times a second, the memory of the plane is looked at, and the agent's own histogram tells how late
//! attempts started. Run with `cargo bench -p lifesign --bench attacks -- SECONDS [NAME...]`; it fails if a bound is broken.

// A benchmark is a program for developers: what fails in it may stop it.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::floods::{self, FLOODS, Flood, Target};
use testkit::plane::{Plane, serve_ok};

const PODS: &str = "/api/v1/namespaces/default/pods";
const LAG: &str = "lifesign_probe_start_lag_seconds_bucket";
const WORKERS: usize = 50;
const LARGE_OBJECTS: usize = 50;
const SMALL_OBJECTS: usize = 1_000;
const LIVEZ_MAX: Duration = Duration::from_secs(1);
const LAG_MAX: f64 = 0.1;
const RSS_MAX_MB: u64 = 256;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|text| !text.starts_with("--")).collect();
    let seconds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(10);
    let only: Vec<&String> = arguments.iter().filter(|text| text.parse::<u64>().is_err()).collect();
    println!(
        "{:20} {:>12} {:>12} {:>14} {:>10} {:>10} {:>10} {:>8}",
        "flood", "livez p50", "livez max", "probes late by", "attempts", "RSS before", "RSS max", "done"
    );
    let wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| *wanted == name);
    let mut good = true;
    let floods = FLOODS.iter().map(|flood| (flood.name, Some(flood)));
    for (name, flood) in std::iter::once(("none", None)).chain(floods).filter(|(name, _)| wanted(name)) {
        let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
        plane.set_arguments(["--sub-second-probe-policy", "Always"]);
        plane.start().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        good &= runtime.block_on(run(&plane, name, flood, Duration::from_secs(seconds)));
        runtime.shutdown_background();
    }
    assert!(good, "a bound was broken");
}

/// Prints what a flood does to a plane; returns whether the bounds hold.
async fn run(plane: &Plane, name: &str, flood: Option<&Flood>, span: Duration) -> bool {
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    floods::prepare(&client, LARGE_OBJECTS, SMALL_OBJECTS).await;
    probe(&client).await;
    let node = client.call("GET", "/api/v1/nodes", &Value::Null).await.unwrap().json()["items"][0].clone();
    let agent_port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    let agent = Client::of_agent(&plane.kubeconfig(), &format!("127.0.0.1:{agent_port}")).unwrap();
    let target = Target::of(plane).await;
    let before = histogram(&agent).await;
    let at_first = floods::resident_mb(plane);
    let going = flood.map(|flood| tokio::spawn(flood.begin(&target)));
    let (mut times, rss) = watch(plane, &target, span).await;
    going.inspect(tokio::task::JoinHandle::abort);
    let after = histogram(&agent).await;
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    let (attempts, late) = latest(&before, &after);
    let strong = flood.is_none_or(|flood| target.done() >= flood.enough);
    let fine = worst < LIVEZ_MAX && late <= LAG_MAX && rss < RSS_MAX_MB;
    println!(
        "{name:20} {:>9.1} ms {:>9.1} ms {:>11.1} ms {attempts:>10} {at_first:>7} MB {rss:>7} MB {:>8}{}{}",
        median.as_secs_f64() * 1e3,
        worst.as_secs_f64() * 1e3,
        late * 1e3,
        target.done(),
        if strong { "" } else { "  WEAK" },
        if fine { "" } else { "  BROKEN" },
    );
    fine && strong
}

/// Makes the probes that must go on, and waits for their first results.
async fn probe(client: &Client) {
    let port = serve_ok();
    let probe = json!({"httpGet": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1, "periodMilliseconds": -800});
    let container = |index: usize| json!({"name": format!("c{index}"), "image": "none", "command": ["sleep", "100000"], "readinessProbe": probe});
    let probed = floods::pod("probed", &(0..WORKERS).map(container).collect());
    assert_eq!(client.call("POST", PODS, &probed).await.unwrap().code, 201);
    let started = Instant::now();
    loop {
        let pod = client.call("GET", &format!("{PODS}/probed"), &Value::Null).await.unwrap().json();
        let ready = pod["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        });
        if ready {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "the pod does not become ready: {}", pod["status"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Asks for `/livez` as a stranger and looks at the memory of the plane, ten times a second.
async fn watch(plane: &Plane, target: &Target, span: Duration) -> (Vec<Duration>, u64) {
    let started = Instant::now();
    let (mut times, mut rss) = (Vec::new(), 0);
    while started.elapsed() < span {
        let asked = Instant::now();
        // On a connection of its own: whoever looks after the plane has just come.
        let stranger = target.stranger();
        let answer = tokio::time::timeout(4 * LIVEZ_MAX, stranger.call("GET", "/livez", &Value::Null)).await;
        let good = matches!(answer, Ok(Ok(answer)) if answer.code == 200);
        times.push(if good { asked.elapsed() } else { 4 * LIVEZ_MAX });
        rss = rss.max(floods::resident_mb(plane));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (times, rss)
}

/// Returns the number of attempts, and how late the latest of them started, in seconds.
fn latest(before: &[(f64, f64)], after: &[(f64, f64)]) -> (u64, f64) {
    let earlier = |bound: f64| before.iter().find(|(other, _)| *other == bound).map_or(0.0, |(_, count)| *count);
    let counts: Vec<(f64, f64)> = after.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect();
    let total = counts.last().unwrap().1;
    (total as u64, counts.iter().find(|(_, count)| *count >= total).unwrap().0)
}

/// Returns upper bounds in seconds, and how many attempts started at most so late.
async fn histogram(agent: &Client) -> Vec<(f64, f64)> {
    let answer = agent.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let bound = |line: &str| match line.split("le=\"").nth(1).unwrap().split('"').next().unwrap() {
        "+Inf" => f64::INFINITY,
        number => number.parse().unwrap(),
    };
    let lines = text.lines().filter(|line| line.starts_with(LAG));
    let mut counts: Vec<(f64, f64)> =
        lines.map(|line| (bound(line), line.rsplit(' ').next().unwrap().parse().unwrap())).collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    counts
}
