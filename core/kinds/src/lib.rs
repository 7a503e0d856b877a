//! What kinds are: the type model with its protobuf layout, the rules of built-in kinds, the served resources, tables.
//!
//! Everything works on JSON values and is a pure function of them. What happens to an object over time (revisions, patches,
//! deletion) is `registry`'s; what a CustomResourceDefinition says is `schemas`'.

pub mod base64;
pub mod builtin;
pub mod further;
pub mod key;
pub mod model;
pub mod resource;
pub mod table;
