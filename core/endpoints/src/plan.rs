//! The plan of one Service by full recomputation: from everything that is observed to everything that must be written.
//!
//! This is the definition. The incremental index must give the same writes; it calls this code when it cannot know what
//! changed, and a property test compares the two after every step. Planning again after a plan was applied yields nothing,
//! and the order of the inputs does not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::endpointslice::{CONTROLLER_NAME, Endpoint};
use api::ip::Family;
use api::node::ZONE_LABEL;
use api::{EndpointSlice, Node, ObjectMeta, Pod, Service};
use machine::Time;

use crate::content::{Content, Edit};
use crate::desired::{Desired, desired};
use crate::labels::owned_by;
use crate::membership::NodeFact;
use crate::pack::{Frame, Group, Packed, SliceChange, Stored, find, pack};
use crate::pod::PodRecord;
use crate::ports::Ports;
use crate::render::{self, Writes, trigger_text};
use crate::service::ServiceRecord;
use crate::settings::Settings;
use crate::transitions::{Churn, EndpointState};

/// A managed slice of the Service, as the controller compares with it.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// Its address type.
    pub address_type: &'a str,
    /// Its ports.
    pub ports: Arc<Ports>,
    /// Its endpoints: those that were sent while the stored slice has the generation that answered, else those stored.
    pub endpoints: &'a [Endpoint],
}

/// What becomes of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its name; empty if it is to be created.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// What it holds.
    pub packed: Packed,
    /// Whether it was to be deleted and is updated instead.
    pub recycled: bool,
}

/// What must be done for one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Slices to create, in order.
    pub creates: Vec<Slice>,
    /// Slices to update, by family and name.
    pub updates: Vec<Slice>,
    /// Slices that stay as they are, by family and name.
    pub unchanged: Vec<Slice>,
    /// Names of the slices to delete, by family and name, then those of other address types.
    pub deletes: Vec<String>,
    /// Pods that are left out because their node is unknown; if there are any, the sync is retried.
    pub skipped: Vec<Arc<str>>,
    /// What changes in each family, in order.
    pub churn: Vec<Churn>,
    /// How many endpoints are wanted, over all families.
    pub endpoints: usize,
    /// How few slices could hold them.
    pub slices: usize,
}

/// Plans one Service from its pods, the nodes and its slices; `None` if the controller does not look after it.
///
/// The lists may hold more than belongs to the Service, in any order.
pub fn plan(settings: &Settings, service: &Service, pods: &[Pod], nodes: &[Node], slices: &[EndpointSlice]) -> Option<Plan> {
    let record = ServiceRecord::new(service, settings)?;
    let slices = managed_slices(&record, slices);
    Some(plan_service(&record, &selected(&record, pods, nodes, settings), &observed(&slices), settings))
}

/// Returns the bodies of a [`plan`] of the same inputs; `trigger` is the time of the change behind it.
pub fn writes(settings: &Settings, service: &Service, slices: &[EndpointSlice], plan: &Plan, trigger: Option<Time>) -> Writes {
    let Some(record) = ServiceRecord::new(service, settings) else { return Writes::default() };
    let slices = managed_slices(&record, slices);
    plan.writes(&record, &|name| slices.iter().map(|slice| &slice.metadata).find(|meta| meta.name == name), trigger)
}

/// Returns the slices that the controller looks after for a Service, ascending name; those being deleted count as gone.
fn managed_slices<'a>(service: &ServiceRecord, slices: &'a [EndpointSlice]) -> Vec<&'a EndpointSlice> {
    let ours = |slice: &&EndpointSlice| {
        *slice.metadata.namespace == *service.namespace
            && slice.service_name() == &*service.name
            && slice.managed_by() == CONTROLLER_NAME
            && !slice.metadata.deleting()
    };
    let mut slices: Vec<&EndpointSlice> = slices.iter().filter(ours).collect();
    slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    slices
}

fn observed<'a>(slices: &[&'a EndpointSlice]) -> Vec<Observed<'a>> {
    let view = |slice: &&'a EndpointSlice| Observed {
        meta: &slice.metadata,
        address_type: &slice.address_type,
        ports: Arc::new(Ports::new(slice.ports.clone())),
        endpoints: &slice.endpoints,
    };
    slices.iter().map(view).collect()
}

fn selected(service: &ServiceRecord, pods: &[Pod], nodes: &[Node], settings: &Settings) -> Desired {
    let zone = |node: &Node| node.metadata.labels.get(ZONE_LABEL).map(|zone| Arc::from(zone.as_str()));
    let zones: BTreeMap<&str, Option<Arc<str>>> = nodes.iter().map(|node| (node.metadata.name.as_str(), zone(node))).collect();
    let mut pods: Vec<PodRecord> = pods
        .iter()
        .filter(|pod| *pod.metadata.namespace == *service.namespace && service.selects(&pod.metadata.labels))
        .map(PodRecord::from)
        .collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    let fact = |node: &str| zones.get(node).map_or(NodeFact::Unknown, |zone| NodeFact::Known(zone.as_ref()));
    desired(service, pods.iter().map(|pod| (pod, fact(&pod.node))), settings)
}

/// Plans one Service from what it wants and its managed slices, ascending name.
pub fn plan_service(service: &ServiceRecord, desired: &Desired, slices: &[Observed<'_>], settings: &Settings) -> Plan {
    let mut plan = Plan { skipped: desired.skipped.clone(), ..Plan::default() };
    let frame = Frame { namespace: &service.namespace, settings, mode: service.spec.mode, deleting: service.deleting };
    for (family, groups) in &desired.families {
        let own: Vec<&Observed<'_>> = slices.iter().filter(|slice| slice.address_type == family.name()).collect();
        let stored: Vec<Stored<'_>> = own
            .iter()
            .map(|slice| Stored {
                ports: Arc::clone(&slice.ports),
                endpoints: slice.endpoints,
                owned: owned_by(slice.meta, &service.uid),
                labelled: slice.meta.labels == service.labels,
            })
            .collect();
        let packing = pack(&stored, groups, frame);
        let slice = |name: &str, packed, recycled| Slice { name: name.to_owned(), family: *family, packed, recycled };
        for (observed, change) in own.iter().zip(packing.changes) {
            let name = &observed.meta.name;
            match change {
                SliceChange::Unchanged(packed) => plan.unchanged.push(slice(name, packed, false)),
                SliceChange::Update(packed) => plan.updates.push(slice(name, packed, false)),
                SliceChange::Recycle(packed) => plan.updates.push(slice(name, packed, true)),
                SliceChange::Delete => plan.deletes.push(name.clone()),
            }
        }
        plan.creates.extend(packing.creates.into_iter().map(|packed| slice("", packed, false)));
        plan.churn.push(churn(&stored, groups, service));
        plan.endpoints += groups.iter().map(|group| group.records.len()).sum::<usize>();
        let most = settings.max_endpoints_per_slice;
        plan.slices += groups.iter().map(|group| group.records.len().div_ceil(most)).sum::<usize>().max(1);
    }
    let supported = |slice: &&Observed<'_>| desired.families.iter().any(|(family, _)| family.name() == slice.address_type);
    plan.deletes.extend(slices.iter().filter(|slice| !supported(slice)).map(|slice| slice.meta.name.clone()));
    plan
}

/// Compares what is stored, whoever owns it, with what is wanted, by port group and endpoint.
fn churn(stored: &[Stored<'_>], groups: &[Group], service: &ServiceRecord) -> Churn {
    let mut churn = Churn::default();
    let pnr = service.spec.publish_not_ready;
    let places: BTreeMap<&Ports, usize> = groups.iter().enumerate().map(|(place, group)| (&*group.ports, place)).collect();
    let mut seen: Vec<Vec<bool>> = groups.iter().map(|group| vec![false; group.records.len()]).collect();
    let mut gone = BTreeSet::new();
    // Own slices first: theirs are the endpoints that packing compares with.
    let (own, foreign): (Vec<_>, Vec<_>) = stored.iter().partition(|slice| slice.owned);
    for slice in own.into_iter().chain(foreign) {
        let group = places.get(&*slice.ports).copied();
        for endpoint in slice.endpoints {
            let from = EndpointState::of(&endpoint.conditions, pnr);
            let wanted = group.and_then(|group| Some((group, find(&groups[group].records, endpoint, &service.namespace)?)));
            match wanted {
                Some((group, at)) if !seen[group][at] => {
                    seen[group][at] = true;
                    churn.count(from, EndpointState::of(&groups[group].records[at].conditions, pnr));
                }
                Some(_) => {}
                None if gone.insert((&*slice.ports, identity(endpoint))) => churn.count(from, EndpointState::Absent),
                None => {}
            }
        }
    }
    for (group, seen) in groups.iter().zip(seen) {
        for (record, _) in group.records.iter().zip(seen).filter(|(_, seen)| !seen) {
            churn.count(EndpointState::Absent, EndpointState::of(&record.conditions, pnr));
        }
    }
    churn
}

/// Returns what identifies a stored endpoint: its addresses in whatever order, its host name, its pod.
fn identity(endpoint: &Endpoint) -> (Vec<&str>, Option<&str>, Option<(&str, &str)>) {
    let mut addresses: Vec<&str> = endpoint.addresses.iter().map(String::as_str).collect();
    addresses.sort_unstable();
    let pod = endpoint.target_ref.as_ref().map(|pod| (pod.namespace.as_str(), pod.name.as_str()));
    (addresses, endpoint.hostname.as_deref(), pod)
}

impl Plan {
    /// Returns whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.updates.is_empty() && self.deletes.is_empty()
    }

    /// Returns the bodies; `meta` finds the metadata of a stored slice.
    pub fn writes<'m>(
        &self,
        service: &ServiceRecord,
        meta: &dyn Fn(&str) -> Option<&'m ObjectMeta>,
        trigger: Option<Time>,
    ) -> Writes {
        let trigger = trigger.map(trigger_text);
        let trigger = trigger.as_deref();
        let edit = |slice: &Slice| Edit::packed(&slice.packed, &service.namespace, service.spec.mode);
        let stored = |name: &str| meta(name).expect("planned from this slice");
        let bytes = |content: Content| content.encoded().to_vec();
        let create = |slice: &Slice| bytes(render::create(service, slice.family, &slice.packed.ports, edit(slice), trigger));
        let update = |slice: &Slice| {
            let meta = stored(&slice.name);
            let content = render::update(service, meta, slice.family, &slice.packed.ports, edit(slice), trigger);
            (slice.name.clone(), bytes(content))
        };
        Writes {
            creates: self.creates.iter().map(create).collect(),
            updates: self.updates.iter().map(update).collect(),
            deletes: self.deletes.iter().map(|name| (name.clone(), stored(name).uid.clone())).collect(),
        }
    }
}
