//! What a request to write is answered with.

use std::sync::Arc;

use http::StatusCode;
use registry::kind::ServedKind;
use registry::state::Stored;
use serde_json::Value;

use crate::handlers::read::{show, show_stored};
use crate::reply::{self, Reply};
use crate::server::{Call, Server};

/// What became of a request to write.
pub(crate) struct Written {
    pub(crate) object: WrittenObject,
    /// Whether the object went with it.
    pub(crate) removed: bool,
    /// What the client is to be told.
    pub(crate) warnings: Vec<String>,
}

/// The object that a write is answered with.
pub(crate) enum WrittenObject {
    /// As it is stored.
    Stored(Arc<Stored>),
    /// As it would be stored: nothing was.
    DryRun(Value),
}

impl WrittenObject {
    /// Returns the object, still without `apiVersion` and `kind`.
    pub(crate) fn whole(&self) -> Value {
        match self {
            WrittenObject::Stored(stored) => stored.whole(),
            WrittenObject::DryRun(object) => object.clone(),
        }
    }

    /// Returns what is stored, if anything was.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        match self {
            WrittenObject::Stored(stored) => Some(stored),
            WrittenObject::DryRun(_) => None,
        }
    }

    /// Shows the object in the form that the client wants.
    pub(crate) fn show(self, server: &Server, kind: &Arc<ServedKind>, call: &Call, code: StatusCode) -> Reply {
        match self {
            WrittenObject::Stored(stored) => show_stored(server, kind, call, code, &stored),
            WrittenObject::DryRun(object) => show(server, kind, call, code, object),
        }
    }
}

/// Answers with what was written, and with what the client is to be told.
pub(crate) fn answer(
    server: &Server,
    kind: &Arc<ServedKind>,
    call: &Call,
    code: StatusCode,
    written: Written,
    mut warnings: Vec<String>,
) -> Reply {
    warnings.extend(written.warnings);
    reply::warn(written.object.show(server, kind, call, code), &warnings)
}
