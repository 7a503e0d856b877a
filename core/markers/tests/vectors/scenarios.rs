//! The whole pipeline on a virtual clock: controller, agents, and a scripted prober.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use machine::Time;
use markers::agent::Runtime;
use probe::Outcome;
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

use super::support::world::{Script, World};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "name")]
    _name: String,
    given: Given,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    nodes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Step {
    #[serde(default)]
    reset_writes: bool,
    #[serde(default)]
    outcome: BTreeMap<String, End>,
    #[serde(default)]
    apply: Vec<Value>,
    #[serde(default)]
    delete: Vec<String>,
    restart: Option<String>,
    started: Option<String>,
    #[serde(default)]
    relabel: BTreeMap<String, BTreeMap<String, Option<String>>>,
    #[serde(default)]
    advance: u64,
    #[serde(default)]
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    result: ObservedResult,
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ObservedResult {
    Success,
    Failure,
    Error,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Expect {
    pods: BTreeMap<String, ExpectPod>,
    node_pod_probes: BTreeMap<String, Option<BTreeSet<String>>>,
    markers: BTreeMap<String, Option<ExpectMarker>>,
    writes_at_most: BTreeMap<String, usize>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ExpectPod {
    labels: BTreeMap<String, Option<String>>,
    annotations: BTreeMap<String, Option<String>>,
    conditions: BTreeMap<String, Value>,
    ready: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ExpectMarker {
    matched_pods: Option<i64>,
    observed: Option<bool>,
    finalizer: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ShortPod {
    #[serde(rename = "kind")]
    _kind: String,
    name: String,
    namespace: String,
    node: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    containers: Vec<ShortContainer>,
    #[serde(default)]
    readiness_gates: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ShortContainer {
    Name(String),
    WithStartup { name: String, startup: bool },
}

impl ShortContainer {
    fn parts(&self) -> (&str, bool) {
        match self {
            ShortContainer::Name(name) => (name, false),
            ShortContainer::WithStartup { name, startup } => (name, *startup),
        }
    }
}

/// A container as the runtime has it.
struct Running {
    id: String,
    since: Time,
    startup: bool,
    started: bool,
}

struct Run {
    world: World,
    /// By `namespace/pod/container`.
    containers: BTreeMap<String, Running>,
}

pub(crate) fn check(case: Case) -> Verdict {
    let mut run = Run { world: World::unlisted(1), containers: BTreeMap::new() };
    run.world.with_agents = true;
    for name in &case.given.nodes {
        run.node(name);
    }
    run.world.list_all();
    for (index, step) in case.steps.into_iter().enumerate() {
        run.step(step).map_err(|why| format!("step {index}:\n{why}"))?;
    }
    Ok(())
}

impl Run {
    fn step(&mut self, step: Step) -> Verdict {
        if step.reset_writes {
            self.world.server.writes.clear();
        }
        for (pattern, end) in step.outcome {
            let outcome = match end.result {
                ObservedResult::Success => Outcome::Success,
                ObservedResult::Failure => Outcome::Failure,
                ObservedResult::Error => Outcome::Error,
            };
            self.world.scripts.push(Script { pattern, outcome, message: end.message });
        }
        for object in step.apply {
            self.apply(object)?;
        }
        for name in step.delete {
            self.delete(&name)?;
        }
        for (name, labels) in step.relabel {
            let mut pod = self.pod(&name)?;
            for (key, value) in labels {
                match value {
                    Some(value) => pod["metadata"]["labels"][key] = value.into(),
                    None => drop(pod["metadata"]["labels"].as_object_mut().and_then(|labels| labels.remove(&key))),
                }
            }
            self.world.put("pods", pod);
        }
        if let Some(place) = step.restart {
            self.restart(&place)?;
        }
        if let Some(place) = step.started {
            let (pod, name) = self.container(&place)?;
            let running = self.containers.get_mut(&place).ok_or(format!("no container {place}"))?;
            running.started = true;
            let (id, since) = (running.id.clone(), Some(running.since));
            self.world.container_news(&pod, &name, &id, Runtime::Running, since, true, self.world.now);
        }
        self.world.advance(Duration::from_millis(step.advance));
        self.check(&step.expect)
    }

    fn node(&mut self, name: &str) {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        self.world.put("nodes", json!({"metadata": {"name": name}, "spec": {}, "status": ready}));
        // An agent that comes after its pods learns what runs.
        self.world.resync_agents();
        for (place, running) in &self.containers {
            let Ok((pod, container)) = self.container(place) else { continue };
            if pod["spec"]["nodeName"] == name {
                let at = running.since.max(self.world.now);
                let (id, since, started) = (running.id.clone(), Some(running.since), running.started);
                self.world.container_news(&pod, &container, &id, Runtime::Running, since, started, at);
            }
        }
    }

    fn apply(&mut self, object: Value) -> Verdict {
        match object["kind"].as_str() {
            Some("Pod") => self.apply_pod(serde_json::from_value(object).map_err(|error| error.to_string())?),
            Some("Node") => self.node(object["name"].as_str().ok_or("a node has a name")?),
            Some("PodProbeMarker") => self.world.put("podprobemarkers", object),
            other => return Err(format!("cannot apply {other:?}")),
        }
        Ok(())
    }

    fn apply_pod(&mut self, short: ShortPod) {
        let containers: Vec<Value> = short.containers.iter().map(|container| json!({"name": container.parts().0})).collect();
        let gates: Vec<Value> = short.readiness_gates.iter().map(|gate| json!({"conditionType": gate})).collect();
        self.world.put(
            "pods",
            json!({
                "metadata": {"name": short.name, "namespace": short.namespace, "labels": short.labels},
                "spec": {"nodeName": short.node, "containers": containers, "readinessGates": gates},
                "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Initialized", "status": "True"}]},
            }),
        );
        let pod = self.world.server.get("pods", &short.namespace, &short.name).cloned().unwrap_or_default();
        for (name, startup) in short.containers.iter().map(ShortContainer::parts) {
            let (id, since) = self.world.start_container(&pod, name, !startup, Duration::ZERO);
            let place = format!("{}/{}/{name}", short.namespace, short.name);
            self.containers.insert(place, Running { id, since, startup, started: !startup });
        }
    }

    fn delete(&mut self, name: &str) -> Verdict {
        let parts: Vec<&str> = name.split('/').collect();
        match parts[..] {
            ["Pod", namespace, name] => self.world.delete("pods", namespace, name),
            ["PodProbeMarker", namespace, name] => self.world.delete("podprobemarkers", namespace, name),
            ["Node", name] => self.world.delete("nodes", "", name),
            ["NodePodProbe", name] => self.world.delete("nodepodprobes", "", name),
            _ => return Err(format!("cannot delete {name}")),
        }
        Ok(())
    }

    /// The container exits and is started again one second later.
    fn restart(&mut self, place: &str) -> Verdict {
        let (pod, name) = self.container(place)?;
        let startup = self.containers.get(place).is_some_and(|running| running.startup);
        self.world.container_news(&pod, &name, "", Runtime::Terminated, None, false, self.world.now);
        let (id, since) = self.world.start_container(&pod, &name, !startup, Duration::from_secs(1));
        self.containers.insert(place.to_owned(), Running { id, since, startup, started: !startup });
        Ok(())
    }

    fn pod(&self, place: &str) -> Result<Value, String> {
        let (namespace, name) = place.split_once('/').ok_or(format!("{place} is not namespace/name"))?;
        self.world.server.get("pods", namespace, name).cloned().ok_or(format!("no pod {place}"))
    }

    fn container(&self, place: &str) -> Result<(Value, String), String> {
        let (pod, name) = place.rsplit_once('/').ok_or(format!("{place} is not namespace/pod/container"))?;
        Ok((self.pod(pod)?, name.to_owned()))
    }

    /// Returns whether every container of a pod runs and is started.
    fn runs(&self, pod: &str) -> bool {
        let mut own = self.containers.iter().filter(|(place, _)| place.rsplit_once('/').is_some_and(|(of, _)| of == pod));
        own.all(|(_, running)| running.started && running.since <= self.world.now)
    }

    fn check(&self, expect: &Expect) -> Verdict {
        let mut wrong = Vec::new();
        for (place, pod) in &expect.pods {
            wrong.extend(check_pod(&self.pod(place)?, pod, self.runs(place)).err().map(|why| format!("pod {place}:\n{why}")));
        }
        for (node, entries) in &expect.node_pod_probes {
            let got = self.world.server.get("nodepodprobes", "", node).map(entries_of);
            wrong.extend(same(&json!(entries), &json!(got)).err().map(|why| format!("node {node}:\n{why}")));
        }
        for (place, marker) in &expect.markers {
            let (namespace, name) = place.split_once('/').unwrap_or(("", place));
            let got = self.world.server.get("podprobemarkers", namespace, name);
            wrong.extend(check_marker(got, marker.as_ref()).err().map(|why| format!("marker {place}:\n{why}")));
        }
        for (resource, most) in &expect.writes_at_most {
            let sent = self.world.server.writes.get(resource).copied().unwrap_or(0);
            if sent > *most {
                wrong.push(format!("{resource}: {sent} writes, at most {most} expected"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

fn check_pod(pod: &Value, expect: &ExpectPod, runs: bool) -> Verdict {
    let got = |section: &str, wanted: &BTreeMap<String, Option<String>>| -> BTreeMap<String, Value> {
        wanted.keys().map(|key| (key.clone(), pod["metadata"][section][key].clone())).collect()
    };
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let find = |type_: &str| conditions.iter().find(|condition| condition["type"] == type_);
    let condition = |(type_, wanted): (&String, &Value)| {
        let got = find(type_).map_or(Value::Null, |condition| match wanted {
            Value::Object(_) => json!({"status": condition["status"], "message": condition["message"]}),
            _ => condition["status"].clone(),
        });
        (type_.clone(), got)
    };
    // A pod is ready when its containers run and its gates are open.
    let gates = pod["spec"]["readinessGates"].as_array().cloned().unwrap_or_default();
    let open = |gate: &Value| find(gate["conditionType"].as_str().unwrap_or_default()).is_some_and(|c| c["status"] == "True");
    let ready = expect.ready.map(|_| runs && gates.iter().all(open));
    same(
        &json!({"labels": expect.labels, "annotations": expect.annotations, "conditions": expect.conditions, "ready": expect.ready}),
        &json!({
            "labels": got("labels", &expect.labels),
            "annotations": got("annotations", &expect.annotations),
            "conditions": expect.conditions.iter().map(condition).collect::<BTreeMap<_, _>>(),
            "ready": ready,
        }),
    )
}

/// Returns `<namespace>/<pod>: <marker>#<probe>` of every entry.
fn entries_of(object: &Value) -> BTreeSet<String> {
    let items = object["spec"]["podProbes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut entries = BTreeSet::new();
    for item in &items {
        for entry in item["probes"].as_array().into_iter().flatten() {
            entries.insert(format!("{}/{}: {}", text(&item["namespace"]), text(&item["name"]), text(&entry["name"])));
        }
    }
    entries
}

fn check_marker(got: Option<&Value>, expect: Option<&ExpectMarker>) -> Verdict {
    let (marker, expect) = match (got, expect) {
        (None, None) => return Ok(()),
        (Some(_), None) => return Err("is still there".to_owned()),
        (None, Some(_)) => return Err("is gone".to_owned()),
        (Some(marker), Some(expect)) => (marker, expect),
    };
    let finalizers = marker["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let observed = marker["status"]["observedGeneration"] == marker["metadata"]["generation"];
    same(
        &json!([expect.matched_pods, expect.observed, expect.finalizer]),
        &json!([
            expect.matched_pods.map(|_| marker["status"]["matchedPods"].as_i64().unwrap_or(0)),
            expect.observed.map(|_| observed),
            expect.finalizer.map(|_| finalizers.iter().any(|finalizer| finalizer == api::marker::MARKER_FINALIZER)),
        ]),
    )
}
