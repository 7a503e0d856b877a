//! A cluster in memory for tests: an API server that keeps JSON, and machines around it on a virtual clock.

#![allow(dead_code, reason = "each test target uses its own part")]

// Named by path because the test target `vectors` includes this file from another folder.
#[path = "support/server.rs"]
pub(crate) mod server;
#[path = "support/world.rs"]
pub(crate) mod world;
