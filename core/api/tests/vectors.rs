//! Runs the vectors of the API rules.

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).run()
}
