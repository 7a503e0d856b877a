//! What a pod asks for and a plain process does not get: told, where it is not refused.
//!
//! A plane whose pods are processes says this in the answer to whoever makes the pod, and its agent in an event of the pod.
//! What would change what a program does (most kinds of volumes, another user) is refused by the agent instead.

use serde_json::Value;

use crate::field::Path;
use crate::json;

/// Members of a pod that nothing here acts upon, with what to do instead.
const POD: [(&str, &str); 6] = [
    ("affinity", "pods go to the first node that fits; use nodeSelector"),
    ("topologySpreadConstraints", "pods go to the first node that fits"),
    ("hostAliases", "processes share the hosts file of the machine"),
    ("dnsConfig", "processes share the resolver of the machine"),
    ("runtimeClassName", "pods are processes"),
    ("priorityClassName", "pods are not preempted"),
];

/// Returns what of a pod is accepted and not honoured where pods are processes; each names the field.
pub fn not_honoured(spec: &Value, path: &Path) -> Vec<String> {
    let mut found = pod_not_honoured(spec, path);
    for list in ["initContainers", "containers"] {
        for (index, container) in json::items(spec, &[list]).iter().enumerate() {
            found.extend(container_not_honoured(spec, container, &path.child(list).index(index)));
        }
    }
    found
}

/// Returns what of the pod itself is not honoured.
pub fn pod_not_honoured(spec: &Value, path: &Path) -> Vec<String> {
    let set = |field: &str| json::get(spec, field).is_some_and(|value| !json::same_but_empties(Some(value), None));
    POD.into_iter().filter(|(field, _)| set(field)).map(|(field, why)| warning(&path.child(field), why)).collect()
}

/// Returns what of a container is not honoured.
pub fn container_not_honoured(spec: &Value, container: &Value, path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (index, port) in json::items(container, &["ports"]).iter().enumerate() {
        if json::int(port, &["hostPort"]).is_some_and(|number| number != 0) {
            let why = "a process listens on the address of its pod; use a Service of type NodePort";
            found.push(warning(&path.child("ports").index(index).child("hostPort"), why));
        }
    }
    if json::object(container, &["resources", "limits"]).is_some_and(|limits| !limits.is_empty()) {
        found.push(warning(&path.child("resources").child("limits"), "processes are not limited; limits count for scheduling"));
    }
    for (index, mount) in json::items(container, &["volumeMounts"]).iter().enumerate() {
        let (name, place) = (json::text(mount, &["name"]), json::text(mount, &["mountPath"]));
        let volume = json::items(spec, &["volumes"]).iter().find(|volume| json::text(volume, &["name"]) == name);
        // Of a hostPath the agent demands that both are equal.
        if volume.is_none_or(|volume| json::object(volume, &["hostPath"]).is_none()) {
            let why = format!("a process finds this volume at $LIFESIGN_VOLUMES/{name}, not at {place}");
            found.push(warning(&path.child("volumeMounts").index(index).child("mountPath"), &why));
        }
    }
    found
}

fn warning(path: &Path, why: &str) -> String {
    format!("{path}: not honoured where pods are processes: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_process_does_not_get_is_named() {
        let spec = json!({
            "affinity": {"nodeAffinity": {"x": 1}}, "hostAliases": [],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv"}}],
            "containers": [{
                "name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "host", "mountPath": "/srv"}],
            }],
        });
        let found = not_honoured(&spec, &Path::new("spec"));
        let fields: Vec<&str> = found.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(
            fields,
            [
                "spec.affinity",
                "spec.containers[0].ports[1].hostPort",
                "spec.containers[0].resources.limits",
                "spec.containers[0].volumeMounts[0].mountPath"
            ]
        );
        assert!(found[3].contains("$LIFESIGN_VOLUMES/data"), "{}", found[3]);
        assert!(not_honoured(&json!({"containers": [{"name": "c"}]}), &Path::new("spec")).is_empty());
    }
}
