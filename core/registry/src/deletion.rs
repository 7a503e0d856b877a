//! Deletion: grace, finalizers, and when an object really goes.

use serde_json::Value;

use api::Timestamp;
use api::field::{Error, Path};
use api::json;
use machine::Time;

use api::status::{Status, Subject};
use kinds::resource::Resource;

/// The finalizer that makes an owner wait for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that makes the collector cut the dependents loose.
pub const ORPHAN: &str = "orphan";

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The grace that was asked for.
    pub grace_seconds: Option<i64>,
    /// The object must be this one.
    pub uid: Option<String>,
    /// The object must have this version.
    pub resource_version: Option<String>,
    /// What happens to dependents; `None`: nothing was said, so they go afterwards.
    pub propagation: Option<Propagation>,
    /// Whether nothing is to be stored.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from a body (`DeleteOptions` as JSON) or, where it says nothing, from the query.
    pub fn read(body: &Value, query: &crate::query::Parameters) -> Result<DeleteOptions, Status> {
        let mut errors = Vec::new();
        let grace = match json::int(body, &["gracePeriodSeconds"]) {
            Some(grace) => Some(grace),
            None => query.number("gracePeriodSeconds")?,
        };
        let policy = match json::text(body, &["propagationPolicy"]) {
            "" => query.text("propagationPolicy"),
            policy => policy,
        };
        let orphans =
            json::boolean(body, &["orphanDependents"]).or_else(|| query.get("orphanDependents").map(|text| text == "true"));
        let path = Path::root().child("propagationPolicy");
        if orphans.is_some() && !policy.is_empty() {
            errors.push(Error::invalid(&path, policy, "orphanDependents and propagationPolicy cannot be both set"));
        }
        let propagation = match (policy, orphans) {
            ("Background", _) => Some(Propagation::Background),
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Orphan", _) => Some(Propagation::Orphan),
            ("", Some(true)) => Some(Propagation::Orphan),
            ("", Some(false)) => Some(Propagation::Background),
            ("", None) => None,
            (other, _) => {
                errors.push(Error::not_supported(&path, other, &["Background", "Foreground", "Orphan"]));
                None
            }
        };
        let dry_body = json::items(body, &["dryRun"]);
        if let Some(other) = dry_body.iter().find(|value| value.as_str() != Some("All")) {
            errors.push(Error::not_supported(&Path::root().child("dryRun"), other.clone(), &["All"]));
        }
        if !errors.is_empty() {
            return Err(Status::invalid_options("DeleteOptions", &errors));
        }
        let dry_run = !dry_body.is_empty() || crate::query::dry_run(query, "DeleteOptions")?;
        let text = |path: &[&str]| Some(json::text(body, path).to_owned()).filter(|text| !text.is_empty());
        Ok(DeleteOptions {
            grace_seconds: grace,
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            propagation,
            dry_run,
        })
    }

    /// Refuses to delete another object than the one that is meant.
    pub fn check(&self, object: &Value, subject: &Subject) -> Result<(), Status> {
        let uid = json::text(object, &["metadata", "uid"]);
        if let Some(wanted) = &self.uid
            && wanted != uid
        {
            let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
            return Err(Status::conflict(subject, why));
        }
        let version = json::text(object, &["metadata", "resourceVersion"]);
        if let Some(wanted) = &self.resource_version
            && wanted != version
        {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}"
            );
            return Err(Status::conflict(subject, why));
        }
        Ok(())
    }
}

/// What a deletion does.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The object goes now; this is its last state.
    Remove(Value),
    /// The object stays, marked.
    Mark(Value),
    /// Nothing changes: it was asked before, and not for less grace now.
    Keep,
}

/// Decides what a deletion does to an object.
pub fn decide(resource: &Resource, object: &Value, options: &DeleteOptions, now: Time) -> Decision {
    let mut next = object.clone();
    let finalizers_changed = set_dependents_finalizers(&mut next, options.propagation);
    let already = json::at(object, &["metadata", "deletionTimestamp"]).is_some();
    if !already && resource.is_definitions() {
        schemas::begin_deletion(&mut next, now);
    }
    let waits = waits(resource, &next);
    let grace = grace_seconds(resource, object, options);
    if already {
        let before = json::int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        let shorter = options.grace_seconds.is_some() && grace < before;
        if shorter {
            shorten(&mut next, before, grace, now);
        }
        if grace_left(&next) == 0 && !waits {
            return Decision::Remove(next);
        }
        return if shorter || finalizers_changed { Decision::Mark(next) } else { Decision::Keep };
    }
    mark(&mut next, grace, now);
    if resource.is_core("namespaces") {
        json::object_mut(&mut next, &["status"]).insert("phase".into(), "Terminating".into());
    }
    if grace == 0 && !waits {
        return Decision::Remove(next);
    }
    if resource.generation {
        let generation = json::int(&next, &["metadata", "generation"]).unwrap_or(0);
        crate::meta::set_generation(&mut next, generation + 1);
    }
    Decision::Mark(next)
}

/// Returns whether an object that is being deleted has nothing left to wait for.
pub fn finished(resource: &Resource, object: &Value) -> bool {
    json::at(object, &["metadata", "deletionTimestamp"]).is_some() && grace_left(object) == 0 && !waits(resource, object)
}

/// Returns whether finalizers hold the object; a namespace has its own as well.
fn waits(resource: &Resource, object: &Value) -> bool {
    let namespace = resource.is_core("namespaces") && !json::items(object, &["spec", "finalizers"]).is_empty();
    namespace || !json::items(object, &["metadata", "finalizers"]).is_empty()
}

fn grace_left(object: &Value) -> i64 {
    json::int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0)
}

/// Returns the grace of a deletion: only pods that run somewhere have one.
fn grace_seconds(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    let runs = resource.is_core("pods")
        && !json::text(object, &["spec", "nodeName"]).is_empty()
        && !matches!(json::text(object, &["status", "phase"]), "Succeeded" | "Failed");
    if !runs {
        return 0;
    }
    let asked = options.grace_seconds.or_else(|| json::int(object, &["spec", "terminationGracePeriodSeconds"])).unwrap_or(30);
    if asked < 0 { 1 } else { asked }
}

fn mark(object: &mut Value, grace: i64, now: Time) {
    let due = now + std::time::Duration::from_secs(grace.unsigned_abs());
    let metadata = json::object_mut(object, &["metadata"]);
    metadata.insert("deletionTimestamp".into(), Timestamp(due).to_string().into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

/// Moves the end of a grace that is running: original request plus the new grace, but not before now.
fn shorten(object: &mut Value, before: i64, grace: i64, now: Time) {
    let due = Timestamp::parse(json::text(object, &["metadata", "deletionTimestamp"])).map_or(now, |stamp| stamp.0);
    let span = |seconds: i64| std::time::Duration::from_secs(seconds.unsigned_abs());
    let requested = due - span(before);
    let metadata = json::object_mut(object, &["metadata"]);
    let wanted = requested + span(grace);
    // A grace that has passed already still leaves a second, so that the node can stop the pod; 0 is asked for on purpose.
    let (due, grace) = if wanted < now && grace > 0 { (now + span(1), 1) } else { (wanted.max(now), grace) };
    metadata.insert("deletionTimestamp".into(), Timestamp(due).to_string().into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

/// Adds or removes the collector's finalizers as the propagation policy wants; returns whether anything changed.
fn set_dependents_finalizers(object: &mut Value, propagation: Option<Propagation>) -> bool {
    let Some(propagation) = propagation else { return false };
    let before: Vec<Value> = json::items(object, &["metadata", "finalizers"]).to_vec();
    let mut after: Vec<Value> =
        before.iter().filter(|finalizer| !matches!(finalizer.as_str(), Some(FOREGROUND | ORPHAN))).cloned().collect();
    match propagation {
        Propagation::Foreground => after.push(FOREGROUND.into()),
        Propagation::Orphan => after.push(ORPHAN.into()),
        Propagation::Background => {}
    }
    let changed = after != before;
    let metadata = json::object_mut(object, &["metadata"]);
    if after.is_empty() {
        metadata.remove("finalizers")
    } else {
        metadata.insert("finalizers".into(), after.into())
    };
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pods() -> Resource {
        kinds::resource::builtins().iter().find(|resource| resource.is_core("pods")).unwrap().as_ref().clone()
    }

    fn pod(phase: &str, node: &str) -> Value {
        json!({"metadata": {"name": "p", "generation": 1}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}})
    }

    #[test]
    fn only_a_running_pod_gets_grace() {
        let options = DeleteOptions::default();
        assert!(matches!(decide(&pods(), &pod("Pending", ""), &options, Time::ZERO), Decision::Remove(_)));
        assert!(matches!(decide(&pods(), &pod("Failed", "n"), &options, Time::ZERO), Decision::Remove(_)));
        let Decision::Mark(marked) = decide(&pods(), &pod("Running", "n"), &options, Time::ZERO) else { panic!("not marked") };
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
        assert_eq!(marked["metadata"]["generation"], 2);
        assert_eq!(marked["metadata"]["deletionTimestamp"], "1970-01-01T00:00:30Z");
    }

    #[test]
    fn grace_can_only_be_shortened() {
        let ask = |grace| DeleteOptions { grace_seconds: Some(grace), ..DeleteOptions::default() };
        let Decision::Mark(marked) = decide(&pods(), &pod("Running", "n"), &ask(20), Time::ZERO) else { panic!("not marked") };
        assert_eq!(decide(&pods(), &marked, &ask(100), Time::from_secs(1)), Decision::Keep);
        assert_eq!(decide(&pods(), &marked, &DeleteOptions::default(), Time::from_secs(1)), Decision::Keep);
        let Decision::Mark(shorter) = decide(&pods(), &marked, &ask(7), Time::from_secs(1)) else { panic!("not marked") };
        assert_eq!(shorter["metadata"]["deletionTimestamp"], "1970-01-01T00:00:07Z");
        let Decision::Mark(late) = decide(&pods(), &marked, &ask(7), Time::from_secs(10)) else { panic!("not marked") };
        assert_eq!(late["metadata"]["deletionGracePeriodSeconds"], 1);
        let Decision::Remove(gone) = decide(&pods(), &marked, &ask(0), Time::from_secs(1)) else { panic!("not removed") };
        assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0);
    }

    #[test]
    fn a_definition_waits_until_its_objects_are_gone() {
        let all = kinds::resource::builtins();
        let definitions = all.iter().find(|resource| resource.is_definitions()).unwrap();
        let object = json!({"metadata": {"name": "gadgets.x.io", "finalizers": ["a/b"]}});
        for _ in 0..2 {
            let Decision::Mark(marked) = decide(definitions, &object, &DeleteOptions::default(), Time::ZERO) else {
                panic!("not marked")
            };
            assert_eq!(marked["metadata"]["finalizers"], json!(["a/b", schemas::CLEANUP_FINALIZER]));
            assert!(schemas::condition_is_true(&marked, "Terminating"));
            let mut freed = marked.clone();
            freed["metadata"]["finalizers"] = json!([schemas::CLEANUP_FINALIZER]);
            assert!(!finished(definitions, &freed));
            // Whoever takes the finalizer away knows what they do; asking again does not bring it back.
            freed["metadata"]["finalizers"] = json!(["a/b"]);
            assert_eq!(decide(definitions, &freed, &DeleteOptions::default(), Time::ZERO), Decision::Keep);
        }
    }

    #[test]
    fn finalizers_hold_an_object() {
        let maps = kinds::resource::builtins().iter().find(|resource| resource.is_core("configmaps")).unwrap().as_ref().clone();
        let held = json!({"metadata": {"name": "a", "finalizers": ["x/y"]}});
        let Decision::Mark(marked) = decide(&maps, &held, &DeleteOptions::default(), Time::ZERO) else { panic!("not marked") };
        assert!(!finished(&maps, &marked));
        let mut free = marked.clone();
        free["metadata"]["finalizers"] = json!([]);
        assert!(finished(&maps, &free));
        let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
        let Decision::Mark(waiting) = decide(&maps, &json!({"metadata": {"name": "a"}}), &options, Time::ZERO) else {
            panic!("not marked")
        };
        assert_eq!(waiting["metadata"]["finalizers"], json!([FOREGROUND]));
    }
}
