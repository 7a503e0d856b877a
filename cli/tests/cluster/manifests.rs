//! What we hand out is accepted as it is: `deploy/` and `examples/`, with strict validation.

use std::path::Path;

use crate::Test;
use crate::bed::Bed;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("manifests::definitions_are_accepted", definitions_are_accepted),
    ("manifests::examples_are_accepted", examples_are_accepted),
    ("manifests::definitions_hold_what_they_promise", definitions_hold_what_they_promise),
];

/// Examples with fields of pods that only a Lifesign API server knows; a strict cluster names exactly these.
const OWN_FIELDS: &[(&str, &str)] =
    &[("fast-ready.yaml", "unknown field \"spec.containers[0].readinessProbe.periodMilliseconds\"")];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn definitions_are_accepted(bed: &Bed) {
    bed.install_definitions();
}

fn examples_are_accepted(bed: &Bed) {
    bed.install_definitions();
    let mut names: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let path = root().join("examples").join(&name);
        let apply = |validate: &str| bed.kubectl(&["apply", validate, "--dry-run=server", "-f", path.to_str().unwrap()], "");
        let (good, output) = apply("--validate=strict");
        match OWN_FIELDS.iter().find(|(of, _)| *of == name) {
            None => assert!(good, "{name}: {output}"),
            Some((_, field)) => {
                assert!(!good && output.matches("unknown field").count() == 1 && output.contains(field), "{name}: {output}");
                let (good, output) = apply("--validate=warn");
                assert!(good && output.contains(field), "{name}: {output}");
            }
        }
    }
}

/// The rules of the schema are those of a real API server too.
fn definitions_hold_what_they_promise(bed: &Bed) {
    bed.install_definitions();
    let marker = |probe: &str, count: usize| {
        let one = |index: usize| {
            format!("  - {{name: p{index}, containerName: c, podConditionType: example.com/p{index}, probe: {probe}}}\n")
        };
        let probes: String = (0..count).map(one).collect();
        format!(
            "apiVersion: apps.kruise.io/v1alpha1\nkind: PodProbeMarker\nmetadata: {{name: m}}\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n  probes:\n{probes}"
        )
    };
    let apply = |text: &str| bed.kubectl(&["apply", "--dry-run=server", "-f", "-"], text);
    for (probe, count, wanted) in [
        ("{tcpSocket: {port: 1}}", 256, None),
        ("{tcpSocket: {port: 1}}", 257, Some("must have at most 256 items")),
        ("{tcpSocket: {port: 1}, exec: {command: [a]}}", 1, Some("exactly one of exec, httpGet, tcpSocket and grpc")),
        ("{tcpSocket: {port: 1}, periodMilliseconds: -900}", 1, Some("the effective period must be at least")),
        ("{tcpSocket: {port: 1}, periodMilliseconds: -800}", 1, None),
    ] {
        let (good, output) = apply(&marker(probe, count));
        match wanted {
            None => assert!(good, "{count} of {probe}: {output}"),
            Some(wanted) => assert!(!good && output.contains(wanted), "{count} of {probe}: {output}"),
        }
    }
}
