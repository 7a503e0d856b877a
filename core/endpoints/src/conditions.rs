//! The conditions of an endpoint, from its pod.
//!
//! KEP-1672 says that a terminating pod must not be ready. With `publishNotReadyAddresses` it is, as in Kubernetes: peer
//! discovery through headless Services depends on it. `DisruptionTarget` has no influence: whoever sets it deletes the pod
//! right after, and reading it would take a pod out for two minutes when that deletion fails.

use api::endpointslice::EndpointConditions;

use crate::pod::PodRecord;
use crate::settings::Settings;

/// Returns the conditions that the controller writes for a pod.
pub fn conditions(pod: &PodRecord, publish_not_ready: bool, settings: &Settings) -> EndpointConditions {
    let (serving, terminating) = (pod.ready, pod.terminating());
    let written = |value: bool| settings.terminating_condition.then_some(value);
    EndpointConditions {
        ready: Some(publish_not_ready || (serving && !terminating)),
        serving: written(serving),
        terminating: written(terminating),
    }
}

/// Returns whether what is stored needs no write; with the gate off, only `ready` is compared.
pub(crate) fn same(stored: &EndpointConditions, wanted: &EndpointConditions, settings: &Settings) -> bool {
    if settings.terminating_condition { stored == wanted } else { stored.ready == wanted.ready }
}
