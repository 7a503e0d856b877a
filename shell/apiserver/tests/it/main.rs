//! The server as clients see it: kube-rs and our own, in process and over TLS, restarts, and the bounds of watches.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod applying;
mod clients;
mod components;
mod controller;
mod node_role;
mod objects;
mod overload;
mod own_client;
mod plane;
mod raw;
mod restarts;
mod watches;
