//! Runs the vectors of the API rules.

#[path = "vectors/dropping.rs"]
mod dropping;
#[path = "vectors/endpointslices.rs"]
mod endpointslices;
#[path = "vectors/pod_probe_marker.rs"]
mod pod_probe_marker;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("endpointslices/gate", endpointslices::gate)
        .file("endpointslices/validation", endpointslices::validation)
        .file("pod-probe-markers/validation", pod_probe_marker::validation)
        .file("probes/dropping", dropping::check)
        .run()
}
