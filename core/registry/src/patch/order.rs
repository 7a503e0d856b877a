//! The order of a merged list.
//!
//! Items named by the patch stand in the order of the patch; items that only the server has keep their order among
//! themselves and are woven in where their old neighbours are. The order is that of kubectl's and kube-apiserver's
//! implementation: an item that is new to the server goes before the items that only the server has.

use std::collections::BTreeMap;

use serde_json::Value;

use super::PatchError;
use api::ordered::Ordered;

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
}

/// Where the items of a list stand; of equal items the first counts.
pub(super) struct Positions<'a> {
    identity: Identity,
    by_value: BTreeMap<Ordered<'a>, usize>,
}

impl<'a> Positions<'a> {
    pub(super) fn of(list: &'a [Value], identity: Identity) -> Positions<'a> {
        let mut positions = Positions { identity, by_value: BTreeMap::new() };
        for (position, item) in list.iter().enumerate() {
            positions.add(item, position);
        }
        positions
    }

    pub(super) fn add(&mut self, item: &'a Value, position: usize) {
        if let Some(value) = self.identity.of(item) {
            self.by_value.entry(Ordered(value)).or_insert(position);
        }
    }

    pub(super) fn get(&self, item: &Value) -> Option<usize> {
        self.by_value.get(&Ordered(self.identity.of(item)?)).copied()
    }
}

/// Puts `merged` in order: what `order` names by that order, the rest woven in by `server`, the order before the patch.
pub(super) fn arrange(merged: Vec<Value>, order: &[Value], server: &[Value], identity: Identity) -> Vec<Value> {
    let (in_order, on_server) = (Positions::of(order, identity), Positions::of(server, identity));
    let mut named: Vec<(usize, Value)> = Vec::new();
    let mut rest: Vec<(usize, Value)> = Vec::new();
    for item in merged {
        match in_order.get(&item) {
            Some(position) => named.push((position, item)),
            None => rest.push((on_server.get(&item).unwrap_or(usize::MAX), item)),
        }
    }
    named.sort_by_key(|(position, _)| *position);
    rest.sort_by_key(|(position, _)| *position);

    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (_, item) in named {
        if let Some(before) = on_server.get(&item) {
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
    let mut rest = order.iter();
    for item in items {
        let wanted = identity.of(item);
        // Every item begins where the one before was found, so all of them together look at the order once.
        if wanted.is_none() || !rest.any(|other| identity.of(other) == wanted) {
            return Err(PatchError::BadRequest(format!(
                "the order of the patch's list does not match its $setElementOrder list at {item}"
            )));
        }
    }
    Ok(())
}
