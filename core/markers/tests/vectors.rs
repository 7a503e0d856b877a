//! Runs the vectors of pod probe markers.

#[path = "vectors/agent.rs"]
mod agent;
#[path = "vectors/marking.rs"]
mod marking;
#[path = "vectors/nodepodprobe.rs"]
mod nodepodprobe;
#[path = "vectors/scenarios.rs"]
mod scenarios;
#[path = "it/support.rs"]
mod support;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("pod-probe-markers/agent", agent::check)
        .file("pod-probe-markers/marking", marking::check)
        .file("pod-probe-markers/nodepodprobe", nodepodprobe::check)
        .file("pod-probe-markers/scenarios", scenarios::check)
        .run()
}
