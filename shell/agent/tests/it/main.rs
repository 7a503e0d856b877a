//! Real processes and sockets on loopback.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

mod cluster;
mod endpoint;
#[path = "../../../cri/tests/it/runtime.rs"]
mod fake_runtime;
mod knocks;
mod markers;
mod plane;
mod pods;
mod probes;
mod serving;
#[path = "../../../processes/tests/it/support.rs"]
mod support;

/// The program with the parts of this package.
pub(crate) const PARTS: &str = env!("CARGO_BIN_EXE_lifesign-agent-parts");
