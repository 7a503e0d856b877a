//! CustomResourceDefinitions: what a definition may say, and what it makes of custom resources.
//!
//! A definition is defaulted, validated and given conditions; each of its versions has a [`Schema`] that is compiled once
//! and then prunes, defaults and validates every object. Everything here is a pure function of JSON values. Conversion
//! between versions is not here: only the strategy `None` exists, which changes nothing but `apiVersion`.

pub mod cel;
mod columns;
mod correlate;
mod default;
mod definition;
mod format;
mod jsonpath;
mod paths;
mod pattern;
mod prune;
mod publish;
mod rules;
mod schema;
mod trail;
mod url;
mod validate;
mod version;

#[cfg(test)]
mod tests;

pub use columns::PrinterColumns;
pub use default::default;
pub use definition::{
    CLEANUP_FINALIZER, Definition, Version, accept_names, begin_deletion, condition_is_true, default_definition,
    definition_warnings, set_condition, validate_definition,
};
pub use jsonpath::JsonPath;
pub use paths::{ScalePaths, SelectableFields};
pub use prune::prune;
pub use publish::open_api_schema;
pub use rules::Rule;
pub use schema::{Additional, ListType, NotEnforced, Schema, Type};
pub use validate::validate;
pub use version::compare_versions;
