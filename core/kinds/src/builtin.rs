//! The rules of the built-in kinds: defaults, validation, what an update may change, field selectors.
//!
//! Everything here is a total function of JSON values. Wrong JSON types were refused by the decoder before; should one
//! come through, it counts as absent. A write calls, in this order and after the server's own metadata is set:
//!
//! | create | update |
//! |---|---|
//! | [`prepare_create`] | [`prepare_update`] |
//! | [`default`] | [`default`] |
//! | [`drop_disabled`] | [`drop_disabled`] |
//! | [`admit`] | [`admit`] (not for subresources) |
//! | [`validate_create`] | [`validate_update`] |
//! | | [`generation_changes`] (only for [`Part::Main`]) |
//! | [`warnings`] | [`warnings`] |

mod budget;
mod check;
mod config;
mod event;
mod fields;
mod fill;
mod lease;
pub mod meta;
mod namespace;
mod node;
mod pod;
mod resources;
mod rules;
mod selectors;
pub mod service;
mod workload;

use api::names;
use machine::Time;

pub(crate) use fill::copy;
pub(crate) use workload::{default_template, validate_template as validate_pod_template};

pub use fields::{selectable_fields, supported_field_label};
pub use meta::{MetaRules, NameRule};
pub use pod::defaults::SYSTEM_PRIORITIES;
pub use pod::tolerations::admit_pod_tolerations;
pub use rules::{
    admit, default, drop_disabled, generation_changes, prepare_create, prepare_update, validate_create, validate_update,
    warnings,
};

/// A kind that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    /// `v1` Pod.
    Pod,
    /// `v1` Node.
    Node,
    /// `v1` Namespace.
    Namespace,
    /// `v1` Service.
    Service,
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` ServiceAccount.
    ServiceAccount,
    /// `v1` Secret.
    Secret,
    /// `v1` Event.
    Event,
    /// `events.k8s.io/v1` Event: the same objects with other names for the fields.
    EventsEvent,
    /// `coordination.k8s.io/v1` Lease.
    Lease,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `policy/v1` PodDisruptionBudget.
    PodDisruptionBudget,
    /// `apiextensions.k8s.io/v1` CustomResourceDefinition.
    CustomResourceDefinition,
}

impl Builtin {
    /// Every built-in kind.
    pub const ALL: [Builtin; 15] = [
        Builtin::Pod,
        Builtin::Node,
        Builtin::Namespace,
        Builtin::Service,
        Builtin::ConfigMap,
        Builtin::ServiceAccount,
        Builtin::Secret,
        Builtin::Event,
        Builtin::EventsEvent,
        Builtin::Lease,
        Builtin::EndpointSlice,
        Builtin::Deployment,
        Builtin::ReplicaSet,
        Builtin::PodDisruptionBudget,
        Builtin::CustomResourceDefinition,
    ];

    /// Returns the API group; empty for core.
    pub const fn group(self) -> &'static str {
        match self {
            Builtin::EventsEvent => "events.k8s.io",
            Builtin::Lease => "coordination.k8s.io",
            Builtin::EndpointSlice => "discovery.k8s.io",
            Builtin::Deployment | Builtin::ReplicaSet => "apps",
            Builtin::PodDisruptionBudget => "policy",
            Builtin::CustomResourceDefinition => "apiextensions.k8s.io",
            _ => "",
        }
    }

    /// Returns the name of the kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Builtin::Pod => "Pod",
            Builtin::Node => "Node",
            Builtin::Namespace => "Namespace",
            Builtin::Service => "Service",
            Builtin::ConfigMap => "ConfigMap",
            Builtin::ServiceAccount => "ServiceAccount",
            Builtin::Secret => "Secret",
            Builtin::Event | Builtin::EventsEvent => "Event",
            Builtin::Lease => "Lease",
            Builtin::EndpointSlice => "EndpointSlice",
            Builtin::Deployment => "Deployment",
            Builtin::ReplicaSet => "ReplicaSet",
            Builtin::PodDisruptionBudget => "PodDisruptionBudget",
            Builtin::CustomResourceDefinition => "CustomResourceDefinition",
        }
    }

    /// Returns the built-in kind of that name; all of them have version `v1`.
    pub fn from_gvk(group: &str, version: &str, kind: &str) -> Option<Builtin> {
        Builtin::ALL.into_iter().find(|builtin| builtin.group() == group && builtin.kind() == kind && version == "v1")
    }

    /// Returns whether objects live in namespaces.
    pub const fn namespaced(self) -> bool {
        !matches!(self, Builtin::Node | Builtin::Namespace | Builtin::CustomResourceDefinition)
    }

    /// Returns whether `metadata.generation` is kept.
    pub const fn has_generation(self) -> bool {
        matches!(
            self,
            Builtin::Pod
                | Builtin::EndpointSlice
                | Builtin::Deployment
                | Builtin::ReplicaSet
                | Builtin::PodDisruptionBudget
                | Builtin::CustomResourceDefinition
        )
    }

    /// Returns the rules of the metadata.
    pub fn meta_rules(self) -> MetaRules {
        let name: NameRule = match self {
            Builtin::Namespace => names::dns1123_label,
            Builtin::Service => names::dns1035_label,
            // Nobody chooses the name of an event with care; Kubernetes only wants that it can be part of a URL.
            Builtin::Event | Builtin::EventsEvent => meta::path_segment,
            _ => names::dns1123_subdomain,
        };
        // The finalizer of a CustomResourceDefinition predates the rule that names have a prefix.
        let qualified_finalizers = self != Builtin::CustomResourceDefinition;
        MetaRules { name, namespaced: self.namespaced(), qualified_finalizers }
    }
}

/// What the rules need to know besides the object.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The present instant.
    pub now: Time,
    /// Which gates are on.
    pub gates: &'a api::FeatureGates,
    /// Seconds that a pod without an own toleration stays on a node that is not ready; of the active latency profile.
    pub not_ready_toleration_seconds: i64,
    /// The same for a node that cannot be reached.
    pub unreachable_toleration_seconds: i64,
    /// Whether loopback addresses are good endpoint addresses, as they are where pods are processes.
    pub allow_loopback_endpoints: bool,
}

/// The endpoint through which an update came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The object itself; a scale is written through it too.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of namespaces.
    Finalize,
    /// `/binding` of pods: the server itself has set the node, labels, annotations and a condition.
    Binding,
}

#[cfg(test)]
mod tests;
