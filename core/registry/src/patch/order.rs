//! The order of a merged list.
//!
//! Items named by the patch stand in the order of the patch; items that only the server has keep their order among
//! themselves and are woven in where their old neighbours are. The order is that of kubectl's and kube-apiserver's
//! implementation: an item that is new to the server goes before the items that only the server has.

use serde_json::Value;

use super::PatchError;

/// What makes two items the same: an equal key member, or equality itself for primitive values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Identity {
    Key(&'static str),
    Value,
}

impl Identity {
    /// Returns what an item is compared by; `None` if it lacks its key.
    pub(super) fn of(self, item: &Value) -> Option<&Value> {
        match self {
            Identity::Key(key) => item.get(key),
            Identity::Value => Some(item),
        }
    }

    /// Returns where `item` stands in `list`.
    pub(super) fn position(self, list: &[Value], item: &Value) -> Option<usize> {
        let wanted = self.of(item)?;
        list.iter().position(|other| self.of(other) == Some(wanted))
    }
}

/// Puts `merged` in order: what `order` names by that order, the rest woven in by `server`, the order before the patch.
pub(super) fn arrange(merged: Vec<Value>, order: &[Value], server: &[Value], identity: Identity) -> Vec<Value> {
    let mut named: Vec<(usize, Value)> = Vec::new();
    let mut rest: Vec<(usize, Value)> = Vec::new();
    for item in merged {
        match identity.position(order, &item) {
            Some(position) => named.push((position, item)),
            None => rest.push((identity.position(server, &item).unwrap_or(usize::MAX), item)),
        }
    }
    named.sort_by_key(|(position, _)| *position);
    rest.sort_by_key(|(position, _)| *position);

    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (_, item) in named {
        if let Some(before) = identity.position(server, &item) {
            while let Some((_, other)) = rest.next_if(|(position, _)| *position < before) {
                arranged.push(other);
            }
        }
        arranged.push(item);
    }
    arranged.extend(rest.map(|(_, item)| item));
    arranged
}

/// Checks that the items of a patch stand in the order that the patch itself states.
pub(super) fn check(items: &[&Value], order: &[Value], identity: Identity) -> Result<(), PatchError> {
    let mut from = 0;
    for item in items {
        match identity.position(&order[from..], item) {
            Some(position) => from += position + 1,
            None => {
                return Err(PatchError::BadRequest(format!(
                    "the order of the patch's list does not match its $setElementOrder list at {item}"
                )));
            }
        }
    }
    Ok(())
}
