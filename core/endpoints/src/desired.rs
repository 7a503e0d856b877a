//! What a Service's slices should list: its pods by family and port group.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ip::Family;

use crate::membership::{Membership, NodeFact, membership, record};
use crate::pack::Group;
use crate::pod::PodRecord;
use crate::ports::{PortCache, Ports};
use crate::record::Record;
use crate::service::ServiceRecord;
use crate::settings::Settings;

/// What a Service's slices should list.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// For each family of the Service, in order, its port groups in the order of their first pods.
    pub families: Vec<(Family, Vec<Group>)>,
    /// Pods that are left out because their node is unknown, ascending name; if there are any, the sync is retried.
    pub skipped: Vec<Arc<str>>,
}

/// Returns what a Service's slices should list, from the pods that it selects, ascending name.
pub fn desired<'a>(
    service: &ServiceRecord,
    pods: impl IntoIterator<Item = (&'a PodRecord, NodeFact<'a>)>,
    settings: &Settings,
) -> Desired {
    let mut cache = PortCache::default();
    let mut skipped = Vec::new();
    let mut families: Vec<(Family, Groups)> = service.spec.families.iter().map(|&family| (family, Groups::default())).collect();
    for (ordinal, (pod, node)) in (0..).zip(pods) {
        match membership(pod, service, node, settings) {
            Membership::Out => {}
            Membership::NodeUnknown => skipped.push(Arc::clone(&pod.name)),
            Membership::In => {
                for (family, groups) in &mut families {
                    if let Some(record) = record(pod, service, *family, node, settings) {
                        let place = groups.place(cache.ports(&service.spec.ports, pod));
                        groups.list[place].records.push(Arc::new(Record { ordinal, ..record }));
                    }
                }
            }
        }
    }
    Desired { families: families.into_iter().map(|(family, groups)| (family, groups.list)).collect(), skipped }
}

/// Port groups in the order of their first pods, and where each is.
#[derive(Default)]
struct Groups {
    list: Vec<Group>,
    places: BTreeMap<Arc<Ports>, usize>,
    /// Where the last pod went: the next one usually goes there too.
    last: usize,
}

impl Groups {
    fn place(&mut self, ports: Arc<Ports>) -> usize {
        if self.list.get(self.last).is_none_or(|group| !Arc::ptr_eq(&group.ports, &ports)) {
            self.last = *self.places.entry(Arc::clone(&ports)).or_insert_with(|| {
                self.list.push(Group { ports, records: Vec::new() });
                self.list.len() - 1
            });
        }
        self.last
    }
}
