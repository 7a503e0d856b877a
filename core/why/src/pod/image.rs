//! The image and the command of a container.

use super::containers::ContainerRef;
use super::exits::{self, Exit};
use super::{Checked, Owner, Subject};
use crate::answer::Finding;
use crate::chain::Step;
use crate::events::{self, Event};
use crate::words;

const PULL_REASONS: [&str; 8] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "ErrImagePullAccessDenied",
];

pub(super) fn check(subject: &Subject<'_>) -> Step<Checked> {
    for unit in subject.units() {
        if let Some((reason, message)) = unit.waiting()
            && PULL_REASONS.contains(&reason)
        {
            return Ok(not_pulled(subject, unit, reason, message).into());
        }
    }
    for unit in subject.units() {
        if let Some(finding) = cannot_start(subject, unit) {
            return Ok(finding.into());
        }
    }
    if let Some(finding) = pulling(subject) {
        return Ok(finding.into());
    }
    Ok(Checked::Holds(String::new()))
}

/// What a registry means, by the text of its refusal.
fn meaning(message: &str, image: &str) -> (&'static str, String) {
    let lower = message.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if any(&["toomanyrequests", "rate limit", "429 too many"]) {
        ("RateLimited", "the registry refuses more pulls for now: use credentials, a mirror, or wait".to_owned())
    } else if any(&[
        "unauthorized",
        "authentication required",
        "denied",
        "403 forbidden",
        "no basic auth",
        "401 unauthorized",
        "authorization failed",
    ]) && !any(&["not found", "does not exist or may require"])
    {
        ("PullUnauthorized", "the registry refuses the node: give the pod an imagePullSecret of that registry".to_owned())
    } else if any(&["does not exist or may require", "repository does not exist"]) {
        ("ImageNotFound", format!("there is no image {image}, or it needs an imagePullSecret: check the name"))
    } else if any(&["no match for platform", "exec format"]) {
        ("WrongPlatform", "the image is not built for the architecture of the node".to_owned())
    } else if any(&["not found", "manifest unknown", "name unknown"]) {
        ("ImageNotFound", format!("the registry has no image {image}: check name and tag"))
    } else if any(&["no such host", "lookup "]) {
        (
            "RegistryUnreachable",
            "the name of the registry does not resolve on the node: check it, or the DNS of the node".to_owned(),
        )
    } else if any(&["x509", "certificate", "http: server gave http response to https"]) {
        (
            "RegistryUntrusted",
            "the node does not trust the registry: give the container runtime its certificate authority".to_owned(),
        )
    } else if any(&[
        "connection refused",
        "i/o timeout",
        "timeout",
        "no route to host",
        "network is unreachable",
        "connection reset",
        "dial tcp",
    ]) {
        (
            "RegistryUnreachable",
            "the node does not reach the registry: check network, proxy and firewall of the node".to_owned(),
        )
    } else if any(&["no space left"]) {
        ("NoSpace", "the disk of the node is full".to_owned())
    } else {
        ("ImagePull", "the message of the registry says why".to_owned())
    }
}

fn not_pulled(subject: &Subject<'_>, unit: ContainerRef<'_>, reason: &str, message: &str) -> Finding {
    let image = &unit.spec.image;
    let owner = Owner::of(&subject.pod);
    // The back-off says only that it waits: what the registry said stands in the event of the last attempt.
    let event = events::last(&subject.events, |event| {
        event.reason == "Failed"
            && event.about(unit.name())
            && event.message.contains("pull")
            && !event.message.starts_with("Error: ")
    });
    let reported = event.map_or(message, |event| event.message);
    let reported = if reported.is_empty() { message } else { reported };
    let finding = |cause, what: String| {
        Finding::new(cause, subject.short(), what)
            .seen(subject.short(), unit.field("state.waiting"), format!("{reason}: {message}"))
            .with(event.map(Event::evidence))
    };
    let set = subject.kubectl(&format!("set image {} {}=IMAGE", owner.short, unit.name()));
    match reason {
        "ErrImageNeverPull" => {
            let what =
                format!("{}: the node does not have image {image}, and imagePullPolicy Never forbids to pull it", unit.title());
            finding("ErrImageNeverPull", what).act(
                format!(
                    "load the image on node {}, or let it be pulled: imagePullPolicy IfNotPresent",
                    subject.pod.spec.node_name
                ),
                owner.patch(serde_json::json!({"containers": [{"name": unit.name(), "imagePullPolicy": "IfNotPresent"}]})),
            )
        }
        "InvalidImageName" => finding("InvalidImageName", format!("{}: {image:?} is not the name of an image", unit.title()))
            .act("correct it; names are lower case: registry/repository:tag", set),
        _ => {
            let (cause, advice) = meaning(reported, image);
            let detail = short_reason(reported);
            finding(cause, format!("{}: image {image} cannot be pulled: {detail}", unit.title())).act(advice, set)
        }
    }
}

/// Returns the end of a chain of errors: what the registry or the network said.
fn short_reason(message: &str) -> String {
    let cleaned = message.trim().trim_end_matches('.');
    match cleaned.rsplit_once("desc = ") {
        Some((_, rest)) => rest.to_owned(),
        None => cleaned.to_owned(),
    }
}

/// Returns a container that was made and could not be run.
fn cannot_start(subject: &Subject<'_>, unit: ContainerRef<'_>) -> Option<Finding> {
    if unit.status?.state.running.is_some() {
        return None;
    }
    if let Some((reason @ ("RunContainerError" | "PostStartHookError" | "PreCreateHookError" | "PreStartHookError"), message)) =
        unit.waiting()
    {
        let owner = Owner::of(&subject.pod);
        let hook = reason.contains("Hook");
        let what = if hook {
            format!("{}: its postStart hook failed: {message}", unit.title())
        } else {
            format!("{} could not be started: {message}", unit.title())
        };
        let field = if hook { "lifecycle.postStart" } else { "command" };
        return Some(
            Finding::new(if hook { "PostStartHook" } else { "CannotStart" }, subject.short(), what)
                .seen(subject.short(), unit.field("state.waiting"), format!("{reason}: {message}"))
                .act(format!("correct {}", owner.path(&unit.spec_field(field))), owner.edit()),
        );
    }
    let end = unit.last_end()?;
    let exit = Exit::of(unit.spec, end);
    if !exit.cannot_start() {
        return None;
    }
    Some(exits::ended(subject, unit, &exit))
}

/// Returns a pull that is going on.
fn pulling(subject: &Subject<'_>) -> Option<Finding> {
    let unit = subject.units().find(|unit| unit.waiting().is_some_and(|(reason, _)| reason == "ContainerCreating"))?;
    let about = |event: &Event<'_>| event.about(unit.name()) || event.message.contains(&format!("\"{}\"", unit.spec.image));
    let last = events::last(&subject.events, |event| matches!(event.reason, "Pulling" | "Pulled") && about(event))?;
    if last.reason != "Pulling" {
        return None;
    }
    let since = last.at.map_or_else(String::new, |at| format!(" for {}", words::span(subject.now.since(at.0))));
    let what = format!("{}: image {} is being pulled{since}", unit.title(), unit.spec.image);
    Some(Finding::new("Pulling", subject.short(), what).with([last.evidence()]).act(
        "wait: a large image or a slow registry takes its time",
        subject.kubectl(&format!("get events --field-selector involvedObject.name={} -w", subject.pod.metadata.name)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_understood() {
        for (message, cause) in [
            ("failed to resolve reference \"r/x:1\": r/x:1: not found", "ImageNotFound"),
            (
                "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope",
                "ImageNotFound",
            ),
            ("failed to authorize: 401 Unauthorized", "PullUnauthorized"),
            ("dial tcp: lookup registry.invalid: no such host", "RegistryUnreachable"),
            ("dial tcp 127.0.0.1:5000: connect: connection refused", "RegistryUnreachable"),
            ("toomanyrequests: You have reached your pull rate limit", "RateLimited"),
            ("x509: certificate signed by unknown authority", "RegistryUntrusted"),
            ("no match for platform in manifest: not found", "WrongPlatform"),
        ] {
            assert_eq!(meaning(message, "r/x:1").0, cause, "{message}");
        }
    }
}
