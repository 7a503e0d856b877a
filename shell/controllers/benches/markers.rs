//! One marker over 250 nodes with 40 pods each, against the real API server on disk: created, changed, deleted.
//!
//! Prints the time until every NodePodProbe and the marker's `observedGeneration` are current, and what was written for it.
//! The last line is about marks: every node reports a state, every pod gets a label and a condition.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api::Pod;
use api::marker::{NodePodProbe, PodProbeMarker};
use apiserver::{FileStore, Parts, Server, Settings, Signer};
use controllers::{ControllersConfig, Metrics};
use futures::StreamExt;
use http::Method;
use prometheus_client::registry::Registry;
use registry::authz::Identity;
use runtime::{Client, Clock, Informers, Obj, Scope, WatchEvent, watch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const NODES: usize = 250;
const PODS_PER_NODE: usize = 40;
/// Requests of the set-up that are under way at once.
const AT_ONCE: usize = 64;
const MARKERS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers";
const NODE_POD_PROBES: &str = "/apis/apps.kruise.io/v1alpha1/nodepodprobes";

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it compiles.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (server, stop) = server(folder.path()).await;
    let client = Client::new(server.service(Identity::internal("bench")));
    let began = Instant::now();
    set_up(&client).await;
    println!("set up: {NODES} nodes, {} pods in {:.1} s", NODES * PODS_PER_NODE, began.elapsed().as_secs_f64());

    let mut registry = Registry::default();
    let (on_ready, ready) = oneshot::channel();
    let metrics = Metrics::register(&mut registry);
    let worker = Client::new(server.service(Identity::internal("controllers")));
    let config = ControllersConfig {
        informers: Informers::new(worker.clone(), metrics.api.clone()),
        client: worker,
        clock: Clock::system(),
        host: "here".to_owned(),
        endpointslices: None,
        scheduler: false,
        node_lifecycle: None,
        profile: None,
        markers: true,
        guard: None,
        workloads: None,
        metrics,
        on_ready: Some(on_ready),
    };
    let running = tokio::spawn(controllers::run(config, stop.clone()));
    ready.await.expect("the controllers run");
    until::<NodePodProbe>(&client, |all| all.len() == NODES).await;

    let bench = Bench { client, registry };
    println!("| step | all current after | API writes | conflicts |\n|---|---|---|---|");
    bench.step("created", Method::POST, MARKERS, marker(1), |generation| generation == 1, PODS_PER_NODE).await;
    let change = json!({"spec": {"probes": marker(2)["spec"]["probes"]}});
    bench.step("changed", Method::PATCH, &format!("{MARKERS}/m"), change, |generation| generation == 2, PODS_PER_NODE).await;
    bench.marks().await;
    bench.step("deleted", Method::DELETE, &format!("{MARKERS}/m"), json!({}), |generation| generation == 0, 0).await;
    stop.cancel();
    running.await.expect("they end").expect("they end well");
}

struct Bench {
    client: Client,
    registry: Registry,
}

impl Bench {
    /// Makes a request and waits until the marker says that it has taken effect; checks that it has.
    async fn step(&self, name: &str, method: Method, path: &str, body: Value, done: impl Fn(i64) -> bool, items: usize) {
        let before = self.writes();
        let began = Instant::now();
        runtime::request(&self.client, method, path, &body).await.expect("the API takes it");
        // Zero: there is no marker.
        let observed = |all: &BTreeMap<String, Obj<PodProbeMarker>>| {
            done(all.values().next().map_or(0, |marker| marker.view.status.observed_generation))
        };
        until::<PodProbeMarker>(&self.client, observed).await;
        let took = began.elapsed();
        let list = runtime::request(&self.client, Method::GET, NODE_POD_PROBES, &Value::Null).await.expect("a list");
        let all = list["items"].as_array().expect("a list");
        assert_eq!(all.len(), NODES);
        for object in all {
            let has = object["spec"]["podProbes"].as_array().map_or(0, Vec::len);
            assert_eq!(has, items, "{} is not current", object["metadata"]["name"]);
        }
        self.print(name, took, &before);
    }

    /// Every node reports success for every pod.
    async fn marks(&self) {
        let list = runtime::request(&self.client, Method::GET, NODE_POD_PROBES, &Value::Null).await.expect("a list");
        let before = self.writes();
        let began = Instant::now();
        let reports = list["items"].as_array().expect("a list").iter().map(|object| {
            let state = json!({"name": "m#p", "state": "Succeeded", "message": "fine",
                "lastProbeTime": "2026-11-15T12:00:00Z", "lastTransitionTime": "2026-11-15T12:00:00Z"});
            let items = object["spec"]["podProbes"].as_array().expect("a list").iter();
            let items: Vec<Value> = items
                .map(|item| json!({"name": item["name"], "namespace": "default", "uid": item["uid"], "probeStates": [state]}))
                .collect();
            let status = json!({"observedGeneration": object["metadata"]["generation"], "podProbeStatuses": items});
            let path = format!("{NODE_POD_PROBES}/{}/status", object["metadata"]["name"].as_str().expect("a name"));
            (Method::PATCH, path, json!({"status": status}))
        });
        send_all(&self.client, reports.collect()).await;
        let marked = |pod: &Obj<Pod>| {
            let conditions = &pod.view.status.conditions;
            pod.view.metadata.labels.get("up").is_some_and(|up| up == "yes")
                && conditions.iter().any(|condition| condition.type_ == "x.io/p" && condition.status == "True")
        };
        let mut seen = watch::<Pod>(&self.client, Scope::default());
        let mut done = BTreeSet::new();
        while done.len() < NODES * PODS_PER_NODE {
            if let WatchEvent::Applied(pod) = seen.next().await
                && marked(&pod)
            {
                done.insert(pod.metadata.name.clone());
            }
        }
        self.print("250 reports, 10,000 pods marked", began.elapsed(), &before);
    }

    /// Returns what the controller has counted: writes, and conflicts among them.
    fn writes(&self) -> (u64, u64) {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("a text");
        let mut found = (0, 0);
        for line in text.lines().filter(|line| line.starts_with("lifesign_marker_writes_total")) {
            let count: u64 = line.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            found.0 += count;
            if line.contains("result=\"conflict\"") {
                found.1 += count;
            }
        }
        found
    }

    fn print(&self, name: &str, took: Duration, before: &(u64, u64)) {
        let after = self.writes();
        println!("| {name} | {:.2} s | {} | {} |", took.as_secs_f64(), after.0 - before.0, after.1 - before.1);
    }
}

async fn server(folder: &std::path::Path) -> (Server, CancellationToken) {
    let server = Server::new(Parts {
        clock: Clock::system(),
        gates: api::FeatureGates::default(),
        store: Box::new(FileStore::open(folder).expect("a store")),
        threaded: true,
        seed: 7,
        settings: Settings::default(),
        token_file: None,
        signer: Signer::ephemeral(),
        logs: None,
    })
    .expect("a server");
    let stop = CancellationToken::new();
    let definitions = [api::crds::POD_PROBE_MARKERS, api::crds::NODE_POD_PROBES];
    let definitions = definitions.map(|text| testkit::vectors::yaml(text).expect("a definition"));
    server.start(&definitions, stop.clone()).await.expect("it starts");
    (server, stop)
}

fn marker(period: i64) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "probes": [{
            "name": "p", "containerName": "app", "probe": {"exec": {"command": ["check"]}, "periodSeconds": period},
            "markerPolicy": [{"state": "Succeeded", "labels": {"up": "yes"}}], "podConditionType": "x.io/p",
        }]},
    })
}

/// Makes nodes that are ready and pods that run on them.
async fn set_up(client: &Client) {
    let names: Vec<String> = (0..NODES).map(|n| format!("node-{n}")).collect();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for name in &names {
        first.push((Method::POST, "/api/v1/nodes".to_owned(), json!({"metadata": {"name": name}})));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        second.push((Method::PATCH, format!("/api/v1/nodes/{name}/status"), ready));
        for p in 0..PODS_PER_NODE {
            let pod = json!({
                "metadata": {"name": format!("{name}-{p}"), "labels": {"app": "x"}},
                "spec": {"nodeName": name, "containers": [{"name": "app", "image": "none"}]},
            });
            first.push((Method::POST, "/api/v1/namespaces/default/pods".to_owned(), pod));
            let conditions = json!([{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]);
            let status =
                json!({"status": {"phase": "Running", "podIP": format!("10.0.{}.{}", p, 1), "conditions": conditions}});
            second.push((Method::PATCH, format!("/api/v1/namespaces/default/pods/{name}-{p}/status"), status));
        }
    }
    send_all(client, first).await;
    send_all(client, second).await;
}

async fn send_all(client: &Client, requests: Vec<(Method, String, Value)>) {
    let sent = requests.into_iter().map(|(method, path, body)| async move {
        runtime::request(client, method, &path, &body).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    });
    futures::stream::iter(sent).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Waits until the objects of a kind are as they should be.
async fn until<T>(client: &Client, good: impl Fn(&BTreeMap<String, Obj<T>>) -> bool)
where
    T: api::Kind + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let mut seen = watch::<T>(client, Scope::default());
    let (mut known, mut synced) = (BTreeMap::new(), false);
    loop {
        match seen.next().await {
            WatchEvent::ListBegins => {}
            WatchEvent::Applied(object) => drop(known.insert(object.view.metadata().name.clone(), object)),
            WatchEvent::Deleted(object) => drop(known.remove(&object.view.metadata().name)),
            WatchEvent::Synced => synced = true,
        }
        if synced && good(&known) {
            return;
        }
    }
}
