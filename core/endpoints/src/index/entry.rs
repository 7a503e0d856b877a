//! What the index holds of one Service.
//!
//! A Service is **settled** when its slices hold exactly what it wanted at its last sync: then the next sync has to look only
//! at the pods that were touched since. Whatever cannot be told from touched pods (the Service changed, somebody else wrote a
//! slice, a write failed) unsettles it, and the next sync recomputes it from what is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::ip::Family;
use api::{EndpointSlice, ObjectMeta};
use machine::Time;

use crate::content::Content;
use crate::index::names::Names;
use crate::index::nodes::Nodes;
use crate::index::slices::{Slices, StoredSlice};
use crate::labels::owned_by;
use crate::membership::{Membership, membership};
use crate::metrics::{Contribution, known_distribution};
use crate::pod::PodRecord;
use crate::ports::{PortCache, Ports};
use crate::record::Record;
use crate::service::ServiceRecord;
use crate::settings::Settings;
use crate::tracker::Tracker;
use crate::transitions::Churn;
use crate::trigger_time::Stamp;

/// What the index holds of one Service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// The Service; `None`: it is gone, or the controller does not look after it.
    pub(crate) service: Option<ServiceRecord>,
    /// Its managed slices by name, whoever owns them; those being deleted count as gone.
    pub(crate) slices: Slices,
    /// Own writes.
    pub(crate) tracker: Tracker,
    /// The pods that it selects, endpoints or not.
    pub(crate) matching: BTreeSet<Arc<str>>,
    /// What is remembered from its last sync.
    pub(crate) memory: Memory,
}

/// What is remembered of a Service from its last sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Whether the slices hold exactly what the members say.
    pub(crate) settled: bool,
    /// When that sync began.
    pub(crate) synced_at: Option<Time>,
    /// Pods to look at again.
    pub(crate) touched: BTreeMap<Arc<str>, TouchedPod>,
    /// When the spec was first seen to change since that sync.
    pub(crate) spec_changed: Option<Time>,
    /// The trigger time of a sync that failed: what it was for is still to be written.
    pub(crate) carried: Option<Time>,
    /// Its endpoints.
    pub(crate) members: Names<EndpointPod>,
    /// Its address families, in order.
    pub(crate) families: Vec<FamilyState>,
    /// Pods left out because their node is unknown.
    pub(crate) skipped: BTreeSet<Arc<str>>,
    /// Names new members.
    pub(crate) next_id: u64,
    pub(crate) ports: PortCache,
}

/// A pod to look at again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TouchedPod {
    /// Whether it is an endpoint now.
    pub(crate) member: bool,
    /// When that was last seen to change, or when the pod was first touched.
    pub(crate) changed_at: Time,
}

/// A pod that was an endpoint at the last sync.
#[derive(Clone, Debug)]
pub(crate) struct EndpointPod {
    pub(crate) id: u64,
    pub(crate) stamp: Stamp,
    /// Its endpoint in each family of the Service, in their order.
    pub(crate) places: [Option<Place>; 2],
}

/// Where an endpoint is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) record: Arc<Record>,
    pub(crate) ports: Arc<Ports>,
    /// The name of its slice; `None` while that is being created.
    pub(crate) slice: Option<Arc<str>>,
}

/// The endpoints of one family.
#[derive(Clone, Debug)]
pub(crate) struct FamilyState {
    pub(crate) family: Family,
    pub(crate) groups: BTreeMap<Arc<Ports>, GroupState>,
    /// Groups with slices but without members: that of the placeholder, when settled.
    pub(crate) unwanted: BTreeSet<Arc<Ports>>,
    /// How many slices the family has.
    pub(crate) slices: usize,
    /// How many endpoints it has.
    pub(crate) desired: usize,
    /// How few slices could hold them, one for nobody aside.
    pub(crate) desired_slices: usize,
}

/// The endpoints with equal ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupState {
    pub(crate) members: BTreeSet<Arc<str>>,
    /// Its slices by their free room.
    pub(crate) by_free_places: BTreeSet<(usize, Arc<str>)>,
}

/// A slice to write, with what it will hold.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Its name; `None`: it is to be created.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) family: Family,
    pub(crate) ports: Arc<Ports>,
    /// Its endpoints, and the JSON to send.
    pub(crate) content: Content,
    /// Members that go into a slice to be created.
    pub(crate) members: Vec<Arc<str>>,
}

/// What one sync wants done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) creates: Vec<Draft>,
    pub(crate) updates: Vec<Draft>,
    /// Names and uids.
    pub(crate) deletes: Vec<(Arc<str>, String)>,
    /// What changes in each family.
    pub(crate) churn: Vec<Churn>,
    pub(crate) trigger: Option<Time>,
}

impl Entry {
    /// Forgets everything but the slices that are there: the Service is gone, or another has its name.
    pub(crate) fn forget(&mut self) {
        self.memory = Memory::default();
        self.tracker = Tracker::default();
    }

    /// Notes that a pod changed; `None`: the Service does not select it, or no longer.
    pub(crate) fn touch(&mut self, now: Time, name: &Arc<str>, pod: Option<&PodRecord>, nodes: &Nodes, settings: &Settings) {
        let Some(service) = &self.service else { return };
        let member = pod.is_some_and(|pod| {
            membership(pod, service, nodes.fact(&pod.node), settings) == Membership::In
                && service.spec.families.iter().any(|&family| pod.address(family).is_some())
        });
        let touch = self.memory.touched.entry(Arc::clone(name)).or_insert(TouchedPod { member, changed_at: now });
        if touch.member != member {
            *touch = TouchedPod { member, changed_at: now };
        }
    }

    /// Takes a slice that was added or changed; returns whether the Service must be synced.
    pub(crate) fn observe(&mut self, slice: &EndpointSlice) -> bool {
        let (uid, generation) = (slice.metadata.uid.clone(), slice.metadata.generation);
        let done_with = self.tracker.is_done_with(&uid);
        let news = self.tracker.observed(&uid, generation, slice.metadata.deleting());
        if done_with {
            return news;
        }
        let name: Arc<str> = slice.metadata.name.as_str().into();
        if slice.metadata.deleting() {
            self.drop_slice(&name, &uid);
            return news;
        }
        match self.slices.get_mut(&name).filter(|known| known.meta.uid == uid) {
            Some(known) if older(&slice.metadata, &known.meta) => {}
            // The content is the one we know; the metadata may have been touched.
            Some(known) if generation == known.meta.generation && generation != 0 => {
                let owner = self.service.as_ref().map_or("", |service| &service.uid);
                self.memory.settled &= owned_by(&known.meta, owner) == owned_by(&slice.metadata, owner);
                known.meta = slice.metadata.clone();
            }
            _ => {
                self.slices.insert(name, StoredSlice::observed(slice.clone()));
                self.memory.settled = false;
            }
        }
        news
    }

    /// Takes a slice that is gone; returns whether the Service must be synced.
    pub(crate) fn observe_delete(&mut self, name: &str, uid: &str) -> bool {
        self.drop_slice(name, uid);
        self.tracker.observed_delete(uid)
    }

    /// Takes out a slice that the API does not have any more; the event of its end is still to come.
    pub(crate) fn expect_gone(&mut self, name: &str) {
        if let Some(slice) = self.slices.remove(name) {
            self.tracker.deleting(&slice.meta.uid);
            self.memory.settled = false;
        }
    }

    /// Takes out a slice that belongs to somebody else now.
    pub(crate) fn release(&mut self, name: &str) {
        if let Some(slice) = self.slices.remove(name) {
            self.tracker.forget(&slice.meta.uid);
            self.memory.settled = false;
        }
    }

    fn drop_slice(&mut self, name: &str, uid: &str) {
        if self.slices.get(name).is_some_and(|slice| slice.meta.uid == uid) {
            self.slices.remove(name);
            self.memory.settled = false;
        }
    }

    /// Takes the answer to a create or an update: what was sent is what is compared with from here on.
    pub(crate) fn adopt(&mut self, meta: ObjectMeta, draft: Draft, max: usize) {
        let name: Arc<str> = match &draft.name {
            Some(name) => Arc::clone(name),
            None => meta.name.as_str().into(),
        };
        self.tracker.wrote(&meta.uid, meta.generation);
        let family = self.memory.families.iter().position(|state| state.family == draft.family);
        if draft.name.is_none()
            && let Some(family) = family
        {
            let room = max.saturating_sub(draft.content.len());
            self.memory.families[family].add_slice(&draft.ports, room, Arc::clone(&name));
            for member in &draft.members {
                if let Some(place) = self.memory.members.get_mut(member).and_then(|member| member.places[family].as_mut()) {
                    place.slice = Some(Arc::clone(&name));
                }
            }
        }
        let slice = StoredSlice::sent(meta, draft.family.name(), draft.ports, draft.content);
        self.slices.insert(name, slice);
    }

    /// Returns what the Service adds to the gauges.
    pub(crate) fn contribution(&self) -> Contribution {
        let Some(service) = &self.service else { return Contribution::default() };
        let families = &self.memory.families;
        Contribution {
            desired: families.iter().map(|state| state.desired).sum(),
            desired_slices: families.iter().map(|state| state.desired_slices.max(1)).sum(),
            slices: self.slices.len(),
            published: self.slices.published(),
            traffic_distribution: service.traffic_distribution.as_deref().map(known_distribution),
        }
    }
}

/// Returns whether metadata is older than what is known of the same slice.
fn older(meta: &ObjectMeta, known: &ObjectMeta) -> bool {
    meta.generation < known.generation || meta.is_older_than(known)
}

impl FamilyState {
    pub(crate) fn new(family: Family) -> FamilyState {
        let (groups, unwanted) = (BTreeMap::new(), BTreeSet::new());
        FamilyState { family, groups, unwanted, slices: 0, desired: 0, desired_slices: 0 }
    }

    /// Adds a pod to a group.
    pub(crate) fn join(&mut self, ports: &Arc<Ports>, pod: Arc<str>, max: usize) {
        let group = self.groups.entry(Arc::clone(ports)).or_default();
        let before = group.members.len();
        group.members.insert(pod);
        self.resized(before, before + 1, max);
        if before == 0 {
            self.unwanted.remove(ports);
        }
    }

    /// Makes a group of many pods, ascending name.
    pub(crate) fn fill(&mut self, ports: &Arc<Ports>, pods: impl Iterator<Item = Arc<str>>, settings: &Settings) {
        let group = self.groups.entry(Arc::clone(ports)).or_default();
        group.members = pods.collect();
        let size = group.members.len();
        self.resized(0, size, settings.max_endpoints_per_slice);
    }

    /// Takes a pod out of its group.
    pub(crate) fn leave(&mut self, ports: &Arc<Ports>, pod: &Arc<str>, max: usize) {
        let group = self.groups.get_mut(ports).expect("the group of a member");
        group.members.remove(pod);
        let after = group.members.len();
        self.resized(after + 1, after, max);
        if after == 0 {
            self.unwanted.insert(Arc::clone(ports));
        }
    }

    fn resized(&mut self, before: usize, after: usize, max: usize) {
        self.desired = self.desired + after - before;
        self.desired_slices = self.desired_slices + after.div_ceil(max) - before.div_ceil(max);
    }

    /// Adds a slice to a group.
    pub(crate) fn add_slice(&mut self, ports: &Arc<Ports>, room: usize, slice: Arc<str>) {
        let group = self.groups.entry(Arc::clone(ports)).or_default();
        group.by_free_places.insert((room, slice));
        if group.members.is_empty() {
            self.unwanted.insert(Arc::clone(ports));
        }
    }
}
