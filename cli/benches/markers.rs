//! Markers standalone, through the real binary: how long from a probe's result to the pod that shows it, and how long until
//! the Service of a primary has another address.
//!
//! `latency`: 100 pods with two probes each; every 600 ms the result of another pod changes (each once a minute), 100 times. Measured
//! from the state in the agent's log (the attempt has just ended) to the event of a watcher of pods.
//! `failover`: the example of the primary and its replicas; the primary is deleted, or killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;
use tokio::sync::mpsc;

const PODS: usize = 100;
const CHANGES: usize = 100;
const EVERY: Duration = Duration::from_millis(600);
const DELETIONS: usize = 10;
const CRASHES: usize = 3;
/// What takes longer will never happen.
const PATIENCE: Duration = Duration::from_secs(120);
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --benches` only wants to know that it compiles.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let only = |name: &str| arguments.iter().any(|argument| argument == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if !only("failover") {
        runtime.block_on(latency());
    }
    if !only("latency") {
        runtime.block_on(failover());
    }
}

/// A plane with a manifest, and a client of it.
struct Up {
    plane: Plane,
    client: Client,
}

impl Up {
    fn start(manifest: &Path) -> Up {
        let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
        plane.set_arguments(["-f", manifest.to_str().expect("text")]);
        plane.start().expect("the plane comes up");
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).expect("a client");
        Up { plane, client }
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer =
            self.client.call_with(method, path, &[("content-type", "application/json")], body).await.expect("an answer");
        assert!(answer.code < 300, "{method} {path}: {}", answer.json());
        answer.json()
    }

    /// Follows a collection from now on; each event comes with the instant of its arrival.
    async fn follow(&self, path: &str) -> mpsc::UnboundedReceiver<(SystemTime, Instant, String, Value)> {
        let request = http::Request::get(path).body(Full::new(Bytes::new())).expect("a request");
        let mut body = self.client.send(request).await.expect("an answer").into_body();
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut buffer = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let (wall, at) = (SystemTime::now(), Instant::now());
                buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = buffer.drain(..=end).collect();
                    let event: Value = serde_json::from_slice(&line).expect("an event");
                    let type_ = event["type"].as_str().unwrap_or_default().to_owned();
                    if sender.send((wall, at, type_, event["object"].clone())).is_err() {
                        return;
                    }
                }
            }
        });
        receiver
    }
}

async fn patiently<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

fn label<'a>(pod: &'a Value, key: &str) -> &'a str {
    pod["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Prints median, 99th percentile and maximum.
fn print(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |percent: usize| took[(took.len() * percent).div_ceil(100).saturating_sub(1)].as_millis();
    println!("| {what} | {} | {} ms | {} ms | {} ms |", took.len(), at(50), at(99), at(100));
}

async fn latency() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |n: usize| folder.path().join(format!("busy-{n}"));
    let probe = |command: Value, more: Value| {
        let mut probe = json!({"exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 5});
        probe.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        probe
    };
    let mut documents = vec![json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "probes": [
            {"name": "busy", "containerName": "app", "probe": probe(json!(["test", "-e", "$(FLAG)"]), json!({})),
                "markerPolicy": [{"state": "Succeeded", "labels": {"busy": "yes"}}, {"state": "Failed", "labels": {"busy": "no"}}]},
            {"name": "alive", "containerName": "app", "probe": probe(json!(["true"]), json!({})), "podConditionType": "x.io/alive"},
        ]},
    })];
    documents.extend((0..PODS).map(|n| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{n}"), "namespace": "default", "labels": {"app": "x"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "app", "image": "none",
                "command": ["sleep", "infinity"], "env": [{"name": "FLAG", "value": file(n)}]}]}})
    }));
    let manifest = folder.path().join("pods.yaml");
    let text: Vec<String> = documents.iter().map(Value::to_string).collect();
    std::fs::write(&manifest, text.join("\n---\n")).expect("a file");
    let up = Up::start(&manifest);
    let mut events = up.follow(&format!("{PODS_PATH}?watch=true")).await;
    let mut uids = BTreeMap::new();
    let mut unmarked: BTreeSet<String> = (0..PODS).map(|n| format!("p{n}")).collect();
    patiently("every pod to be marked", async {
        while !unmarked.is_empty() {
            let (.., pod) = events.recv().await.expect("an event");
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if label(&pod, "busy") == "no" {
                unmarked.remove(&name);
            }
            uids.insert(pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), name);
        }
    })
    .await;
    let mut shown: BTreeMap<String, SystemTime> = BTreeMap::new();
    let mut ticks = tokio::time::interval(EVERY);
    for change in 0..CHANGES {
        ticks.tick().await;
        std::fs::write(file(change % PODS), "").expect("a file");
    }
    patiently("every change to be shown", async {
        while shown.len() < CHANGES {
            let (wall, _, _, pod) = events.recv().await.expect("an event");
            if label(&pod, "busy") == "yes" {
                shown.entry(pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()).or_insert(wall);
            }
        }
    })
    .await;
    let log = up.plane.log();
    let reported = log.lines().filter_map(|line| reported(line, &uids));
    let took: Vec<Duration> = reported.map(|(uid, at)| shown[uid].duration_since(at).unwrap_or_default()).collect();
    assert_eq!(took.len(), CHANGES, "one report for each change");
    println!("| what | changes | median | p99 | maximum |\n|---|---|---|---|---|");
    print("probe result to pod marked, 100 pods x 2 exec probes", took);
}

/// Reads a line of the log that says that a pod is busy now.
fn reported<'a>(line: &'a str, uids: &BTreeMap<String, String>) -> Option<(&'a str, SystemTime)> {
    let (time, rest) = line.split_once(' ')?;
    let (_, rest) = rest.split_once("marker probe state uid=\"")?;
    let (uid, rest) = rest.split_once('"')?;
    if !rest.contains("m#busy") || !rest.contains("Succeeded") || !uids.contains_key(uid) {
        return None;
    }
    let at = api::Timestamp::parse(time).ok()?.0;
    Some((uid, UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).ok()?)))
}

async fn failover() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = std::fs::read_to_string(root.join("examples/primary-replica-role.yaml")).expect("the example");
    let manifest = manifest.replace("/tmp/lifesign-demo", folder.path().to_str().expect("text"));
    let path = folder.path().join("example.yaml");
    std::fs::write(&path, &manifest).expect("a file");
    let up = Up::start(&path);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let mut events = up.follow(&format!("{slices}?watch=true&labelSelector=kubernetes.io%2Fservice-name%3Ddb-primary")).await;
    let (mut deletions, mut crashes) = (Vec::new(), Vec::new());
    for round in 0..DELETIONS + CRASHES {
        settled(&up).await;
        let line = std::fs::read_to_string(folder.path().join("db/primary")).expect("a lease");
        let mut words = line.split_whitespace();
        let (who, pid) = (words.next().expect("a name").to_owned(), words.next().expect("a process").to_owned());
        while events.try_recv().is_ok() {}
        let began = Instant::now();
        if round < DELETIONS {
            up.call("DELETE", &format!("{PODS_PATH}/{who}"), &json!({})).await;
            let at = patiently("another address", another(&mut events, |name| name != who)).await;
            deletions.push(at.duration_since(began));
        } else {
            let process = rustix::process::Pid::from_raw(pid.parse().expect("a number")).expect("a process");
            rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("it runs");
            let lease = |name: &str| {
                let line = std::fs::read_to_string(folder.path().join("db/primary")).unwrap_or_default();
                line.starts_with(name) && line.split_whitespace().nth(1) != Some(&pid)
            };
            let at = patiently("another address", another(&mut events, lease)).await;
            crashes.push(at.duration_since(began));
        }
    }
    println!("| what | times | median | p99 | maximum |\n|---|---|---|---|---|");
    print("`kubectl delete pod` of the primary to another address in the EndpointSlice", deletions);
    print("`kill -9` of the primary to another address in the EndpointSlice", crashes);
}

/// Waits until a slice shows exactly one ready address that is right; returns when.
async fn another(
    events: &mut mpsc::UnboundedReceiver<(SystemTime, Instant, String, Value)>,
    right: impl Fn(&str) -> bool,
) -> Instant {
    loop {
        let (_, at, _, slice) = events.recv().await.expect("an event");
        let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let ready: Vec<&Value> = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).collect();
        if let [only] = ready[..]
            && right(only["targetRef"]["name"].as_str().unwrap_or_default())
        {
            return at;
        }
    }
}

/// Waits until there are a primary and two replicas, all ready.
async fn settled(up: &Up) {
    let mut pods = up.follow(&format!("{PODS_PATH}?watch=true&labelSelector=tier%3Ddb")).await;
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    patiently("one primary and two replicas", async {
        loop {
            let (_, _, type_, pod) = pods.recv().await.expect("an event");
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            match type_.as_str() {
                "DELETED" => drop(known.remove(&name)),
                _ => drop(known.insert(name, pod)),
            }
            let with = |role: &str| known.values().filter(|pod| label(pod, "role") == role && ready(pod)).count();
            if known.len() == 3 && with("primary") == 1 && with("replica") == 2 {
                return;
            }
        }
    })
    .await;
}
