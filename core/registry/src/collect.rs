//! The garbage collector: which dependents go, which references are dropped, which owners may go on.
//!
//! The graph is kept from changes alone (identity and owner references, no object bodies). Work is a queue of keys; each
//! is judged against the graph, and the shell repeats the judgement against the store before it acts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::deletion::{FOREGROUND, ORPHAN};
use crate::index::{Index, Owner};
use crate::state::{Change, ChangeType, Key};

/// What the collector wants done to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collect {
    /// Delete it in the background: no owner of it lives.
    Delete,
    /// Delete it in the foreground: its owner waits for it and it has dependents that block in turn.
    DeleteForeground,
    /// Keep it, but drop the references to these owners.
    DropOwners(Vec<String>),
    /// Remove this finalizer: what it waited for is done.
    RemoveFinalizer(&'static str),
}

/// Who owns whom.
#[derive(Debug, Default)]
pub struct Graph {
    members: BTreeMap<Key, Arc<Index>>,
    by_uid: BTreeMap<String, Key>,
    /// Owner uid to the keys of its dependents.
    dependents: BTreeMap<String, BTreeSet<Key>>,
    work: VecDeque<Key>,
}

impl Graph {
    /// Takes an object that exists when the collector starts.
    pub fn add(&mut self, key: &Key, index: &Arc<Index>) {
        self.insert(key, Arc::clone(index));
        if !index.owners.is_empty() || index.deleting {
            self.work.push_back(Key::clone(key));
        }
    }

    /// Takes a change.
    pub fn change(&mut self, change: &Change) {
        match change.type_ {
            ChangeType::Deleted => self.remove(&change.key),
            ChangeType::Added | ChangeType::Modified => {
                let index = &change.object.index;
                let same = self.members.get(&change.key).is_some_and(|known| known == index);
                if !same {
                    self.queue_lost_owners(&change.key, index);
                    self.insert(&change.key, Arc::clone(index));
                    if !index.owners.is_empty() || index.deleting {
                        self.work.push_back(Key::clone(&change.key));
                    }
                    if index.deleting && index.finalizers.iter().any(|f| f == FOREGROUND || f == ORPHAN) {
                        self.queue_dependents(&index.uid);
                    }
                }
            }
        }
    }

    fn insert(&mut self, key: &Key, index: Arc<Index>) {
        self.detach(key);
        for owner in &index.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(Key::clone(key));
        }
        self.by_uid.insert(index.uid.clone(), Key::clone(key));
        self.members.insert(Key::clone(key), index);
    }

    fn detach(&mut self, key: &Key) -> Option<Arc<Index>> {
        let member = self.members.remove(key)?;
        self.by_uid.remove(&member.uid);
        for owner in &member.owners {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(member)
    }

    fn remove(&mut self, key: &Key) {
        let Some(index) = self.detach(key) else { return };
        self.queue_dependents(&index.uid);
        // Its owners may wait for it.
        for owner in &index.owners {
            if let Some(owner) = self.by_uid.get(&owner.uid) {
                self.work.push_back(Key::clone(owner));
            }
        }
    }

    /// Owners that an object no longer refers to may have waited for just that.
    fn queue_lost_owners(&mut self, key: &Key, index: &Index) {
        let Some(before) = self.members.get(key) else { return };
        let kept: BTreeSet<&str> = index.owners.iter().map(|owner| owner.uid.as_str()).collect();
        let lost = before.owners.iter().filter(|owner| !kept.contains(owner.uid.as_str()));
        let keys: Vec<Key> = lost.filter_map(|owner| self.by_uid.get(&owner.uid).cloned()).collect();
        self.work.extend(keys);
    }

    fn queue_dependents(&mut self, uid: &str) {
        self.work.extend(self.dependents.get(uid).into_iter().flatten().cloned());
    }

    /// Returns the next object to judge.
    pub fn next_work(&mut self) -> Option<Key> {
        self.work.pop_front()
    }

    /// Puts an object back, because acting on it failed.
    pub fn retry(&mut self, key: Key) {
        self.work.push_back(key);
    }

    /// Judges one object; `None`: leave it alone.
    pub fn judge(&self, key: &Key) -> Option<Collect> {
        let index = self.members.get(key)?;
        if index.deleting {
            if let Some(done) = self.finished_finalizer(index) {
                return Some(Collect::RemoveFinalizer(done));
            }
            if !index.owners.is_empty() && self.dead_owners(index).len() == index.owners.len() {
                return None; // on its way already
            }
        }
        if index.owners.is_empty() {
            return None;
        }
        let dead = self.dead_owners(index);
        let orphaned: Vec<String> = index.owners.iter().filter(|o| self.orphans(o)).map(|o| o.uid.clone()).collect();
        if !orphaned.is_empty() {
            return Some(Collect::DropOwners(orphaned));
        }
        let waiting = index.owners.iter().filter(|owner| self.waits_for_dependents(owner)).count();
        match (dead.len(), waiting, index.owners.len()) {
            (0, 0, _) => None,
            (_, 0, all) if dead.len() == all && !index.deleting => Some(Collect::Delete),
            (_, _, all) if dead.len() + waiting == all && !index.deleting => {
                // Who waits for its own dependents already closes a circle: waiting for it would be for ever.
                let waits = |dependent: &Index| dependent.deleting && dependent.finalizers.iter().any(|f| f == FOREGROUND);
                let blocks = self
                    .dependents_of(&index.uid)
                    .any(|dependent| !waits(dependent) && dependent.owners.iter().any(|o| o.uid == index.uid && o.blocks));
                Some(if blocks { Collect::DeleteForeground } else { Collect::Delete })
            }
            (1.., _, all) if dead.len() < all => Some(Collect::DropOwners(dead)),
            _ => None,
        }
    }

    /// Returns the uids of owners that do not exist, or live in another namespace.
    fn dead_owners(&self, index: &Index) -> Vec<String> {
        index.owners.iter().filter(|owner| !self.lives(owner, &index.namespace)).map(|owner| owner.uid.clone()).collect()
    }

    fn lives(&self, owner: &Owner, namespace: &str) -> bool {
        let Some(member) = self.by_uid.get(&owner.uid).and_then(|key| self.members.get(key)) else { return false };
        let reachable = member.namespace.is_empty() || member.namespace == namespace;
        reachable && member.name == owner.name
    }

    fn owner_finalizer(&self, owner: &Owner, finalizer: &str) -> bool {
        let member = self.by_uid.get(&owner.uid).and_then(|key| self.members.get(key));
        member.is_some_and(|member| member.deleting && member.finalizers.iter().any(|f| f == finalizer))
    }

    fn waits_for_dependents(&self, owner: &Owner) -> bool {
        self.owner_finalizer(owner, FOREGROUND)
    }

    fn orphans(&self, owner: &Owner) -> bool {
        self.owner_finalizer(owner, ORPHAN)
    }

    fn dependents_of<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Index> + use<'a> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|key| self.members.get(key)).map(Arc::as_ref)
    }

    /// Returns the collector's finalizer of an owner whose dependents are dealt with.
    fn finished_finalizer(&self, index: &Index) -> Option<&'static str> {
        let has = |finalizer: &str| index.finalizers.iter().any(|f| f == finalizer);
        let refers = |dependent: &Index| dependent.owners.iter().any(|owner| owner.uid == index.uid);
        let blocks = |dependent: &Index| dependent.owners.iter().any(|owner| owner.uid == index.uid && owner.blocks);
        if has(ORPHAN) && !self.dependents_of(&index.uid).any(refers) {
            return Some(ORPHAN);
        }
        (has(FOREGROUND) && !self.dependents_of(&index.uid).any(blocks)).then_some(FOREGROUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str, owners: &[(&str, bool)], finalizers: &[&str], deleting: bool) -> Index {
        let owner = |(name, blocks): &(&str, bool)| Owner {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: (*name).to_owned(),
            uid: format!("uid-{name}"),
            blocks: *blocks,
        };
        Index {
            name: name.into(),
            namespace: "ns".into(),
            uid: format!("uid-{name}"),
            owners: owners.iter().map(owner).collect(),
            finalizers: finalizers.iter().map(|f| (*f).to_owned()).collect(),
            deleting,
            ..Index::default()
        }
    }

    fn key(name: &str) -> Key {
        crate::state::key("", "configmaps", "ns", name)
    }

    fn graph(members: &[Index]) -> Graph {
        let mut graph = Graph::default();
        for index in members {
            graph.add(&key(&index.name), &Arc::new(index.clone()));
        }
        graph
    }

    #[test]
    fn a_dependent_goes_when_its_last_owner_is_gone() {
        assert_eq!(graph(&[index("dep", &[("ghost", false)], &[], false)]).judge(&key("dep")), Some(Collect::Delete));
        let two = graph(&[index("owner", &[], &[], false), index("dep", &[("owner", false), ("ghost", false)], &[], false)]);
        assert_eq!(two.judge(&key("dep")), Some(Collect::DropOwners(vec!["uid-ghost".into()])));
        let one = graph(&[index("owner", &[], &[], false), index("dep", &[("owner", false)], &[], false)]);
        assert_eq!(one.judge(&key("dep")), None);
    }

    #[test]
    fn foreground_deletion_waits_for_those_that_block() {
        let members = [index("owner", &[], &[FOREGROUND], true), index("dep", &[("owner", true)], &[], false)];
        assert_eq!(graph(&members).judge(&key("owner")), None);
        assert_eq!(graph(&members).judge(&key("dep")), Some(Collect::Delete));
        let free = [index("owner", &[], &[FOREGROUND], true), index("dep", &[("owner", false)], &[], false)];
        assert_eq!(graph(&free).judge(&key("owner")), Some(Collect::RemoveFinalizer(FOREGROUND)));
    }

    #[test]
    fn a_circle_of_owners_goes_in_the_foreground_too() {
        let members = [
            index("a", &[("c", true)], &[FOREGROUND], true),
            index("b", &[("a", true)], &[FOREGROUND], true),
            index("c", &[("b", true)], &[], false),
        ];
        assert_eq!(graph(&members).judge(&key("c")), Some(Collect::Delete), "a waits for it already");
        let before = [members[0].clone(), index("b", &[("a", true)], &[], false), members[2].clone()];
        assert_eq!(graph(&before).judge(&key("b")), Some(Collect::DeleteForeground));
    }

    #[test]
    fn orphans_lose_the_reference_then_the_owner_goes() {
        let members = [index("owner", &[], &[ORPHAN], true), index("dep", &[("owner", true)], &[], false)];
        assert_eq!(graph(&members).judge(&key("dep")), Some(Collect::DropOwners(vec!["uid-owner".into()])));
        assert_eq!(graph(&members).judge(&key("owner")), None);
        assert_eq!(graph(&members[..1]).judge(&key("owner")), Some(Collect::RemoveFinalizer(ORPHAN)));
    }
}
