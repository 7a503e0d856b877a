//! A node of a stock cluster: its files, its processes, and how its components are.

pub(crate) mod files;
pub(crate) mod host;
pub(crate) mod processes;
pub(crate) mod root;
