//! Real processes.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

mod commands;
mod containers;
mod interactive;
mod logs;
mod support;

/// The program with the parts of this package.
pub(crate) const PARTS: &str = env!("CARGO_BIN_EXE_lifesign-processes-parts");
