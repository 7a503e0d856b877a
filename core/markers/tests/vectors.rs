//! Runs the vectors of pod probe markers.

#[path = "vectors/marking.rs"]
mod marking;
#[path = "vectors/nodepodprobe.rs"]
mod nodepodprobe;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("pod-probe-markers/marking", marking::check)
        .file("pod-probe-markers/nodepodprobe", nodepodprobe::check)
        .run()
}
