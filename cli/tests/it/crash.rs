//! Kill -9 under load: no acknowledged write is missing, none is half there, the revision never goes back.
//!
//! The long run: `LIFESIGN_CRASH_ROUNDS=200 cargo test --release -p lifesign --test it crash -- --nocapture`; another
//! `LIFESIGN_CRASH_SEED` draws other instants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt;
use http_body_util::{BodyDataStream, Full};
use machine::Rng;
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::LIFESIGN;

const PATH: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 8;
/// Each writer goes round this many names, so that there are creations, changes and deletions of the same object.
const NAMES: u64 = 24;
/// The most writes of a round: few and many, so that the kill comes at all stages of the store.
const ROUND_WRITES_MAX: u64 = 200;
/// The most that the kill waits after that, so that it comes at any instant of a commit.
const KILL_AFTER_MAX: Duration = Duration::from_millis(10);

/// What a writer knows of one of its objects.
#[derive(Clone, Debug, Default, PartialEq)]
struct KnownObject {
    /// The last acknowledged state: version counter and resourceVersion; `None`: it is not there.
    state: Option<(u64, u64)>,
    /// A write without an answer: the counter it would leave, or `None` for a deletion.
    asked: Option<Option<u64>>,
}

/// Acknowledged writes by their resourceVersion: name and counter. Deletions are not among them: their answer has none.
type Acknowledged = BTreeMap<u64, (String, u64)>;

/// What all writers know, and the acknowledged writes of the round.
#[derive(Default)]
struct Model {
    objects: BTreeMap<String, KnownObject>,
    acknowledged: Acknowledged,
    /// The largest revision that any answer has shown.
    revision: u64,
    /// Starts so far that found a commit cut off by the kill, which nobody had heard of.
    fallbacks: u64,
}

#[test]
fn no_acknowledged_write_is_lost_by_kill_9() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (rounds, seed) = (number("LIFESIGN_CRASH_ROUNDS", 4), number("LIFESIGN_CRASH_SEED", 1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut rng = Rng::new(seed);
    let mut plane = Plane::started(LIFESIGN);
    let model = Arc::new(Mutex::new(Model::default()));
    runtime.block_on(check(&plane, &model, None));
    let mut total = 0;
    for round in 0..rounds {
        let before = held(&model).revision;
        runtime.block_on(write_until_killed(&mut plane, &model, &mut rng));
        if rng.below(4) == 0 {
            kill_while_starting(&plane, &mut rng);
        }
        plane.start().unwrap_or_else(|why| panic!("round {round}: {why}"));
        let acknowledged = std::mem::take(&mut held(&model).acknowledged);
        total += acknowledged.len();
        runtime.block_on(check(&plane, &model, Some((before, acknowledged))));
    }
    println!("{rounds} rounds, seed {seed}: {total} acknowledged writes, none lost, revision {}", held(&model).revision);
    assert!(total > 0, "something was written");
}

fn held(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().expect("no writer panics while it holds the model")
}

/// Checks what is stored and, of the last round, what can still be watched.
async fn check(plane: &Plane, model: &Mutex<Model>, round: Option<(u64, Acknowledged)>) {
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let list = client.call("GET", PATH, &Value::Null).await.unwrap().json();
    check_state(&list, &mut held(model));
    let fallbacks = fallbacks(&client).await;
    let fell_back = std::mem::replace(&mut held(model).fallbacks, fallbacks) < fallbacks;
    match round {
        // Watchers begin anew then: nobody can tell such a commit from one that they have heard of.
        Some((since, _)) if fell_back => check_expired(&client, since).await,
        Some((since, acknowledged)) => check_history(&client, since, acknowledged).await,
        None => {}
    }
}

async fn fallbacks(client: &Client) -> u64 {
    let answer = client.call("GET", "/metrics", &Value::Null).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let count = text.lines().find_map(|line| line.strip_prefix("lifesign_store_fallbacks_total "));
    count.expect("it is counted").parse().expect("a number")
}

async fn check_expired(client: &Client, since: u64) {
    let path = format!("{PATH}?watch=1&resourceVersion={since}&timeoutSeconds=1");
    let event = client.call("GET", &path, &Value::Null).await.unwrap().json();
    assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &410.into()), "{event}");
}

/// Lets the writers write until the server is killed at a random instant.
async fn write_until_killed(plane: &mut Plane, model: &Arc<Mutex<Model>>, rng: &mut Rng) {
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
            tokio::spawn(write(client, writer, Arc::clone(model), Arc::clone(&stop), rng.fork()))
        })
        .collect();
    let enough = held(model).revision + 1 + rng.below(ROUND_WRITES_MAX);
    while held(model).revision < enough {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    tokio::time::sleep(KILL_AFTER_MAX.mul_f64(rng.fraction())).await;
    plane.kill();
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Also the recovery may be interrupted.
fn kill_while_starting(plane: &Plane, rng: &mut Rng) {
    let mut child =
        plane.server_command().stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_micros(rng.below(60_000)));
    let _ = child.kill();
    let _ = child.wait();
}

/// One writer: creates, changes and deletes its own objects until it gets no answer.
async fn write(client: Client, writer: usize, model: Arc<Mutex<Model>>, stop: Arc<AtomicBool>, mut rng: Rng) {
    while !stop.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{:02}", rng.below(NAMES));
        let known = held(&model).objects.get(&name).cloned().unwrap_or_default();
        if known.asked.is_some() {
            return; // it got no answer: the server is gone
        }
        let (method, path, next) = match known.state {
            None => ("POST", PATH.to_owned(), Some(1)),
            Some(_) if rng.below(4) == 0 => ("DELETE", format!("{PATH}/{name}"), None),
            Some((counter, _)) => ("PUT", format!("{PATH}/{name}"), Some(counter + 1)),
        };
        let body = next.map_or(Value::Null, |counter| object(&name, counter));
        held(&model).objects.entry(name.clone()).or_default().asked = Some(next);
        let Ok(answer) = client.call(method, &path, &body).await else { return };
        let answered = answer.json();
        assert!(answer.code < 300, "{method} {name}: {answered}");
        let mut model = held(&model);
        let version = answered["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        let state = next.map(|counter| (counter, version.expect("a stored object has a version")));
        model.objects.insert(name.clone(), KnownObject { state, asked: None });
        if let Some((counter, version)) = state {
            let twice = model.acknowledged.insert(version, (name, counter));
            assert_eq!(twice, None, "revision {version} was given out twice");
            model.revision = model.revision.max(version);
        }
    }
}

/// An object whose halves can be compared: one that is half there shows.
fn object(name: &str, counter: u64) -> Value {
    let padding = format!("{counter:020}").repeat(16);
    json!({"metadata": {"name": name}, "data": {"first": counter.to_string(), "middle": padding, "last": counter.to_string()}})
}

fn counter_of(object: &Value) -> u64 {
    let counter: u64 = object["data"]["first"].as_str().and_then(|text| text.parse().ok()).expect("a counter");
    let name = object["metadata"]["name"].as_str().expect("a name");
    assert_eq!(object["data"], self::object(name, counter)["data"], "{name} is half there");
    counter
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    version.unwrap_or_else(|| panic!("no version: {object}"))
}

/// Every object is as it was acknowledged, or as the write without an answer would leave it; then that is what is known.
fn check_state(list: &Value, model: &mut Model) {
    let revision = version_of(list);
    assert!(revision >= model.revision, "the revision went back from {} to {revision}", model.revision);
    model.revision = revision;
    let stored: BTreeMap<&str, &Value> = list["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| (item["metadata"]["name"].as_str().unwrap(), item))
        .collect();
    for (name, known) in &mut model.objects {
        let found = stored.get(name.as_str()).map(|object| (counter_of(object), version_of(object)));
        let as_acknowledged = found == known.state;
        let as_asked = known.asked.is_some_and(|asked| asked == found.map(|(counter, _)| counter));
        assert!(as_acknowledged || as_asked, "{name}: found {found:?}, known {known:?}");
        assert!(found.is_none_or(|(_, version)| version <= revision), "{name}: {found:?} is ahead of {revision}");
        *known = KnownObject { state: found, asked: None };
    }
    // The server writes one itself.
    for name in stored.keys().filter(|name| **name != "kube-root-ca.crt") {
        assert!(model.objects.contains_key(*name), "{name}: nobody wrote it");
    }
}

/// The changes of the round can be watched again after the crash: in order, each once, every acknowledged one among them.
async fn check_history(client: &Client, since: u64, acknowledged: Acknowledged) {
    let path = format!("{PATH}?watch=1&resourceVersion={since}&timeoutSeconds=1&allowWatchBookmarks=true");
    let request = http::Request::get(path).body(Full::default()).unwrap();
    let answer = client.send(request).await.unwrap();
    let mut body = BodyDataStream::new(answer.into_body());
    let mut text = Vec::new();
    let mut missing = acknowledged;
    let mut last = since;
    while !missing.is_empty() {
        let chunk = body.next().await.unwrap_or_else(|| panic!("the history lacks {missing:?}")).expect("the watch goes on");
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&text.drain(..=end).collect::<Vec<u8>>()).unwrap();
            if event["type"] == "BOOKMARK" {
                continue;
            }
            let version = version_of(&event["object"]);
            assert!(version > last, "revision {version} came after {last}");
            last = version;
            if let Some((name, counter)) = missing.remove(&version) {
                assert_eq!(event["object"]["metadata"]["name"], name);
                assert_eq!(counter_of(&event["object"]), counter);
            }
        }
    }
}
