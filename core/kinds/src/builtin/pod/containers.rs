//! Containers of a pod: names, images, ports, hooks. Probes have rules of their own (`api::probe_rules`).

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::{json, names, probe_rules};
use serde_json::Value;

use super::env::validate_env;
use super::security::validate_container_security;
use super::volumes::validate_mounts;
use crate::builtin::check::{Errors, each, one_of, required, required_one_of, required_shaped};
use crate::builtin::resources::validate_resources;

pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const HOOKS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// What the containers of a pod share.
pub(super) struct Pod<'a> {
    /// Names of its volumes.
    pub(super) volumes: &'a BTreeSet<&'a str>,
    /// Whether its ports are those of the node.
    pub(super) host_network: bool,
    /// The most seconds that a sleeping hook may take.
    pub(super) grace_seconds: i64,
}

/// Judges all containers of a pod spec.
pub(super) fn validate_containers(spec: &Value, pod: &Pod<'_>, path: &Path, errors: &mut Errors) {
    if json::items(spec, &["containers"]).is_empty() {
        errors.push(Error::required(&path.child("containers"), ""));
    }
    let mut known = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (container, path) in each(spec, list, path) {
            if let Some(name) = required_shaped(container, "name", names::dns1123_label, &path, errors)
                && !known.insert(name)
            {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            validate_container(container, pod, &path, errors);
            if list == "containers" {
                validate_host_ports(container, &mut host_ports, &path, errors);
            }
            let runs_once = list == "initContainers" && json::text(container, &["restartPolicy"]) != "Always";
            if runs_once && json::get(container, "lifecycle").is_some() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(Error::forbidden(&path.child("lifecycle"), detail));
            } else {
                validate_lifecycle(container, pod, &path, errors);
            }
        }
    }
}

fn validate_container(container: &Value, pod: &Pod<'_>, path: &Path, errors: &mut Errors) {
    if let Some(image) = required(container, "image", path, errors)
        && image.trim() != image
    {
        errors.push(Error::invalid(&path.child("image"), image, "must not have leading or trailing whitespace"));
    }
    required_one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], path, errors);
    required_one_of(container, "terminationMessagePolicy", &["FallbackToLogsOnError", "File"], path, errors);
    one_of(container, "restartPolicy", &["Always", "Never", "OnFailure"], path, errors);
    validate_ports(container, pod, path, errors);
    validate_env(container, path, errors);
    validate_mounts(container, pod.volumes, path, errors);
    validate_resources(container, path, errors);
    validate_container_security(container, path, errors);
}

fn validate_ports(container: &Value, pod: &Pod<'_>, path: &Path, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (port, path) in each(container, "ports", path) {
        let name = json::text(port, &["name"]);
        if !name.is_empty() {
            let broken = names::port_name(name);
            errors.extend(broken.iter().map(|broken| Error::invalid(&path.child("name"), name, *broken)));
            if broken.is_empty() && !known.insert(name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
        }
        let number = json::int(port, &["containerPort"]).unwrap_or(0);
        let host = json::int(port, &["hostPort"]).unwrap_or(0);
        if number == 0 {
            errors.push(Error::required(&path.child("containerPort"), ""));
        } else if let Some(broken) = names::port_number(number) {
            errors.push(Error::invalid(&path.child("containerPort"), number, broken));
        }
        if host != 0
            && let Some(broken) = names::port_number(host)
        {
            errors.push(Error::invalid(&path.child("hostPort"), host, broken));
        } else if pod.host_network && host != 0 && host != number {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            errors.push(Error::invalid(&path.child("hostPort"), host, detail));
        }
        required_one_of(port, "protocol", &PROTOCOLS, &path, errors);
    }
}

/// Two containers cannot listen on the same port of the node.
fn validate_host_ports<'a>(
    container: &'a Value,
    taken: &mut BTreeSet<(&'a str, &'a str, i64)>,
    path: &Path,
    errors: &mut Errors,
) {
    for (port, path) in each(container, "ports", path) {
        let Some(number) = json::int(port, &["hostPort"]).filter(|number| *number != 0) else { continue };
        let (protocol, address) = (json::text(port, &["protocol"]), json::text(port, &["hostIP"]));
        if !taken.insert((protocol, address, number)) {
            errors.push(Error::duplicate(&path.child("hostPort"), format!("{protocol}/{address}/{number}")));
        }
    }
}

fn validate_lifecycle(container: &Value, pod: &Pod<'_>, path: &Path, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let Some(handler) = json::at(container, &["lifecycle", hook]) else { continue };
        let path = path.child("lifecycle").child(hook);
        let given: Vec<&str> = HOOKS.into_iter().filter(|key| json::get(handler, key).is_some()).collect();
        if given.is_empty() {
            errors.push(Error::required(&path, "must specify a handler type"));
        }
        for (place, key) in given.into_iter().enumerate() {
            let (handler, path) = (&handler[key], path.child(key));
            match key {
                _ if place > 0 => errors.push(Error::forbidden(&path, "may not specify more than one handler type")),
                "exec" => errors.extend(probe_rules::validate_exec(handler, &path)),
                "httpGet" => errors.extend(probe_rules::validate_http_get(handler, &path)),
                "tcpSocket" => errors.extend(probe_rules::validate_tcp_socket(handler, &path)),
                _ => validate_sleep(handler, pod, &path, errors),
            }
        }
    }
}

fn validate_sleep(sleep: &Value, pod: &Pod<'_>, path: &Path, errors: &mut Errors) {
    let (seconds, most) = (json::int(sleep, &["seconds"]).unwrap_or(0), pod.grace_seconds.max(1));
    if !(0..=most).contains(&seconds) {
        let detail = format!("must be non-negative and less than or equal to terminationGracePeriodSeconds ({most})");
        errors.push(Error::invalid(path, seconds, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::pod::defaults::default_pod_spec;
    use serde_json::json;

    fn errors(spec: Value) -> Vec<(String, &'static str)> {
        let mut pod = json!({ "spec": spec });
        default_pod_spec(&mut pod, &["spec"]);
        let mut errors = Vec::new();
        let shared = Pod { volumes: &BTreeSet::new(), host_network: pod["spec"]["hostNetwork"] == true, grace_seconds: 30 };
        validate_containers(&pod["spec"], &shared, &Path::new("spec"), &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn a_pod_needs_containers_with_names_and_images() {
        assert_eq!(errors(json!({"containers": []})), owned(&[("spec.containers", "Required")]));
        let spec = json!({
            "containers": [{"name": "Bad_Name", "image": "i:1"}, {"name": "x"}, {"name": "x", "image": "i:1"}],
            "initContainers": [{"name": "x", "image": " i:1"}],
        });
        let expected = [
            ("spec.containers[0].name", "Invalid"),
            ("spec.containers[1].image", "Required"),
            ("spec.containers[2].name", "Duplicate"),
            ("spec.initContainers[0].name", "Duplicate"),
            ("spec.initContainers[0].image", "Invalid"),
        ];
        assert_eq!(errors(spec), owned(&expected));
    }

    #[test]
    fn ports_have_numbers_names_and_protocols() {
        let ports = json!([
            {"containerPort": 80, "name": "http"}, {"containerPort": 81, "name": "http"}, {"name": "x"},
            {"containerPort": 70000, "protocol": "ICMP", "hostPort": -1}, {"containerPort": 1, "name": "UPPER"},
        ]);
        let expected = [
            ("spec.containers[0].ports[1].name", "Duplicate"),
            ("spec.containers[0].ports[2].containerPort", "Required"),
            ("spec.containers[0].ports[3].containerPort", "Invalid"),
            ("spec.containers[0].ports[3].hostPort", "Invalid"),
            ("spec.containers[0].ports[3].protocol", "NotSupported"),
            ("spec.containers[0].ports[4].name", "Invalid"),
            ("spec.containers[0].ports[4].name", "Invalid"),
        ];
        assert_eq!(errors(json!({"containers": [{"name": "c", "image": "i", "ports": ports}]})), owned(&expected));
    }

    #[test]
    fn ports_of_the_node_are_taken_once() {
        let container = |name: &str, port: Value| json!({"name": name, "image": "i", "ports": [port]});
        let taken = json!({"containerPort": 80, "hostPort": 80});
        let spec = json!({"hostNetwork": true, "containers": [container("a", taken.clone()), container("b", taken)]});
        assert_eq!(errors(spec), owned(&[("spec.containers[1].ports[0].hostPort", "Duplicate")]));
        let plain = json!({"containerPort": 80});
        let spec = json!({"hostNetwork": true, "containers": [container("a", plain.clone()), container("b", plain)]});
        assert_eq!(errors(spec), [], "a template need not name them");
        let other = json!({"containerPort": 80, "hostPort": 81});
        let spec = json!({"hostNetwork": true, "containers": [container("a", other)]});
        assert_eq!(errors(spec), owned(&[("spec.containers[0].ports[0].hostPort", "Invalid")]));
    }

    #[test]
    fn hooks_have_one_handler() {
        let with = |hook: Value| errors(json!({"containers": [{"name": "c", "image": "i", "lifecycle": {"preStop": hook}}]}));
        assert_eq!(with(json!({"sleep": {"seconds": 5}})), []);
        assert_eq!(with(json!({"exec": {"command": ["x"]}})), []);
        let path = "spec.containers[0].lifecycle.preStop";
        assert_eq!(with(json!({})), owned(&[(path, "Required")]));
        let two = json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}});
        assert_eq!(with(two), owned(&[(&format!("{path}.tcpSocket"), "Forbidden")]));
        assert_eq!(with(json!({"sleep": {"seconds": 31}})), owned(&[(&format!("{path}.sleep"), "Invalid")]));
        let init = json!({"name": "i", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}});
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "initContainers": [init]});
        assert_eq!(errors(spec), owned(&[("spec.initContainers[0].lifecycle", "Forbidden")]));
    }
}
