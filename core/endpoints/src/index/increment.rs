//! Syncs a settled Service from the pods that were touched, without looking at the others.
//!
//! The steps and their order are those of [`pack`](crate::pack): a slice that loses or changes an endpoint is written; what
//! is new goes into written slices, the fullest first; what is left goes into the one other slice that it fills best, or into
//! new ones; slices without endpoints are used again or deleted. Only which slices are looked at differs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::Time;

use crate::content::{Content, Edit};
use crate::index::Scope;
use crate::index::entry::{self, Draft, EndpointPod, FamilyState, Memory, Outcome, Place, TouchedPod};
use crate::index::slices::Slices;
use crate::membership::{Membership, membership, record};
use crate::pod::PodRecord;
use crate::ports::Ports;
use crate::record::Record;
use crate::render;
use crate::service::ServiceRecord;
use crate::transitions::{Churn, EndpointState};
use crate::trigger_time::{Stamp, change_time};

/// What changes in one family.
#[derive(Default)]
struct Edits<'s> {
    churn: Churn,
    groups: BTreeMap<Arc<Ports>, GroupEdits<'s>>,
}

/// What changes in one port group.
#[derive(Default)]
struct GroupEdits<'s> {
    /// Slices that are written, with what becomes of them.
    slices: BTreeMap<Arc<str>, Edit<'s>>,
    /// Endpoints without a slice, ascending pod name.
    left: Vec<Arc<str>>,
}

/// A slice to be made, or a used one to be filled.
struct New {
    ports: Arc<Ports>,
    edit: Edit<'static>,
    members: Vec<Arc<str>>,
}

/// What a touched pod wants to be listed as, in each family.
struct Wanted {
    stamp: Stamp,
    ports: Arc<Ports>,
    records: [Option<Record>; 2],
}

impl entry::Entry {
    /// Returns what must be written for the pods that were touched since the last sync.
    pub(crate) fn increment(&mut self, scope: &Scope<'_>) -> Outcome {
        let service = self.service.as_ref().expect("only managed Services are synced");
        let memory = &mut self.memory;
        let touched = std::mem::take(&mut memory.touched);
        let previous = memory.synced_at.replace(scope.now).expect("a settled Service was synced");
        let mut trigger = memory.carried.take().into_iter().chain(memory.spec_changed.take()).min();
        let mut edits: Vec<Edits<'_>> = memory.families.iter().map(|_| Edits::default()).collect();
        for (pod, touch) in touched {
            let record = scope.pods.get(&pod).filter(|pod| pod.services.contains(&service.name)).map(|pod| &pod.record);
            let change = Change { service, slices: &self.slices, scope, memory, edits: &mut edits };
            trigger = trigger.into_iter().chain(change.apply(pod, record, touch, previous)).min();
        }
        let text = trigger.map(render::trigger_text);
        let mut outcome = Outcome { trigger, ..Outcome::default() };
        for (place, edits) in edits.into_iter().enumerate() {
            let pack = Pack { service, slices: &self.slices, scope, place, memory, trigger: text.as_deref() };
            pack.run(edits, &mut outcome);
        }
        outcome
    }
}

/// The change of one pod.
struct Change<'a, 's> {
    service: &'a ServiceRecord,
    slices: &'s Slices,
    scope: &'a Scope<'a>,
    memory: &'a mut Memory,
    edits: &'a mut Vec<Edits<'s>>,
}

impl Change<'_, '_> {
    /// Compares a pod with what it was at the last sync; returns the time of what changed.
    fn apply(mut self, pod: Arc<str>, record: Option<&PodRecord>, touch: TouchedPod, previous: Time) -> Option<Time> {
        let wanted = record.and_then(|record| self.wanted(&pod, record));
        if record.is_none() {
            self.memory.skipped.remove(&pod);
        }
        let before = self.memory.members.get_mut(&pod);
        let stamp = wanted.as_ref().map(|wanted| &wanted.stamp);
        let time = change_time(before.as_ref().map(|member| &member.stamp), stamp, touch.changed_at, previous);
        let Some(Wanted { stamp, ports, records }) = wanted else {
            if let Some((_, mut member)) = self.memory.members.remove(&pod) {
                for (place, current) in member.places.iter_mut().enumerate() {
                    self.edit(&pod, member.id, place, current, None);
                }
            }
            return time;
        };
        // The places are taken out while they change: what they are in changes with them.
        let (id, mut places) = match before {
            Some(member) => {
                member.stamp = stamp;
                (member.id, std::mem::take(&mut member.places))
            }
            None => {
                self.memory.next_id += 1;
                let id = self.memory.next_id;
                self.memory.members.insert(Arc::clone(&pod), EndpointPod { id, stamp, places: [None, None] });
                (id, [None, None])
            }
        };
        for (place, (current, wanted)) in places.iter_mut().zip(records).enumerate().take(self.memory.families.len()) {
            self.edit(&pod, id, place, current, wanted.map(|record| (record, &ports)));
        }
        self.memory.members.get_mut(&pod).expect("it is there").places = places;
        time
    }

    /// Returns what a selected pod wants to be listed as, `None` if it is no endpoint.
    fn wanted(&mut self, name: &Arc<str>, pod: &PodRecord) -> Option<Wanted> {
        let node = self.scope.nodes.fact(&pod.node);
        let membership = membership(pod, self.service, node, self.scope.settings);
        if membership == Membership::NodeUnknown {
            self.memory.skipped.insert(Arc::clone(name));
        } else {
            self.memory.skipped.remove(name);
        }
        if membership != Membership::In {
            return None;
        }
        let mut records = [None, None];
        for (record_of, state) in records.iter_mut().zip(&self.memory.families) {
            *record_of = record(pod, self.service, state.family, node, self.scope.settings);
        }
        records.iter().any(Option::is_some).then(|| Wanted {
            stamp: Stamp::from(pod),
            ports: self.memory.ports.ports(&self.service.spec.ports, pod),
            records,
        })
    }

    /// Compares a pod with what it was in one family, and puts it where it belongs now.
    fn edit(
        &mut self,
        pod: &Arc<str>,
        id: u64,
        place: usize,
        current: &mut Option<Place>,
        wanted: Option<(Record, &Arc<Ports>)>,
    ) {
        let Some(state) = self.memory.families.get_mut(place) else { return };
        let edits = &mut self.edits[place];
        let max = self.scope.settings.max_endpoints_per_slice;
        let publish = self.service.spec.publish_not_ready;
        let state_of = |record: &Record| EndpointState::of(&record.conditions, publish);
        if let (Some(current), Some((wanted, ports))) = (&mut *current, &wanted)
            && current.record.same_identity(wanted)
            && current.ports == **ports
        {
            edits.churn.count(state_of(&current.record), state_of(wanted));
            if *current.record != *wanted {
                edits.edit(current, self.slices).replace(id, wanted, &self.service.namespace, self.service.spec.mode);
                match Arc::get_mut(&mut current.record) {
                    Some(record) => record.clone_from(wanted),
                    None => current.record = Arc::new(wanted.clone()),
                }
            }
            return;
        }
        if let Some(current) = current.take() {
            edits.edit(&current, self.slices).remove(id);
            state.leave(&current.ports, pod, max);
            edits.churn.count(state_of(&current.record), EndpointState::Absent);
        }
        if let Some((wanted, ports)) = wanted {
            edits.churn.count(EndpointState::Absent, state_of(&wanted));
            state.join(ports, Arc::clone(pod), max);
            edits.groups.entry(Arc::clone(ports)).or_default().left.push(Arc::clone(pod));
            *current = Some(Place { record: Arc::new(wanted), ports: Arc::clone(ports), slice: None });
        }
    }
}

impl<'s> Edits<'s> {
    /// Returns what becomes of the slice of an endpoint.
    fn edit(&mut self, at: &Place, slices: &'s Slices) -> &mut Edit<'s> {
        let slice = at.slice.as_ref().expect("a member of a settled Service has a slice");
        let group = self.groups.entry(Arc::clone(&at.ports)).or_default();
        group.slices.entry(Arc::clone(slice)).or_insert_with(|| Edit::of(content(slices, slice)))
    }
}

fn content<'s>(slices: &'s Slices, name: &str) -> &'s Content {
    slices.get(name).expect("members are in known slices").body.content()
}

/// Steps 2 and 3 of packing, for one family.
struct Pack<'a, 's> {
    service: &'a ServiceRecord,
    slices: &'s Slices,
    scope: &'a Scope<'a>,
    place: usize,
    memory: &'a mut Memory,
    trigger: Option<&'a str>,
}

/// The slices that are written, by name.
type Written<'s> = BTreeMap<Arc<str>, (Arc<Ports>, Edit<'s>)>;

impl<'s> Pack<'_, 's> {
    fn run(mut self, mut edits: Edits<'s>, outcome: &mut Outcome) {
        let (mut written, mut news, mut deletes) = (Written::new(), Vec::new(), Vec::new());
        let vanished = self.vanished(&mut edits);
        for (ports, edits) in self.in_order(edits.groups) {
            self.pack_group(&ports, edits, &mut written, &mut news, &mut deletes);
        }
        deletes.extend(vanished);
        if deletes.len() == self.state().slices && news.is_empty() {
            match self.placeholder(&deletes) {
                Some(kept) => {
                    deletes.retain(|name| *name != kept);
                    self.add_slice(&Arc::default(), 0, &kept);
                }
                None => news.push(New { ports: Arc::default(), edit: Edit::default(), members: Vec::new() }),
            }
        }
        let mut deleted = Vec::new();
        for name in deletes {
            match news.pop() {
                Some(new) => {
                    new.members.iter().for_each(|pod| self.settle(pod, &name));
                    self.add_slice(&new.ports, new.edit.len(), &name);
                    written.insert(name, (new.ports, new.edit));
                }
                None => deleted.push(name),
            }
        }
        deleted.sort();
        outcome.churn.push(edits.churn);
        self.finish(written, news, deleted, outcome);
    }

    fn state(&mut self) -> &mut FamilyState {
        &mut self.memory.families[self.place]
    }

    /// Takes out the groups that nobody is in any more; returns their slices, by name.
    fn vanished(&mut self, edits: &mut Edits<'_>) -> BTreeSet<Arc<str>> {
        let state = self.state();
        let mut vanished = BTreeSet::new();
        for ports in std::mem::take(&mut state.unwanted) {
            let group = state.groups.remove(&ports).expect("unwanted groups are known");
            vanished.extend(group.by_free_places.into_iter().map(|(_, name)| name));
            vanished.extend(edits.groups.remove(&ports).into_iter().flat_map(|edits| edits.slices.into_keys()));
        }
        vanished
    }

    /// Returns the groups in the order of their first pods.
    fn in_order<'e>(&mut self, groups: BTreeMap<Arc<Ports>, GroupEdits<'e>>) -> Vec<(Arc<Ports>, GroupEdits<'e>)> {
        let state = self.state();
        let first = |ports: &Arc<Ports>| state.groups[ports].members.first().cloned();
        let mut groups: Vec<_> = groups.into_iter().map(|(ports, edits)| (first(&ports), ports, edits)).collect();
        groups.sort_by(|a, b| a.0.cmp(&b.0));
        groups.into_iter().map(|(_, ports, edits)| (ports, edits)).collect()
    }

    fn pack_group(
        &mut self,
        ports: &Arc<Ports>,
        mut edits: GroupEdits<'s>,
        written: &mut Written<'s>,
        news: &mut Vec<New>,
        deletes: &mut Vec<Arc<str>>,
    ) {
        let max = self.scope.settings.max_endpoints_per_slice;
        let mut left = std::mem::take(&mut edits.left);
        let mut fullest: Vec<(Reverse<usize>, Arc<str>)> =
            edits.slices.iter().map(|(name, edit)| (Reverse(edit.len()), Arc::clone(name))).collect();
        fullest.sort();
        for (len, name) in fullest {
            if len.0 == 0 {
                let room = max.saturating_sub(content(self.slices, &name).len());
                edits.slices.remove(&name);
                self.state()
                    .groups
                    .get_mut(ports)
                    .expect("a known slice has its group")
                    .by_free_places
                    .remove(&(room, Arc::clone(&name)));
                deletes.push(name);
                continue;
            }
            let room = max.saturating_sub(len.0).min(left.len());
            let edit = edits.slices.get_mut(&name).expect("listed from these");
            self.fill(edit, left.drain(..room), Some(&name));
            self.resize(ports, &name, edit.len());
        }
        // What was written is full by now, or nothing is left.
        while !left.is_empty() {
            match self.best_fit(ports, left.len()) {
                Some(name) => {
                    let mut edit = Edit::of(content(self.slices, &name));
                    self.fill(&mut edit, left.drain(..), Some(&name));
                    self.resize(ports, &name, edit.len());
                    edits.slices.insert(name, edit);
                }
                None => {
                    let members: Vec<Arc<str>> = left.drain(..max.min(left.len())).collect();
                    let mut edit = Edit::default();
                    self.fill(&mut edit, members.iter().cloned(), None);
                    news.push(New { ports: Arc::clone(ports), edit, members });
                }
            }
        }
        written.extend(edits.slices.into_iter().map(|(name, edit)| (name, (Arc::clone(ports), edit))));
    }

    /// Notes the room that a slice of a group has from here on.
    fn resize(&mut self, ports: &Arc<Ports>, slice: &Arc<str>, len: usize) {
        let max = self.scope.settings.max_endpoints_per_slice;
        let (before, after) = (max.saturating_sub(content(self.slices, slice).len()), max.saturating_sub(len));
        if before != after {
            let by_free_places = &mut self.state().groups.get_mut(ports).expect("a known slice has its group").by_free_places;
            by_free_places.remove(&(before, Arc::clone(slice)));
            by_free_places.insert((after, Arc::clone(slice)));
        }
    }

    /// Returns the unchanged slice of a group that has the least room left after taking this many, if they are fewer than a
    /// slice holds and one slice can take them all.
    fn best_fit(&mut self, ports: &Arc<Ports>, count: usize) -> Option<Arc<str>> {
        if count >= self.scope.settings.max_endpoints_per_slice {
            return None;
        }
        let group = self.state().groups.get(ports).expect("it has members");
        group.by_free_places.range((count, Arc::from(""))..).next().map(|(_, name)| Arc::clone(name))
    }

    /// Returns the first slice that already is the placeholder; labels and owner are right in a settled Service.
    fn placeholder(&self, candidates: &[Arc<str>]) -> Option<Arc<str>> {
        let is_one = |name: &&Arc<str>| {
            let slice = self.slices.get(name).expect("known slices");
            slice.ports.is_empty() && slice.body.content().is_empty()
        };
        candidates.iter().filter(is_one).min().cloned()
    }

    /// Appends endpoints to a slice; its name is noted if it has one.
    fn fill(&mut self, edit: &mut Edit<'_>, pods: impl Iterator<Item = Arc<str>>, slice: Option<&Arc<str>>) {
        for pod in pods {
            let member = self.memory.members.get_mut(&pod).expect("it is to be placed");
            let place = member.places[self.place].as_mut().expect("it is to be placed");
            edit.push(member.id, &place.record, &self.service.namespace, self.service.spec.mode);
            place.slice = slice.cloned();
        }
    }

    fn settle(&mut self, pod: &Arc<str>, slice: &Arc<str>) {
        let member = self.memory.members.get_mut(pod).expect("it is to be placed");
        member.places[self.place].as_mut().expect("it is to be placed").slice = Some(Arc::clone(slice));
    }

    fn add_slice(&mut self, ports: &Arc<Ports>, len: usize, slice: &Arc<str>) {
        let room = self.scope.settings.max_endpoints_per_slice.saturating_sub(len);
        self.state().add_slice(ports, room, Arc::clone(slice));
    }

    /// Turns what was decided into writes.
    fn finish(mut self, written: Written<'_>, news: Vec<New>, deleted: Vec<Arc<str>>, outcome: &mut Outcome) {
        let family = self.state().family;
        for (name, (ports, edit)) in written {
            let meta = &self.slices.get(&name).expect("known slices").meta;
            let content = render::update(self.service, meta, family, &ports, edit, self.trigger);
            outcome.updates.push(Draft { name: Some(name), family, ports, content, members: Vec::new() });
        }
        self.state().slices = self.state().slices + news.len() - deleted.len();
        for New { ports, edit, members } in news {
            let content = render::create(self.service, family, &ports, edit, self.trigger);
            outcome.creates.push(Draft { name: None, family, ports, content, members });
        }
        for name in deleted {
            let uid = self.slices.get(&name).expect("known slices").meta.uid.clone();
            outcome.deletes.push((name, uid));
        }
    }
}
