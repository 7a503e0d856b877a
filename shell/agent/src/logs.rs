//! Logs of containers.

pub mod cri;
