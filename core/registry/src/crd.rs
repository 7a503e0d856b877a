//! CustomResourceDefinitions: what a definition may say, and what it makes of custom resources.
//!
//! A definition is defaulted, validated and given conditions; each of its versions has a [`Schema`] that is compiled once
//! and then prunes, defaults and validates every object. Everything here is a pure function of JSON values. Conversion
//! between versions is not here: only the strategy `None` exists, which changes nothing but `apiVersion`.

pub mod cel;
mod correlate;
mod default;
mod format;
mod pattern;
mod prune;
mod rules;
mod schema;
mod trail;
mod validate;

#[cfg(test)]
mod tests;

pub use default::default;
pub use prune::prune;
pub use rules::Rule;
pub use schema::{Additional, ListType, NotEnforced, Schema, Type};
pub use validate::validate;
