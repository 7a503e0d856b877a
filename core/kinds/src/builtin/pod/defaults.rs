//! Defaults of pods and pod templates.
//!
//! A template gets what every pod spec gets; a pod gets also what only makes sense for a pod that will run (requests from
//! limits, a service account, a priority). Defaulting twice changes nothing.

use api::{json, probe_rules};
use serde_json::{Map, Value, json};

use crate::builtin::fill::{drop_zeros, each_mut, fill, fill_number, inner};

/// The service account of a pod that names none.
const DEFAULT_SERVICE_ACCOUNT: &str = "default";
/// Priorities of the two classes that every cluster has; Kubernetes API.
pub const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
/// Permission bits of files made from a volume: 0644.
const DEFAULT_MODE: i64 = 0o644;

/// Fills in what the user left out of a pod.
pub(in crate::builtin) fn default_pod(pod: &mut Value) {
    default_pod_spec(pod, &["spec"]);
    let spec = json::object_mut(pod, &["spec"]);
    fill(spec, "enableServiceLinks", true);
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    fill(spec, "serviceAccountName", DEFAULT_SERVICE_ACCOUNT);
    default_service_account(spec);
    let class = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
    let priority = SYSTEM_PRIORITIES.iter().find(|(name, _)| *name == class).map_or(0, |(_, priority)| *priority);
    fill(spec, "priority", priority);
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers"] {
        for container in each_mut(spec, list) {
            request_limits(container);
            if host_network {
                take_host_ports(container);
            }
        }
    }
}

/// What listens on the node's network has the same port there; templates are left as they are.
fn take_host_ports(container: &mut Map<String, Value>) {
    for port in each_mut(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            fill(port, "hostPort", number);
        }
    }
}

/// What is limited and not requested is requested up to the limit.
fn request_limits(container: &mut Map<String, Value>) {
    let Some(resources) = inner(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).filter(|limits| !limits.is_empty()) else { return };
    let limits = limits.clone();
    let requests = resources.entry("requests").or_insert(Value::Null);
    if !requests.is_object() {
        *requests = json!({});
    }
    for (name, limit) in limits {
        requests.as_object_mut().expect("made an object just above").entry(name).or_insert(limit);
    }
}

/// Fills in what the user left out of the pod spec at `path`.
pub(in crate::builtin) fn default_pod_spec(object: &mut Value, path: &[&str]) {
    let spec = json::object_mut(object, path);
    drop_zeros(
        spec,
        &["hostNetwork", "hostPID", "hostIPC", "nodeName", "hostname", "subdomain", "priorityClassName", "serviceAccountName"],
    );
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "securityContext", json!({}));
    default_service_account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in each_mut(spec, list) {
            default_container(container);
        }
    }
    for volume in each_mut(spec, "volumes") {
        default_volume(volume);
    }
    if let Some(spec) = path.iter().try_fold(object, |object, key| object.get_mut(*key)) {
        probe_rules::default_pod_probes(spec);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are shown, the new one wins.
fn default_service_account(spec: &mut Map<String, Value>) {
    let text = |spec: &Map<String, Value>, key| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (new, old) = (text(spec, "serviceAccountName"), text(spec, "serviceAccount"));
    let name = if new.is_empty() { old } else { new };
    if name.is_empty() {
        spec.remove("serviceAccount");
    } else {
        spec.insert("serviceAccountName".to_owned(), name.clone().into());
        spec.insert("serviceAccount".to_owned(), name.into());
    }
}

fn default_container(container: &mut Map<String, Value>) {
    drop_zeros(container, &["stdin", "stdinOnce", "tty", "workingDir"]);
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let pull = if has_moving_tag(image) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", pull);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    for port in each_mut(container, "ports") {
        drop_zeros(port, &["hostPort", "name", "hostIP"]);
        fill(port, "protocol", "TCP");
    }
    for variable in each_mut(container, "env") {
        drop_zeros(variable, &["value"]);
        if let Some(source) = inner(variable, "valueFrom") {
            default_field_sources(source);
        }
    }
    for mount in each_mut(container, "volumeMounts") {
        drop_zeros(mount, &["readOnly", "subPath", "subPathExpr"]);
    }
    if let Some(lifecycle) = inner(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(http) = inner(lifecycle, hook).and_then(|hook| hook.get_mut("httpGet")) {
                probe_rules::default_http_get(http);
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = inner(container, probe) {
            drop_zeros(probe, &["initialDelaySeconds"]);
        }
    }
}

/// Fields of the pod, and of its resources, that a variable or a file takes its content from.
fn default_field_sources(source: &mut Map<String, Value>) {
    if let Some(field) = inner(source, "fieldRef") {
        fill(field, "apiVersion", "v1");
    }
    if let Some(field) = inner(source, "resourceFieldRef") {
        fill(field, "divisor", "0");
    }
}

/// Returns whether an image may be another one tomorrow: its tag is `latest`, said or meant.
fn has_moving_tag(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    // A colon before a slash belongs to the port of the host.
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest,
    }
}

fn default_volume(volume: &mut Map<String, Value>) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["configMap", "secret", "downwardAPI", "projected"] {
        let Some(source) = inner(volume, source) else { continue };
        fill(source, "defaultMode", DEFAULT_MODE);
        each_mut(source, "items").for_each(default_field_sources);
        for projection in each_mut(source, "sources") {
            if let Some(token) = inner(projection, "serviceAccountToken") {
                fill_number(token, "expirationSeconds", 3600);
            }
            if let Some(fields) = inner(projection, "downwardAPI") {
                each_mut(fields, "items").for_each(default_field_sources);
            }
        }
    }
    if let Some(host) = inner(volume, "hostPath") {
        fill(host, "type", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({ "spec": spec });
        default_pod(&mut pod);
        pod["spec"].take()
    }

    #[test]
    fn a_pod_gets_what_kubernetes_gives() {
        let spec = pod(json!({"schedulerName": "none", "containers": [{
            "name": "c", "image": "repo/i", "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 0},
        }]}));
        let expected = json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "none",
            "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "securityContext": {},
            "serviceAccountName": "default", "serviceAccount": "default", "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "containers": [{
                "name": "c", "image": "repo/i", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "readinessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
                },
            }],
        });
        assert_eq!(spec, expected);
    }

    #[test]
    fn an_image_is_pulled_again_when_its_tag_moves() {
        for image in ["i", "repo/i", "host:5000/i", "i:latest", ""] {
            assert!(has_moving_tag(image), "{image}");
        }
        for image in ["i:1", "host:5000/i:v2", "i@sha256:abc", "i:1@sha256:abc"] {
            assert!(!has_moving_tag(image), "{image}");
        }
    }

    #[test]
    fn ports_of_the_node_are_filled_in_for_pods_only() {
        let spec = json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 8}]}]});
        assert_eq!(pod(spec.clone())["containers"][0]["ports"][0]["hostPort"], 8);
        let mut template = json!({"template": {"spec": spec}});
        default_pod_spec(&mut template, &["template", "spec"]);
        assert_eq!(template["template"]["spec"]["containers"][0]["ports"], json!([{"containerPort": 8, "protocol": "TCP"}]));
    }

    #[test]
    fn limits_become_requests_in_pods_only() {
        let container =
            json!({"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "500m"}}});
        let spec = pod(json!({"containers": [container]}));
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Mi"}));
        let mut template = json!({"template": {"spec": {"containers": [container]}}});
        default_pod_spec(&mut template, &["template", "spec"]);
        let spec = &template["template"]["spec"];
        assert_eq!(spec["containers"][0]["resources"], container["resources"]);
        assert_eq!((spec.get("serviceAccountName"), spec.get("enableServiceLinks")), (None, None));
    }

    #[test]
    fn the_old_name_of_the_service_account_is_an_alias() {
        let spec = pod(json!({"serviceAccount": "robot"}));
        assert_eq!(spec["serviceAccountName"], "robot");
        let spec = pod(json!({"serviceAccount": "old", "serviceAccountName": "new"}));
        assert_eq!(spec["serviceAccount"], "new");
    }

    #[test]
    fn volumes_and_hooks_are_filled_in() {
        let spec = pod(json!({
            "hostNetwork": true,
            "volumes": [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "hostPath": {"path": "/x"}}],
            "containers": [{
                "name": "c", "lifecycle": {"preStop": {"httpGet": {"port": 1}}}, "ports": [{"containerPort": 8}],
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "E", "value": ""}],
            }],
        }));
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 420);
        assert_eq!(spec["volumes"][2]["hostPath"]["type"], "");
        let container = &spec["containers"][0];
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"]["path"], "/");
        assert_eq!(container["ports"][0]["hostPort"], 8);
        assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        assert_eq!(container["env"][1], json!({"name": "E"}));
    }

    #[test]
    fn system_priority_classes_have_their_numbers() {
        assert_eq!(pod(json!({"priorityClassName": "system-node-critical"}))["priority"], 2_000_001_000);
        assert_eq!(pod(json!({"priorityClassName": "mine"}))["priority"], 0);
    }
}
