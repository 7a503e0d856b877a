//! Runs the vectors of node lifecycle: heartbeats, taints, tolerations, evictions.

mod beats;
mod nodes;
mod tolerations;
mod world;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("latency-profiles/beats", beats::check)
        .file("latency-profiles/nodes", nodes::check)
        .file("latency-profiles/tolerations", tolerations::check)
        .run()
}
