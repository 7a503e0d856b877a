//! Which resources are served, and what is particular about each.

use std::sync::Arc;

use api::status::Subject;

use crate::key::{self, Key};

/// A subresource that discovery shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name, for example `status`.
    pub name: String,
    /// Group, version and kind of what it takes and gives, if not those of the resource.
    pub other_kind: Option<(String, String, String)>,
    /// What it can do.
    pub verbs: Vec<&'static str>,
}

/// A served resource of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name in URLs.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of a list.
    pub list_kind: String,
    /// Short names for command lines.
    pub short_names: Vec<String>,
    /// Groups of resources, for example `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// What it can do.
    pub verbs: Vec<&'static str>,
    /// Whether a PUT may leave out `resourceVersion`.
    pub unconditional_update: bool,
    /// Whether a PUT of a missing object creates it.
    pub create_on_update: bool,
    /// Whether `metadata.generation` is kept.
    pub generation: bool,
    /// Whether it comes from a CustomResourceDefinition.
    pub custom: bool,
    /// Group under which the objects are stored: `events.k8s.io` shares those of core.
    pub storage_group: String,
}

/// The verbs of a resource that has them all.
pub const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

impl Resource {
    /// Returns `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns what an error about an object of this resource is about.
    pub fn subject(&self, name: &str) -> Subject {
        Subject { group: self.group.clone(), resource: self.plural.clone(), kind: self.kind.clone(), name: name.to_owned() }
    }

    /// Returns the key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        key::key(&self.storage_group, &self.plural, namespace, name)
    }

    /// Returns what the keys of this resource begin with, in one namespace or (empty) in all.
    pub fn prefix(&self, namespace: &str) -> String {
        key::prefix(&self.storage_group, &self.plural, namespace)
    }

    /// Returns whether these are the CustomResourceDefinitions.
    pub fn is_definitions(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    /// Returns a subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Returns whether writes to `status` go through their own endpoint.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Returns whether the resource is a core kind of that name.
    pub fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Returns a plain resource; builders below change what is particular.
    pub fn new(group: &str, version: &str, plural: &str, singular: &str, kind: &str, namespaced: bool) -> Resource {
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            singular: singular.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            subresources: Vec::new(),
            verbs: ALL_VERBS.to_vec(),
            unconditional_update: true,
            create_on_update: false,
            generation: false,
            custom: false,
            storage_group: group.to_owned(),
        }
    }

    fn short(mut self, names: &[&str]) -> Resource {
        self.short_names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn all(mut self) -> Resource {
        self.categories = vec!["all".to_owned()];
        self
    }

    fn generation(mut self) -> Resource {
        self.generation = true;
        self
    }

    /// Adds the subresource `status`.
    pub fn status(self) -> Resource {
        self.sub("status", None, &STATUS_VERBS)
    }

    /// Adds the subresource `scale`.
    pub fn scale(self) -> Resource {
        self.sub("scale", Some(("autoscaling", "v1", "Scale")), &STATUS_VERBS)
    }

    fn sub(mut self, name: &str, other: Option<(&str, &str, &str)>, verbs: &[&'static str]) -> Resource {
        let other_kind = other.map(|(group, version, kind)| (group.to_owned(), version.to_owned(), kind.to_owned()));
        self.subresources.push(Subresource { name: name.to_owned(), other_kind, verbs: verbs.to_vec() });
        self
    }

    fn create_only(mut self) -> Resource {
        self.verbs = vec!["create"];
        self
    }
}

/// Returns the built-in resources, in the order of discovery: core first, then the other groups.
pub fn builtins() -> Vec<Arc<Resource>> {
    let namespaced = |group, plural, singular, kind| Resource::new(group, "v1", plural, singular, kind, true);
    let cluster = |group, plural, singular, kind| Resource::new(group, "v1", plural, singular, kind, false);
    let mut namespaces = cluster("", "namespaces", "namespace", "Namespace").short(&["ns"]).status();
    namespaces.verbs.retain(|verb| *verb != "deletecollection");
    let mut leases = namespaced("coordination.k8s.io", "leases", "lease", "Lease");
    (leases.unconditional_update, leases.create_on_update) = (false, true);
    let mut events = namespaced("", "events", "event", "Event").short(&["ev"]);
    events.create_on_update = true;
    let mut new_events = Resource { group: "events.k8s.io".to_owned(), ..events.clone() };
    new_events.storage_group = String::new();
    let mut services = namespaced("", "services", "service", "Service").short(&["svc"]).all().status();
    services.create_on_update = true;
    let mut crds =
        cluster("apiextensions.k8s.io", "customresourcedefinitions", "customresourcedefinition", "CustomResourceDefinition")
            .short(&["crd", "crds"])
            .generation()
            .status();
    crds.unconditional_update = false;
    let pods = namespaced("", "pods", "pod", "Pod")
        .short(&["po"])
        .all()
        .generation()
        .sub("attach", Some(("", "v1", "PodAttachOptions")), &["create", "get"])
        .sub("binding", Some(("", "v1", "Binding")), &["create"])
        .sub("eviction", Some(("policy", "v1", "Eviction")), &["create"])
        .sub("exec", Some(("", "v1", "PodExecOptions")), &["create", "get"])
        .sub("log", None, &["get"])
        .sub("portforward", Some(("", "v1", "PodPortForwardOptions")), &["create", "get"])
        .status();
    let mut budgets = namespaced("policy", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget");
    budgets.unconditional_update = false;
    let budgets = budgets.short(&["pdb"]).generation().status();
    let workload = |plural, singular, kind, short: &[&str]| {
        namespaced("apps", plural, singular, kind).short(short).all().generation().scale().status()
    };
    [
        namespaced("", "bindings", "binding", "Binding").create_only(),
        namespaced("", "configmaps", "configmap", "ConfigMap").short(&["cm"]),
        events,
        namespaces.sub("finalize", None, &["update"]),
        cluster("", "nodes", "node", "Node")
            .short(&["no"])
            .sub("proxy", Some(("", "v1", "NodeProxyOptions")), &["create", "delete", "get", "patch", "update"])
            .status(),
        pods,
        namespaced("", "secrets", "secret", "Secret"),
        namespaced("", "serviceaccounts", "serviceaccount", "ServiceAccount").short(&["sa"]).sub(
            "token",
            Some(("authentication.k8s.io", "v1", "TokenRequest")),
            &["create"],
        ),
        services,
        workload("deployments", "deployment", "Deployment", &["deploy"]),
        workload("replicasets", "replicaset", "ReplicaSet", &["rs"]),
        new_events,
        cluster("authentication.k8s.io", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview").create_only(),
        cluster("authentication.k8s.io", "tokenreviews", "tokenreview", "TokenReview").create_only(),
        namespaced("authorization.k8s.io", "localsubjectaccessreviews", "localsubjectaccessreview", "LocalSubjectAccessReview")
            .create_only(),
        cluster("authorization.k8s.io", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview").create_only(),
        cluster("authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview")
            .create_only(),
        cluster("authorization.k8s.io", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview")
            .create_only(),
        crds,
        leases,
        namespaced("discovery.k8s.io", "endpointslices", "endpointslice", "EndpointSlice").generation(),
        budgets,
    ]
    .into_iter()
    .chain(crate::further::KINDS.iter().map(crate::further::Further::resource))
    .map(Arc::new)
    .collect()
}
