//! The columns of the built-in kinds, and of custom resources from their definition.

use std::borrow::Cow;

use api::json::{int, text};
use serde_json::Value;

use super::Column;

const fn shown(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "string", 0, description)
}

const fn wide(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "string", 1, description)
}

const fn count(name: &'static str, description: &'static str) -> Column {
    Column::new(name, "integer", 0, description)
}

const AGE: Column = shown("Age", "Time since the object was created.");
const SELECTOR: Column = wide("Selector", "Labels of the pods that belong to the object.");
const CONTAINERS: Column = wide("Containers", "Names of the containers of the pod template.");
const IMAGES: Column = wide("Images", "Images of the containers of the pod template.");

static POD: [Column; 9] = [
    Column::name(),
    shown("Ready", "Containers that are ready, of all containers of the pod."),
    shown("Status", "State of the pod in one word: its phase, or what keeps it from running."),
    shown("Restarts", "How often containers of the pod were started again, and when last."),
    AGE,
    wide("IP", "Address of the pod."),
    wide("Node", "Node that the pod is bound to."),
    wide("Nominated Node", "Node on which room is being made for the pod."),
    wide("Readiness Gates", "Readiness gates whose condition is true, of all gates of the pod."),
];

static NODE: [Column; 10] = [
    Column::name(),
    shown("Status", "Whether the node is ready, and whether it takes new pods."),
    shown("Roles", "Roles of the node, from its labels node-role.kubernetes.io/ROLE."),
    AGE,
    shown("Version", "Version of the node agent."),
    wide("Internal-IP", "Address inside the cluster."),
    wide("External-IP", "Address from outside."),
    wide("OS-Image", "Operating system of the node."),
    wide("Kernel-Version", "Kernel of the node, and its architecture."),
    wide("Container-Runtime", "What runs the containers."),
];

static SERVICE: [Column; 7] = [
    Column::name(),
    shown("Type", "How the service is exposed."),
    shown("Cluster-IP", "Virtual address of the service."),
    shown("External-IP", "Addresses from outside."),
    shown("Port(s)", "Ports of the service: port[:nodePort]/protocol."),
    AGE,
    SELECTOR,
];

static NAMESPACE: [Column; 3] = [Column::name(), shown("Status", "Whether the namespace is active or terminating."), AGE];

static NAME_AND_AGE: [Column; 2] = [Column::name(), AGE];

static LEASE: [Column; 3] = [Column::name(), shown("Holder", "Who holds the lease."), AGE];

static CONFIG_MAP: [Column; 3] = [Column::name(), shown("Data", "How many keys it holds."), AGE];

static SECRET: [Column; 4] =
    [Column::name(), shown("Type", "What kind of data it holds."), shown("Data", "How many keys it holds."), AGE];

static EVENT: [Column; 10] = [
    shown("Last Seen", "Time since it last happened."),
    shown("Type", "Normal or Warning."),
    shown("Reason", "Why it was recorded, in one word."),
    shown("Object", "What it is about."),
    wide("Subobject", "The part of the object that it is about."),
    wide("Source", "Who recorded it."),
    shown("Message", "What happened."),
    wide("First Seen", "Time since it first happened."),
    wide("Count", "How often it happened."),
    Column::named(1),
];

static ENDPOINT_SLICE: [Column; 5] = [
    Column::name(),
    shown("AddressType", "Kind of the addresses."),
    shown("Ports", "Ports of every endpoint."),
    shown("Endpoints", "Addresses of the endpoints."),
    AGE,
];

static DEPLOYMENT: [Column; 8] = [
    Column::name(),
    shown("Ready", "Pods that are ready, of those that are wanted."),
    shown("Up-to-date", "Pods of the current template."),
    shown("Available", "Pods that have been ready for long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

static REPLICA_SET: [Column; 8] = [
    Column::name(),
    count("Desired", "Pods that are wanted."),
    count("Current", "Pods that exist."),
    count("Ready", "Pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

static BUDGET: [Column; 5] = [
    Column::name(),
    shown("Min Available", "Pods that must stay available."),
    shown("Max Unavailable", "Pods that need not be available."),
    count("Allowed Disruptions", "Pods that may be evicted now."),
    AGE,
];

static OTHER: [Column; 2] = [Column::name(), Column::new("Created At", "date", 0, "When the object was created.")];

/// Returns the columns of a built-in kind.
pub fn columns(kind: &str) -> &'static [Column] {
    match kind {
        "Pod" => &POD,
        "Node" => &NODE,
        "Service" => &SERVICE,
        "Namespace" => &NAMESPACE,
        "ServiceAccount" => &NAME_AND_AGE,
        "Lease" => &LEASE,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "Event" => &EVENT,
        "EndpointSlice" => &ENDPOINT_SLICE,
        "Deployment" => &DEPLOYMENT,
        "ReplicaSet" => &REPLICA_SET,
        "PodDisruptionBudget" => &BUDGET,
        kind => super::further::columns(kind).unwrap_or(&OTHER),
    }
}

/// Returns the columns of a custom resource: its name, then its `additionalPrinterColumns`, or its age if there are none.
pub fn custom_columns(printer_columns: &[Value]) -> Vec<Column> {
    let owned = |value: &Value, field: &str| Cow::Owned(text(value, &[field]).to_owned());
    let given = printer_columns.iter().map(|column| Column {
        name: owned(column, "name"),
        kind: owned(column, "type"),
        format: owned(column, "format"),
        description: owned(column, "description"),
        priority: int(column, &["priority"]).unwrap_or(0),
    });
    let age = printer_columns.is_empty().then(Column::age);
    std::iter::once(Column::name()).chain(given).chain(age).collect()
}
