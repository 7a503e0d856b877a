//! The controllers on a small world of objects: a server that stores, nodes that run pods, watches that may be behind.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

mod budgets;
mod deployments;
mod properties;
mod replica_sets;
mod rollouts;
mod world;
