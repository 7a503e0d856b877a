//! A client of the container runtime interface (CRI, `runtime.v1`): which containers run, since when, where, and commands in them.
//!
//! Five unary calls over one HTTP/2 connection to a unix socket, with the dozen fields of their messages that we read. The
//! connection is made again when it is lost; nothing here decides what an answer means.

mod client;
mod exec;
mod messages;
pub mod wire;

pub use client::{Client, Error};
pub use exec::ExecOutput;
pub use messages::{Container, ContainerState, ContainerStatus, Version};
