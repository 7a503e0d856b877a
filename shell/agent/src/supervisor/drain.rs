//! Which pods still get traffic, as the slices say: the other half of the drain handshake.

use std::collections::{BTreeSet, HashMap};

use api::{EndpointSlice, FeatureGates, Gate};

/// What the slices say about pods.
pub(super) struct Slices {
    /// With the gate off no slice ever says that an endpoint terminates: a drained pod is not listed any more.
    terminating_told: bool,
    synced: bool,
    /// Per slice, the pods that it lists and whether it shows them as terminating.
    listed: HashMap<String, Vec<(String, bool)>>,
    /// Per pod, how many entries still send it traffic.
    open: HashMap<String, usize>,
}

impl Slices {
    pub(super) fn new(gates: &FeatureGates) -> Slices {
        let terminating_told = gates.enabled(Gate::EndpointSliceTerminatingCondition);
        Slices { terminating_told, synced: false, listed: HashMap::new(), open: HashMap::new() }
    }

    /// Takes a slice as it is now; returns the pods that it lists or listed.
    pub(super) fn apply(&mut self, slice: &EndpointSlice) -> BTreeSet<String> {
        let mut touched = self.remove(slice);
        let entries: Vec<(String, bool)> = slice
            .endpoints
            .iter()
            .filter_map(|endpoint| {
                let target = endpoint.target_ref.as_ref().filter(|target| target.kind == "Pod" && !target.uid.is_empty())?;
                Some((target.uid.clone(), endpoint.conditions.is_terminating()))
            })
            .collect();
        for (uid, terminating) in &entries {
            if self.is_open(*terminating) {
                *self.open.entry(uid.clone()).or_default() += 1;
            }
            touched.insert(uid.clone());
        }
        self.listed.insert(slice.metadata.key(), entries);
        touched
    }

    /// Forgets a slice; returns the pods that it listed.
    pub(super) fn remove(&mut self, slice: &EndpointSlice) -> BTreeSet<String> {
        let entries = self.listed.remove(&slice.metadata.key()).unwrap_or_default();
        for (uid, terminating) in &entries {
            if self.is_open(*terminating)
                && let Some(count) = self.open.get_mut(uid)
            {
                *count -= 1;
                if *count == 0 {
                    self.open.remove(uid);
                }
            }
        }
        entries.into_iter().map(|(uid, _)| uid).collect()
    }

    /// Takes note that all slices were told once; returns every pod that is listed.
    pub(super) fn sync(&mut self) -> BTreeSet<String> {
        self.synced = true;
        self.listed.values().flatten().map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns whether no slice sends traffic to a pod; not before all slices are known.
    pub(super) fn drained(&self, uid: &str) -> bool {
        self.synced && !self.open.contains_key(uid)
    }

    fn is_open(&self, terminating: bool) -> bool {
        !(terminating && self.terminating_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(name: &str, pods: &[(&str, bool)]) -> EndpointSlice {
        let endpoints: Vec<_> = pods
            .iter()
            .map(|(uid, terminating)| json!({"targetRef": {"kind": "Pod", "uid": uid}, "conditions": {"terminating": terminating}}))
            .collect();
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "d"}, "endpoints": endpoints})).unwrap()
    }

    #[test]
    fn a_pod_is_drained_when_every_slice_shows_it_as_terminating() {
        let mut slices = Slices::new(&FeatureGates::default());
        slices.apply(&slice("one", &[("a", false), ("b", false)]));
        slices.apply(&slice("two", &[("a", false)]));
        assert!(!slices.drained("c"), "not before everything is known");
        slices.sync();
        assert!(slices.drained("c"), "no slice lists it");
        slices.apply(&slice("one", &[("a", true), ("b", false)]));
        assert!(!slices.drained("a"));
        assert!(slices.apply(&slice("two", &[("a", true)])).contains("a"));
        assert!(slices.drained("a") && !slices.drained("b"));
        assert!(slices.remove(&slice("one", &[])).contains("b"));
        assert!(slices.drained("b"));
    }

    #[test]
    fn without_the_condition_a_drained_pod_is_not_listed() {
        let mut slices = Slices::new(&FeatureGates::default().with(Gate::EndpointSliceTerminatingCondition, false));
        slices.sync();
        slices.apply(&slice("one", &[("a", true)]));
        assert!(!slices.drained("a"));
        slices.apply(&slice("one", &[]));
        assert!(slices.drained("a"));
    }
}
