//! The cases of `conformance/explain`: manifests in, findings out; every patch takes its finding away and brings no other.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use explain::{Options, Report, explain, explain_with_patches, patch};
use serde::Deserialize;
use serde_json::Value;
use testkit::vectors::{Case, Suite, Verdict};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Given {
    objects: Vec<Value>,
    #[serde(default)]
    listen_after_milliseconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    findings: Vec<String>,
    #[serde(default)]
    without: BTreeSet<String>,
}

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).file("explain/manifests", check).run()
}

/// Returns kind, name, code and path of every finding.
fn marks(report: &Report) -> Vec<(String, String, &'static str, String)> {
    let of = |workload: &explain::Workload| {
        let (kind, name) = (workload.kind.clone(), workload.name.clone());
        workload
            .findings
            .iter()
            .map(move |finding| (kind.clone(), name.clone(), finding.id, finding.path.clone()))
            .collect::<Vec<_>>()
    };
    report.workloads.iter().flat_map(of).collect()
}

fn check(case: Case<Given, Expect>) -> Verdict {
    let objects = &case.given.objects;
    let options =
        Options { listen_after: case.given.listen_after_milliseconds.map(Duration::from_millis), ..Options::default() };
    let report = explain_with_patches(objects, &options);
    let found = marks(&report);
    let shown: Vec<String> = found.iter().map(|(_, _, id, path)| format!("{id} {path}")).collect();
    let mut wrong = Vec::new();
    if shown != case.expect.findings {
        wrong.push(format!("expected {:#?}, found {shown:#?}", case.expect.findings));
    }
    for workload in &report.workloads {
        for finding in &workload.findings {
            let Some(change) = &finding.patch else {
                if !case.expect.without.contains(finding.id) {
                    wrong.push(format!("{} {}: there is no patch", finding.id, finding.path));
                }
                continue;
            };
            let mut changed = objects.clone();
            let own = changed
                .iter_mut()
                .find(|object| object["kind"] == workload.kind && object["metadata"]["name"] == workload.name);
            patch::apply(own.expect("the object of the finding"), change);
            let after = marks(&explain(&changed, &options));
            let mark = (workload.kind.clone(), workload.name.clone(), finding.id, finding.path.clone());
            let fresh: Vec<_> = after.iter().filter(|mark| !found.contains(mark)).collect();
            if after.contains(&mark) || !fresh.is_empty() {
                wrong.push(format!(
                    "{} {}: with the patch it has {fresh:?}\n{}",
                    finding.id,
                    finding.path,
                    patch::yaml(change)
                ));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
