//! What an API server means, without HTTP and without a disk: types, decoding, versions, patches, deletion, tables.

pub mod base64;
