//! Runs the vectors of container probes.

#[path = "vectors/backoff.rs"]
mod backoff;
#[path = "vectors/common.rs"]
mod common;
#[path = "vectors/handlers.rs"]
mod handlers;
#[path = "vectors/http.rs"]
mod http;
#[path = "vectors/podready.rs"]
mod podready;
#[path = "vectors/timing.rs"]
mod timing;
#[path = "vectors/worker.rs"]
mod worker;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("probes/backoff", backoff::check)
        .file("probes/handlers", handlers::check)
        .file("probes/http", http::check)
        .file("probes/listen", worker::check)
        .file("probes/podready", podready::check)
        .file("probes/timing", timing::check)
        .file("probes/worker", worker::check)
        .run()
}
