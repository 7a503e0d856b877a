//! What the agent knows of its node: containers, and the items of the spec.

use std::collections::{BTreeMap, BTreeSet};

use api::marker::PodProbe;
use machine::Time;

use super::worker::Worker;
use super::{Runtime, WorkerKey};

/// What is known of a container.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    /// The last instance that was seen.
    pub(super) id: Option<Box<str>>,
    pub(super) runtime: Runtime,
    pub(super) started_at: Time,
    pub(super) started: bool,
}

/// Containers by pod uid and name.
#[derive(Default)]
pub(super) struct Instances(pub(super) BTreeMap<String, BTreeMap<String, Instance>>);

impl Instances {
    pub(super) fn get(&self, uid: &str, container: &str) -> Option<&Instance> {
        self.0.get(uid)?.get(container)
    }

    pub(super) fn of(&self, key: &WorkerKey, worker: &Worker) -> Option<&Instance> {
        self.get(&key.uid, &worker.entry.container_name)
    }
}

/// The items of the spec, in order; of repeated pods and names the first counts.
#[derive(Default)]
pub(super) struct Pods {
    pub(super) items: Vec<PodProbe>,
    index: BTreeMap<String, usize>,
}

impl Pods {
    pub(super) fn new(given: Vec<PodProbe>) -> Pods {
        let mut pods = Pods::default();
        for mut item in given {
            let mut names = BTreeSet::new();
            item.probes.retain(|entry| names.insert(entry.name.clone()));
            if !pods.index.contains_key(&item.uid) {
                pods.index.insert(item.uid.clone(), pods.items.len());
                pods.items.push(item);
            }
        }
        pods
    }

    pub(super) fn get(&self, uid: &str) -> Option<&PodProbe> {
        self.index.get(uid).map(|index| &self.items[*index])
    }

    pub(super) fn ip(&self, uid: &str) -> &str {
        self.get(uid).map_or("", |item| item.ip.as_str())
    }
}
