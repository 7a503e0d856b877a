//! The messages of `runtime.v1` as far as we read them, by the numbers of their fields.

use crate::wire::{Message, Value, fields};

/// The label with the uid of the pod, which the kubelet gives every container.
const POD_UID: &str = "io.kubernetes.pod.uid";
/// The label with the name of the container in its pod.
const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// What a runtime is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `containerd`, `cri-o`, ...
    pub runtime_name: String,
    /// Its version.
    pub runtime_version: String,
}

/// What a container does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// It was made and not started.
    #[default]
    Created,
    /// It runs.
    Running,
    /// It has ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

impl ContainerState {
    fn of(number: i64) -> ContainerState {
        match number {
            0 => ContainerState::Created,
            1 => ContainerState::Running,
            2 => ContainerState::Exited,
            _ => ContainerState::Unknown,
        }
    }
}

/// A container as a list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its ID, as in `containerID` of a pod status after the scheme.
    pub id: String,
    /// The sandbox of its pod.
    pub sandbox_id: String,
    /// What it does.
    pub state: ContainerState,
    /// When it was made, in nanoseconds since the epoch.
    pub created_at: i64,
    /// The uid of its pod; empty: it is nobody's.
    pub pod_uid: String,
    /// Its name in the pod.
    pub name: String,
}

/// A container, looked at closely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStatus {
    /// What it does.
    pub state: ContainerState,
    /// When it was started, in nanoseconds since the epoch; 0: it was not.
    pub started_at: i64,
    /// How it ended.
    pub exit_code: i32,
}

/// Returns the request for the containers of one pod, or of all.
pub(crate) fn list_request(pod_uid: Option<&str>) -> Message {
    match pod_uid {
        Some(uid) => Message::default().element(1, &Message::default().entry(4, POD_UID, uid).bytes()),
        None => Message::default(),
    }
}

pub(crate) fn containers(message: &[u8]) -> Option<Vec<Container>> {
    let mut all = Some(Vec::new());
    fields(message, |field, value| {
        if let (1, Value::Bytes(bytes)) = (field, value) {
            match (container(bytes), &mut all) {
                (Some(container), Some(all)) => all.push(container),
                _ => all = None,
            }
        }
    })?;
    all
}

fn container(message: &[u8]) -> Option<Container> {
    let mut container = Container::default();
    fields(message, |field, value| match (field, value) {
        (1, value) => container.id = value.text(),
        (2, value) => container.sandbox_id = value.text(),
        (6, value) => container.state = ContainerState::of(value.number()),
        (7, value) => container.created_at = value.number(),
        (8, Value::Bytes(entry)) => {
            let (key, value) = map_entry(entry);
            match key.as_str() {
                POD_UID => container.pod_uid = value,
                CONTAINER_NAME => container.name = value,
                _ => {}
            }
        }
        _ => {}
    })?;
    Some(container)
}

fn map_entry(message: &[u8]) -> (String, String) {
    let (mut key, mut text) = (String::new(), String::new());
    // An entry that is out of shape names nothing that we look for.
    let _ = fields(message, |field, value| match field {
        1 => key = value.text(),
        2 => text = value.text(),
        _ => {}
    });
    (key, text)
}

/// Returns the message in a field of another.
fn inner(message: &[u8], wanted: u64) -> Option<&[u8]> {
    let mut found = None;
    fields(message, |field, value| {
        if let (true, Value::Bytes(bytes)) = (field == wanted, value) {
            found = Some(bytes);
        }
    })?;
    found
}

pub(crate) fn container_status(message: &[u8]) -> Option<ContainerStatus> {
    let mut status = ContainerStatus::default();
    fields(inner(message, 1)?, |field, value| match field {
        3 => status.state = ContainerState::of(value.number()),
        5 => status.started_at = value.number(),
        7 => status.exit_code = i32::try_from(value.number()).unwrap_or(-1),
        _ => {}
    })?;
    Some(status)
}

/// Returns the addresses of a sandbox, the first one first; none for one on the network of the node.
pub(crate) fn sandbox_addresses(message: &[u8]) -> Option<Vec<String>> {
    let Some(network) = inner(inner(message, 1)?, 5) else { return Some(Vec::new()) };
    let (mut first, mut further) = (String::new(), Vec::new());
    fields(network, |field, value| match (field, value) {
        (1, value) => first = value.text(),
        (2, Value::Bytes(address)) => drop(fields(address, |field, value| {
            if field == 1 {
                further.push(value.text());
            }
        })),
        _ => {}
    })?;
    Some(std::iter::once(first).chain(further).filter(|address| !address.is_empty()).collect())
}

pub(crate) fn version(message: &[u8]) -> Option<Version> {
    let mut version = Version::default();
    fields(message, |field, value| match field {
        2 => version.runtime_name = value.text(),
        3 => version.runtime_version = value.text(),
        _ => {}
    })?;
    Some(version)
}
