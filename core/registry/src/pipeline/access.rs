//! The volume by which the containers of a pod talk to the API server: a token of its service account, the certificate of
//! the authority, the namespace. For pods that others run; names and paths are those of Kubernetes.

use api::json;
use machine::Rng;
use serde_json::{Value, json};

use crate::meta;
use crate::state::{Snapshot, key};

const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A little more than an hour, by which kubelets tell these tokens apart; Kubernetes.
const SECONDS: i64 = 3_607;

/// Adds the volume to a pod and mounts it, unless the pod or its service account does not want it.
pub(super) fn mount(pod: &mut Value, namespace: &str, snapshot: &Snapshot, rng: &mut Rng) {
    let account = json::text(pod, &["spec", "serviceAccountName"]);
    let account = snapshot.get(&key("", "serviceaccounts", namespace, account)).map(|stored| stored.object());
    let of_account = account.as_ref().and_then(|account| json::boolean(account, &["automountServiceAccountToken"]));
    let wanted = json::boolean(pod, &["spec", "automountServiceAccountToken"]).or(of_account).unwrap_or(true);
    if !wanted {
        return;
    }
    let name = meta::generate_name("kube-api-access-", rng);
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in json::items_mut(pod, &["spec", list]).into_iter().flatten() {
            if json::items(container, &["volumeMounts"]).iter().any(|mount| json::text(mount, &["mountPath"]) == FOLDER) {
                continue;
            }
            let mounts = json::object_mut(container, &[]).entry("volumeMounts").or_insert_with(|| json!([]));
            if let Some(mounts) = mounts.as_array_mut() {
                mounts.push(json!({"name": name, "mountPath": FOLDER, "readOnly": true}));
                mounted = true;
            }
        }
    }
    if !mounted {
        return;
    }
    let volume = json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}});
    let volumes = json::object_mut(pod, &["spec"]).entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Expect, RegistryState, WindowLimits, Write};
    use machine::Time;

    fn world(automount: Value) -> Snapshot {
        let state = RegistryState::restore(0, Vec::new(), 0, Vec::new(), WindowLimits::default());
        let account = json!({"metadata": {"name": "a", "namespace": "n"}, "automountServiceAccountToken": automount});
        let write = Write::put(key("", "serviceaccounts", "n", "a"), Expect::Absent, account);
        state.snapshot().stage(Time::from_secs(1), vec![write]).into_parts().0
    }

    fn mounted(spec: Value, automount: Value) -> Value {
        let mut pod = json!({"spec": spec});
        mount(&mut pod, "n", &world(automount), &mut Rng::new(1));
        pod["spec"].take()
    }

    #[test]
    fn containers_without_a_mount_of_their_own_get_the_volume() {
        let own = json!([{"name": "own", "mountPath": FOLDER}]);
        let spec = json!({"serviceAccountName": "a", "containers": [{"name": "x"}, {"name": "y", "volumeMounts": own}]});
        let spec = mounted(spec, Value::Null);
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], spec["volumes"][0]["name"]);
        assert_eq!(spec["containers"][1]["volumeMounts"], own);
        assert_eq!(spec["volumes"][0]["projected"]["sources"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn the_pod_decides_before_its_account() {
        let pod = |wants: Value| json!({"serviceAccountName": "a", "automountServiceAccountToken": wants, "containers": [{"name": "x"}]});
        assert!(mounted(pod(Value::Null), json!(false)).get("volumes").is_none());
        assert!(mounted(pod(json!(true)), json!(false)).get("volumes").is_some());
        assert!(mounted(pod(json!(false)), Value::Null).get("volumes").is_none());
    }
}
