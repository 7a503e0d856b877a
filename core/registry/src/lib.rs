//! What an API server means, without HTTP and without a disk: types, decoding, versions, patches, deletion, tables.

pub mod authz;
pub mod autoscalers;
pub mod binding;
pub mod collect;
pub mod containers;
pub mod custom;
pub mod deletion;
pub mod discovery;
pub mod events;
pub mod index;
pub mod kind;
pub mod meta;
pub mod namespaces;
pub mod openapi;
pub mod ownership;
pub mod patch;
pub mod pipeline;
pub mod query;
pub mod recent;
pub mod reviews;
pub mod scale;
pub mod services;
pub mod state;
pub mod tokens;
pub mod watching;
