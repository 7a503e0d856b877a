//! What became of the owner of a mark.

use std::collections::BTreeMap;

use api::Pod;
use api::marker::{PodContainerProbe, split_entry};

use crate::Compiled;

/// What became of the owner of a mark.
pub(super) enum Source<'a> {
    /// The probe is there and its marker selects the pod.
    Alive(&'a PodContainerProbe),
    /// The probe was removed, its marker selects the pod no more, or is deleted and wants its marks removed.
    Lost,
    /// The marker is deleted and its marks stay.
    Gone,
}

/// The markers of a pod's namespace, by name.
pub(super) struct Sources<'a> {
    markers: BTreeMap<&'a str, (&'a Compiled, bool)>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(pod: &Pod, markers: &[&'a Compiled]) -> Sources<'a> {
        let here = markers.iter().filter(|marker| marker.key.namespace == pod.metadata.namespace);
        let judged = here.map(|marker| (marker.key.name.as_str(), (*marker, marker.matches(&pod.metadata.labels))));
        Sources { markers: judged.collect() }
    }

    /// Returns what became of `<marker>#<probe>`.
    pub(super) fn of(&self, owner: &str) -> Source<'a> {
        let Some((name, probe)) = split_entry(owner) else { return Source::Gone };
        match self.markers.get(name) {
            None => Source::Gone,
            Some((marker, _)) if !marker.lives() => {
                if marker.marker.removes_marks() {
                    Source::Lost
                } else {
                    Source::Gone
                }
            }
            Some((_, false)) => Source::Lost,
            Some((marker, true)) => {
                let probes = &marker.marker.spec.probes;
                probes.iter().find(|known| known.name == probe).map_or(Source::Lost, Source::Alive)
            }
        }
    }
}
