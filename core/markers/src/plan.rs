//! Everything that must be written for a whole cluster, as one pure function.
//!
//! [`plan`] is the reference for the incremental controller, which works on the same cache: from the same objects both
//! come to the same writes, in whatever order the objects are given.

use std::collections::{BTreeMap, BTreeSet};

use api::marker::{NodePodProbe, PodProbeMarker};
use api::{Node, Pod};

use crate::cache::{Cache, Changes, NodePodProbeAction};
use crate::{Key, Reason};

/// What must be written, and what follows from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// By node; a node that is not here is not written.
    pub node_pod_probes: BTreeMap<String, NodePodProbeAction>,
    /// Every marker.
    pub markers: BTreeMap<Key, MarkerPlan>,
    /// Events on markers.
    pub events: BTreeSet<(Key, Reason)>,
    /// By pod uid: the probes whose stored states may be used to mark it.
    pub usable: BTreeMap<String, BTreeSet<String>>,
}

/// What must be done to a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerPlan {
    /// It lives.
    Keep {
        /// Whether our finalizer must be added, before anything else.
        add_finalizer: bool,
        /// The generation that is observed once the plan is carried out.
        observed_generation: i64,
        /// The pods that it selects.
        matched_pods: i64,
    },
    /// It is being deleted.
    Release {
        /// Whether our finalizer must be removed, after everything else.
        remove_finalizer: bool,
    },
}

/// Plans the writes of a cluster.
pub fn plan(markers: Vec<PodProbeMarker>, pods: Vec<Pod>, nodes: &[Node], node_pod_probes: Vec<NodePodProbe>) -> Plan {
    let (mut cache, mut ignored) = (Cache::default(), Changes::default());
    nodes.iter().for_each(|node| cache.apply_node(node, &mut ignored));
    markers.into_iter().for_each(|marker| cache.apply_marker(marker, true, &mut ignored));
    pods.into_iter().for_each(|pod| cache.apply_pod(pod.into(), &mut ignored));
    node_pod_probes.into_iter().for_each(|object| cache.apply_node_pod_probe(object.into(), &mut ignored));
    let names: BTreeSet<&String> = cache.nodes.keys().chain(cache.node_pod_probes.keys()).collect();
    let usable = |pod: &crate::cache::PodEntry| {
        let fresh = cache.results(pod).into_iter().filter(|result| result.fresh);
        (pod.pod.metadata.uid.clone(), fresh.map(|result| result.owner).collect::<BTreeSet<String>>())
    };
    Plan {
        node_pod_probes: names.into_iter().filter_map(|name| Some((name.clone(), cache.action(name)?))).collect(),
        markers: cache.markers.iter().map(|(key, entry)| (key.clone(), marker_plan(entry))).collect(),
        events: cache.problems.keys().cloned().collect(),
        usable: cache.pods.values().map(usable).filter(|(_, names)| !names.is_empty()).collect(),
    }
}

fn marker_plan(entry: &crate::cache::MarkerEntry) -> MarkerPlan {
    let has_finalizer = entry.compiled.has_finalizer();
    if !entry.compiled.lives() {
        return MarkerPlan::Release { remove_finalizer: has_finalizer };
    }
    MarkerPlan::Keep {
        add_finalizer: !has_finalizer,
        observed_generation: entry.compiled.marker.metadata.generation,
        matched_pods: i64::try_from(entry.pods.len()).unwrap_or(i64::MAX),
    }
}
