//! Runs the vectors of admission.

#[path = "vectors/pods.rs"]
mod pods;
#[path = "vectors/review.rs"]
mod review;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("admission/custom", review::check)
        .file("admission/pods", pods::check)
        .file("admission/review", review::check)
        .run()
}
