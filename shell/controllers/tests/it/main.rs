//! Controllers on an API server in this process: no sockets, real watches.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

mod endpointslices;
mod guard;
mod leading;
mod markers;
mod node_lifecycle;
mod profile;
mod scheduler;
mod support;
