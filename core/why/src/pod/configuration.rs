//! What a pod needs before a container is made: its sandbox, volumes, ConfigMaps and Secrets.

use std::time::Duration;

use api::json;

use super::containers::ContainerRef;
use super::{Checked, Owner, Subject};
use crate::answer::{Evidence, Finding};
use crate::chain::Step;
use crate::claim;
use crate::events::{self, Event};
use crate::facts::{Query, Resource};
use crate::words;

/// What the node says when it cannot give the pod what it needs.
const SETUP_EVENTS: [&str; 8] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "FailedPodSandBoxStatus",
    "NetworkNotReady",
    "FailedCreatePodContainer",
    "FailedPrepareDynamicResources",
];
/// Names alike are looked for among at most this many.
const NEIGHBOURS_MAX: u32 = 200;
/// A node that has said nothing for this long is stuck rather than busy.
const QUIET_MAX: Duration = Duration::from_secs(60);

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    if subject.pod.terminal() {
        return Ok(Checked::Holds(String::new()));
    }
    for unit in subject.units() {
        let Some((reason, message)) = unit.waiting() else { continue };
        if matches!(reason, "CreateContainerConfigError" | "CreateContainerError") {
            return Ok(bad_config(subject, unit, reason, message)?.into());
        }
    }
    let made = |unit: &ContainerRef<'_>| {
        unit.status.is_some_and(|status| !status.container_id.is_empty() || status.state.running.is_some())
    };
    // Any other reason to wait is that of a later link.
    let creating = |unit: &ContainerRef<'_>| match unit.waiting() {
        Some((reason, _)) => matches!(reason, "ContainerCreating" | "PodInitializing" | ""),
        None => unit.status.is_none(),
    };
    if !subject.units().all(|unit| !made(&unit) && creating(&unit)) {
        return Ok(Checked::Holds(String::new()));
    }
    let Some(unit) = subject.units().next() else { return Ok(Checked::Holds(String::new())) };
    let reported = |event: &&Event<'_>| SETUP_EVENTS.contains(&event.reason);
    if let Some(event) = subject.events.iter().rev().find(reported) {
        return Ok(not_set_up(subject, event)?.into());
    }
    // The agent of this project says so at the container.
    if let Some((_, message)) = unit.waiting().filter(|(_, message)| !message.is_empty()) {
        let what = format!("its node cannot set it up: {message}");
        return Ok(Finding::new("NotSetUp", subject.short(), what)
            .seen(subject.short(), unit.field("state.waiting.message"), message)
            .act("correct what the message names", Owner::of(&subject.pod).edit())
            .into());
    }
    if events::last(&subject.events, |event| {
        matches!(event.reason, "Pulling" | "Pulled" | "Created" | "Started" | "Failed" | "BackOff")
    })
    .is_some()
    {
        return Ok(Checked::Holds(String::new()));
    }
    if subject.pod.status.start_time.is_none() && subject.units().all(|unit| unit.status.is_none()) {
        return Ok(not_seen(subject).into());
    }
    Ok(still_creating(subject, unit).into())
}

/// The node has not even said that it saw the pod.
fn not_seen(subject: &Subject<'_>) -> Finding {
    let node = &subject.pod.spec.node_name;
    let what = format!("node {node} has not taken it yet");
    let since = subject.pod.condition("PodScheduled").and_then(|condition| condition.last_transition_time);
    subject
        .blindly(Finding::new("NotTaken", subject.short(), what))
        .seen_at(subject.short(), "status.startTime", "missing", since)
        .act("wait a moment; if it stays, look at the node", format!("lifesign why node/{node}"))
}

fn still_creating(subject: &Subject<'_>, unit: ContainerRef<'_>) -> Finding {
    let start = subject.pod.status.start_time;
    let waited = start.map_or(Duration::ZERO, |start| subject.now.since(start.0));
    let node = &subject.pod.spec.node_name;
    let what = if waited > QUIET_MAX {
        format!("node {node} prepares it for {} and says nothing: volumes, network or image do not come", words::span(waited))
    } else {
        format!("node {node} prepares it since {}: volumes, network, then the image", words::span(waited))
    };
    subject
        .blindly(Finding::new("ContainerCreating", subject.short(), what))
        .seen_at(
            subject.short(),
            unit.field("state.waiting.reason"),
            unit.waiting().map_or("no status", |(reason, _)| reason),
            start,
        )
        .act(
            if waited > QUIET_MAX {
                "look at the log of the kubelet or agent of that node"
            } else {
                "wait a moment and ask again"
            },
            format!("lifesign why node/{node}"),
        )
}

/// A ConfigMap or Secret that a message names, and whether its key is what is missing.
struct Reference {
    kind: &'static str,
    name: String,
    key: Option<String>,
}

fn reference(message: &str) -> Option<Reference> {
    let lower = message.to_lowercase();
    let kind = match (lower.find("configmap"), lower.find("secret")) {
        (Some(map), Some(secret)) => {
            if map < secret {
                "configmap"
            } else {
                "secret"
            }
        }
        (Some(_), None) => "configmap",
        (None, Some(_)) => "secret",
        (None, None) => return None,
    };
    // couldn't find key PORT in ConfigMap shop/app, or: configmap references non-existent config key: x
    if let Some((_, rest)) = message.split_once("find key ") {
        let (key, place) = rest.split_once(" in ")?;
        // A kind, then a name that may have its namespace or quotes around it.
        let name = place.split(' ').nth(1)?.trim_matches(['"', ';', '.', ',']);
        let name = name.rsplit('/').next()?.to_owned();
        return Some(Reference { kind, name, key: Some(key.trim_matches('"').to_owned()) });
    }
    if let Some((_, key)) =
        message.split_once("non-existent config key: ").or_else(|| message.split_once("non-existent secret key: "))
    {
        return Some(Reference { kind, name: String::new(), key: Some(key.split([' ', ',']).next()?.to_owned()) });
    }
    let after = &message[lower.find(kind)?..];
    (lower.contains("not found") || lower.contains("no configmap") || lower.contains("no secret"))
        .then(|| Some(Reference { kind, name: words::quoted(after)?.to_owned(), key: None }))?
}

/// Returns a finding about a ConfigMap or Secret that a message names.
fn about_reference(subject: &Subject<'_>, found: &Reference, whom: &str) -> Step<Finding> {
    let namespace = &subject.pod.metadata.namespace;
    let title = if found.kind == "secret" { "Secret" } else { "ConfigMap" };
    let owner = Owner::of(&subject.pod);
    let name = if found.name.is_empty() { "(see the volume)" } else { &found.name };
    let object = format!("{}/{name}", found.kind);
    match &found.key {
        Some(key) => {
            let what = format!("{title} {name} has no key {key}, which {whom} needs");
            let mut finding = Finding::new("MissingKey", &object, what);
            if found.kind == "configmap" && !found.name.is_empty() {
                let query = Query::get(Resource::ConfigMaps, namespace, &found.name);
                if let Ok(Some(map)) = subject.facts.object(&query)? {
                    let keys: Vec<&String> = ["data", "binaryData"]
                        .iter()
                        .flat_map(|part| json::object(map, &[part]))
                        .flat_map(|map| map.keys())
                        .collect();
                    let listed = if keys.is_empty() { "no key at all".to_owned() } else { words::some(&keys, 8) };
                    finding = finding.seen(&object, "data", listed);
                }
            }
            let (add, command) = match found.kind {
                "secret" => (
                    "add the key",
                    format!(
                        "kubectl -n {namespace} patch secret {name} --type=merge -p '{{\"stringData\":{{\"{key}\":\"VALUE\"}}}}'"
                    ),
                ),
                _ => (
                    "add the key",
                    format!(
                        "kubectl -n {namespace} patch configmap {name} --type=merge -p '{{\"data\":{{\"{key}\":\"VALUE\"}}}}'"
                    ),
                ),
            };
            Ok(finding
                .act(add, command)
                .act(format!("or name another key in {}, or mark the reference as optional", owner.short), owner.edit()))
        }
        None => {
            let what = format!("{title} {name} does not exist in namespace {namespace}, and {whom} needs it");
            let mut finding =
                Finding::new(if found.kind == "secret" { "MissingSecret" } else { "MissingConfigMap" }, &object, what);
            if found.kind == "configmap" {
                finding = finding.with(alike(subject, name)?);
            }
            let command = match found.kind {
                "secret" => format!("kubectl -n {namespace} create secret generic {name} --from-literal=KEY=VALUE"),
                _ => format!("kubectl -n {namespace} create configmap {name} --from-literal=KEY=VALUE"),
            };
            Ok(finding
                .act("create it; the pod goes on by itself", command)
                .act(format!("or name another one in {}, or mark the reference as optional", owner.short), owner.edit()))
        }
    }
}

fn alike(subject: &Subject<'_>, name: &str) -> Step<Option<Evidence>> {
    let query = Query::list(Resource::ConfigMaps, &subject.pod.metadata.namespace, "", "", NEIGHBOURS_MAX);
    let Ok(listed) = subject.facts.list(&query)? else { return Ok(None) };
    let names = listed.items.iter().map(|item| json::text(item, &["metadata", "name"]));
    let found: Vec<&str> = names.filter(|other| words::alike(other, name)).collect();
    Ok((!found.is_empty()).then(|| Evidence {
        object: "configmaps".to_owned(),
        field: String::new(),
        value: format!("there is {}", words::some(&found, 4)),
        at: None,
    }))
}

fn bad_config(subject: &Subject<'_>, unit: ContainerRef<'_>, reason: &str, message: &str) -> Step<Finding> {
    let message = if message.is_empty() {
        events::last(&subject.events, |event| event.reason == "Failed" && event.about(unit.name()))
            .map_or("", |event| event.message)
    } else {
        message
    };
    let seen = |finding: Finding| {
        let event = events::last(&subject.events, |event| event.warning && event.about(unit.name())).map(Event::evidence);
        finding.seen(subject.short(), unit.field("state.waiting"), format!("{reason}: {message}")).with(event)
    };
    if let Some(found) = reference(message) {
        return Ok(seen(about_reference(subject, &found, &unit.title())?));
    }
    let owner = Owner::of(&subject.pod);
    let what = format!("{} cannot be made: {message}", unit.title());
    let finding = seen(Finding::new("BadConfiguration", subject.short(), what));
    let advice = if message.contains("runAsNonRoot") {
        "set securityContext.runAsUser to a number other than 0, or use an image whose user is not root"
    } else {
        "correct what the message names"
    };
    Ok(finding.act(
        format!("{advice} ({})", owner.path(&unit.spec_field("securityContext")).replace(".securityContext", "")),
        owner.edit(),
    ))
}

fn not_set_up(subject: &Subject<'_>, event: &Event<'_>) -> Step<Finding> {
    let message = event.message.trim();
    if let Some(mut found) = reference(message) {
        let volume = message.split_once("for volume ").and_then(|(_, rest)| words::quoted(rest)).unwrap_or_default();
        if found.name.is_empty() {
            found.name = source_of(subject, volume).unwrap_or_default();
        }
        let whom = if volume.is_empty() { "the pod".to_owned() } else { format!("volume {volume}") };
        return Ok(about_reference(subject, &found, &whom)?.with([event.evidence()]));
    }
    if let Some((_, finding)) = claim::unbound(subject)? {
        return Ok(finding.with([event.evidence()]));
    }
    let node = &subject.pod.spec.node_name;
    let owner = Owner::of(&subject.pod);
    if event.reason.contains("Sandbox") || event.reason.contains("SandBox") || event.reason == "NetworkNotReady" {
        let what = format!("node {node} cannot make its sandbox: {message}");
        return Ok(Finding::new("NoSandbox", subject.short(), what)
            .with([event.evidence()])
            .act(
                "look at the network plugin of that node: its pods, and /etc/cni/net.d",
                format!("kubectl get pods -A --field-selector spec.nodeName={node}"),
            )
            .act("how the node is", format!("lifesign why node/{node}")));
    }
    let what = format!("a volume cannot be had ({}): {message}", event.reason);
    let advice = if message.contains("hostPath type check failed") {
        "the path is not on the node, or of another type: create it, or use type DirectoryOrCreate"
    } else if message.contains("Multi-Attach") {
        "the volume is attached to another node: wait until the pod there is gone, or use a claim that many nodes can mount"
    } else if message.contains("timed out waiting for the condition") || message.contains("context deadline exceeded") {
        "the driver does not answer: look at its pods on that node"
    } else {
        "correct the volume, or what provides it"
    };
    Ok(Finding::new("FailedMount", subject.short(), what).with([event.evidence()]).act(advice, owner.edit()))
}

/// Returns the ConfigMap or Secret behind a volume.
fn source_of(subject: &Subject<'_>, volume: &str) -> Option<String> {
    let volumes = json::items(subject.raw, &["spec", "volumes"]);
    let found = volumes.iter().find(|entry| json::text(entry, &["name"]) == volume)?;
    let names = [json::text(found, &["configMap", "name"]), json::text(found, &["secret", "secretName"])];
    names.into_iter().find(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_is_missing() {
        let read = |message: &str| reference(message).map(|found| (found.kind, found.name, found.key));
        let none = None::<String>;
        assert_eq!(read("configmap \"app\" not found"), Some(("configmap", "app".to_owned(), none.clone())));
        assert_eq!(read("secret \"db\" not found"), Some(("secret", "db".to_owned(), none.clone())));
        assert_eq!(
            read("couldn't find key PORT in ConfigMap shop/app"),
            Some(("configmap", "app".to_owned(), Some("PORT".to_owned())))
        );
        assert_eq!(read("couldn't find key p in Secret shop/db"), Some(("secret", "db".to_owned(), Some("p".to_owned()))));
        assert_eq!(
            read("MountVolume.SetUp failed for volume \"cfg\" : configmap \"app\" not found"),
            Some(("configmap", "app".to_owned(), none))
        );
        assert_eq!(
            read("MountVolume.SetUp failed for volume \"cfg\" : configmap references non-existent config key: a.conf"),
            Some(("configmap", String::new(), Some("a.conf".to_owned())))
        );
        assert_eq!(
            read("couldn't find key port in configmap \"settings\"; add it or mark the reference optional"),
            Some(("configmap", "settings".to_owned(), Some("port".to_owned())))
        );
        assert_eq!(read("no space left on device"), None);
    }
}
