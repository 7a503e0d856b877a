//! Who decides a label or an annotation.

use std::collections::BTreeMap;

use api::marker::MarkerPolicy;

use super::sources::{Source, Sources};
use super::{Probe, Reason};
use crate::Key;

/// The labels or the annotations of a pod.
pub(super) struct Section<'a> {
    /// What is on the pod.
    pub(super) current: &'a BTreeMap<String, String>,
    /// What the bookkeeping says.
    pub(super) owned: &'a BTreeMap<String, String>,
    /// The part of a policy that is about this section.
    pub(super) of: fn(&MarkerPolicy) -> &BTreeMap<String, String>,
}

/// What becomes of a section.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) changes: BTreeMap<String, Option<String>>,
    pub(super) owned: BTreeMap<String, String>,
    pub(super) conflicts: Vec<(Key, Reason)>,
    /// Whether a mark goes because its source is lost.
    pub(super) lost: bool,
}

/// Who decides a key, and the value; `None`: the one that is on the pod, which has none.
struct Claim<'a> {
    owner: &'a str,
    value: Option<&'a str>,
}

pub(super) fn resolve(section: &Section<'_>, probes: &[Probe<'_>], sources: &Sources<'_>) -> Resolved {
    let mut resolved = Resolved::default();
    let claims = claims(section, probes, &mut resolved.conflicts);
    for (key, claim) in &claims {
        if claim.value != section.current.get(*key).map(String::as_str) {
            resolved.changes.insert((*key).to_owned(), claim.value.map(str::to_owned));
        }
        resolved.owned.insert((*key).to_owned(), claim.owner.to_owned());
    }
    // A probe with a state removes what it names and nobody claims, whoever set it.
    let fresh = probes.iter().filter(|probe| probe.fresh.is_some()).flat_map(|probe| &probe.spec.marker_policy);
    let mut removed: Vec<&str> = fresh.flat_map(|policy| (section.of)(policy).keys()).map(String::as_str).collect();
    for (key, owner) in section.owned.iter().filter(|(key, _)| !claims.contains_key(key.as_str())) {
        let lost = match sources.of(owner) {
            Source::Alive(probe) => !probe.marker_policy.iter().any(|policy| (section.of)(policy).contains_key(key)),
            Source::Lost => true,
            Source::Gone => false,
        };
        if lost {
            resolved.lost |= section.current.contains_key(key);
            removed.push(key);
        } else if !removed.contains(&key.as_str()) {
            resolved.owned.insert(key.clone(), owner.clone());
        }
    }
    for key in removed.into_iter().filter(|key| !claims.contains_key(key) && section.current.contains_key(*key)) {
        resolved.changes.insert(key.to_owned(), None);
    }
    resolved
}

/// Returns who decides each key that is claimed; a probe with another value that comes too late is a conflict.
fn claims<'a>(
    section: &Section<'a>,
    probes: &'a [Probe<'_>],
    conflicts: &mut Vec<(Key, Reason)>,
) -> BTreeMap<&'a str, Claim<'a>> {
    let mut claims: BTreeMap<&str, Claim<'a>> = BTreeMap::new();
    for probe in probes {
        if probe.fresh.is_some() {
            for (key, value) in probe.policy().into_iter().flat_map(section.of) {
                let claim = claims.entry(key).or_insert(Claim { owner: &probe.owner, value: Some(value) });
                if claim.value != Some(value) {
                    conflicts.push((probe.marker.key.clone(), Reason::MarkConflict));
                }
            }
        } else {
            // Without a usable state the probe defends what it owns and still names, as it is.
            for key in probe.spec.marker_policy.iter().flat_map(|policy| (section.of)(policy).keys()) {
                if section.owned.get(key) == Some(&probe.owner) {
                    let value = section.current.get(key).map(String::as_str);
                    claims.entry(key).or_insert(Claim { owner: &probe.owner, value });
                }
            }
        }
    }
    claims
}
