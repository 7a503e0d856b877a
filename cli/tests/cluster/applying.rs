//! Random sequences of apply, update and patch by three managers, against both servers: objects and owners are equal.

use machine::Rng;
use serde_json::{Map, Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;
use tokio::runtime::Runtime;

use crate::bed::Bed;
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("applying::random_writes_have_the_same_owners_on_both_servers", random_writes_have_the_same_owners_on_both_servers)];

const SEED: u64 = 17;
/// How many sequences there are, and how many with `LIFESIGN_TEST_LONG`.
const SEQUENCES: [u64; 2] = [100, 500];
/// So often at most a controller is faster than a write.
const OVERTAKEN_MAX: u32 = 20;
const STEPS: u64 = 8;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const COLLECTIONS: [&str; 4] = [
    "/api/v1/namespaces/default/configmaps",
    "/apis/apps/v1/namespaces/default/deployments",
    "/api/v1/namespaces/default/services",
    "/apis/apply.test/v1/namespaces/default/gadgets",
];

/// Chooses.
struct Dice(Rng);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Returns true in so many of a hundred cases.
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one(&mut self, choices: &[Value]) -> Value {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// Sets a member in so many of a hundred cases.
    fn maybe(&mut self, into: &mut Map<String, Value>, percent: u64, key: &str, value: impl FnOnce(&mut Dice) -> Value) {
        if self.chance(percent) {
            let value = value(self);
            into.insert(key.to_owned(), value);
        }
    }

    /// Returns some of the members.
    fn some(&mut self, members: &[(&str, &[Value])]) -> Value {
        let mut chosen = Map::new();
        for (key, values) in members {
            self.maybe(&mut chosen, 50, key, |dice| dice.one(values));
        }
        chosen.into()
    }

    fn metadata(&mut self) -> Map<String, Value> {
        let (mut metadata, text) = (Map::new(), [json!("1"), json!("2")]);
        self.maybe(&mut metadata, 40, "labels", |dice| dice.some(&[("a", &text), ("b", &text)]));
        self.maybe(&mut metadata, 30, "annotations", |dice| dice.some(&[("x/y", &text), ("z", &text)]));
        self.maybe(&mut metadata, 20, "finalizers", |dice| {
            dice.one(&[json!([]), json!(["f.io/a"]), json!(["f.io/a", "f.io/b"])])
        });
        metadata
    }

    fn container(&mut self, name: &str, image: bool) -> Value {
        let (mut container, text) = (Map::new(), [json!("1"), json!("2")]);
        container.insert("name".to_owned(), name.into());
        self.maybe(&mut container, if image { 100 } else { 70 }, "image", |dice| dice.one(&[json!("i:1"), json!("i:2")]));
        self.maybe(&mut container, 30, "args", |dice| dice.one(&[json!([]), json!(["x"]), json!(["y", "x"])]));
        self.maybe(&mut container, 30, "env", |dice| json!([{"name": "E", "value": dice.one(&text)}]));
        let ports = [
            json!([{"containerPort": 80}]),
            json!([{"containerPort": 81, "name": "n"}, {"containerPort": 80, "protocol": "TCP"}]),
        ];
        self.maybe(&mut container, 30, "ports", |dice| dice.one(&ports));
        let limits = [json!("500m"), json!("1")];
        self.maybe(&mut container, 30, "resources", |dice| json!({"limits": dice.some(&[("cpu", &limits)])}));
        self.maybe(
            &mut container,
            20,
            "readinessProbe",
            |dice| json!({"httpGet": {"port": 80}, "periodSeconds": 5 + dice.below(2)}),
        );
        container.into()
    }

    /// Returns the spec of a kind, by its place in [`COLLECTIONS`]; a full one is valid by itself.
    fn spec(&mut self, kind: usize, full: bool) -> Map<String, Value> {
        let (mut spec, text) = (Map::new(), [json!("1"), json!("2")]);
        let always = if full { 100 } else { 40 };
        match kind {
            1 => {
                let mut pod = Map::new();
                self.maybe(&mut pod, always, "containers", |dice| {
                    let mut all = vec![dice.container("one", full)];
                    if dice.chance(30) {
                        all.push(dice.container("two", full));
                    }
                    all.into()
                });
                self.maybe(&mut pod, 20, "tolerations", |dice| json!([{"key": dice.one(&text), "operator": "Exists"}]));
                self.maybe(&mut pod, 20, "nodeSelector", |dice| dice.some(&[("n", &text)]));
                self.maybe(&mut pod, 20, "terminationGracePeriodSeconds", |dice| dice.one(&[json!(5), json!(30)]));
                let strategies = [json!({"type": "Recreate"}), json!({"rollingUpdate": {"maxSurge": "30%"}})];
                self.maybe(&mut spec, 20, "strategy", |dice| dice.one(&strategies));
                self.maybe(&mut spec, 20, "minReadySeconds", |dice| dice.one(&[json!(0), json!(3)]));
                let mut template = json!({"spec": pod});
                if full {
                    template["metadata"] = json!({"labels": {"a": "b"}});
                    spec.insert("selector".to_owned(), json!({"matchLabels": {"a": "b"}}));
                }
                spec.insert("template".to_owned(), template);
            }
            2 => {
                let ports = [
                    json!([{"name": "p", "port": 80}]),
                    json!([{"name": "q", "port": 81, "targetPort": "http"}, {"name": "p", "port": 80, "protocol": "TCP"}]),
                ];
                self.maybe(&mut spec, always, "ports", |dice| dice.one(&ports));
                self.maybe(&mut spec, 50, "selector", |dice| dice.some(&[("a", &text), ("b", &text)]));
                self.maybe(&mut spec, 20, "sessionAffinity", |dice| dice.one(&[json!("None"), json!("ClientIP")]));
                self.maybe(&mut spec, 10, "publishNotReadyAddresses", |dice| dice.chance(50).into());
            }
            _ => {
                self.maybe(&mut spec, 50, "size", |dice| dice.below(3).into());
                let probes = [json!([{"name": "a"}]), json!([{"name": "b", "period": 1}, {"name": "a", "period": 2}])];
                self.maybe(&mut spec, 50, "probes", |dice| dice.one(&probes));
                self.maybe(&mut spec, 50, "tags", |dice| dice.one(&[json!(["x"]), json!(["y", "x"]), json!(["z"])]));
                self.maybe(&mut spec, 50, "plain", |dice| dice.one(&[json!([]), json!(["x"]), json!(["y", "x"])]));
                self.maybe(&mut spec, 40, "whole", |dice| dice.some(&[("a", &text), ("b", &text)]));
                self.maybe(&mut spec, 40, "free", |dice| {
                    dice.one(&[json!({}), json!({"a": {"b": 1}}), json!({"a": "1"}), json!({"l": [1]})])
                });
            }
        }
        spec
    }

    fn object(&mut self, kind: usize, name: &str, full: bool) -> Value {
        let types = [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Service"), ("apply.test/v1", "Gadget")];
        let mut metadata = self.metadata();
        metadata.insert("name".to_owned(), name.into());
        let mut object = json!({"apiVersion": types[kind].0, "kind": types[kind].1, "metadata": metadata});
        let text = [json!("1"), json!("2"), json!("3")];
        if kind == 0 {
            object["data"] = self.some(&[("a", &text), ("b", &text), ("c", &text)]);
        } else {
            object["spec"] = self.spec(kind, full).into();
        }
        object
    }
}

/// A request that means the same to both servers.
enum Write {
    Apply { force: bool },
    Create,
    Merge,
    Replace,
}

/// One of the servers.
struct Side<'a> {
    client: Client,
    runtime: &'a Runtime,
}

impl Side<'_> {
    fn ask(&self, method: &str, path: &str, type_: &str, body: &Value) -> (u16, Value) {
        let answer = self.runtime.block_on(self.client.call_with(method, path, &[("content-type", type_)], body)).unwrap();
        (answer.code, answer.json())
    }

    /// Writes, again while a controller of the server was faster: such a conflict disputes no field.
    fn write(&self, write: &Write, collection: &str, name: &str, manager: &str, object: &Value) -> (u16, Value) {
        let mut tries = 0;
        loop {
            let answer = self.write_once(write, collection, name, manager, object);
            tries += 1;
            let overtaken = answer.0 == 409 && answer.1["message"].as_str().unwrap_or_default().contains("has been modified");
            if !overtaken || tries == OVERTAKEN_MAX {
                return answer;
            }
        }
    }

    fn write_once(&self, write: &Write, collection: &str, name: &str, manager: &str, object: &Value) -> (u16, Value) {
        let place = format!("{collection}/{name}?fieldManager={manager}");
        match write {
            Write::Apply { force } => {
                self.ask("PATCH", &format!("{place}&force={force}"), "application/apply-patch+yaml", object)
            }
            Write::Create => self.ask("POST", &format!("{collection}?fieldManager={manager}"), "application/json", object),
            Write::Merge => self.ask("PATCH", &place, "application/merge-patch+json", object),
            Write::Replace => {
                let (code, mut current) = self.ask("GET", &place, "", &Value::Null);
                if code != 200 {
                    return (code, current);
                }
                merge(&mut current, object);
                self.ask("PUT", &place, "application/json", &current)
            }
        }
    }
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// Returns what must be equal: no identities, versions, times, allocations, nor what controllers add; of errors what was
/// disputed.
fn comparable(code: u16, mut answer: Value) -> Value {
    if code >= 400 {
        let mut causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
        causes.sort_by_key(ToString::to_string);
        return if code == 409 { causes.into() } else { Value::Null };
    }
    for key in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        answer["metadata"].as_object_mut().unwrap().remove(key);
    }
    answer.as_object_mut().unwrap().remove("status");
    if let Some(spec) = answer["spec"].as_object_mut() {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    let mut entries = answer["metadata"]["managedFields"].take().as_array().cloned().unwrap_or_default();
    entries.retain(|entry| entry["subresource"] != "status");
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("time");
    }
    entries.sort_by_key(|entry| format!("{} {}", entry["manager"], entry["operation"]));
    json!({"object": answer, "owners": entries})
}

fn definition() -> Value {
    let text = json!({"type": "string"});
    let probe = json!({"type": "object", "required": ["name"], "properties": {"name": text, "period": {"type": "integer", "default": 9}}});
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 7},
        "probes": {"type": "array", "items": probe, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "plain": {"type": "array", "items": text},
        "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({"metadata": {"name": "gadgets.apply.test"}, "spec": {
        "group": "apply.test", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }})
}

/// An applier of a custom resource that withdraws the last element of a list or map leaves a null there in kube-apiserver, which
/// its own validation then refuses; here the list or map goes.
fn is_known(collection: &str, (theirs, answer): &(u16, Value), (ours, _): &(u16, Value)) -> bool {
    let message = answer["message"].as_str().unwrap_or_default();
    collection == COLLECTIONS[3] && *theirs == 422 && *ours == 200 && message.contains(": \"null\"")
}

fn random_writes_have_the_same_owners_on_both_servers(bed: &Bed) {
    let plane = Plane::started(LIFESIGN);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let side =
        |kubeconfig: &std::path::Path| Side { client: Client::new(kubeconfig, Protocol::Http1).unwrap(), runtime: &runtime };
    let (theirs, ours) = (side(bed.kubeconfig()), side(&plane.kubeconfig()));
    for side in [&theirs, &ours] {
        side.ask("POST", DEFINITIONS, "application/json", &definition());
        while side.ask("GET", COLLECTIONS[3], "", &Value::Null).0 != 200 {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    let count = SEQUENCES[usize::from(std::env::var_os("LIFESIGN_TEST_LONG").is_some())];
    let mut different = Vec::new();
    for seed in SEED..SEED + count {
        if let Some(difference) = sequence(seed, &theirs, &ours) {
            different.push(difference);
        }
    }
    for side in [&theirs, &ours] {
        side.ask("DELETE", &format!("{DEFINITIONS}/gadgets.apply.test"), "application/json", &json!({}));
    }
    assert!(different.is_empty(), "{} of {count} sequences:\n{}", different.len(), different.join("\n"));
}

/// Runs one sequence and returns how the servers differ, if they do.
fn sequence(seed: u64, theirs: &Side<'_>, ours: &Side<'_>) -> Option<String> {
    let mut dice = Dice(Rng::new(seed));
    let kind = dice.below(4) as usize;
    let (collection, name) = (COLLECTIONS[kind], format!("apply-{seed}"));
    let mut difference = None;
    for step in 0..STEPS {
        let full = step == 0 || dice.chance(50);
        let mut object = dice.object(kind, &name, full);
        // A Deployment of the test never makes pods: nobody of the managers speaks of these two but the first.
        if kind == 1 && step == 0 {
            object["spec"]["paused"] = true.into();
            object["spec"]["replicas"] = 0.into();
        }
        let write = match (step, dice.below(6)) {
            (0, 0..3) => Write::Create,
            (0, _) => Write::Apply { force: false },
            (_, 0..3) => Write::Apply { force: false },
            (_, 3) => Write::Apply { force: true },
            (_, 4) => Write::Merge,
            _ => Write::Replace,
        };
        let manager = if step == 0 { "first".to_owned() } else { format!("m{}", dice.below(3)) };
        let answers = [theirs, ours].map(|side| side.write(&write, collection, &name, &manager, &object));
        let [left, right] = &answers;
        if is_known(collection, left, right) {
            break;
        }
        // What is not of its type is refused with 500 there and with 400 here.
        let same_code = left.0 == right.0 || (left.0, right.0) == (500, 400);
        let [left, right] = answers.clone().map(|(code, answer)| comparable(code, answer));
        if !same_code || left != right {
            let [theirs, ours] = answers.map(|(code, answer)| format!("{code} {answer}"));
            difference = Some(format!("seed {seed}, step {step}, {manager}: {object}\n  theirs {theirs}\n  ours   {ours}"));
            break;
        }
    }
    for side in [theirs, ours] {
        let place = format!("{collection}/{name}");
        side.ask("PATCH", &place, "application/merge-patch+json", &json!({"metadata": {"finalizers": null}}));
        side.ask("DELETE", &place, "application/json", &json!({}));
    }
    difference
}
