//! One of the two clusters: what is done to it, and what is there at rest, without names and times that nobody chose.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use tokio::runtime::Runtime;

/// What has not come to rest by then never will.
const PATIENCE: Duration = Duration::from_secs(120);
/// At rest is what stays the same for so long: longer than anything a controller waits for.
const CALM: Duration = Duration::from_secs(2);
const PROGRESS_DEADLINE_SECONDS: i64 = 10;
/// How Kubernetes begins the message of an event that stands for many.
const COMBINED: &str = "(combined from similar events): ";
/// Reasons of `Progressing` after which nothing follows by itself.
const ENDS: [&str; 3] = ["NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"];

pub(super) struct Side {
    kubeconfig: PathBuf,
    client: Client,
    runtime: Runtime,
    image: String,
    namespace: String,
    folder: tempfile::TempDir,
    /// Hashes of templates in the order in which they were seen: what stands for them.
    hashes: RefCell<Vec<String>>,
}

impl Side {
    /// Makes a namespace for the script.
    pub(super) fn new(kubeconfig: &Path, image: &str) -> Side {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::new(kubeconfig, Protocol::Http1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let namespace = format!("workloads-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let side = Side {
            kubeconfig: kubeconfig.to_owned(),
            client,
            runtime,
            image: image.to_owned(),
            namespace,
            folder,
            hashes: RefCell::default(),
        };
        side.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": side.namespace}}));
        let account = side.path("/api/v1", "serviceaccounts/default");
        side.until("the service account is there", |side| (side.ask("GET", &account, &Value::Null).0 == 200).then_some(()));
        side
    }

    fn path(&self, group: &str, rest: &str) -> String {
        format!("{group}/namespaces/{}/{rest}", self.namespace)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let type_ = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let answer = self.runtime.block_on(self.client.call_with(method, path, &[("content-type", type_)], body)).unwrap();
        (answer.code, answer.json())
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, body);
        assert!(code < 300, "{method} {path}: {answer}");
        answer
    }

    fn list(&self, group: &str, rest: &str) -> Vec<Value> {
        self.send("GET", &self.path(group, rest), &Value::Null)["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until a question has an answer.
    pub(super) fn until<T>(&self, what: &str, mut ask: impl FnMut(&Side) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(Instant::now() < deadline, "never: {what}; {:#}", self.state());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs kubectl in the namespace of the script.
    pub(super) fn kubectl(&self, line: &str) {
        let mut command = Command::new("kubectl");
        command.args(line.split(' ')).args(["-n", &self.namespace]);
        let output = command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.path()).output().unwrap();
        assert!(output.status.success(), "kubectl {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn template(&self, app: &str, seconds: &str) -> Value {
        json!({"metadata": {"labels": {"app": app}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "c", "image": self.image, "imagePullPolicy": "Never", "command": ["sleep", seconds]}]}})
    }

    /// Makes a Deployment, or changes it.
    pub(super) fn deploy(&self, name: &str, replicas: usize, strategy: &Value) {
        self.deploy_with(name, replicas, strategy, "3600");
    }

    /// Makes a Deployment whose pods sleep so long, or changes it.
    pub(super) fn deploy_with(&self, name: &str, replicas: usize, strategy: &Value, seconds: &str) {
        let spec = json!({
            "replicas": replicas, "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS, "revisionHistoryLimit": 2, "strategy": strategy,
            "selector": {"matchLabels": {"app": name}}, "template": self.template(name, seconds),
        });
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
        let collection = self.path("/apis/apps/v1", "deployments");
        if self.ask("POST", &collection, &deployment).0 == 409 {
            self.send("PUT", &format!("{collection}/{name}"), &deployment);
        }
    }

    /// Changes the command of a Deployment.
    pub(super) fn run(&self, name: &str, command: &[&str]) {
        let place = self.path("/apis/apps/v1", &format!("deployments/{name}"));
        let mut containers = self.send("GET", &place, &Value::Null)["spec"]["template"]["spec"]["containers"].take();
        containers[0]["command"] = command.into();
        self.send("PATCH", &place, &json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    }

    /// Gives the first pod with a label another value of `app`.
    pub(super) fn relabel(&self, selector: &str, app: &str) {
        let pods = self.list("/api/v1", &format!("pods?labelSelector={}", selector.replace('=', "%3D")));
        let name = pods[0]["metadata"]["name"].as_str().unwrap();
        self.send("PATCH", &self.path("/api/v1", &format!("pods/{name}")), &json!({"metadata": {"labels": {"app": app}}}));
    }

    /// Makes a ReplicaSet whose pods are ready when a condition says so.
    pub(super) fn replica_set(&self, name: &str, gate: &str) {
        let mut template = self.template(name, "3600");
        template["spec"]["readinessGates"] = json!([{"conditionType": gate}]);
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec});
        self.send("POST", &self.path("/apis/apps/v1", "replicasets"), &set);
    }

    /// Scales the newest ReplicaSet of an application that has replicas or none at all.
    pub(super) fn scale_replica_set(&self, app: &str, replicas: usize) {
        let mut sets = self.list("/apis/apps/v1", "replicasets");
        sets.retain(|set| set["spec"]["template"]["metadata"]["labels"]["app"] == app);
        sets.sort_by_key(|set| set["spec"]["replicas"].as_i64());
        let name = sets.last().expect("a ReplicaSet")["metadata"]["name"].as_str().unwrap().to_owned();
        let place = self.path("/apis/apps/v1", &format!("replicasets/{name}"));
        self.send("PATCH", &place, &json!({"spec": {"replicas": replicas}}));
    }

    /// Waits for the pod that was made last, gives it a number and a cost, and makes it ready or waits until it only runs.
    pub(super) fn mark_new_pod(&self, number: usize, ready: bool, cost: Option<&str>) {
        let name = self.until("a new pod runs", |side| {
            let mut pods = side.list("/api/v1", "pods");
            pods.retain(|pod| pod["metadata"]["labels"].get("number").is_none() && pod["status"]["phase"] == "Running");
            pods.pop().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        });
        let place = self.path("/api/v1", &format!("pods/{name}"));
        let mut metadata = json!({"labels": {"number": number.to_string()}});
        if let Some(cost) = cost {
            metadata["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        }
        self.send("PATCH", &place, &json!({ "metadata": metadata }));
        if ready {
            let condition = json!({"type": "example.com/ready", "status": "True"});
            let body = json!({"status": {"conditions": [condition]}}).to_string();
            self.kubectl(&format!("patch pod {name} --subresource=status --type=strategic -p {body}"));
            self.until("the pod is ready", |side| is_ready(&side.send("GET", &place, &Value::Null)).then_some(()));
        }
    }

    /// Returns the numbers of the pods that stay.
    pub(super) fn numbers(&self) -> BTreeSet<usize> {
        let pods = self.list("/api/v1", "pods");
        let stays = pods.iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none());
        stays.filter_map(|pod| pod["metadata"]["labels"]["number"].as_str()?.parse().ok()).collect()
    }

    /// Waits until nothing happens any more and returns what is there.
    pub(super) fn at_rest(&self, step: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let (mut last, mut since) = (Value::Null, Instant::now());
        loop {
            // In this order: what is read after everything has settled is the end. On a busy machine much happens between two reads.
            let (settled, state) = (self.is_settled(), self.state());
            if state != last || !settled {
                since = Instant::now();
            }
            if since.elapsed() > CALM {
                return state;
            }
            assert!(Instant::now() < deadline, "{step}: never at rest: {state:#}");
            last = state;
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn is_settled(&self) -> bool {
        let ends = |deployment: &Value| {
            let conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let progressing = conditions.iter().find(|condition| condition["type"] == "Progressing");
            let reason = progressing.and_then(|condition| condition["reason"].as_str()).unwrap_or_default();
            deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"] && ENDS.contains(&reason)
        };
        self.list("/apis/apps/v1", "deployments").iter().all(ends)
            && self.list("/api/v1", "pods").iter().all(|pod| pod["metadata"].get("deletionTimestamp").is_none() && !starts(pod))
    }

    /// Returns all Deployments, ReplicaSets and pods.
    fn state(&self) -> Value {
        let mut sets = self.list("/apis/apps/v1", "replicasets");
        let revision = |set: &Value| {
            let text = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap_or_default();
            text.parse::<u64>().unwrap_or_default()
        };
        sets.sort_by_key(|set| (set["metadata"]["labels"]["app"].to_string(), revision(set)));
        for set in &sets {
            if let Some(hash) = set["metadata"]["labels"]["pod-template-hash"].as_str()
                && !self.hashes.borrow().iter().any(|known| known == hash)
            {
                self.hashes.borrow_mut().push(hash.to_owned());
            }
        }
        let mut pods: Vec<Value> = self.list("/api/v1", "pods").iter().map(pod_facts).collect();
        pods.sort_by_key(ToString::to_string);
        let deployments: Vec<Value> = self.list("/apis/apps/v1", "deployments").into_iter().map(bare).collect();
        let sets: Vec<Value> = sets.into_iter().map(bare).collect();
        let state = json!({"deployments": deployments, "replicasets": sets, "pods": pods});
        serde_json::from_str(&self.without_hashes(&state.to_string())).expect("names are exchanged, nothing else")
    }

    /// Returns a text with the same names for the same templates on both sides.
    fn without_hashes(&self, text: &str) -> String {
        let known = self.hashes.borrow();
        known
            .iter()
            .enumerate()
            .fold(text.to_owned(), |text, (number, hash)| text.replace(hash.as_str(), &format!("HASH{number}")))
    }

    /// Returns which events Deployments and ReplicaSets have, numbers and names of pods aside, and whether some were combined.
    pub(super) fn events(&self) -> BTreeSet<String> {
        let events = self.list("/api/v1", "events").into_iter();
        let of_workloads =
            events.filter(|event| ["Deployment", "ReplicaSet"].iter().any(|kind| event["involvedObject"]["kind"] == *kind));
        let line = |event: Value| {
            let part = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let words: Vec<String> =
                self.without_hashes(&part("message").replace(COMBINED, "")).split(' ').map(plain).collect();
            format!("{} {} {}: {}", event["involvedObject"]["kind"], part("type"), part("reason"), words.join(" "))
        };
        of_workloads.map(line).collect()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.ask("DELETE", &format!("/api/v1/namespaces/{}", self.namespace), &Value::Null);
    }
}

/// Returns a word without what differs from run to run.
fn plain(word: &str) -> String {
    match word.split_once("HASH") {
        Some((head, _)) => format!("{head}HASH"),
        None if word.bytes().all(|byte| byte.is_ascii_digit()) => "N".to_owned(),
        None => word.to_owned(),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Takes away the mark of a restart, which is a time.
fn without_restart(mut metadata: Value) -> Value {
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.retain(|key, _| key != "kubectl.kubernetes.io/restartedAt");
    }
    metadata
}

/// Returns whether a pod is on its way: a busy node may take long before there is something to see.
fn starts(pod: &Value) -> bool {
    let state = &pod["status"]["containerStatuses"][0]["state"];
    let created = [&Value::Null, &json!("ContainerCreating")].contains(&&state["waiting"]["reason"]);
    if state["running"].is_object() { !is_ready(pod) } else { state["terminated"].is_null() && created }
}

/// Returns what controllers decide about a pod.
fn pod_facts(pod: &Value) -> Value {
    let (metadata, spec) = (&without_restart(pod["metadata"].clone()), &pod["spec"]);
    let mut owners = metadata["ownerReferences"].clone();
    for owner in owners.as_array_mut().into_iter().flatten() {
        owner.as_object_mut().unwrap().remove("uid");
    }
    json!({
        "labels": metadata["labels"], "annotations": metadata["annotations"], "generateName": metadata["generateName"],
        "owners": owners, "command": spec["containers"][0]["command"], "image": spec["containers"][0]["image"], "ready": is_ready(pod),
    })
}

/// Returns an object without what nobody chose: identities, versions, times, and the number of changes of a ReplicaSet.
fn bare(mut object: Value) -> Value {
    let is_set = object["metadata"].get("ownerReferences").is_some() || object["spec"].get("strategy").is_none();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"] {
        metadata.remove(key);
    }
    for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        owner.as_object_mut().unwrap().remove("uid");
    }
    if is_set {
        let generation = metadata.remove("generation");
        let observed = object["status"].as_object_mut().and_then(|status| status.remove("observedGeneration"));
        object["status"]["upToDate"] = (generation == observed).into();
    }
    let mut conditions = BTreeMap::new();
    for mut condition in object["status"]["conditions"].take().as_array().cloned().unwrap_or_default() {
        let members = condition.as_object_mut().unwrap();
        members.retain(|key, _| !key.ends_with("Time"));
        conditions.insert(condition["type"].to_string(), condition);
    }
    object["status"]["conditions"] = json!(conditions);
    let template = &mut object["spec"]["template"]["metadata"];
    *template = without_restart(template.take());
    object
}
