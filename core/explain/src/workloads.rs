//! Pods and everything with a pod template.

use api::field::Path;
use api::{FeatureGates, Gate, HandlerKind, ProbeType, json, pod, probe_rules};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::findings::{self, Findings};
use crate::given::Given;
use crate::kubelet::OnKubelet;
use crate::report::{Action, Container, Probe, Severity, Workload};
use crate::templates::labels;
use crate::times::{Start, Times};
use crate::{Options, Origin, container_times, name, namespace, patch, practice, shape};
use probe::Restarts;
use probe::timing::{NodePolicy, SubSecondProbePolicy};

/// A kill gets at least this long; kubelet.
const GRACE_SECONDS_MIN: i64 = 2;
/// `terminationGracePeriodSeconds` of a pod where it is absent; Kubernetes default.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// The order in which the probes of a container come to act.
const ORDER: [ProbeType; 3] = [ProbeType::Startup, ProbeType::Readiness, ProbeType::Liveness];

/// A probe of a container that could be read.
pub(super) struct Read<'a> {
    pub(super) type_: ProbeType,
    pub(super) value: &'a Value,
    pub(super) probe: pod::Probe,
    pub(super) times: Times,
    pub(super) path: Path,
}

/// A container whose probes count.
pub(super) struct Subject<'a> {
    pub(super) value: &'a Value,
    pub(super) name: &'a str,
    pub(super) path: Path,
    pub(super) probes: Vec<Read<'a>>,
}

impl<'a> Subject<'a> {
    /// Returns the probe of a type.
    pub(super) fn probe(&self, type_: ProbeType) -> Option<&Read<'a>> {
        self.probes.iter().find(|probe| probe.type_ == type_)
    }

    /// Returns what decides when it is ready.
    pub(super) fn start(&self) -> Start {
        let times = |type_| self.probe(type_).map(|probe| probe.times);
        Start {
            startup: times(ProbeType::Startup),
            readiness: times(ProbeType::Readiness),
            liveness: times(ProbeType::Liveness),
        }
    }

    /// Returns the same container on a node with other gates.
    fn start_on(&self, node: &NodePolicy) -> Start {
        let times = |type_| self.probe(type_).map(|probe| container_times(&probe.probe, type_, node));
        Start {
            startup: times(ProbeType::Startup),
            readiness: times(ProbeType::Readiness),
            liveness: times(ProbeType::Liveness),
        }
    }
}

/// Explains a pod or a workload; `spec_path` leads to its pod spec, `given` holds the Services that may select it.
pub(super) fn explain(object: &Value, spec_path: &[&str], origin: Origin, given: &Given<'_>, options: &Options) -> Workload {
    let kind = json::text(object, &["kind"]);
    let mut found = Findings::new(origin);
    if origin == Origin::BuiltIn {
        shape::kind(object, &mut found);
    }
    let mut admitted = object.clone();
    let dropped = probe_rules::drop_disabled_probe_fields(kind, &mut admitted, None, &options.node.gates);
    found.ignored_fields(&dropped);

    let path = Path::new(spec_path.join("."));
    let nothing = Value::Null;
    let spec = json::at(&admitted, spec_path).unwrap_or(&nothing);
    for error in probe_rules::validate_pod_probes(spec, &path) {
        found.invalid(&error);
    }
    if json::get(spec, "containers").is_none_or(|list| list.as_array().is_some_and(Vec::is_empty)) {
        found.add(Severity::Error, "no-containers", path.child("containers"), "the pod has no containers", found.refused());
    }
    let subjects = subjects(spec, &path, options);
    for subject in &subjects {
        findings::container(subject, options, &mut found);
        practice::container(subject, spec, &mut found);
    }
    let labels = labels(object, spec_path);
    practice::workload(kind, object, &subjects, || given.services_of(object, &labels).next().is_some(), &mut found);
    let template = spec_path.split_last().map_or(&[][..], |(_, template)| template);
    let prefix: String = template.iter().map(|key| format!("{key}.")).collect();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": json::at(object, template).and_then(|at| at.get("metadata")), "spec": spec});
    let moved = practice::annotation(&pod, &prefix, &mut found);
    // A template of another kind may have more fields than a pod: of those only containers are sure, and what is nearly right.
    let counts = |path: &str| origin == Origin::BuiltIn || path.contains("ontainers[") || patch::nearest(path).is_some();
    found.shape("Pod", &pod, &prefix, counts);
    findings::services(object, spec, &labels, &subjects, given, &mut found);
    if kind == "Deployment" {
        found.lost_by_undo(&probe_rules::sub_second_fields(kind, &admitted));
    }
    let spec_moved = with_moved(spec, &moved);
    Workload {
        object: 0,
        kind: kind.to_owned(),
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
        containers: self::subjects(&spec_moved, &path, options)
            .iter()
            .map(|subject| Container { moved: moved.contains_key(subject.name), ..container(subject, spec, options) })
            .collect(),
        findings: found.all,
    }
}

/// Returns a pod spec with the readiness probes as the agent of a cluster runs them.
fn with_moved(spec: &Value, moved: &Map<String, Value>) -> Value {
    let mut changed = spec.clone();
    for list in ["initContainers", "containers"].into_iter().filter(|_| !moved.is_empty()) {
        for container in json::items_mut(&mut changed, &[list]).into_iter().flatten() {
            let Some(probe) = moved.get(json::text(container, &["name"])) else { continue };
            container[ProbeType::Readiness.field()] = probe.clone();
        }
    }
    changed
}

/// Returns sidecars and containers with those of their probes that can be read.
fn subjects<'a>(spec: &'a Value, path: &Path, options: &Options) -> Vec<Subject<'a>> {
    let mut subjects = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, value) in json::items(spec, &[list]).iter().enumerate() {
            if list == "initContainers" && json::text(value, &["restartPolicy"]) != "Always" {
                continue;
            }
            let path = path.child(list).index(index);
            let probes = ORDER.into_iter().filter_map(|type_| read(value, type_, &path, options)).collect();
            subjects.push(Subject { value, name: json::text(value, &["name"]), path, probes });
        }
    }
    subjects
}

/// Reads a probe; one that cannot be read has a finding about its types.
fn read<'a>(container: &'a Value, type_: ProbeType, path: &Path, options: &Options) -> Option<Read<'a>> {
    let value = json::get(container, type_.field()).filter(|value| value.is_object())?;
    let probe = pod::Probe::deserialize(value).ok()?;
    let times = container_times(&probe, type_, &options.node);
    Some(Read { type_, value, probe, times, path: path.child(type_.field()) })
}

fn container(subject: &Subject<'_>, spec: &Value, options: &Options) -> Container {
    let start = subject.start();
    let without = NodePolicy { gates: options.node.gates.clone().with(Gate::SubSecondProbes, false), ..options.node.clone() };
    let stock = stock_node();
    let ready = start.ready();
    let ready_without = Some(subject.start_on(&without).ready()).filter(|other| *other != ready);
    let probes = subject.probes.iter().map(|read| {
        let times_without = container_times(&read.probe, read.type_, &without);
        let decides_start = match read.type_ {
            ProbeType::Startup => true,
            ProbeType::Liveness => subject.probe(ProbeType::Startup).is_none(),
            ProbeType::Readiness => false,
        };
        Probe {
            name: read.type_.name().to_ascii_lowercase(),
            handler: HandlerKind::of(read.value).map_or_else(String::new, |handler| handler.field().to_owned()),
            times: read.times,
            times_without_sub_second: Some(times_without).filter(|times| *times != read.times),
            kubelet: options.kubelet.then(|| OnKubelet::of(&container_times(&read.probe, read.type_, &stock))),
            action: action(read, subject, spec),
            never_up: decides_start.then(|| read.times.never_up()),
            failing: (read.type_ != ProbeType::Startup).then(|| read.times.failing()),
            recovering: (read.type_ == ProbeType::Readiness).then(|| read.times.recovering()),
        }
    });
    let written = ORDER.iter().filter(|type_| subject.value.get(type_.field()).is_some_and(|probe| !probe.is_null())).count();
    Container {
        name: subject.name.to_owned(),
        moved: false,
        refused: written > subject.probes.len(),
        sidecar: subject.path.to_string().contains("initContainers"),
        ready: Some(ready),
        ready_at_ms: options.listens_ms().and_then(|listens| start.ready_ms(listens)),
        budget_ms: start.budget_ms(),
        ready_without_sub_second: ready_without,
        probes: probes.collect(),
    }
}

/// Returns a node as Kubernetes alone has it: none of our gates is there.
fn stock_node() -> NodePolicy {
    let gates = [Gate::SubSecondProbes, Gate::SubSecondProbeTimeouts, Gate::ProbeOnListen];
    let gates = gates.into_iter().fold(FeatureGates::default(), |gates, gate| gates.with(gate, false));
    NodePolicy { gates, policy: SubSecondProbePolicy::default(), second_look: false }
}

fn action(read: &Read<'_>, subject: &Subject<'_>, spec: &Value) -> Action {
    if read.type_ == ProbeType::Readiness {
        return Action::RemoveEndpoint;
    }
    let of_pod = json::int(spec, &["terminationGracePeriodSeconds"]).unwrap_or(DEFAULT_GRACE_SECONDS);
    let seconds = read.probe.termination_grace_period_seconds.unwrap_or(of_pod).max(GRACE_SECONDS_MIN);
    let own = pod::Container {
        restart_policy: json::text(subject.value, &["restartPolicy"]).to_owned(),
        ..pod::Container::default()
    };
    let policy = match json::text(spec, &["restartPolicy"]) {
        "" => "Always",
        policy => policy,
    };
    let restart = Restarts::of(policy, &own).follow_kill();
    Action::Kill { grace_ms: u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000), restart }
}
