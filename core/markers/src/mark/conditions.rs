//! Who decides a condition of a pod.

use std::collections::BTreeMap;

use api::Pod;
use api::marker::ProbeState;
use api::meta::Condition;

use super::sources::{Source, Sources};
use super::{Probe, ProbeResult, Reason};
use crate::Key;

/// What becomes of the conditions.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) set: Vec<Condition>,
    pub(super) remove: Vec<String>,
    pub(super) owned: BTreeMap<String, String>,
    pub(super) conflicts: Vec<(Key, Reason)>,
}

pub(super) fn resolve(pod: &Pod, owned: &BTreeMap<String, String>, probes: &[Probe<'_>], sources: &Sources<'_>) -> Resolved {
    let mut resolved = Resolved::default();
    let claims = claims(owned, probes, &mut resolved.conflicts);
    for (type_, probe) in &claims {
        let existing = pod.condition(type_);
        let wanted = probe.fresh.and_then(|result| condition(type_, result, existing));
        // An unknown state creates nothing, and what does not exist has no owner.
        if existing.is_some() || wanted.is_some() || probe.fresh.is_none() {
            resolved.owned.insert((*type_).to_owned(), probe.owner.clone());
        }
        resolved.set.extend(wanted);
    }
    for (type_, owner) in owned.iter().filter(|(type_, _)| !claims.contains_key(type_.as_str())) {
        let lost = match sources.of(owner) {
            Source::Alive(probe) => probe.pod_condition_type != *type_,
            Source::Lost => true,
            Source::Gone => false,
        };
        if !lost {
            resolved.owned.insert(type_.clone(), owner.clone());
        } else if pod.condition(type_).is_some() {
            resolved.remove.push(type_.clone());
        }
    }
    resolved
}

/// Returns who decides each condition type that is claimed.
fn claims<'a, 'b>(
    owned: &BTreeMap<String, String>,
    probes: &'a [Probe<'b>],
    conflicts: &mut Vec<(Key, Reason)>,
) -> BTreeMap<&'a str, &'a Probe<'b>> {
    let mut claims: BTreeMap<&str, &Probe<'b>> = BTreeMap::new();
    for probe in probes.iter().filter(|probe| !probe.spec.pod_condition_type.is_empty()) {
        let type_ = probe.spec.pod_condition_type.as_str();
        if probe.fresh.is_none() && owned.get(type_) != Some(&probe.owner) {
            continue;
        }
        let winner = claims.entry(type_).or_insert(probe);
        if probe.fresh.is_some() && winner.marker.key != probe.marker.key {
            conflicts.push((probe.marker.key.clone(), Reason::ConditionTypeConflict));
        }
    }
    claims
}

/// Returns the condition to write, `None` if the existing one says the same.
fn condition(type_: &str, result: &ProbeResult, existing: Option<&Condition>) -> Option<Condition> {
    let (status, reason) = match result.state {
        ProbeState::Succeeded => ("True", "ProbeSucceeded"),
        ProbeState::Failed => ("False", "ProbeFailed"),
        ProbeState::Unknown => ("Unknown", "ProbeUnknown"),
    };
    let changes = existing.is_none_or(|existing| existing.status != status);
    if existing.is_none() && result.state == ProbeState::Unknown {
        return None;
    }
    if !changes && existing.is_some_and(|existing| existing.message == result.message) {
        return None;
    }
    let kept = existing.filter(|_| !changes).and_then(|existing| existing.last_transition_time);
    Some(Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: result.message.clone(),
        last_probe_time: result.last_probe_time,
        last_transition_time: kept.or(result.last_transition_time),
        ..Condition::default()
    })
}
