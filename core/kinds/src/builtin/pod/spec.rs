//! Validation of pod specs, of pods and of templates alike.

use api::field::{Error, Path};
use api::{json, names, probe_rules};
use serde_json::Value;

use super::containers::{Pod, validate_containers};
use super::scheduling::validate_scheduling;
use super::security::validate_pod_security;
use super::tolerations::validate_tolerations;
use super::volumes::validate_volumes;
use crate::builtin::check::{Errors, between, each, ip, one_of, required, required_one_of, required_shaped, shaped};
use crate::builtin::resources::validate_resources;

const DNS_POLICIES: [&str; 4] = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
/// The annotation by which a scale-down chooses; a number, so that nobody waits for a text that is never understood.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Judges a pod spec, in the order of its API.
pub(in crate::builtin) fn validate_pod_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    let volumes = validate_volumes(spec, path, errors);
    let pod = Pod {
        volumes: &volumes,
        host_network: json::boolean(spec, &["hostNetwork"]) == Some(true),
        grace_seconds: json::int(spec, &["terminationGracePeriodSeconds"]).unwrap_or(30),
    };
    validate_containers(spec, &pod, path, errors);
    errors.extend(probe_rules::validate_pod_probes(spec, path));
    validate_resources(spec, path, errors);
    required_one_of(spec, "restartPolicy", &["Always", "Never", "OnFailure"], path, errors);
    required_one_of(spec, "dnsPolicy", &DNS_POLICIES, path, errors);
    validate_dns(spec, path, errors);
    between(spec, "activeDeadlineSeconds", 1, i64::from(i32::MAX), path, errors);
    shaped(spec, "nodeName", names::dns1123_subdomain, path, errors);
    shaped(spec, "serviceAccountName", names::dns1123_subdomain, path, errors);
    shaped(spec, "hostname", names::dns1123_label, path, errors);
    shaped(spec, "subdomain", names::dns1123_label, path, errors);
    shaped(spec, "priorityClassName", names::dns1123_subdomain, path, errors);
    one_of(spec, "preemptionPolicy", &["Never", "PreemptLowerPriority"], path, errors);
    for (secret, path) in each(spec, "imagePullSecrets", path) {
        required(secret, "name", &path, errors);
    }
    validate_scheduling(spec, path, errors);
    validate_tolerations(spec, path, errors);
    validate_host_aliases(spec, path, errors);
    validate_pod_security(spec, path, errors);
    if pod_shares_too_much(spec) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&path.child("shareProcessNamespace"), true, detail));
    }
    if let Some(os) = json::get(spec, "os") {
        required_one_of(os, "name", &["linux", "windows"], &path.child("os"), errors);
    }
}

fn pod_shares_too_much(spec: &Value) -> bool {
    ["shareProcessNamespace", "hostPID"].iter().all(|key| json::boolean(spec, &[key]) == Some(true))
}

fn validate_dns(spec: &Value, path: &Path, errors: &mut Errors) {
    let path = path.child("dnsConfig");
    let config = json::get(spec, "dnsConfig");
    let nameservers = config.map_or(&[][..], |config| json::items(config, &["nameservers"]));
    if json::text(spec, &["dnsPolicy"]) == "None" && nameservers.is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.push(Error::required(&path.child("nameservers"), detail));
    }
    let Some(config) = config else { return };
    if nameservers.len() > NAMESERVERS_MAX {
        errors.push(Error::too_many(&path.child("nameservers"), nameservers.len(), NAMESERVERS_MAX));
    }
    for (server, path) in each(config, "nameservers", &path) {
        let server = server.as_str().unwrap_or_default();
        if let Some(broken) = ip(server) {
            errors.push(Error::invalid(&path, server, broken));
        }
    }
    let searches = json::items(config, &["searches"]).len();
    if searches > SEARCHES_MAX {
        errors.push(Error::too_many(&path.child("searches"), searches, SEARCHES_MAX));
    }
    for (search, path) in each(config, "searches", &path) {
        let search = search.as_str().unwrap_or_default();
        let name = search.strip_suffix('.').unwrap_or(search);
        // A lone dot means: search nowhere else.
        if !(search == "." || name.split('.').all(|part| names::dns1123_label(&part.replace('_', "a")).is_none())) {
            errors.push(Error::invalid(&path, search, names::dns1123_subdomain(name).unwrap_or("must be a domain name")));
        }
    }
    for (option, path) in each(config, "options", &path) {
        required(option, "name", &path, errors);
    }
}

fn validate_host_aliases(spec: &Value, path: &Path, errors: &mut Errors) {
    for (alias, path) in each(spec, "hostAliases", path) {
        required_shaped(alias, "ip", ip, &path, errors);
        for (name, path) in each(alias, "hostnames", &path) {
            let name = name.as_str().unwrap_or_default();
            if let Some(broken) = names::dns1123_subdomain(name) {
                errors.push(Error::invalid(&path, name, broken));
            }
        }
    }
}

/// Judges the annotations that mean something to controllers of pods.
pub(in crate::builtin) fn validate_pod_annotations(object: &Value, path: &Path, errors: &mut Errors) {
    let Some(cost) = json::at(object, &["metadata", "annotations", DELETION_COST]).and_then(Value::as_str) else { return };
    // "+5" and "007" parse as numbers but are not what a controller of Kubernetes reads.
    if cost.parse::<i32>().map(|number| number.to_string()) != Ok(cost.to_owned()) {
        let path = path.child("metadata").child("annotations").key(DELETION_COST);
        errors.push(Error::invalid(&path, cost, "must be a 32bit integer"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::pod::defaults::default_pod_spec;
    use serde_json::json;

    fn errors(spec: Value) -> Vec<(String, &'static str)> {
        let mut pod = json!({ "spec": spec });
        json::object_mut(&mut pod, &["spec"]).entry("containers").or_insert_with(|| json!([{"name": "c", "image": "i:1"}]));
        default_pod_spec(&mut pod, &["spec"]);
        let mut errors = Vec::new();
        validate_pod_spec(&pod["spec"], &Path::new("spec"), &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn the_least_spec_is_good() {
        assert_eq!(errors(json!({})), []);
        assert_eq!(errors(json!({"terminationGracePeriodSeconds": -1})), []);
    }

    #[test]
    fn enumerations_and_numbers_are_judged() {
        let spec = json!({
            "restartPolicy": "Sometimes", "dnsPolicy": "Magic", "activeDeadlineSeconds": 0, "nodeName": "a b", "hostname": "A.b",
            "readinessGates": [{"conditionType": "not valid"}], "shareProcessNamespace": true, "hostPID": true, "os": {"name": "plan9"},
        });
        let expected = [
            ("spec.readinessGates[0].conditionType", "Invalid"),
            ("spec.restartPolicy", "NotSupported"),
            ("spec.dnsPolicy", "NotSupported"),
            ("spec.activeDeadlineSeconds", "Invalid"),
            ("spec.nodeName", "Invalid"),
            ("spec.hostname", "Invalid"),
            ("spec.shareProcessNamespace", "Invalid"),
            ("spec.os.name", "NotSupported"),
        ];
        assert_eq!(errors(spec), owned(&expected));
    }

    #[test]
    fn probes_are_judged_with_their_full_paths() {
        let container = json!({"name": "c", "image": "i:1", "readinessProbe": {"periodSeconds": 3}});
        assert_eq!(errors(json!({"containers": [container]})), owned(&[("spec.containers[0].readinessProbe", "Required")]));
    }

    #[test]
    fn dns_and_hosts_are_judged() {
        assert_eq!(errors(json!({"dnsPolicy": "None"})), owned(&[("spec.dnsConfig.nameservers", "Required")]));
        let spec = json!({
            "dnsConfig": {"nameservers": ["1.2.3.4", "x"], "searches": ["a_b.example.com.", ".", "bad domain"]},
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.b", "A"]}, {"hostnames": []}],
        });
        let expected = [
            ("spec.dnsConfig.nameservers[1]", "Invalid"),
            ("spec.dnsConfig.searches[2]", "Invalid"),
            ("spec.hostAliases[0].hostnames[1]", "Invalid"),
            ("spec.hostAliases[1].ip", "Required"),
        ];
        assert_eq!(errors(spec), owned(&expected));
    }

    #[test]
    fn the_deletion_cost_is_a_number() {
        let judge = |cost: &str| {
            let mut errors = Vec::new();
            let pod = json!({"metadata": {"annotations": {DELETION_COST: cost}}});
            validate_pod_annotations(&pod, &Path::root(), &mut errors);
            errors.len()
        };
        assert_eq!(["-10", "0", "2147483647"].map(judge), [0, 0, 0]);
        assert_eq!(["x", "", "+5", "007", "2147483648"].map(judge), [1, 1, 1, 1, 1]);
    }
}
