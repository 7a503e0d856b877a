//! Claims of volumes that are not bound.

use api::json;
use serde_json::Value;

use crate::answer::Finding;
use crate::chain::Step;
use crate::events::{self, Event};
use crate::facts::{Query, Resource};
use crate::pod::Subject;

/// Returns the names of the claims of a pod.
fn names(subject: &Subject<'_>) -> Vec<String> {
    let volumes = json::items(subject.raw, &["spec", "volumes"]).iter();
    let name = |volume: &Value| {
        let claim = json::text(volume, &["persistentVolumeClaim", "claimName"]);
        if !claim.is_empty() {
            return Some(claim.to_owned());
        }
        let ephemeral = json::at(volume, &["ephemeral"]).is_some();
        ephemeral.then(|| format!("{}-{}", subject.pod.metadata.name, json::text(volume, &["name"])))
    };
    volumes.filter_map(name).collect()
}

/// Returns the first claim of a pod that is not bound, and what is wrong with it.
pub(crate) fn unbound(subject: &Subject<'_>) -> Step<Option<(String, Finding)>> {
    let namespace = &subject.pod.metadata.namespace;
    let names = names(subject);
    let get = |name: &String| Query::get(Resource::PersistentVolumeClaims, namespace, name);
    subject.facts.want(names.iter().map(get));
    for name in names {
        let finding = match subject.facts.object(&get(&name))? {
            Err(_) => continue,
            Ok(None) => missing(namespace, &name),
            Ok(Some(claim)) if json::text(claim, &["status", "phase"]) == "Bound" => continue,
            Ok(Some(claim)) => pending(subject, &name, claim)?,
        };
        return Ok(Some((name, finding)));
    }
    Ok(None)
}

fn missing(namespace: &str, name: &str) -> Finding {
    let what = format!("PersistentVolumeClaim {name} does not exist in namespace {namespace}");
    Finding::new("MissingClaim", format!("pvc/{name}"), what)
        .seen(format!("pvc/{name}"), "", "not found")
        .act("create it, or name another one in the volumes of the pod", format!("kubectl -n {namespace} get pvc"))
}

fn pending(subject: &Subject<'_>, name: &str, claim: &Value) -> Step<Finding> {
    let namespace = &subject.pod.metadata.namespace;
    let object = format!("pvc/{name}");
    let phase = json::text(claim, &["status", "phase"]);
    let class = json::at(claim, &["spec", "storageClassName"]).and_then(Value::as_str);
    let size = json::text(claim, &["spec", "resources", "requests", "storage"]);
    let query = Query::events(namespace, "PersistentVolumeClaim", name);
    let reported = match subject.facts.list(&query)? {
        Ok(listed) => events::read(listed.items, json::text(claim, &["metadata", "uid"])),
        Err(_) => Vec::new(),
    };
    let event = events::last(&reported, |event| event.warning).or_else(|| events::last(&reported, |_| true));
    let message = event.map_or("", |event: &Event<'_>| event.message);
    let class_says = match class {
        None => "no StorageClass is named, and no default gave it one".to_owned(),
        Some("") => "it wants a volume that was made by hand (storageClassName is empty)".to_owned(),
        Some(class) => format!("StorageClass {class}"),
    };
    let (cause, why, advice, command) = if message.contains("storageclass") && message.contains("not found") {
        (
            "MissingStorageClass",
            message.to_owned(),
            "name a StorageClass that exists; the class of a claim cannot be changed: make the claim again",
            "kubectl get storageclass".to_owned(),
        )
    } else if phase == "Lost" {
        (
            "ClaimLost",
            "its volume is gone".to_owned(),
            "restore the volume, or make the claim again",
            format!("kubectl -n {namespace} describe {object}"),
        )
    } else if event.is_some_and(|event| event.reason == "WaitForFirstConsumer" || event.reason == "WaitForPodScheduled") {
        (
            "UnboundClaim",
            "it is bound when the pod is scheduled; what keeps the pod from its node keeps the claim".to_owned(),
            "look at why no node fits",
            format!("kubectl -n {namespace} describe {object}"),
        )
    } else if message.is_empty() {
        (
            "UnboundClaim",
            class_says,
            "make a PersistentVolume that fits, or name a StorageClass with a provisioner",
            "kubectl get pv,storageclass".to_owned(),
        )
    } else {
        (
            "UnboundClaim",
            message.to_owned(),
            "make a PersistentVolume that fits, or repair the provisioner of its StorageClass",
            "kubectl get pv,storageclass".to_owned(),
        )
    };
    let created = json::text(claim, &["metadata", "creationTimestamp"]);
    let at = api::Timestamp::parse(created).ok();
    let what = format!("PersistentVolumeClaim {name} ({size}) is not bound: {why}");
    let class = class.map_or_else(|| "none".to_owned(), |class| format!("{class:?}"));
    Ok(Finding::new(cause, &object, what)
        .seen_at(&object, "status.phase", phase, at)
        .seen(&object, "spec.storageClassName", class)
        .with(event.map(Event::evidence))
        .act(advice, command))
}
