//! What an API server means, without HTTP and without a disk: types, decoding, versions, patches, deletion, tables.

pub mod base64;
pub mod builtin;
pub mod index;
pub mod patch;
pub mod resource;
pub mod state;
pub mod status;
