//! PodProbeMarkers: probes that mark pods and have no say in whether a container is ready.

use api::field::Path;
use api::{Gate, HandlerKind, LabelSelector, json, marker_rules, pod, probe_rules};
use serde::Deserialize;
use serde_json::Value;

use crate::findings::{self, Findings};
use crate::given::{Given, GivenPod};
use crate::report::{Action, Container, Probe, Severity, Workload};
use crate::{Options, Times, name, namespace};
use probe::timing::{Defaults, NodePolicy, Timing};

/// Explains a marker; `given` holds the workloads that it may select.
pub(super) fn explain(object: &Value, given: &Given<'_>, options: &Options) -> Workload {
    let mut found = Findings::default();
    let mut admitted = object.clone();
    found.ignored_fields(&probe_rules::drop_disabled_probe_fields("PodProbeMarker", &mut admitted, None, &options.node.gates));
    for error in marker_rules::validate_pod_probe_marker(&admitted, None) {
        found.invalid(&error);
    }
    let selected = selected(&admitted, given);
    let mut containers: Vec<Container> = Vec::new();
    for (index, item) in json::items(&admitted, &["spec", "probes"]).iter().enumerate() {
        let path = Path::new("spec.probes").index(index);
        let container = json::text(item, &["containerName"]);
        targets(item, container, &selected, &path, &mut found);
        let Some(probe) = probe(item, &path.child("probe"), options, &mut found) else { continue };
        match containers.iter_mut().find(|known| known.name == container) {
            Some(known) => known.probes.push(probe),
            None => containers.push(Container {
                name: container.to_owned(),
                sidecar: false,
                moved: false,
                refused: false,
                ready: None,
                ready_at_ms: None,
                budget_ms: None,
                ready_without_sub_second: None,
                probes: vec![probe],
            }),
        }
    }
    Workload {
        object: 0,
        kind: "PodProbeMarker".to_owned(),
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
        containers,
        findings: found.all,
    }
}

fn marker_times(probe: &pod::Probe, node: &NodePolicy) -> Times {
    // Markers take no second look.
    Times::new(&Timing::of(probe, None, &node.gates, &Defaults::MARKER).0, node.policy, false)
}

fn probe(item: &Value, path: &Path, options: &Options, found: &mut Findings) -> Option<Probe> {
    let value = json::get(item, "probe")?;
    found.shape("Probe", value, &format!("{path}."), |_| true);
    let stored = pod::Probe::deserialize(value).ok()?;
    let times = marker_times(&stored, &options.node);
    let without = NodePolicy { gates: options.node.gates.clone().with(Gate::SubSecondProbes, false), ..options.node.clone() };
    findings::timeout(&times, path, options, found);
    findings::exec(HandlerKind::of(value), &times, path, options, found);
    Some(Probe {
        name: json::text(item, &["name"]).to_owned(),
        handler: HandlerKind::of(value).map_or_else(String::new, |handler| handler.field().to_owned()),
        times,
        times_without_sub_second: Some(marker_times(&stored, &without)).filter(|other| *other != times),
        kubelet: None,
        action: Action::Mark,
        never_up: Some(times.never_up()),
        failing: Some(times.failing()),
        recovering: Some(times.recovering()),
    })
}

/// Returns the pods that a marker selects.
fn selected<'a>(marker: &Value, given: &'a Given<'_>) -> Vec<&'a GivenPod<'a>> {
    let selector = json::at(marker, &["spec", "selector"]).and_then(|selector| LabelSelector::deserialize(selector).ok());
    let Some(selector) = selector.filter(|selector| !selector.is_empty()).and_then(|selector| selector.compile()) else {
        return Vec::new();
    };
    given.pods_beside(marker).iter().filter(|pod| selector.matches(&pod.labels)).collect()
}

/// Finds selected workloads in which a probe has no container or no port to ask.
fn targets(item: &Value, container: &str, selected: &[&GivenPod<'_>], path: &Path, found: &mut Findings) {
    for workload in selected {
        let sidecars = json::items(&workload.spec, &["initContainers"]).iter();
        let sidecars = sidecars.filter(|container| json::text(container, &["restartPolicy"]) == "Always");
        let mut containers = sidecars.chain(json::items(&workload.spec, &["containers"]));
        match containers.find(|value| json::text(value, &["name"]) == container) {
            Some(value) => {
                let probe = json::get(item, "probe").unwrap_or(&Value::Null);
                findings::undeclared_port(value, container, probe, &path.child("probe"), found);
            }
            None => {
                let text = format!("{:?} is selected, but has no container {container:?}: the probe is skipped", workload.name);
                let advice = "name one of its containers or sidecars";
                found.add(Severity::Warning, "marker-target-missing", path.child("containerName"), text, advice);
            }
        }
    }
}
