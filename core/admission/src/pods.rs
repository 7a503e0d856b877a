//! Moving readiness probes: from a new pod to the patch that the API server applies to it.
//!
//! Applied to its own output this changes nothing: the API server calls again when another webhook has changed the pod.

use std::collections::{BTreeMap, BTreeSet};

use api::field::{Error, Path};
use api::probe_rules::{OFFSET_FIELDS, probe_warnings};
use api::{FeatureGates, ProbeType, json};
use serde_json::{Map, Value, json};

use crate::moved::judged;
use crate::{MOVED_PROBES, PROBES, READY, annotation};

/// What is to be done with a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// The operations of a JSON patch; none: nothing changes.
    pub patch: Vec<Value>,
    /// What is allowed but will surprise.
    pub warnings: Vec<String>,
}

/// The member of a container that moves.
const FIELD: &str = ProbeType::Readiness.field();

/// Returns what moves the probes that the annotation names, or everything that is wrong with it.
pub fn mutate(pod: &Value) -> Result<Mutation, Vec<Error>> {
    let (asked, held) = match (annotation::text(pod, PROBES), annotation::text(pod, MOVED_PROBES)) {
        (Ok(asked), Ok(held)) => (asked, held),
        (asked, held) => return Err([asked.err(), held.err()].into_iter().flatten().collect()),
    };
    if asked.is_none() && held.is_none() {
        return Ok(Mutation::default());
    }
    let mut errors = Vec::new();
    let asked = read(asked, PROBES, &mut errors);
    let held = read(held, MOVED_PROBES, &mut errors);
    let requests = requests(asked, &mut errors);
    let containers = containers(pod);
    let mut moved = BTreeMap::new();
    let names: BTreeSet<&String> = requests.keys().chain(held.keys()).collect();
    for name in names {
        match judge(name, containers.get(name.as_str()), requests.get(name), held.get(name)) {
            Ok(probe) => drop(moved.insert(name.as_str(), probe)),
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let places: Vec<(&Place<'_>, &Value)> = moved.iter().map(|(name, probe)| (&containers[name], probe)).collect();
    let warnings = warnings(pod, &places);
    let patch =
        patch(pod, &places, &Value::Object(moved.iter().map(|(name, probe)| ((*name).to_owned(), probe.clone())).collect()));
    Ok(Mutation { patch, warnings })
}

/// Reads an annotation, or notes what is wrong with it and goes on with nothing.
fn read(text: Option<&str>, key: &str, errors: &mut Vec<Error>) -> Map<String, Value> {
    let Some(text) = text else { return Map::new() };
    annotation::object(text, &annotation::path(key)).unwrap_or_else(|found| {
        errors.extend(found);
        Map::new()
    })
}

/// A container that may have a readiness probe.
struct Place<'a> {
    list: &'static str,
    index: usize,
    container: &'a Value,
}

impl Place<'_> {
    fn path(&self) -> Path {
        Path::new("spec").child(self.list).index(self.index).child(FIELD)
    }

    fn pointer(&self) -> String {
        format!("/spec/{}/{}/{FIELD}", self.list, self.index)
    }

    fn probe(&self) -> Option<&Value> {
        json::get(self.container, FIELD)
    }

    fn is_probed(&self) -> bool {
        self.list == "containers" || json::text(self.container, &["restartPolicy"]) == "Always"
    }
}

/// Returns the containers of a pod by name; of two with one name, which the API server refuses, the first.
fn containers(pod: &Value) -> BTreeMap<&str, Place<'_>> {
    let mut found = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in json::items(pod, &["spec", list]).iter().enumerate() {
            found.entry(json::text(container, &["name"])).or_insert(Place { list, index, container });
        }
    }
    found
}

/// Returns the millisecond fields that are asked for, by container.
fn requests(asked: Map<String, Value>, errors: &mut Vec<Error>) -> BTreeMap<String, Map<String, Value>> {
    let path = annotation::path(PROBES);
    let mut requests = BTreeMap::new();
    for (container, value) in asked {
        let path = path.key(&container);
        match request(&value, &path) {
            Ok(fields) => drop(requests.insert(container, fields)),
            Err(found) => errors.extend(found),
        }
    }
    requests
}

fn request(value: &Value, path: &Path) -> Result<Map<String, Value>, Vec<Error>> {
    let Some(probes) = value.as_object() else {
        return Err(vec![Error::type_invalid(path, value, format!("must be an object such as {{\"{FIELD}\": {{}}}}"))]);
    };
    let mut errors = Vec::new();
    let mut fields = None;
    for (key, probe) in probes.iter().filter(|(_, probe)| !probe.is_null()) {
        let path = path.child(key);
        match (key.as_str(), probe) {
            (FIELD, Value::Object(given)) => fields = Some(offsets(given, &path, &mut errors)),
            (FIELD, other) => errors.push(Error::type_invalid(&path, other, "must be an object of millisecond fields")),
            ("livenessProbe" | "startupProbe", _) => {
                let why = "stays with the kubelet: it acts on the container, which only the kubelet can restart";
                errors.push(Error::forbidden(&path, why));
            }
            (other, _) => errors.push(Error::not_supported(&path, other, &[FIELD])),
        }
    }
    match fields {
        Some(fields) if errors.is_empty() => Ok(fields),
        None if errors.is_empty() => {
            Err(vec![Error::required(&path.child(FIELD), "names the probe to move; {} keeps its times")])
        }
        _ => Err(errors),
    }
}

/// Reads the millisecond fields; null is absent. Their values are judged together with the probe.
fn offsets(given: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) -> Map<String, Value> {
    let mut fields = Map::new();
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let at = path.child(key);
        if !OFFSET_FIELDS.contains(&key.as_str()) {
            errors.push(Error::not_supported(&at, key.as_str(), &OFFSET_FIELDS));
        } else if value.as_i64().is_none_or(|value| i32::try_from(value).is_err()) {
            errors.push(Error::type_invalid(&at, value, "must be a whole number of milliseconds"));
        } else {
            fields.insert(key.clone(), value.clone());
        }
    }
    fields
}

/// Returns the moved probe of one container: what it has, or what was moved before, with the fields that are asked for.
fn judge(
    name: &str,
    place: Option<&Place<'_>>,
    request: Option<&Map<String, Value>>,
    held: Option<&Value>,
) -> Result<Value, Vec<Error>> {
    let key = if request.is_some() { PROBES } else { MOVED_PROBES };
    let named = annotation::path(key).key(name);
    let Some(place) = place else { return Err(vec![Error::not_found(&named, name)]) };
    let path = if request.is_some() { named.child(FIELD) } else { named.clone() };
    if !place.is_probed() {
        let why = format!("{} may not be set for init containers without restartPolicy=Always", place.path());
        return Err(vec![Error::forbidden(&path, why)]);
    }
    let mut probe = match (place.probe(), held, request) {
        (Some(_), Some(_), None) => {
            let why = format!("{} is still there; name the container in {PROBES} to move it", place.path());
            return Err(vec![Error::forbidden(&path, why)]);
        }
        (Some(own), _, Some(_)) => own.clone(),
        (_, Some(held), _) => held.clone(),
        (_, None, _) => return Err(vec![Error::required(&path, format!("there is no {} to move", place.path()))]),
    };
    if let (Some(members), Some(request)) = (probe.as_object_mut(), request) {
        members.extend(request.clone());
    }
    // What is wrong with a field that is not in this annotation is found where it stands.
    let explain = |mut error: Error| {
        let field = error.path.rsplit('.').next().unwrap_or_default();
        if request.is_some() && place.probe().is_some() && !OFFSET_FIELDS.contains(&field) {
            let gap = if error.detail.is_empty() { "" } else { " " };
            error.detail = format!("{}{gap}(in {})", error.detail, place.path());
        }
        error
    };
    judged(probe, &path).map_err(|errors| errors.into_iter().map(explain).collect())
}

/// Returns the warnings that the API server would give for the probes if it knew them.
fn warnings(pod: &Value, places: &[(&Place<'_>, &Value)]) -> Vec<String> {
    let mut copy = json!({"spec": {}});
    for list in ["containers", "initContainers"] {
        copy["spec"][list] = json::items(pod, &["spec", list]).into();
    }
    for (place, probe) in places {
        copy["spec"][place.list][place.index][FIELD] = (*probe).clone();
    }
    let paths: Vec<String> = places.iter().map(|(place, _)| place.path().to_string()).collect();
    let mut warnings = probe_warnings("Pod", &copy, &FeatureGates::default());
    warnings.retain(|warning| paths.iter().any(|path| warning.starts_with(path.as_str())));
    warnings
}

/// Returns the difference between the pod and what it must be.
fn patch(pod: &Value, places: &[(&Place<'_>, &Value)], moved: &Value) -> Vec<Value> {
    let mut patch = Vec::new();
    if places.is_empty() {
        return patch;
    }
    let text = moved.to_string();
    if json::text(pod, &["metadata", "annotations", MOVED_PROBES]) != text {
        let pointer = format!("/metadata/annotations/{}", MOVED_PROBES.replace('/', "~1"));
        patch.push(json!({"op": "add", "path": pointer, "value": text}));
    }
    for (place, _) in places.iter().filter(|(place, _)| place.probe().is_some()) {
        patch.push(json!({"op": "remove", "path": place.pointer()}));
    }
    let gate = json!({"conditionType": READY});
    match pod.pointer("/spec/readinessGates").and_then(Value::as_array) {
        Some(gates) if gates.iter().any(|gate| json::text(gate, &["conditionType"]) == READY) => {}
        Some(_) => patch.push(json!({"op": "add", "path": "/spec/readinessGates/-", "value": gate})),
        None => patch.push(json!({"op": "add", "path": "/spec/readinessGates", "value": [gate]})),
    }
    patch
}
