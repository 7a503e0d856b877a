//! Where a pod is made, and so where it must be changed.

use api::Pod;
use serde_json::{Value, json};

/// Who makes the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    namespace: String,
    /// `deployment/web`, or `pod/web` of a pod that nobody makes.
    pub(crate) short: String,
    is_pod: bool,
}

impl Owner {
    pub(crate) fn of(pod: &Pod) -> Owner {
        let meta = &pod.metadata;
        let controller = meta.owner_references.iter().find(|owner| owner.controller == Some(true));
        let short = match controller {
            None => format!("pod/{}", meta.name),
            Some(owner) => {
                // A ReplicaSet of a Deployment is named after it and the hash of the template.
                let hash = meta.labels.get("pod-template-hash").map_or("", String::as_str);
                let deployment = owner.name.strip_suffix(hash).and_then(|name| name.strip_suffix('-'));
                match (owner.kind.as_str(), deployment) {
                    ("ReplicaSet", Some(name)) if !hash.is_empty() => format!("deployment/{name}"),
                    (kind, _) => format!("{}/{}", kind.to_lowercase(), owner.name),
                }
            }
        };
        Owner { namespace: meta.namespace.clone(), is_pod: controller.is_none(), short }
    }

    /// Returns the path of a field of the pod, as it stands in the owner.
    pub(crate) fn path(&self, field: &str) -> String {
        if self.is_pod { field.to_owned() } else { format!("spec.template.{field}") }
    }

    /// Returns a command that sets something of the pod's spec.
    ///
    /// Most of a pod cannot be changed while it is there: a lone pod must be made again.
    pub(crate) fn patch(&self, spec: Value) -> String {
        if self.is_pod {
            return self.edit();
        }
        let patch = json!({"spec": {"template": {"spec": spec}}});
        format!(
            "kubectl -n {} patch {} --type=strategic -p '{}'",
            self.namespace,
            self.short,
            patch.to_string().replace('\'', "'\\''")
        )
    }

    /// Returns a command that adds tolerations: the one thing that a pod accepts while it waits.
    pub(crate) fn patch_tolerations(&self, all: Value) -> String {
        if !self.is_pod {
            return self.patch(json!({"tolerations": all}));
        }
        let patch = json!({"spec": {"tolerations": all}});
        format!("kubectl -n {} patch {} --type=merge -p '{patch}'", self.namespace, self.short)
    }

    /// Returns a command that changes the owner by hand.
    pub(crate) fn edit(&self) -> String {
        if self.is_pod {
            let name = &self.short["pod/".len()..];
            return format!(
                "kubectl -n {0} get pod {name} -o yaml > {name}.yaml; edit it; kubectl replace --force -f {name}.yaml",
                self.namespace
            );
        }
        format!("kubectl -n {} edit {}", self.namespace, self.short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(meta: Value) -> Owner {
        Owner::of(&serde_json::from_value(json!({"metadata": meta})).unwrap())
    }

    #[test]
    fn a_pod_of_a_deployment_is_changed_in_the_deployment() {
        let of = |kind: &str, name: &str| json!([{"kind": kind, "name": name, "controller": true}]);
        let meta = json!({"name": "web-5f6-x", "namespace": "n", "labels": {"pod-template-hash": "5f6"}, "ownerReferences": of("ReplicaSet", "web-5f6")});
        assert_eq!(owner(meta).short, "deployment/web");
        assert_eq!(owner(json!({"name": "db-0", "ownerReferences": of("StatefulSet", "db")})).short, "statefulset/db");
        let lone = owner(json!({"name": "lone", "namespace": "n"}));
        assert_eq!((lone.short.as_str(), lone.path("spec.containers")), ("pod/lone", "spec.containers".to_owned()));
        assert!(lone.patch(json!({})).contains("replace --force"));
    }
}
