//! The webhook against an API in memory, on a paused clock, and over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its own objects has failed")]

mod api;
mod certificates;
mod serving;
