//! Packing: the endpoints of one Service and family into slices.
//!
//! Goal: fewest writes, then fullest slices; never rebalance for its own sake. Every tie has a rule, so the result is unique,
//! and it is always one that Kubernetes (which iterates hash maps) could give. An endpoint is in exactly one slice of its
//! port group afterwards, and packing again after the writes changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::endpointslice::Endpoint;

use crate::hints::Mode;
use crate::ports::Ports;
use crate::record::Record;
use crate::settings::Settings;

/// A slice that is there: the managed slices of the Service and family, ascending name.
#[derive(Clone, Debug)]
pub struct Stored<'a> {
    /// Its ports.
    pub ports: Arc<Ports>,
    /// Its endpoints, as the controller compares with them.
    pub endpoints: &'a [Endpoint],
    /// Whether it belongs to this very Service; others are deleted, never adopted.
    pub owned: bool,
    /// Whether it has the wanted labels.
    pub labelled: bool,
}

/// The wanted endpoints with equal ports.
#[derive(Clone, Debug)]
pub struct Group {
    /// Their ports.
    pub ports: Arc<Ports>,
    /// The endpoints, ascending pod name; never empty.
    pub records: Vec<Arc<Record>>,
}

/// What a slice holds afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Its ports.
    pub ports: Arc<Ports>,
    /// Its endpoints, in order.
    pub records: Vec<Arc<Record>>,
}

/// What happens to a stored slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceChange {
    /// It stays as it is.
    Unchanged(Packed),
    /// It is written.
    Update(Packed),
    /// It is written instead of being deleted: its endpoints were done with.
    Recycle(Packed),
    /// It goes.
    Delete,
}

/// The result: what happens to each stored slice, in their order, and the slices to create, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// One for each stored slice.
    pub changes: Vec<SliceChange>,
    /// The slices to create.
    pub creates: Vec<Packed>,
}

/// What is the same for all slices of a packing.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The namespace of Service and pods.
    pub namespace: &'a str,
    /// Limits and gates.
    pub settings: &'a Settings,
    /// Which hints endpoints carry.
    pub mode: Mode,
    /// Whether the Service is being deleted: then nothing is created.
    pub deleting: bool,
}

/// Packs the groups, which are in the order of their first pods, into the stored slices, and new ones where needed.
pub fn pack(stored: &[Stored<'_>], groups: &[Group], frame: Frame<'_>) -> Packing {
    let mut changes: Vec<Option<SliceChange>> = vec![None; stored.len()];
    let mut creates = Vec::new();
    let mut by_ports: BTreeMap<&Ports, Vec<usize>> = BTreeMap::new();
    for (index, slice) in stored.iter().enumerate().filter(|(_, slice)| slice.owned) {
        by_ports.entry(&slice.ports).or_default().push(index);
    }
    let mut deletes: Vec<usize> = (0..stored.len()).filter(|&index| !stored[index].owned).collect();
    for group in groups {
        let slices = by_ports.remove(&*group.ports).unwrap_or_default();
        pack_group(stored, group, &slices, frame, &mut changes, &mut creates, &mut deletes);
    }
    let mut vanished: Vec<usize> = by_ports.into_values().flatten().collect();
    vanished.sort_unstable();
    deletes.extend(vanished);

    if deletes.len() == stored.len() && creates.is_empty() {
        match placeholder(stored, &deletes) {
            // Rewriting it, as Kubernetes does when others go in the same sync, would change nothing.
            Some(kept) => {
                deletes.retain(|&index| index != kept);
                changes[kept] = Some(SliceChange::Unchanged(Packed::default()));
            }
            None => creates.push(Packed::default()),
        }
    }
    for &index in &deletes {
        let reused = if stored[index].owned { creates.pop() } else { None };
        changes[index] = Some(reused.map_or(SliceChange::Delete, SliceChange::Recycle));
    }
    if frame.deleting {
        creates.clear();
    }
    let changes =
        changes.into_iter().zip(stored).map(|(change, slice)| hinted(change.expect("every slice has a change"), slice, frame));
    Packing { changes: changes.collect(), creates }
}

/// Returns the first slice that already is the placeholder: no ports, no endpoints, right labels and owner.
fn placeholder(stored: &[Stored<'_>], candidates: &[usize]) -> Option<usize> {
    let is_one = |slice: &Stored<'_>| slice.owned && slice.labelled && slice.ports.is_empty() && slice.endpoints.is_empty();
    candidates.iter().copied().filter(|&index| is_one(&stored[index])).min()
}

/// Turns an unchanged slice with wrong hints into an update.
fn hinted(change: SliceChange, slice: &Stored<'_>, frame: Frame<'_>) -> SliceChange {
    match change {
        SliceChange::Unchanged(packed) if slice.endpoints.iter().any(|stored| frame.mode.wants_write(stored)) => {
            SliceChange::Update(packed)
        }
        change => change,
    }
}

fn pack_group(
    stored: &[Stored<'_>],
    group: &Group,
    slices: &[usize],
    frame: Frame<'_>,
    changes: &mut [Option<SliceChange>],
    creates: &mut Vec<Packed>,
    deletes: &mut Vec<usize>,
) {
    let max = frame.settings.max_endpoints_per_slice;
    let mut placed = vec![false; group.records.len()];
    // Step 1: every slice keeps what is still wanted, in its order.
    let mut updates: Vec<(usize, Packed)> = Vec::new();
    let mut unchanged: Vec<(usize, Packed)> = Vec::new();
    for &index in slices {
        let slice = &stored[index];
        let (packed, changed) = keep(slice, group, frame, &mut placed);
        match (changed, packed.records.is_empty()) {
            (true, true) => deletes.push(index),
            (true, false) => updates.push((index, packed)),
            (false, _) if !slice.labelled => updates.push((index, packed)),
            (false, _) => unchanged.push((index, packed)),
        }
    }
    let mut left =
        group.records.iter().zip(&placed).filter(|(_, placed)| !**placed).map(|(record, _)| Arc::clone(record)).peekable();
    let mut count = placed.iter().filter(|placed| !**placed).count();

    // Step 2: what is left goes into slices that are written anyway, the fullest first.
    updates.sort_by_key(|(index, packed)| (std::cmp::Reverse(packed.records.len()), *index));
    for (_, packed) in &mut updates {
        let room = max.saturating_sub(packed.records.len()).min(count);
        packed.records.extend(left.by_ref().take(room));
        count -= room;
    }
    // Step 3: the rest goes into the one unchanged slice that it fills best, or into new ones.
    while left.peek().is_some() {
        let fits = |packed: &Packed| max.checked_sub(packed.records.len() + count);
        let best = unchanged.iter().enumerate().filter_map(|(at, (index, packed))| Some((fits(packed)?, *index, at))).min();
        match best.filter(|_| count < max) {
            Some((_, _, at)) => {
                let (index, mut packed) = unchanged.remove(at);
                packed.records.extend(left.by_ref());
                updates.push((index, packed));
            }
            None => creates.push(Packed { ports: Arc::clone(&group.ports), records: left.by_ref().take(max).collect() }),
        }
        count = count.saturating_sub(max);
    }
    for (index, packed) in updates {
        changes[index] = Some(SliceChange::Update(packed));
    }
    for (index, packed) in unchanged {
        changes[index] = Some(SliceChange::Unchanged(packed));
    }
}

/// Returns what a slice keeps of its endpoints, with their new content, and whether anything of it changed.
fn keep(slice: &Stored<'_>, group: &Group, frame: Frame<'_>, placed: &mut [bool]) -> (Packed, bool) {
    let mut changed = false;
    let mut records = Vec::with_capacity(slice.endpoints.len());
    for stored in slice.endpoints {
        match find(&group.records, stored, frame.namespace).filter(|&at| !placed[at]) {
            Some(at) => {
                placed[at] = true;
                changed |= !group.records[at].same_content(stored, frame.settings);
                records.push(Arc::clone(&group.records[at]));
            }
            None => changed = true,
        }
    }
    (Packed { ports: Arc::clone(&group.ports), records }, changed)
}

/// Returns which of the records (ascending pod name) a stored endpoint is.
pub(crate) fn find(records: &[Arc<Record>], stored: &Endpoint, namespace: &str) -> Option<usize> {
    let pod = stored.target_ref.as_ref()?.name.as_str();
    let at = records.binary_search_by(|record| (*record.pod).cmp(pod)).ok()?;
    records[at].identifies(namespace, stored).then_some(at)
}
