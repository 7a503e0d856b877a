//! What the probes of a manifest will really do: effective times, when a container is ready, when a failure acts, what is
//! dangerous.
//!
//! [`explain`] takes objects as they are written, before any API server saw them: gated fields are dropped and the rest is
//! judged as admission would. It is total; what cannot be read is a finding, and the rest is explained. The numbers come
//! from [`times`], which states its formulas.

mod findings;
mod given;
mod in_front;
pub mod kubelet;
mod markers;
pub mod patch;
mod practice;
pub mod report;
pub mod rules;
mod shape;
mod table;
mod templates;
mod timeline;
pub mod times;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{ProbeType, json, pod};
use serde_json::Value;

use findings::Findings;
use given::Given;
use probe::timing::{Defaults, NodePolicy, Timing, knocks};

pub use report::{Action, Finding, Report, Severity, Skipped, Workload};
pub use table::{Look, table};
pub use times::{Ready, Span, Start, Times};

/// What the explanation is about beside the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Gates and policy of the nodes.
    pub node: NodePolicy,
    /// When the application answers, from the start of its container, if the user knows.
    pub listen_after: Option<Duration>,
    /// Codes of findings that nobody wants to hear.
    pub ignore: BTreeSet<String>,
    /// Whether a stock kubelet is compared with.
    pub kubelet: bool,
}

impl Options {
    fn listens_ms(&self) -> Option<u64> {
        self.listen_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Explains the probes of some objects; Services and markers among them count for the workloads that they select.
pub fn explain(objects: &[Value], options: &Options) -> Report {
    explain_given(&Given::new(objects), options)
}

fn explain_given(given: &Given<'_>, options: &Options) -> Report {
    let mut report = Report::default();
    for (index, object) in given.objects.iter().enumerate() {
        let mut workloads = judge(object, given, options);
        workloads.iter_mut().for_each(|workload| workload.object = index);
        if workloads.is_empty() && !is_service(object) {
            report.skipped.push(Skipped {
                api_version: json::text(object, &["apiVersion"]).to_owned(),
                kind: json::text(object, &["kind"]).to_owned(),
                name: name(object).to_owned(),
            });
        }
        report.workloads.extend(workloads);
    }
    report
}

/// Explains as [`explain`] does, and computes the patch of every finding: each is tried, which takes a while for large files.
pub fn explain_with_patches(objects: &[Value], options: &Options) -> Report {
    let given = Given::new(objects);
    let mut report = explain_given(&given, options);
    // Objects that differ in nothing but their names have the same patches.
    let mut known: BTreeMap<(String, &'static str, String), Option<Value>> = BTreeMap::new();
    for workload in &mut report.workloads {
        let object = &objects[workload.object];
        let like = |field: &str| object.get("metadata").and_then(|metadata| metadata.get(field)).map(Value::to_string);
        let parts = [Some(workload.kind.clone()), like("namespace"), like("labels"), object.get("spec").map(Value::to_string)];
        let like = parts.map(Option::unwrap_or_default).join("\n");
        for finding in &mut workload.findings {
            let key = (like.clone(), finding.id, finding.path.clone());
            let mend = || mend(&given, workload.object, finding, options);
            finding.patch = known.entry(key).or_insert_with(mend).clone();
        }
    }
    report
}

/// Where a pod template comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A kind of Kubernetes: its API server judges the whole of it.
    BuiltIn,
    /// Another kind: its template may have fields of its own, and pods are judged when they are made.
    Custom,
}

/// Returns whether an object is a Service of Kubernetes; others have that kind too.
fn is_service(object: &Value) -> bool {
    json::text(object, &["kind"]) == "Service" && !json::text(object, &["apiVersion"]).contains('/')
}

/// Explains one object; a kind that is not built in may have several pod templates. None: it has no probes.
fn judge(object: &Value, given: &Given<'_>, options: &Options) -> Vec<Workload> {
    let kind = json::text(object, &["kind"]);
    let mut workloads = match kind {
        "PodProbeMarker" => vec![markers::explain(object, given, options)],
        _ if is_service(object) => in_front::judge(object, given).into_iter().collect(),
        _ => match templates::built_in(object) {
            Some(path) => vec![workloads::explain(object, path, Origin::BuiltIn, given, options)],
            None => templates::find(object).iter().map(|template| from_template(object, template, given, options)).collect(),
        },
    };
    for workload in &mut workloads {
        let template = templates::built_in(object).and_then(|path| json::at(object, path.split_last()?.1));
        let mut ignored = rules::ignored_by(object, template.unwrap_or(&Value::Null));
        ignored.extend(options.ignore.iter().cloned());
        rules::silence(&mut workload.findings, &ignored);
        workload.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
    workloads
}

/// Explains a template that was found by its structure: as a pod, with the paths of the object.
fn from_template(object: &Value, template: &templates::Template, given: &Given<'_>, options: &Options) -> Workload {
    let mut workload = workloads::explain(&template.pod, &["spec"], Origin::Custom, given, options);
    workload.kind = json::text(object, &["kind"]).to_owned();
    for finding in &mut workload.findings {
        finding.path = format!("{}.{}", template.path, finding.path);
    }
    let mut found = Findings::default();
    shape::kind(object, &mut found);
    workload.findings.extend(found.all);
    let ignored = rules::ignored_by(&template.pod, &Value::Null);
    rules::silence(&mut workload.findings, &ignored);
    workload
}

/// Returns a patch that takes a finding away and brings no other; `None`: there is none that can be computed.
fn mend(given: &Given<'_>, index: usize, finding: &Finding, options: &Options) -> Option<Value> {
    let object = &given.objects[index];
    let before = marks(object, given, options);
    let good = |patch: &Value| {
        let after = patched(given, index, patch, options);
        let gone = !after.contains(&(finding.id, finding.path.clone()));
        let fresh: Vec<(&'static str, String)> = after.difference(&before).cloned().collect();
        gone.then_some(fresh)
    };
    let candidates = patch::candidates(object, given, finding, options.listens_ms());
    let mut promising = Vec::new();
    for candidate in candidates {
        match good(&candidate) {
            Some(fresh) if fresh.is_empty() => return Some(candidate),
            Some(fresh) => promising.push((candidate, fresh)),
            None => {}
        }
    }
    // A change that brings another finding may be good together with what takes that one away.
    for (candidate, fresh) in promising {
        let mut changed = object.clone();
        patch::apply(&mut changed, &candidate);
        let new = judge(&changed, given, options).into_iter().flat_map(|workload| workload.findings);
        for other in new.filter(|other| fresh.contains(&(other.id, other.path.clone()))) {
            for more in patch::candidates(&changed, given, &other, options.listens_ms()) {
                let together = patch::both(&candidate, &more);
                if good(&together).is_some_and(|fresh| fresh.is_empty()) {
                    return Some(together);
                }
            }
        }
    }
    None
}

/// Returns code and path of every finding about an object.
fn marks(object: &Value, given: &Given<'_>, options: &Options) -> BTreeSet<(&'static str, String)> {
    let findings = judge(object, given, options).into_iter().flat_map(|workload| workload.findings);
    findings.map(|finding| (finding.id, finding.path)).collect()
}

fn patched(given: &Given<'_>, index: usize, patch: &Value, options: &Options) -> BTreeSet<(&'static str, String)> {
    let mut changed = given.objects[index].clone();
    patch::apply(&mut changed, patch);
    marks(&changed, given, options)
}

/// Returns the times that decide when a container is ready.
pub fn start(container: &pod::Container, node: &NodePolicy) -> Start {
    let times = |probe: &Option<pod::Probe>, type_| Some(container_times(probe.as_ref()?, type_, node));
    Start {
        startup: times(&container.startup_probe, ProbeType::Startup),
        readiness: times(&container.readiness_probe, ProbeType::Readiness),
        liveness: times(&container.liveness_probe, ProbeType::Liveness),
    }
}

fn container_times(probe: &pod::Probe, type_: ProbeType, node: &NodePolicy) -> Times {
    let (timing, _) = Timing::of(probe, Some(type_), &node.gates, &Defaults::CONTAINER);
    let mut times = Times::new(&timing, node.policy, node.second_look && type_ != ProbeType::Liveness);
    times.probe_on_listen = knocks(probe, type_, &node.gates);
    times
}

fn name(object: &Value) -> &str {
    match json::text(object, &["metadata", "name"]) {
        "" => json::text(object, &["metadata", "generateName"]),
        name => name,
    }
}

fn namespace(object: &Value) -> &str {
    match json::text(object, &["metadata", "namespace"]) {
        "" => "default",
        namespace => namespace,
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
