//! Server-side apply: who owns which field of an object, what an applied configuration changes, with whom it conflicts.
//!
//! Everything here is a function of JSON values and of a [`Schema`], which says what lists and maps are made of. From the
//! inside out: an [`Element`] is one step of a path, a [`Set`] is a set of paths, the functions of [`walk`] relate objects
//! and sets, [`Managers`] are the entries of `metadata.managedFields`, [`update`] and [`apply()`] are what a write does to
//! them, and [`Packed`] is the form in which they are kept.
//!
//! Invariant: a set has no branch without a member, so equal sets are equal values.

mod element;
mod fields;
mod managers;
mod operation;
mod ownership;
mod packed;
mod schema;
mod set;
#[cfg(test)]
mod testing;
pub mod walk;

pub use element::Element;
pub use managers::{Id, MalformedEntries, Managers, Operation, Owned, is_reset};
pub use operation::{Applied, LAST_APPLIED, Refusal, Write, apply, update};
pub use ownership::Conflict;
pub use packed::{Interner, Packed, Template};
pub use schema::{Elements, Members, Scalar, Schema};
pub use set::Set;
pub use walk::Mismatch;
