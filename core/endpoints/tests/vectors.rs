//! Runs the vectors of EndpointSlices.

#[path = "vectors/consumer.rs"]
mod consumer;
#[path = "vectors/lifecycle.rs"]
mod lifecycle;
#[path = "vectors/membership.rs"]
mod membership;
#[path = "vectors/queue.rs"]
mod queue;
#[path = "vectors/reconcile.rs"]
mod reconcile;
#[path = "vectors/tokens.rs"]
mod tokens;

use std::process::ExitCode;

use testkit::Suite;

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("endpointslices/conditions", membership::conditions)
        .file("endpointslices/hints", consumer::hints)
        .file("endpointslices/labels", membership::labels)
        .file("endpointslices/lifecycle", lifecycle::lifecycle)
        .file("endpointslices/membership", membership::membership)
        .file("endpointslices/ports", membership::ports)
        .file("endpointslices/reconcile", reconcile::reconcile)
        .file("endpointslices/requeue", queue::requeue)
        .file("endpointslices/tracker", queue::tracker)
        .file("endpointslices/trigger_time", queue::trigger_time)
        .file("endpointslices/usable", consumer::usable)
        .run()
}
