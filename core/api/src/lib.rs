//! Kubernetes objects as the cores see them, and the rules of their API.
//!
//! **Views** ([`Pod`], [`Service`], ...) are lean: they hold the fields that we read and ignore the rest. A view is never
//! written back; what we write is a patch or an object that we own whole, so fields that we do not know survive.
//!
//! **Rules** work on JSON values, because a rule must be total over whatever a client sends: `default_*` fills in,
//! `drop_*` removes the fields of a switched-off gate, `validate_*` returns every error it finds. Whether a value has the
//! right JSON type is the decoder's question (a 400, not a field error); a rule treats a value of a wrong type as absent
//! unless its specification says otherwise.

pub mod budget;
pub mod config_node;
pub mod config_node_rules;
pub mod crds;
pub mod duration;
pub mod endpointslice;
pub mod endpointslice_rules;
pub mod event;
pub mod field;
pub mod gates;
pub mod int_or_string;
pub mod ip;
pub mod json;
pub mod key;
pub mod lease;
pub mod marker;
pub mod marker_rules;
pub mod meta;
pub mod moved;
pub mod names;
pub mod node;
pub mod ordered;
pub mod pod;
pub mod probe_rules;
pub mod process_rules;
pub mod quantity;
pub mod selector;
pub mod service;
pub mod status;
pub mod timestamp;
pub mod tolerations;
pub mod workload;
pub mod write;

pub use budget::PodDisruptionBudget;
pub use config_node::ConfigNode;
pub use endpointslice::EndpointSlice;
pub use event::{Event, EventType, ObjectReference};
pub use gates::{FeatureGates, Gate};
pub use int_or_string::IntOrString;
pub use key::Key;
pub use lease::Lease;
pub use marker::{NodePodProbe, PodProbeMarker};
pub use meta::{Kind, ObjectMeta, OwnerReference, Scope};
pub use node::Node;
pub use pod::Pod;
pub use probe_rules::{HandlerKind, ProbeType};
pub use quantity::Quantity;
pub use selector::{FieldSelector, LabelSelector, Selector};
pub use service::Service;
pub use timestamp::Timestamp;
pub use workload::{Deployment, ReplicaSet};
pub use write::{Verb, Write, WriteError, WriteFailure};

#[cfg(test)]
mod laws;
