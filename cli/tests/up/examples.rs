//! The examples of the repository, as their pages tell it: every step types what the page says to type. What kubectl would
//! do is asked of the API instead where kubectl is not installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Up, condition, is_ready};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MARKERS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers";
const NODE_POD_PROBES: &str = "/apis/apps.kruise.io/v1alpha1/nodepodprobes";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const COST_PATH: &str = r"{.metadata.annotations.controller\.kubernetes\.io/pod-deletion-cost}";

/// An example with its page, on a plane. Only its folder is another: several may run at once on one machine.
struct Example {
    up: Up,
    name: &'static str,
    page: String,
    folder: TempDir,
    kubectl: bool,
}

impl Example {
    fn start(name: &'static str) -> Example {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |path: PathBuf| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let page = read(root.join(format!("docs/{name}.md")));
        let folder = tempfile::tempdir().expect("a folder");
        let demo = folder.path().join("demo");
        let manifest = read(root.join(format!("examples/{name}.yaml")));
        assert!(manifest.contains("/tmp/lifesign-demo"));
        let path = folder.path().join("example.yaml");
        let manifest = manifest.replace("/tmp/lifesign-demo", demo.to_str().expect("text"));
        std::fs::write(&path, manifest).expect("a file");
        let up = Up::start_with(&["-f", path.to_str().expect("text")]);
        let example = Example { up, name, page, folder, kubectl: testkit::kubectl::is_installed() };
        example.is_told(&format!("lifesign up -f examples/{name}.yaml"));
        example
    }

    fn is_told(&self, command: &str) {
        assert!(self.page.contains(&format!("`{command}`")), "the page does not say to type {command:?}");
    }

    /// Types what the page says and returns what is printed; `None`: it needs kubectl, which is not installed.
    fn types(&self, command: &str) -> Option<String> {
        self.types_with(command, ("", ""))
    }

    /// Types what the page says, with one word replaced as the page tells the reader to.
    fn types_with(&self, command: &str, (word, instead): (&str, &str)) -> Option<String> {
        self.is_told(command);
        if command.starts_with("kubectl") && !self.kubectl {
            return None;
        }
        let folder = self.folder.path().to_str().expect("text");
        let mut line = command.replace(&format!("examples/{}.yaml", self.name), &format!("{folder}/example.yaml"));
        line = line.replace("/tmp/lifesign-demo", &format!("{folder}/demo"));
        if !word.is_empty() {
            line = line.replace(word, instead);
        }
        let shell =
            Command::new("sh").args(["-c", &line]).env("KUBECONFIG", self.up.plane.kubeconfig()).env("HOME", folder).output();
        let output = shell.expect("a shell starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}\n{text}{}", String::from_utf8_lossy(&output.stderr));
        Some(text)
    }

    fn path(&self, of: &str) -> PathBuf {
        self.folder.path().join("demo").join(of)
    }

    fn pod(&self, name: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        self.up.wait_for(PODS, name, what, good)
    }

    /// Waits until the objects of a collection, by name, are as they should be.
    fn all(&self, what: &str, path: &str, good: impl Fn(&BTreeMap<String, Value>) -> bool) -> BTreeMap<String, Value> {
        let mut known = BTreeMap::new();
        let found = self.up.patiently(self.up.follow(path, |type_, object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            match type_ {
                "ADDED" | "MODIFIED" => drop(known.insert(name, object.clone())),
                "DELETED" => drop(known.remove(&name)),
                _ => {}
            }
            good(&known)
        }));
        assert!(found.is_some(), "never {what}; last seen: {known:#?}\nlog:\n{}", self.up.plane.log());
        known
    }

    fn delete(&self, path: &str) {
        let (code, answer) = self.up.call("DELETE", path, &json!({}));
        assert_eq!(code, 200, "{path}: {answer}");
    }
}

/// Returns the last cell of every line.
fn last_column(table: &str) -> Vec<&str> {
    table.lines().filter_map(|line| line.split_whitespace().last()).collect()
}

fn label<'a>(pod: &'a Value, key: &str) -> &'a str {
    pod["metadata"]["labels"][key].as_str().unwrap_or_default()
}

fn cost(pod: &Value) -> &str {
    pod["metadata"]["annotations"][COST].as_str().unwrap_or_default()
}

/// Follows the pods of the game.
fn servers() -> String {
    format!("{PODS}?watch=true&labelSelector=app%3Dgame-server")
}

#[test]
fn idle_game_servers_are_marked_and_go_first_when_scaled_in() {
    let example = Example::start("game-server-idle");
    let idle = |pod: &Value, is: &str| label(pod, "gameserver-idle") == is;
    let pods = example.all("three idle servers", &servers(), |pods| {
        pods.len() == 3 && pods.values().all(|pod| idle(pod, "true") && cost(pod) == "-10")
    });
    for pod in pods.values() {
        assert_eq!(pod["status"]["containerStatuses"][0]["started"], true, "it was not asked before it was up");
    }
    if let Some(table) = example.types("kubectl get pods -L gameserver-idle") {
        assert_eq!(last_column(&table), ["GAMESERVER-IDLE", "true", "true", "true"], "{table}");
    }
    let busy = pods.keys().nth(1).expect("three of them").clone();
    let game = ("game-b", busy.as_str());
    if let Some(cost) = example.types_with(&format!("kubectl get pod game-b -o jsonpath='{COST_PATH}'"), game) {
        assert_eq!(cost, "-10");
    }

    example.types_with("touch /tmp/lifesign-demo/game-b/match", game);
    let pod = example.pod(&busy, "busy", |pod| {
        idle(pod, "false")
            && cost(pod) == "10"
            && condition(pod, "game.io/idle").is_some_and(|found| found["status"] == "False")
    });
    assert_eq!(condition(&pod, "game.io/idle").expect("found before")["message"], "match running\n");
    for name in pods.keys().filter(|name| **name != busy) {
        assert!(idle(&example.up.get(&format!("{PODS}/{name}")), "true"));
    }
    if let Some(table) = example.types("kubectl get pods -L gameserver-idle") {
        assert_eq!(last_column(&table), ["GAMESERVER-IDLE", "true", "false", "true"], "{table}");
    }
    let message = r#"kubectl get pod game-b -o jsonpath='{.status.conditions[?(@.type=="game.io/idle")].message}'"#;
    if let Some(message) = example.types_with(message, game) {
        assert_eq!(message, "match running\n");
    }
    for reason in ["KruiseProbeSucceeded", "KruiseProbeFailed"] {
        let path = format!("/api/v1/namespaces/default/events?watch=true&fieldSelector=involvedObject.name%3D{busy}");
        let event = example.up.patiently(example.up.follow(&path, |_, event| {
            event["reason"] == reason
                && event["message"].as_str().is_some_and(|text| text.starts_with("game-server-probe#Idle"))
        }));
        assert!(event.is_some(), "{reason}");
    }
    if let Some(table) = example.types_with("kubectl get events --field-selector involvedObject.name=game-b", game) {
        assert!(table.contains("KruiseProbeSucceeded") && table.contains("KruiseProbeFailed"), "{table}");
    }
    markers_are_shown(&example);
    scale_in(&example, &busy);

    example.types_with("rm /tmp/lifesign-demo/game-b/match", game);
    example.pod(&busy, "idle again", |pod| idle(pod, "true") && cost(pod) == "-10");
    if let Some(table) = example.types("kubectl get pods -l gameserver-idle=true") {
        assert_eq!(table.lines().count(), 2, "{table}");
    }
    if example.types("kubectl delete -f examples/game-server-idle.yaml").is_none() {
        example.delete(&format!("{MARKERS}/game-server-probe"));
        example.delete(&format!("{DEPLOYMENTS}/game-server"));
    }
    example.up.wait_gone(MARKERS, "game-server-probe");
    example.up.wait_gone(PODS, &busy);
}

/// The marker and the object of the node say what is probed.
fn markers_are_shown(example: &Example) {
    example.up.wait_for(MARKERS, "game-server-probe", "observed", |marker| {
        marker["status"]["matchedPods"] == 3 && marker["status"]["observedGeneration"] == marker["metadata"]["generation"]
    });
    if let Some(table) = example.types("kubectl get podprobemarkers") {
        let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((cells[0][1], cells[1][1]), ("MATCHED", "3"), "{table}");
    }
    if let Some(yaml) = example.types("kubectl get nodepodprobes -o yaml") {
        assert_eq!(yaml.matches("state: Succeeded").count(), 2, "{yaml}");
    }
    let objects = example.up.get(NODE_POD_PROBES);
    let states = objects["items"][0]["status"]["podProbeStatuses"].as_array().map(Vec::len);
    assert_eq!((objects["items"].as_array().map(Vec::len), states), (Some(1), Some(3)));
}

/// Scales in twice: the server with the match is the one that stays.
fn scale_in(example: &Example, busy: &str) {
    for replicas in [2, 1] {
        if example.types(&format!("kubectl scale deployment game-server --replicas={replicas}")).is_none() {
            let (code, answer) =
                example.up.call("PATCH", &format!("{DEPLOYMENTS}/game-server"), &json!({"spec": {"replicas": replicas}}));
            assert_eq!(code, 200, "{answer}");
        }
        example.up.wait_for(DEPLOYMENTS, "game-server", "scaled in", |deployment| {
            let status = &deployment["status"];
            status["observedGeneration"] == deployment["metadata"]["generation"]
                && (&status["replicas"], &status["terminatingReplicas"]) == (&json!(replicas), &json!(0))
        });
        let left = example.up.get(&format!("{PODS}?labelSelector=app%3Dgame-server"));
        let names: Vec<&str> =
            left["items"].as_array().into_iter().flatten().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        assert!(names.len() == replicas && names.contains(&busy), "{names:?} without {busy}");
    }
}

/// Follows the pods of the database.
fn database() -> String {
    format!("{PODS}?watch=true&labelSelector=tier%3Ddb")
}

fn primary(pods: &BTreeMap<String, Value>) -> Option<String> {
    let mut primaries = pods.iter().filter(|(_, pod)| label(pod, "role") == "primary");
    let first = primaries.next().map(|(name, _)| name.clone());
    first.filter(|_| primaries.next().is_none())
}

/// Returns the pod that the Service of the primary has the address of, if it is exactly one.
fn address_of(slices: &BTreeMap<String, Value>) -> Option<String> {
    let endpoints = slices.values().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let mut ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let first = ready.next()?["targetRef"]["name"].as_str().map(str::to_owned);
    first.filter(|_| ready.next().is_none())
}

/// Waits until the Service of the primary has the address of one pod that is right.
fn wait_for_address(example: &Example, what: &str, right: impl Fn(&str) -> bool) -> String {
    let path = format!("{SLICES}?watch=true&labelSelector=kubernetes.io%2Fservice-name%3Ddb-primary");
    let slices = example.all(what, &path, |slices| address_of(slices).is_some_and(|name| right(&name)));
    address_of(&slices).expect("found before")
}

/// Returns who has the lease: name and process.
fn lease(example: &Example) -> Option<(String, String)> {
    let line = std::fs::read_to_string(example.path("db/primary")).ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?))
}

/// A replica that falls behind is not ready, and keeps its role.
fn fall_behind(example: &Example, replica: &str) {
    let (file, done) = (example.path(&format!("db/{replica}.synced")), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The process repairs it every ten seconds, which may be right now: so it falls behind until it was seen.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = std::fs::remove_file(&file);
                std::thread::yield_now();
            }
        });
        let pod = example.pod(replica, "behind", |pod| {
            !is_ready(pod) && condition(pod, "db.example.com/synced").is_some_and(|synced| synced["status"] == "False")
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!(label(&pod, "role"), "replica");
    });
    example.pod(replica, "repaired", is_ready);
}

/// Updates the database; the pods of the old template go in the order that the marker gave them.
fn update_primary_last(example: &Example) {
    let old = example.all("complete", &database(), |pods| {
        pods.len() == 3
            && primary(pods).is_some()
            && pods.values().all(is_ready)
            && pods.values().all(|pod| !cost(pod).is_empty())
    });
    let before = primary(&old).expect("found before");
    let newest = old.values().filter_map(|pod| pod["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok()).max();
    if example.types("kubectl set env deployment/db RELEASE=2").is_none() {
        let note = json!({"spec": {"template": {"metadata": {"annotations": {"release": "2"}}}}});
        assert_eq!(example.up.call("PATCH", &format!("{DEPLOYMENTS}/db"), &note).0, 200);
    }
    let mut order: Vec<String> = Vec::new();
    let path = format!("{}&resourceVersion={}", database(), newest.expect("a version"));
    let done = example.up.patiently(example.up.follow(&path, |_, pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if old.contains_key(&name) && pod["metadata"].get("deletionTimestamp").is_some() && !order.contains(&name) {
            order.push(name);
        }
        order.len() == 3
    }));
    assert!(done.is_some(), "never updated: {order:?}\nlog:\n{}", example.up.plane.log());
    assert_eq!(order.last(), Some(&before), "the primary goes last: {order:?}");
}

#[test]
fn the_service_of_the_primary_follows_deletion_and_crash() {
    let example = Example::start("primary-replica-role");
    let roles = |pods: &BTreeMap<String, Value>| {
        let replicas = pods.values().filter(|pod| label(pod, "role") == "replica").count();
        primary(pods).is_some() && replicas == 2 && pods.values().all(is_ready)
    };
    let pods = example.all("one primary and two replicas", &database(), roles);
    let first = primary(&pods).expect("found before");
    if let Some(table) = example.types("kubectl get pods -L role") {
        let mut roles = last_column(&table);
        roles.sort_unstable();
        assert_eq!(roles, ["ROLE", "primary", "replica", "replica"], "{table}");
    }
    wait_for_address(&example, "the address of the primary", |name| name == first);
    if let Some(table) = example.types("kubectl get endpointslices -l kubernetes.io/service-name=db-primary") {
        let address = pods[&first]["status"]["podIP"].as_str().expect("it has one");
        assert_eq!(table.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)), Some(address), "{table}");
    }
    for (name, pod) in &pods {
        assert_eq!(cost(pod), if *name == first { "1000" } else { "0" }, "{name}");
    }

    if let Some(table) = example.types(&format!("kubectl get pods -l tier=db --sort-by='{COST_PATH}'")) {
        assert!(table.lines().last().is_some_and(|line| line.starts_with(&first)), "the primary is the last:\n{table}");
    }
    example.is_told("rm /tmp/lifesign-demo/db/db-2.synced");
    let replica = pods.keys().find(|name| **name != first).expect("two of them");
    fall_behind(&example, replica);

    let deleted_at = Instant::now();
    // Without waiting for the pod to go: the service is looked at meanwhile.
    example.is_told("kubectl delete pod db-0");
    example.delete(&format!("{PODS}/{first}"));
    let second = wait_for_address(&example, "the address of another primary", |name| name != first);
    eprintln!("fail-over after a deletion took {:?}", deleted_at.elapsed());
    example.pod(&second, "primary", |pod| label(pod, "role") == "primary" && cost(pod) == "1000");
    example.up.wait_gone(PODS, &first);

    let (who, pid) = lease(&example).expect("there is a primary");
    assert_eq!(std::fs::read_to_string(example.path(&format!("db/{who}.pid"))).expect("a file").trim(), pid);
    let killed_at = Instant::now();
    example.types_with("kill -9 \"$(cat /tmp/lifesign-demo/db/db-0.pid)\"", ("db-0", &who));
    example.pod(&who, "started again", |pod| pod["status"]["containerStatuses"][0]["restartCount"].as_i64() >= Some(1));
    // The lease of the dead process is nobody's; who has the next one has the address.
    wait_for_address(&example, "the address of a living primary", |name| {
        lease(&example).is_some_and(|(who, now)| who == name && now != pid)
    });
    eprintln!("fail-over after a crash took {:?}", killed_at.elapsed());
    update_primary_last(&example);
}
