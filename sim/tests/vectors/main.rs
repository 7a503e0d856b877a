//! Runs the vectors of the simulator: its results against closed forms.

mod simulator;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).file("latency-profiles/simulator", simulator::check).run()
}
