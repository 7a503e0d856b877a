//! Runs the vectors of the API rules.

#[path = "vectors/dropping.rs"]
mod dropping;
#[path = "vectors/endpointslices.rs"]
mod endpointslices;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("endpointslices/gate", endpointslices::gate)
        .file("endpointslices/validation", endpointslices::validation)
        .file("probes/dropping", dropping::check)
        .run()
}
