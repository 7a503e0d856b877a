//! What the probes of a manifest will really do: effective times, when a container is ready, when a failure acts, what is
//! dangerous.
//!
//! [`explain`] takes objects as they are written, before any API server saw them: gated fields are dropped and the rest is
//! judged as admission would. It is total; what cannot be read is a finding, and the rest is explained. The numbers come
//! from [`times`], which states its formulas.

mod findings;
mod markers;
pub mod report;
mod table;
mod timeline;
pub mod times;
mod workloads;

use std::time::Duration;

use api::{ProbeType, json, pod, probe_rules};
use serde_json::Value;

use probe::timing::{Defaults, NodePolicy, Timing, knocks};

pub use report::{Action, Finding, Report, Severity, Skipped, Workload};
pub use table::table;
pub use times::{Ready, Span, Start, Times};

/// What the explanation is about beside the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Gates and policy of the nodes.
    pub node: NodePolicy,
    /// When the application answers, from the start of its container, if the user knows.
    pub listen_after: Option<Duration>,
}

impl Options {
    fn listens_ms(&self) -> Option<u64> {
        self.listen_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Explains the probes of some objects; Services and markers among them count for the workloads that they select.
pub fn explain(objects: &[Value], options: &Options) -> Report {
    let mut report = Report::default();
    for object in objects {
        let kind = json::text(object, &["kind"]);
        let explained = match kind {
            "PodProbeMarker" => Some(markers::explain(object, objects, options)),
            "Service" => continue,
            kind => probe_rules::pod_spec_path(kind).map(|path| workloads::explain(object, path, objects, options)),
        };
        match explained {
            Some(mut workload) => {
                workload.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
                report.workloads.push(workload);
            }
            None => report.skipped.push(Skipped { kind: kind.to_owned(), name: name(object).to_owned() }),
        }
    }
    report
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
