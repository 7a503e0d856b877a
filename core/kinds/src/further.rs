//! Kinds that this server stores and does not act on: one table, and rules that follow from the type model.
//!
//! Components of Kubernetes list these kinds before they begin to work, and some of them act on them. What is particular
//! about a kind is a row of [`KINDS`], its fields are in the model, its defaults in [`defaults`](self::defaults).

mod defaults;
mod rules;

use api::names;

use crate::builtin::{MetaRules, NameRule, meta};
use crate::resource::Resource;

pub use rules::{default, generation_changes, prepare_create, prepare_update, validate_create, validate_update, warning};

/// Who has to act on an object for it to mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Nobody: it is data.
    Nobody,
    /// A component that runs beside this server.
    Component,
    /// The server, which has roles of its own and does not look at these.
    Authorizer,
    /// The server, before it stores other objects; it does not.
    Admission,
}

/// A kind of the table.
#[derive(Clone, Copy, Debug)]
pub struct Further {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural name in URLs.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Who has to act on it.
    pub actor: Actor,
    short_names: &'static [&'static str],
    category: &'static str,
    status: bool,
    scale: bool,
    generation: bool,
    unconditional_update: bool,
    create_on_update: bool,
    /// Whether it shows objects of another version of the same resource, and only shows them.
    older_version: bool,
}

const fn cluster(group: &'static str, plural: &'static str, kind: &'static str) -> Further {
    Further {
        group,
        version: "v1",
        plural,
        kind,
        namespaced: false,
        actor: Actor::Component,
        short_names: &[],
        category: "",
        status: false,
        scale: false,
        generation: false,
        unconditional_update: true,
        create_on_update: false,
        older_version: false,
    }
}

const fn namespaced(group: &'static str, plural: &'static str, kind: &'static str) -> Further {
    Further { namespaced: true, ..cluster(group, plural, kind) }
}

impl Further {
    /// Returns whether it shows objects of another version of the same resource, and only shows them.
    pub fn is_older_version(&self) -> bool {
        self.older_version
    }

    const fn short(self, short_names: &'static [&'static str]) -> Further {
        Further { short_names, ..self }
    }

    const fn all(self) -> Further {
        Further { category: "all", ..self }
    }

    const fn status(self) -> Further {
        Further { status: true, ..self }
    }

    const fn scale(self) -> Further {
        Further { scale: true, ..self }
    }

    const fn generation(self) -> Further {
        Further { generation: true, ..self }
    }

    const fn versioned(self) -> Further {
        Further { unconditional_update: false, ..self }
    }

    const fn put_creates(self) -> Further {
        Further { create_on_update: true, ..self }
    }

    const fn data(self) -> Further {
        Further { actor: Actor::Nobody, ..self }
    }

    const fn rights(self) -> Further {
        Further { actor: Actor::Authorizer, ..self }
    }

    const fn admission(self) -> Further {
        Further { actor: Actor::Admission, ..self }
    }

    const fn extension(self) -> Further {
        Further { category: "api-extensions", ..self.admission().generation().versioned() }
    }

    /// Returns the resource as it is served.
    pub fn resource(&self) -> Resource {
        let mut resource =
            Resource::new(self.group, self.version, self.plural, &self.kind.to_ascii_lowercase(), self.kind, self.namespaced);
        resource.short_names = self.short_names.iter().map(|name| (*name).to_owned()).collect();
        resource.categories = Some(self.category).filter(|name| !name.is_empty()).map(str::to_owned).into_iter().collect();
        resource.generation = self.generation;
        resource.unconditional_update = self.unconditional_update;
        resource.create_on_update = self.create_on_update;
        if self.older_version {
            resource.verbs = vec!["get", "list", "watch"];
        }
        if self.scale {
            resource = resource.scale();
        }
        if self.status { resource.status() } else { resource }
    }

    /// Returns the rules of the metadata.
    pub fn meta_rules(&self) -> MetaRules {
        let name: NameRule = if self.actor == Actor::Authorizer { meta::path_segment } else { names::dns1123_subdomain };
        MetaRules { name, namespaced: self.namespaced, qualified_finalizers: true }
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// The kinds, group by group.
pub static KINDS: [Further; 45] = [
    namespaced("", "endpoints", "Endpoints").short(&["ep"]).put_creates(),
    namespaced("", "limitranges", "LimitRange").short(&["limits"]).put_creates().admission(),
    namespaced("", "persistentvolumeclaims", "PersistentVolumeClaim").short(&["pvc"]).status(),
    cluster("", "persistentvolumes", "PersistentVolume").short(&["pv"]).status(),
    namespaced("", "podtemplates", "PodTemplate").generation().data(),
    namespaced("", "replicationcontrollers", "ReplicationController").short(&["rc"]).all().generation().scale().status(),
    namespaced("", "resourcequotas", "ResourceQuota").short(&["quota"]).status().admission(),
    cluster("apiregistration.k8s.io", "apiservices", "APIService").status().admission(),
    namespaced("apps", "controllerrevisions", "ControllerRevision"),
    namespaced("apps", "daemonsets", "DaemonSet").short(&["ds"]).all().generation().status(),
    namespaced("apps", "statefulsets", "StatefulSet").short(&["sts"]).all().generation().scale().status(),
    cluster(ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy").extension(),
    cluster(ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding").extension(),
    cluster(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration").extension(),
    cluster(ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy").extension().status(),
    cluster(ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding").extension(),
    cluster(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration").extension(),
    Further { version: "v2", ..namespaced("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler") }
        .short(&["hpa"])
        .all()
        .status(),
    // After the version that is stored.
    Further { older_version: true, ..namespaced("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler") }
        .short(&["hpa"])
        .all(),
    namespaced("batch", "cronjobs", "CronJob").short(&["cj"]).all().generation().status(),
    namespaced("batch", "jobs", "Job").all().generation().status(),
    // Who asks for a certificate is for the server to write down; it does not.
    cluster("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest")
        .short(&["csr"])
        .status()
        .admission(),
    cluster(FLOW, "flowschemas", "FlowSchema").generation().status().admission(),
    cluster(FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration").generation().status().admission(),
    cluster(NETWORKING, "ingressclasses", "IngressClass").generation(),
    namespaced(NETWORKING, "ingresses", "Ingress").short(&["ing"]).generation().status(),
    cluster(NETWORKING, "ipaddresses", "IPAddress").short(&["ip"]),
    namespaced(NETWORKING, "networkpolicies", "NetworkPolicy").short(&["netpol"]).generation().admission(),
    cluster(NETWORKING, "servicecidrs", "ServiceCIDR").status(),
    cluster("node.k8s.io", "runtimeclasses", "RuntimeClass").versioned().put_creates(),
    cluster(RBAC, "clusterrolebindings", "ClusterRoleBinding").put_creates().rights(),
    cluster(RBAC, "clusterroles", "ClusterRole").put_creates().rights(),
    namespaced(RBAC, "rolebindings", "RoleBinding").put_creates().rights(),
    namespaced(RBAC, "roles", "Role").put_creates().rights(),
    cluster(DEVICES, "deviceclasses", "DeviceClass").generation(),
    namespaced(DEVICES, "resourceclaims", "ResourceClaim").status(),
    namespaced(DEVICES, "resourceclaimtemplates", "ResourceClaimTemplate"),
    cluster(DEVICES, "resourceslices", "ResourceSlice").generation(),
    cluster("scheduling.k8s.io", "priorityclasses", "PriorityClass").short(&["pc"]).generation(),
    cluster(STORAGE, "csidrivers", "CSIDriver").versioned(),
    cluster(STORAGE, "csinodes", "CSINode").versioned(),
    namespaced(STORAGE, "csistoragecapacities", "CSIStorageCapacity").versioned(),
    cluster(STORAGE, "storageclasses", "StorageClass").short(&["sc"]),
    cluster(STORAGE, "volumeattachments", "VolumeAttachment").versioned().status(),
    cluster(STORAGE, "volumeattributesclasses", "VolumeAttributesClass").short(&["vac"]),
];

/// Returns the kind of the table with this name.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static Further> {
    KINDS.iter().find(|further| further.group == group && further.version == version && further.kind == kind)
}
