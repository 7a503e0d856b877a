//! Which lists of which messages merge, and by which key: what the type model says, in the terms of a strategic merge.
//!
//! Every map merges member by member; every list that the model has no key for is replaced whole.

use kinds::model::{self, Apply, Type};

/// How a list meets the list of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListStrategy {
    /// The list of the patch takes its place.
    Replace,
    /// Items with an equal member of this name merge.
    Merge(&'static str),
    /// Both are sets of primitive values.
    Set,
}

/// How one member of a message merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The name of the member, for messages.
    pub(super) field: &'static str,
    /// The message of its value, or of its items if it is a list; empty if it is none.
    pub(super) message: &'static str,
    /// The strategy, if it is a list.
    pub(super) list: ListStrategy,
}

/// Returns the rule of a member of a message; what the model does not have is plain.
pub(super) fn lookup(message: &str, field: &str) -> Rule {
    let Some(field) = model::message(message).and_then(|message| message.field(field)) else {
        return Rule { field: "", message: "", list: ListStrategy::Replace };
    };
    let value = match &field.kind {
        Type::List(item) => item,
        other => other,
    };
    let list = match (field.merge.key, &field.merge.apply) {
        (Some(key), _) => ListStrategy::Merge(key),
        (None, Apply::Set) => ListStrategy::Set,
        (None, _) => ListStrategy::Replace,
    };
    Rule { field: field.name, message: value.message().map_or("", model::Message::name), list }
}
