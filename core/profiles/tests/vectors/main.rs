//! Runs the vectors of latency profiles: values, hazards, transitions, plans, status.

mod hazards;
mod plan;
mod profiles;
mod status;
mod steps;
mod transitions;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("latency-profiles/profiles", profiles::check)
        .file("latency-profiles/transitions", transitions::check)
        .file("latency-profiles/hazards", hazards::check)
        .file("latency-profiles/plan", plan::check)
        .file("latency-profiles/status", status::check)
        .file("latency-profiles/steps", steps::check)
        .run()
}
