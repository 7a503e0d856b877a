//! The events of a pod.

use api::event::EventType;
use api::write::reference;
use api::{Event, Pod};
use probe::Role;

/// An instance has been made.
pub(crate) const CREATED: &str = "Created";
/// An instance runs.
pub(crate) const STARTED: &str = "Started";
/// A container could not be set up or started.
pub(crate) const FAILED: &str = "Failed";
/// Address or volumes of a pod could not be had.
pub(crate) const FAILED_SANDBOX: &str = "FailedCreatePodSandBox";
/// A hook after the start failed.
pub(crate) const FAILED_POST_START: &str = "FailedPostStartHook";
/// A hook before the stop failed.
pub(crate) const FAILED_PRE_STOP: &str = "FailedPreStopHook";
/// A pod has used up its time.
pub(crate) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
pub(crate) use probe::events::{BACK_OFF, KILLING};

/// Returns an event about a pod.
pub(crate) fn of_pod(pod: &Pod, type_: EventType, reason: &'static str, message: String) -> Event {
    let meta = &pod.metadata;
    Event { object: reference::<Pod>(&meta.namespace, &meta.name, &meta.uid), type_, reason, message }
}

/// Returns an event about a container of a pod.
pub(crate) fn of_container(
    pod: &Pod,
    role: Role,
    name: &str,
    type_: EventType,
    reason: &'static str,
    message: String,
) -> Event {
    let mut event = of_pod(pod, type_, reason, message);
    let list = if role == Role::Regular { "containers" } else { "initContainers" };
    event.object.field_path = format!("spec.{list}{{{name}}}");
    event
}
