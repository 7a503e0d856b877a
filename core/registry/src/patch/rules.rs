//! The one table of strategic merge: which lists of which messages merge, and by which key.
//!
//! A message is a type of the API by its Go name (`PodSpec`). Only members that lead to a merging list are listed; every
//! other map merges member by member and every other list is replaced whole. Source: the patch tags of the types of
//! Kubernetes v1.36, for the kinds that this server has built in.

/// How a list meets the list of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStrategy {
    /// The list of the patch takes its place.
    Replace,
    /// Items with an equal member of this name merge.
    Merge(&'static str),
    /// Both are sets of primitive values.
    Set,
}

/// How one member of a message merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name of the member.
    pub field: &'static str,
    /// The message of its value, or of its items if it is a list.
    pub message: &'static str,
    /// The strategy, if it is a list.
    pub list: ListStrategy,
    /// Whether clients state the whole set of members with `$retainKeys` (a union of which one member is set).
    pub retain_keys: bool,
}

/// What is not in the table: a map merges, a list is replaced.
const PLAIN: Rule = Rule { field: "", message: "", list: ListStrategy::Replace, retain_keys: false };

const fn map(field: &'static str, message: &'static str) -> Rule {
    Rule { field, message, ..PLAIN }
}

const fn list(field: &'static str, message: &'static str, key: &'static str) -> Rule {
    Rule { field, message, list: ListStrategy::Merge(key), ..PLAIN }
}

const fn union(field: &'static str, message: &'static str, key: &'static str) -> Rule {
    Rule { retain_keys: true, ..list(field, message, key) }
}

const fn set(field: &'static str) -> Rule {
    Rule { field, list: ListStrategy::Set, ..PLAIN }
}

/// Returns the rule of a member of a message; a member that is not in the table is plain.
///
/// ```
/// use registry::patch::{ListStrategy, lookup};
/// assert_eq!(lookup("PodSpec", "containers").list, ListStrategy::Merge("name"));
/// assert_eq!(lookup("PodSpec", "tolerations").list, ListStrategy::Replace);
/// ```
pub fn lookup(message: &str, field: &str) -> Rule {
    fields(message).iter().copied().find(|rule| rule.field == field).unwrap_or(match field {
        // Every kind has the same metadata, also those without a list that merges; no message inside a kind has a member
        // of this name.
        "metadata" if !message.is_empty() => map("metadata", "ObjectMeta"),
        _ => PLAIN,
    })
}

const CONDITIONS: Rule = list("conditions", "", "type");

fn fields(message: &str) -> &'static [Rule] {
    match message {
        "ObjectMeta" => const { &[list("ownerReferences", "", "uid"), set("finalizers")] },
        "Pod" => const { &[map("spec", "PodSpec"), map("status", "PodStatus")] },
        "PodTemplateSpec" => const { &[map("spec", "PodSpec")] },
        "PodSpec" => {
            const {
                &[
                    list("containers", "Container", "name"),
                    list("initContainers", "Container", "name"),
                    list("ephemeralContainers", "Container", "name"),
                    union("volumes", "", "name"),
                    list("imagePullSecrets", "", "name"),
                    list("hostAliases", "", "ip"),
                    list("topologySpreadConstraints", "", "topologyKey"),
                    list("schedulingGates", "", "name"),
                    union("resourceClaims", "", "name"),
                ]
            }
        }
        "Container" => {
            const {
                &[
                    list("ports", "", "containerPort"),
                    list("env", "", "name"),
                    list("volumeMounts", "", "mountPath"),
                    list("volumeDevices", "", "devicePath"),
                ]
            }
        }
        "PodStatus" => {
            const { &[CONDITIONS, list("podIPs", "", "ip"), list("hostIPs", "", "ip"), union("resourceClaimStatuses", "", "name")] }
        }
        "Node" => const { &[map("spec", "NodeSpec"), map("status", "NodeStatus")] },
        "NodeSpec" => const { &[set("podCIDRs")] },
        "NodeStatus" => const { &[CONDITIONS, list("addresses", "", "type")] },
        "Namespace" => const { &[map("status", "NamespaceStatus")] },
        "NamespaceStatus" | "ServiceStatus" | "DeploymentStatus" | "ReplicaSetStatus" => const { &[CONDITIONS] },
        "Service" => const { &[map("spec", "ServiceSpec"), map("status", "ServiceStatus")] },
        "ServiceSpec" => const { &[list("ports", "", "port")] },
        "ServiceAccount" => const { &[list("secrets", "", "name")] },
        "Deployment" => const { &[map("spec", "DeploymentSpec"), map("status", "DeploymentStatus")] },
        "DeploymentSpec" => const { &[map("template", "PodTemplateSpec"), Rule { retain_keys: true, ..map("strategy", "") }] },
        "ReplicaSet" => const { &[map("spec", "ReplicaSetSpec"), map("status", "ReplicaSetStatus")] },
        "ReplicaSetSpec" => const { &[map("template", "PodTemplateSpec")] },
        _ => &[],
    }
}
