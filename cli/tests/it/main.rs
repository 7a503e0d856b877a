//! End to end: the real binary, signals, crashes and limits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cluster;
mod controllers;
mod crash;
mod data;
mod large;
mod limits;
mod page;
mod roots;
mod stopping;
mod streams;
mod webhook;

use std::time::{Duration, Instant};

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something holds that only looking can tell.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
