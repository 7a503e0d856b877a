//! The chain of what makes pods: a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job.

use api::{LabelSelector, Pod, Timestamp, json};
use machine::Time;
use serde_json::Value;

use crate::answer::{Answer, Finding};
use crate::chain::{Chain, Step, Stop};
use crate::events::{self, Event};
use crate::exists;
use crate::facts::{Facts, Query, Resource};
use crate::pod;
use crate::target::Target;
use crate::words;

const LINKS: &[&str] = &["exists", "controller", "replicas", "pods", "rollout"];
/// Some pods stand for all.
const PODS_MAX: u32 = 100;

/// Examines a workload.
pub(crate) fn examine(now: Time, target: &Target, resource: Resource, facts: &Facts) -> Step<Answer> {
    let events = Query::events(&target.namespace, resource.names().2, &target.name);
    facts.want([exists::query(target), events.clone()]);
    let mut chain = Chain::new(LINKS);
    let raw = match exists::find(target, facts)? {
        Ok(raw) => raw,
        Err(finding) => return Ok(chain.broken(target, finding.what.clone(), finding)),
    };
    let reported = facts.list(&events)?.map(|listed| listed.items).unwrap_or_default();
    let reported = events::read(reported, json::text(raw, &["metadata", "uid"]));
    let created = Timestamp::parse(json::text(raw, &["metadata", "creationTimestamp"])).ok();
    let broken =
        |chain: Chain, finding: Finding| Ok(chain.broken(target, format!("{}: {}", target.short(), finding.what), finding));
    if let Ok(deleted) = Timestamp::parse(json::text(raw, &["metadata", "deletionTimestamp"])) {
        let what = "it is being deleted".to_owned();
        return broken(
            chain,
            Finding::new("Terminating", target.short(), what).seen_at(
                target.short(),
                "metadata.deletionTimestamp",
                "set",
                Some(deleted),
            ),
        );
    }
    chain.ok(format!("created {}", words::when(now, created)));
    let (generation, observed) =
        (json::int(raw, &["metadata", "generation"]).unwrap_or(0), json::int(raw, &["status", "observedGeneration"]));
    if resource != Resource::Jobs
        && observed.unwrap_or(0) < generation
        && created.is_some_and(|at| now.since(at.0).as_secs() > 5)
    {
        let what = "its controller has not looked at its last change: it does not run, or is far behind".to_owned();
        let finding = Finding::new("NotObserved", target.short(), what)
            .seen(target.short(), "metadata.generation", generation.to_string())
            .seen(
                target.short(),
                "status.observedGeneration",
                observed.map_or_else(|| "missing".to_owned(), |number| number.to_string()),
            )
            .act(
                "who runs it: kube-controller-manager, or `lifesign controllers`",
                "kubectl -n kube-system get lease kube-controller-manager",
            );
        return broken(chain, finding);
    }
    chain.ok(String::new());
    if let Some(done) = job_done(resource, raw, target) {
        return match done {
            Ok(how) => Ok(chain.healthy(target, format!("{}: {how}", target.short()))),
            Err(finding) => {
                chain.ok(String::new());
                broken(chain, *finding)
            }
        };
    }
    let desired = desired(resource, raw);
    if desired == 0 {
        return broken(chain, none_wanted(resource, target));
    }
    let pods = pods(target, facts, raw)?;
    let lasting: Vec<&(Pod, &Value)> = pods.iter().filter(|(pod, _)| !pod.metadata.deleting() && !pod.terminal()).collect();
    if lasting.len() < usize::try_from(desired).unwrap_or(usize::MAX).min(PODS_MAX as usize)
        && let Some(finding) = not_created(target, resource, raw, &reported, lasting.len(), desired)
    {
        return broken(chain, finding);
    }
    chain.ok(format!("{} of {desired}", lasting.len()));
    // Newest first: during a rollout the new pods are what matters.
    let mut sick: Vec<&&(Pod, &Value)> = lasting.iter().filter(|(pod, _)| !pod.condition_true("Ready")).collect();
    sick.sort_by_key(|(pod, _)| std::cmp::Reverse(pod.metadata.creation_timestamp));
    let ready = lasting.len() - sick.len();
    for (pod, raw) in sick.into_iter().take(1) {
        let name = &pod.metadata.name;
        if let Some((link, mut finding)) = pod::first_broken(now, facts, raw)? {
            finding.what = format!("{ready} of {desired} pods ready; pod/{name}: {link}: {}", finding.what);
            return broken(
                chain,
                finding.act("the whole chain of that pod", format!("lifesign why pod/{name} -n {}", target.namespace)),
            );
        }
    }
    if lasting.is_empty() {
        let what = format!("none of its {desired} pods is there yet");
        let event = reported.last().map(Event::evidence);
        return broken(
            chain,
            Finding::new("NoPods", target.short(), what)
                .with(event)
                .act("ask again in a moment", format!("kubectl -n {} describe {}", target.namespace, target.short())),
        );
    }
    chain.ok(format!("{ready} ready"));
    let stuck = condition(raw, "Progressing").filter(|progressing| json::text(progressing, &["status"]) == "False");
    if let Some(progressing) = stuck {
        let what = format!("its rollout is stuck: {}", json::text(progressing, &["message"]));
        let finding = Finding::new("ProgressDeadline", target.short(), what)
            .seen_at(
                target.short(),
                "status.conditions[Progressing]",
                json::text(progressing, &["reason"]),
                Timestamp::parse(json::text(progressing, &["lastTransitionTime"])).ok(),
            )
            .act("look at the ReplicaSets", format!("kubectl -n {} get rs", target.namespace));
        return broken(chain, finding);
    }
    chain.ok(String::new());
    Ok(chain
        .healthy(target, format!("{}: {ready} of {desired} pods ready, created {}", target.short(), words::when(now, created))))
}

fn condition<'a>(raw: &'a Value, type_: &str) -> Option<&'a Value> {
    json::items(raw, &["status", "conditions"]).iter().find(|condition| json::text(condition, &["type"]) == type_)
}

fn desired(resource: Resource, raw: &Value) -> i64 {
    match resource {
        Resource::DaemonSets => json::int(raw, &["status", "desiredNumberScheduled"]).unwrap_or(0),
        Resource::Jobs => json::int(raw, &["spec", "parallelism"]).unwrap_or(1),
        _ => json::int(raw, &["spec", "replicas"]).unwrap_or(1),
    }
}

fn none_wanted(resource: Resource, target: &Target) -> Finding {
    if resource == Resource::DaemonSets {
        let what = "no node fits it: nodeSelector, affinity or taints keep it from all of them".to_owned();
        return Finding::new("NoNodeFits", target.short(), what)
            .seen(target.short(), "status.desiredNumberScheduled", "0")
            .act("compare its nodeSelector and tolerations with the nodes", "kubectl get nodes --show-labels");
    }
    Finding::new("ScaledToZero", target.short(), "it is scaled to 0: nobody wants a pod".to_owned())
        .seen(target.short(), "spec.replicas", "0")
        .act("scale it up", format!("kubectl -n {} scale {} --replicas=1", target.namespace, target.short()))
}

/// Returns how a Job ended, if it has.
fn job_done(resource: Resource, raw: &Value, target: &Target) -> Option<Result<String, Box<Finding>>> {
    if resource != Resource::Jobs {
        return None;
    }
    let is_true = |type_: &str| condition(raw, type_).filter(|condition| json::text(condition, &["status"]) == "True");
    if let Some(complete) = is_true("Complete") {
        return Some(Ok(format!("complete since {}", json::text(complete, &["lastTransitionTime"]))));
    }
    let failed = is_true("Failed").or_else(|| is_true("Suspended"))?;
    let reason = json::text(failed, &["reason"]);
    let what = format!("{}: {}", reason, json::text(failed, &["message"]));
    let at = Timestamp::parse(json::text(failed, &["lastTransitionTime"])).ok();
    Some(Err(Box::new(
        Finding::new("JobFailed", target.short(), what)
            .seen_at(target.short(), format!("status.conditions[{}]", json::text(failed, &["type"])), reason, at)
            .act("the log of its last pod", format!("kubectl -n {} logs {} --tail=50", target.namespace, target.short())),
    )))
}

fn pods<'a>(target: &Target, facts: &'a Facts, raw: &Value) -> Step<Vec<(Pod, &'a Value)>> {
    let selector: LabelSelector = json::at(raw, &["spec", "selector"])
        .cloned()
        .and_then(|selector| serde_json::from_value(selector).ok())
        .unwrap_or_default();
    let mut parts: Vec<String> = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    for expression in &selector.match_expressions {
        let (key, values) = (&expression.key, expression.values.join(","));
        parts.push(match expression.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        });
    }
    let query = Query::list(Resource::Pods, &target.namespace, &parts.join(","), "", PODS_MAX);
    match facts.list(&query)? {
        Ok(listed) => {
            Ok(listed.items.iter().filter_map(|item| Some((serde_json::from_value(item.clone()).ok()?, item))).collect())
        }
        Err(refused) => Err(Stop::CannotTell(exists::cannot_read(target, &refused))),
    }
}

/// Returns why pods are not made.
fn not_created(
    target: &Target,
    resource: Resource,
    raw: &Value,
    reported: &[Event<'_>],
    there: usize,
    desired: i64,
) -> Option<Finding> {
    let failure = condition(raw, "ReplicaFailure").filter(|condition| json::text(condition, &["status"]) == "True");
    let event = events::last(reported, |event| event.reason.starts_with("FailedCreate"));
    let message = failure.map(|failure| json::text(failure, &["message"])).or(event.map(|event| event.message));
    let Some(message) = message else {
        let paused = resource == Resource::Deployments && json::boolean(raw, &["spec", "paused"]) == Some(true);
        if paused {
            let what = format!("it is paused with {there} of {desired} pods");
            return Some(
                Finding::new("Paused", target.short(), what)
                    .seen(target.short(), "spec.paused", "true")
                    .act("let it go on", format!("kubectl -n {} rollout resume {}", target.namespace, target.short())),
            );
        }
        return None;
    };
    let (cause, advice, command) = if message.contains("exceeded quota") {
        (
            "QuotaExceeded",
            "make room in the ResourceQuota, or raise it",
            format!("kubectl -n {} describe resourcequota", target.namespace),
        )
    } else if message.contains("violates PodSecurity") {
        (
            "PodSecurity",
            "make the pod fit the Pod Security level of the namespace",
            format!("kubectl get namespace {} --show-labels", target.namespace),
        )
    } else if message.contains("serviceaccount") && message.contains("not found") {
        ("MissingServiceAccount", "create the ServiceAccount", format!("kubectl -n {} get serviceaccounts", target.namespace))
    } else if message.contains("webhook") {
        (
            "WebhookRefused",
            "an admission webhook refuses or does not answer: look at it",
            "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations".to_owned(),
        )
    } else {
        (
            "FailedCreate",
            "correct what the message names",
            format!("kubectl -n {} describe {}", target.namespace, target.short()),
        )
    };
    let what = format!("{there} of {desired} pods exist; its pods are refused: {message}");
    let at = failure.and_then(|failure| Timestamp::parse(json::text(failure, &["lastTransitionTime"])).ok());
    let finding = Finding::new(cause, target.short(), what);
    let finding = if failure.is_some() {
        finding.seen_at(target.short(), "status.conditions[ReplicaFailure]", message, at)
    } else {
        finding.with(event.map(Event::evidence))
    };
    Some(finding.act(advice, command))
}
