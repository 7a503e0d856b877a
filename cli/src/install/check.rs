//! `lifesign install --check`: is this cluster fit, and will anything be in the way? One line for each thing.

use api::json;
use http::Method;
use machine::Time;
use profiles::openshift::{DEFINITION, is_ours};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::manifests::{Choices, Feature};
use crate::error::Failure;
use crate::output;

/// The first version whose tokens name the node of their pod, on which the rights of agents rest.
const OLDEST: (u32, u32) = (1, 33);
/// Clocks that differ by more disturb leases.
const SKEW_WARNING_SECONDS: i64 = 2;
const SKEW_ERROR_SECONDS: i64 = 10;

/// How a thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Warning,
    Error,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    level: Level,
    what: &'static str,
    text: String,
}

impl Line {
    fn new(level: Level, what: &'static str, text: impl Into<String>) -> Line {
        Line { level, what, text: text.into() }
    }
}

/// Looks at everything and prints a line for each; fails if one is an error.
pub(super) async fn run(cluster: &Cluster, choices: &Choices) -> Result<(), Failure> {
    let mut lines = vec![version(&cluster.version)];
    let now = crate::config::clock().now();
    lines.push(admission(cluster).await);
    if choices.has(Feature::Markers) {
        lines.push(definitions(cluster).await);
        lines.push(kruise(cluster, now).await);
    }
    if choices.has(Feature::Profiles) {
        lines.push(profiles(cluster).await);
    }
    lines.push(slices(cluster, now).await);
    lines.push(clocks(cluster, now).await);
    lines.push(rights(cluster, choices).await);
    let text: String = lines
        .iter()
        .map(|line| {
            let level = match line.level {
                Level::Ok => "ok",
                Level::Warning => "warning",
                Level::Error => "error",
            };
            format!("{level:<8} {}: {}\n", line.what, line.text)
        })
        .collect();
    output::print(text.as_bytes())?;
    match lines.iter().filter(|line| line.level == Level::Error).count() {
        0 => Ok(()),
        errors => Err(Failure::no(format!("the cluster is not fit: {errors} of {} checks failed", lines.len()))),
    }
}

/// Returns major and minor number of a version such as `v1.36.4+k3s1`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    Some((number(parts.next()?)?, number(parts.next()?)?))
}

fn version(text: &str) -> Line {
    let what = "version";
    match numbers(text) {
        Some(found) if found >= OLDEST => Line::new(Level::Ok, what, format!("Kubernetes {text}")),
        Some(_) => {
            let why = format!("Kubernetes {text} is older than {}.{}; upgrade the cluster first", OLDEST.0, OLDEST.1);
            Line::new(Level::Error, what, why)
        }
        None => Line::new(Level::Warning, what, format!("{text:?} cannot be read; Kubernetes 1.33 or newer is needed")),
    }
}

/// Webhooks and policies must be served, and not be switched off.
async fn admission(cluster: &Cluster) -> Line {
    let what = "admission";
    let served = match cluster.get("/apis/admissionregistration.k8s.io/v1").await {
        Ok(list) => list.unwrap_or_default(),
        Err(error) => return Line::new(Level::Error, what, format!("the kinds of admission cannot be listed: {error}")),
    };
    let names: Vec<&str> = json::items(&served, &["resources"]).iter().map(|item| json::text(item, &["name"])).collect();
    for needed in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies"] {
        if !names.contains(&needed) {
            let why = format!("{needed} of admissionregistration.k8s.io/v1 are not served; rights could not be narrowed");
            return Line::new(Level::Error, what, why);
        }
    }
    let servers = "/api/v1/namespaces/kube-system/pods?labelSelector=component%3Dkube-apiserver";
    let off = cluster.list(servers).await.unwrap_or_default().iter().find_map(switched_off);
    match off {
        Some(plugin) => Line::new(
            Level::Error,
            what,
            format!("kube-apiserver runs with {plugin} off; take it out of --disable-admission-plugins"),
        ),
        None => Line::new(Level::Ok, what, "webhooks and policies are served"),
    }
}

/// Returns the admission plugin that a kube-apiserver switches off although it is needed.
fn switched_off(pod: &Value) -> Option<&'static str> {
    let words = json::items(pod, &["spec", "containers"]).iter().flat_map(|container| {
        let part = |key: &str| json::items(container, &[key]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
        [part("command"), part("args")].concat()
    });
    let off: Vec<&str> = words.filter_map(|word| word.strip_prefix("--disable-admission-plugins=")).collect();
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "ValidatingAdmissionPolicy"];
    plugins.into_iter().find(|plugin| off.iter().any(|list| list.split(',').any(|name| name == *plugin)))
}

async fn definitions(cluster: &Cluster) -> Line {
    let what = "definitions";
    let mut missing = Vec::new();
    let mut there = 0;
    for name in ["podprobemarkers.apps.kruise.io", "nodepodprobes.apps.kruise.io"] {
        match cluster.get(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")).await {
            Ok(Some(definition)) => {
                there += 1;
                missing.extend(markers::missing_fields(&definition).into_iter().map(|field| format!("{name} {field}")));
            }
            Ok(None) => {}
            Err(error) => return Line::new(Level::Error, what, format!("{name} cannot be read: {error}")),
        }
    }
    match (there, missing.is_empty()) {
        (0, _) => Line::new(Level::Ok, what, "no marker kinds are installed yet; install brings them"),
        (_, true) => Line::new(Level::Ok, what, "marker kinds are installed, with all fields"),
        (_, false) => {
            let why = "marker kinds of an older OpenKruise lack fields, which are not written unless install replaces them";
            Line::new(Level::Warning, what, format!("{why}: {}", missing.join(", ")))
        }
    }
}

async fn profiles(cluster: &Cluster) -> Line {
    match cluster.get(DEFINITION).await {
        Ok(definition) => kind_of_profiles(definition.as_ref()),
        Err(error) => Line::new(Level::Error, "profiles", format!("nodes.config.openshift.io cannot be read: {error}")),
    }
}

/// Judges the definition of the kind of profiles: to apply ours would take over that of somebody else.
fn kind_of_profiles(definition: Option<&Value>) -> Line {
    let what = "profiles";
    match definition {
        None => Line::new(Level::Ok, what, "nodes.config.openshift.io is not installed yet; install brings it"),
        Some(definition) if is_ours(definition) => Line::new(Level::Ok, what, "nodes.config.openshift.io is ours"),
        Some(_) => {
            let why = "nodes.config.openshift.io is somebody else's (OpenShift): install would take it over; leave profiles out of --features";
            Line::new(Level::Error, what, why)
        }
    }
}

async fn kruise(cluster: &Cluster, now: Time) -> Line {
    let what = "kruise";
    match cluster.kruise(now).await {
        Ok(None) => Line::new(Level::Ok, what, "OpenKruise does not run the markers"),
        Ok(Some(sign)) => {
            let why = format!("OpenKruise runs the markers ({sign}); the marker controller of Lifesign stays off beside it");
            Line::new(
                Level::Warning,
                what,
                format!("{why}: install without the feature markers, or turn PodProbeMarkerGate off"),
            )
        }
        Err(error) => Line::new(Level::Error, what, format!("nobody can say whether OpenKruise runs: {error}")),
    }
}

/// The installed controllers write no EndpointSlices; somebody must.
async fn slices(cluster: &Cluster, now: Time) -> Line {
    let what = "endpointslices";
    let list = "/apis/discovery.k8s.io/v1/endpointslices?limit=500";
    let slices = match (controllers::endpointslices::competitor(&cluster.client, now).await, cluster.list(list).await) {
        (Ok(_), Ok(slices)) => slices,
        (Err(error), _) | (_, Err(error)) => {
            return Line::new(Level::Error, what, format!("EndpointSlices cannot be listed: {error}"));
        }
    };
    let label = "endpointslice.kubernetes.io/managed-by";
    let known = ["", "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
    let manager = |slice: &Value| json::text(slice, &["metadata", "labels", label]).to_owned();
    let mut foreign: Vec<String> = slices.iter().map(manager).filter(|name| !known.contains(&name.as_str())).collect();
    foreign.sort();
    foreign.dedup();
    match foreign.as_slice() {
        [] => Line::new(Level::Ok, what, "kube-controller-manager writes them; Lifesign leaves them alone"),
        names => Line::new(
            Level::Warning,
            what,
            format!("{} writes some too; see that it takes readiness from the Ready condition of pods", names.join(", ")),
        ),
    }
}

/// Leases are compared with clocks: that of this machine stands for a person's, those of the kubelets for the agents'.
async fn clocks(cluster: &Cluster, now: Time) -> Line {
    let what = "clocks";
    let leases = match cluster.list("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await {
        Ok(leases) => leases,
        Err(error) => return Line::new(Level::Warning, what, format!("heartbeats of nodes cannot be listed: {error}")),
    };
    let ahead = |lease: &Value| {
        let renewed = api::Timestamp::parse(json::text(lease, &["spec", "renewTime"])).ok()?;
        Some((renewed.0.as_secs() - now.as_secs(), json::text(lease, &["metadata", "name"]).to_owned()))
    };
    match leases.iter().filter_map(ahead).max() {
        Some((seconds, node)) if seconds > SKEW_WARNING_SECONDS => {
            let level = if seconds > SKEW_ERROR_SECONDS { Level::Error } else { Level::Warning };
            let why = format!("node {node:?} is {seconds} s ahead of this machine; synchronize clocks, leases rest on them");
            Line::new(level, what, why)
        }
        Some(_) => Line::new(Level::Ok, what, format!("{} nodes, none ahead of this machine", leases.len())),
        None => Line::new(Level::Warning, what, "no node has a heartbeat yet"),
    }
}

/// What a person must be allowed to do to apply the manifests: group, resource.
const NEEDED: [(&str, &str); 13] = [
    ("", "namespaces"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("", "secrets"),
    ("apps", "deployments"),
    ("apps", "daemonsets"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
];

async fn rights(cluster: &Cluster, choices: &Choices) -> Line {
    let what = "rights";
    let mut refused = Vec::new();
    for (group, resource) in NEEDED {
        for verb in ["create", "patch"] {
            let attributes = json!({"group": group, "resource": resource, "verb": verb, "namespace": choices.namespace()});
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes}});
            let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            match runtime::request(&cluster.client, Method::POST, path, &review).await {
                Ok(answer) if answer["status"]["allowed"] == true => {}
                Ok(_) => refused.push(format!("{verb} {resource}")),
                Err(error) => return Line::new(Level::Error, what, format!("rights cannot be asked for: {error}")),
            }
        }
    }
    match refused.as_slice() {
        [] => Line::new(Level::Ok, what, "this kubeconfig may apply all manifests"),
        refused => Line::new(Level::Error, what, format!("this kubeconfig may not {}; use one that may", refused.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_somebody_else_is_not_taken_over() {
        let labelled = |by: &str| json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": by}}});
        let level = |definition: Option<Value>| kind_of_profiles(definition.as_ref()).level;
        assert_eq!([level(None), level(Some(labelled("lifesign")))], [Level::Ok; 2]);
        assert_eq!([level(Some(labelled("openshift"))), level(Some(json!({})))], [Level::Error; 2]);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (text, level) in [
            ("v1.36.4", Level::Ok),
            ("v1.33.0-gke.1", Level::Ok),
            ("1.100+", Level::Ok),
            ("v1.32.9", Level::Error),
            ("v1.4.0", Level::Error),
            ("whatever", Level::Warning),
        ] {
            assert_eq!(version(text).level, level, "{text}");
        }
    }

    #[test]
    fn a_plugin_that_is_switched_off_is_found() {
        let pod = |flag: &str| json!({"spec": {"containers": [{"command": ["kube-apiserver", flag]}]}});
        assert_eq!(
            switched_off(&pod("--disable-admission-plugins=A,ValidatingAdmissionPolicy")),
            Some("ValidatingAdmissionPolicy")
        );
        assert_eq!(switched_off(&pod("--enable-admission-plugins=MutatingAdmissionWebhook")), None);
    }
}
