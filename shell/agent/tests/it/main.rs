//! Real processes and sockets on loopback.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

mod commands;
mod containers;
mod endpoint;
mod logs;
mod markers;
mod plane;
mod pods;
mod probes;
mod serving;
mod support;
