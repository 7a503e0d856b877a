//! The role of a node's agent: its own objects, and what its pods refer to.

use std::collections::BTreeSet;

use api::json;
use serde_json::Value;

use super::{Ask, Grant};

/// Decides what the agent of a node may do; an error says why it may not.
pub(super) fn may(node: &str, ask: &Ask<'_>) -> Result<Grant, &'static str> {
    // A field selector filters what a list or watch of a collection shows. Everywhere else the path alone says which
    // object is meant, and a selector is as good as absent.
    let filters = ask.name.is_empty() && matches!(ask.verb, "list" | "watch");
    let own_name = ask.name == node || (filters && ask.selects_name == Some(node));
    let reads = matches!(ask.verb, "get" | "list" | "watch");
    let writes = matches!(ask.verb, "get" | "patch" | "update");
    // The name of what a request creates is in its body, and is checked when that is known; a review says it at once.
    let creates_own = ask.name.is_empty() || own_name;
    match (ask.group, ask.resource, ask.subresource, ask.verb) {
        ("", "nodes", "", "create") if creates_own => Ok(Grant::Allowed),
        ("", "nodes", "", _) if own_name && (reads || writes) => Ok(Grant::Allowed),
        ("", "nodes", "status", _) if own_name && writes => Ok(Grant::Allowed),
        ("", "nodes", ..) => Err("a node can only read and write its own Node object"),
        ("", "pods", "", "list" | "watch") if ask.selects_node == Some(node) => Ok(Grant::Allowed),
        ("", "pods", "", "list" | "watch") => Err("can only list/watch pods with spec.nodeName field selector"),
        ("", "pods", "", "get" | "delete")
        | ("", "pods", "status", "get" | "patch" | "update")
        | ("", "pods", "eviction", "create") => Ok(Grant::IfOwnPod),
        ("", "pods", ..) => Err("a node can only read its pods, write their status, delete and evict them"),
        // Pods refer to what is in their own namespace, and to nothing of that name elsewhere.
        ("", "secrets" | "configmaps", "", _) if reads && !ask.namespace.is_empty() && !ask.object().is_empty() => {
            Ok(Grant::IfReferenced)
        }
        ("", "secrets" | "configmaps", ..) => Err("a node can only read single secrets and configmaps that its pods refer to"),
        ("", "serviceaccounts", "token", "create") => Ok(Grant::IfAccountOfOwnPod),
        ("node.k8s.io", "runtimeclasses", "", _) | ("storage.k8s.io", "csidrivers", "", _) if reads => Ok(Grant::Allowed),
        ("storage.k8s.io", "csinodes", "", "create") if creates_own => Ok(Grant::Allowed),
        ("storage.k8s.io", "csinodes", "", "delete") if own_name => Ok(Grant::Allowed),
        ("storage.k8s.io", "csinodes", "", _) if own_name && (reads || writes) => Ok(Grant::Allowed),
        ("storage.k8s.io", "csinodes", ..) => Err("can only access its own CSINode"),
        // A kubelet takes away what drivers of devices left behind on its node.
        ("resource.k8s.io", "resourceslices", "", "list" | "watch" | "deletecollection")
            if ask.name.is_empty() && ask.selects_node == Some(node) =>
        {
            Ok(Grant::Allowed)
        }
        ("resource.k8s.io", "resourceslices", ..) => {
            Err("can only list/watch/deletecollection resourceslices with spec.nodeName field selector")
        }
        // Its kubelet asks who its own callers are and what they may do.
        ("authentication.k8s.io", "tokenreviews", "", "create")
        | ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews", "", "create") => Ok(Grant::Allowed),
        // With which heartbeat it begins.
        ("config.openshift.io", "nodes", "", "get") if ask.name == api::config_node::NAME => Ok(Grant::Allowed),
        ("", "services", "", _) | ("discovery.k8s.io", "endpointslices", "", _) if reads => Ok(Grant::Allowed),
        ("coordination.k8s.io", "leases", "", "delete" | "deletecollection") => Err("a node cannot delete leases"),
        ("coordination.k8s.io", "leases", "", "create") if ask.namespace == "kube-node-lease" && creates_own => {
            Ok(Grant::Allowed)
        }
        ("coordination.k8s.io", "leases", "", _) if ask.namespace == "kube-node-lease" && own_name && (reads || writes) => {
            Ok(Grant::Allowed)
        }
        ("coordination.k8s.io", "leases", ..) => Err("can only access its own lease in kube-node-lease"),
        ("apps.kruise.io", "nodepodprobes", "", _) if own_name && reads => Ok(Grant::Allowed),
        ("apps.kruise.io", "nodepodprobes", "status", _) if own_name && writes => Ok(Grant::Allowed),
        ("apps.kruise.io", "nodepodprobes", ..) => Err("can only read its own NodePodProbe and write its status"),
        ("" | "events.k8s.io", "events", "", "create" | "patch" | "update") => Ok(Grant::Allowed),
        _ => Err("not among the rights of a node"),
    }
}

/// Judges what the agent of a node makes of a pod through its status; an error says why it may not.
///
/// Labels decide which Services and controllers a pod belongs to, finalizers when it may go: neither is the node's.
pub fn check_node_write(node: &str, old: &Value, new: &Value) -> Result<(), String> {
    let owner = json::text(old, &["spec", "nodeName"]);
    if owner != node {
        return Err(format!("node {node:?} can only write the status of its own pods"));
    }
    for field in ["labels", "finalizers"] {
        let of = |object| json::at(object, &["metadata", field]);
        if !json::same_but_nils(of(old), of(new)) {
            return Err(format!("node {node:?} cannot change the {field} of a pod through its status"));
        }
    }
    Ok(())
}

/// The Secrets and ConfigMaps that a pod refers to, by name; they are in its own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    secrets: BTreeSet<Box<str>>,
    configmaps: BTreeSet<Box<str>>,
}

impl References {
    /// Reads the references of a pod.
    pub fn of(pod: &Value) -> References {
        let mut found = References::default();
        for secret in json::items(pod, &["spec", "imagePullSecrets"]) {
            found.secret(secret, &["name"]);
        }
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in json::items(pod, &["spec", list]) {
                for variable in json::items(container, &["env"]) {
                    found.secret(variable, &["valueFrom", "secretKeyRef", "name"]);
                    found.configmap(variable, &["valueFrom", "configMapKeyRef", "name"]);
                }
                for source in json::items(container, &["envFrom"]) {
                    found.secret(source, &["secretRef", "name"]);
                    found.configmap(source, &["configMapRef", "name"]);
                }
            }
        }
        for volume in json::items(pod, &["spec", "volumes"]) {
            found.volume(volume);
        }
        found
    }

    fn volume(&mut self, volume: &Value) {
        self.secret(volume, &["secret", "secretName"]);
        self.configmap(volume, &["configMap", "name"]);
        for source in json::items(volume, &["projected", "sources"]) {
            self.secret(source, &["secret", "name"]);
            self.configmap(source, &["configMap", "name"]);
        }
        self.secret(volume, &["csi", "nodePublishSecretRef", "name"]);
        self.secret(volume, &["azureFile", "secretName"]);
        for driver in ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"] {
            self.secret(volume, &[driver, "secretRef", "name"]);
        }
    }

    fn secret(&mut self, value: &Value, path: &[&str]) {
        keep(&mut self.secrets, json::text(value, path));
    }

    fn configmap(&mut self, value: &Value, path: &[&str]) {
        keep(&mut self.configmaps, json::text(value, path));
    }

    /// Returns whether the pod refers to an object of `resource`, which is `secrets` or `configmaps`.
    pub fn contains(&self, resource: &str, name: &str) -> bool {
        match resource {
            "secrets" => self.secrets.contains(name),
            "configmaps" => self.configmaps.contains(name),
            _ => false,
        }
    }
}

fn keep(names: &mut BTreeSet<Box<str>>, name: &str) {
    if !name.is_empty() {
        names.insert(name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_selector_names_no_object() {
        for (group, resource, subresource) in [
            ("", "nodes", ""),
            ("", "nodes", "status"),
            ("coordination.k8s.io", "leases", ""),
            ("apps.kruise.io", "nodepodprobes", ""),
            ("apps.kruise.io", "nodepodprobes", "status"),
        ] {
            for verb in ["get", "watch", "update", "patch", "delete", "deletecollection"] {
                let name = if verb == "deletecollection" { "" } else { "n1" };
                let namespace = if resource == "leases" { "kube-node-lease" } else { "" };
                let ask =
                    Ask { verb, group, resource, subresource, namespace, name, selects_name: Some("n2"), ..Ask::default() };
                assert!(may("n2", &ask).is_err(), "{verb} {resource}/{subresource}");
            }
        }
        let list = Ask { verb: "list", resource: "nodes", selects_name: Some("n2"), ..Ask::default() };
        assert_eq!(may("n2", &list), Ok(Grant::Allowed));
    }

    #[test]
    fn a_kubelet_reads_single_secrets_and_its_own_csi_node() {
        let ask = |verb, group, resource, name| Ask { verb, group, resource, name, ..Ask::default() };
        let selecting = |verb, name| Ask { selects_name: Some(name), namespace: "d", ..ask(verb, "", "secrets", "") };
        assert_eq!(may("n1", &selecting("watch", "s")), Ok(Grant::IfReferenced));
        assert!(may("n1", &ask("list", "", "secrets", "")).is_err() && may("n1", &selecting("deletecollection", "s")).is_err());
        assert_eq!(may("n1", &ask("get", "storage.k8s.io", "csinodes", "n1")), Ok(Grant::Allowed));
        assert!(may("n1", &ask("patch", "storage.k8s.io", "csinodes", "n2")).is_err());
        assert!(may("n1", &ask("list", "storage.k8s.io", "csinodes", "")).is_err());
        let slices = |verb, of| Ask { selects_node: of, ..ask(verb, "resource.k8s.io", "resourceslices", "") };
        assert_eq!(may("n1", &slices("deletecollection", Some("n1"))), Ok(Grant::Allowed));
        for refused in [slices("deletecollection", None), slices("deletecollection", Some("n2")), slices("create", Some("n1"))]
        {
            assert!(may("n1", &refused).is_err());
        }
        assert_eq!(may("n1", &ask("watch", "node.k8s.io", "runtimeclasses", "")), Ok(Grant::Allowed));
        assert!(may("n1", &ask("create", "node.k8s.io", "runtimeclasses", "")).is_err());
        assert_eq!(may("n1", &ask("get", "config.openshift.io", "nodes", "cluster")), Ok(Grant::Allowed));
        assert!(may("n1", &ask("patch", "config.openshift.io", "nodes", "cluster")).is_err());
        assert!(may("n1", &ask("get", "config.openshift.io", "nodes", "n1")).is_err());
        let everywhere = Ask { namespace: "", ..selecting("list", "s") };
        assert!(may("n1", &everywhere).is_err(), "secrets of that name in other namespaces");
        let token = Ask { subresource: "token", ..ask("create", "", "serviceaccounts", "default") };
        assert_eq!(may("n1", &token), Ok(Grant::IfAccountOfOwnPod));
    }

    #[test]
    fn a_node_creates_what_has_its_own_name() {
        for (group, resource, namespace) in
            [("", "nodes", ""), ("storage.k8s.io", "csinodes", ""), ("coordination.k8s.io", "leases", "kube-node-lease")]
        {
            let named = |name| Ask { verb: "create", group, resource, namespace, name, ..Ask::default() };
            assert_eq!(may("n1", &named("")), Ok(Grant::Allowed), "{resource}: the body says which");
            assert_eq!(may("n1", &named("n1")), Ok(Grant::Allowed), "{resource}");
            assert!(may("n1", &named("n2")).is_err(), "{resource}");
        }
    }

    #[test]
    fn references_are_followed_and_nothing_else() {
        let pod = json!({"spec": {
            "nodeName": "n1", "hostname": "decoy", "imagePullSecrets": [{"name": "pull"}],
            "containers": [{
                "name": "decoy", "image": "decoy", "args": ["decoy"],
                "env": [{"name": "A", "value": "decoy"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "env", "key": "decoy"}}}],
                "envFrom": [{"configMapRef": {"name": "all"}}],
            }],
            "initContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "init"}}}], "envFrom": [{"secretRef": {"name": "every"}}]}],
            "volumes": [
                {"name": "decoy", "secret": {"secretName": "mounted"}},
                {"configMap": {"name": "settings"}},
                {"projected": {"sources": [{"secret": {"name": "p1"}}, {"configMap": {"name": "p2"}}]}},
                {"csi": {"nodePublishSecretRef": {"name": "csi"}}},
                {"rbd": {"secretRef": {"name": "rbd"}}},
            ],
        }});
        let found = References::of(&pod);
        for secret in ["pull", "env", "every", "mounted", "p1", "csi", "rbd"] {
            assert!(found.contains("secrets", secret) && !found.contains("configmaps", secret), "{secret}");
        }
        for configmap in ["all", "init", "settings", "p2"] {
            assert!(found.contains("configmaps", configmap) && !found.contains("secrets", configmap), "{configmap}");
        }
        assert!(
            !found.contains("secrets", "decoy") && !found.contains("configmaps", "decoy") && !found.contains("secrets", "")
        );
    }

    #[test]
    fn a_node_changes_the_status_of_its_pods_and_nothing_else() {
        let pod = json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]}, "spec": {"nodeName": "n1"}, "status": {}});
        let with = |field: &str, value: Value| {
            let mut changed = pod.clone();
            changed["metadata"][field] = value;
            check_node_write("n1", &pod, &changed)
        };
        assert_eq!(with("annotations", json!({"a": "b"})), Ok(()));
        assert!(with("labels", json!({"a": "c"})).unwrap_err().contains("labels"));
        assert!(with("labels", Value::Null).is_err());
        assert!(with("finalizers", json!([])).unwrap_err().contains("finalizers"));
        assert!(check_node_write("n2", &pod, &pod).unwrap_err().contains("its own pods"));
    }
}
