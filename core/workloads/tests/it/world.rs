//! A world of objects: it stores what the controllers write, tells them of it later, and runs pods as told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use api::{FeatureGates, Timestamp, Verb, Write, WriteError, WriteFailure};
use machine::{Machine, Time};
use serde_json::{Map, Value, json};
use workloads::{Budgets, Deployments, Effect, Input, Object, ReplicaSets, Watched, WriteId};

/// Plural and name: everything is in one namespace.
pub(crate) type At = (&'static str, String);

pub(crate) const NS: &str = "ns";

/// One controller with what it has not been told yet.
struct Seat {
    machine: Box<dyn Machine<Input = Input, Effect = Effect>>,
    watched: Vec<Watched>,
    events: VecDeque<Input>,
    answers: VecDeque<Input>,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) objects: BTreeMap<At, Value>,
    revision: u64,
    serial: u64,
    seats: Vec<Seat>,
    /// Requests in the order in which they were done: verb, plural, name.
    pub(crate) log: Vec<String>,
    /// Events: reason and message.
    pub(crate) events: Vec<(String, String)>,
    /// Creations that are refused, by plural: what the server says.
    pub(crate) refuse: BTreeMap<&'static str, String>,
    /// Whether pods stay until told when they are deleted, as pods on a node do.
    pub(crate) graceful: bool,
}

impl World {
    pub(crate) fn new() -> World {
        World::with_gates(FeatureGates::default())
    }

    pub(crate) fn with_gates(gates: FeatureGates) -> World {
        let mut world = World {
            now: Time::from_secs(1_800_000_000),
            objects: BTreeMap::new(),
            revision: 0,
            serial: 0,
            seats: Vec::new(),
            log: Vec::new(),
            events: Vec::new(),
            refuse: BTreeMap::new(),
            graceful: false,
        };
        world.restart(gates);
        world
    }

    /// Starts the controllers anew: they know nothing but what they are told.
    pub(crate) fn restart(&mut self, gates: FeatureGates) {
        let seat = |machine, watched: &[Watched]| Seat {
            machine,
            watched: watched.to_vec(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
        };
        self.seats = vec![
            seat(Box::<ReplicaSets>::default(), &ReplicaSets::WATCHED),
            seat(Box::new(Deployments::new(gates)), &Deployments::WATCHED),
            seat(Box::<Budgets>::default(), &Budgets::WATCHED),
        ];
        (0..self.seats.len()).for_each(|seat| self.relist(seat));
    }

    /// Lists everything to a controller, as after a lost watch.
    pub(crate) fn relist(&mut self, seat: usize) {
        let listed: Vec<Input> = self.seats[seat].watched.iter().flat_map(|kind| self.list(*kind)).collect();
        self.seats[seat].events = listed.into();
    }

    fn list(&self, kind: Watched) -> Vec<Input> {
        let here = self.objects.iter().filter(|((plural, _), _)| watched(plural) == Some(kind));
        let applied = here.map(|((plural, _), value)| Input::Applied(read(plural, value)));
        [Input::ListStarted(kind)].into_iter().chain(applied).chain([Input::ListEnded(kind)]).collect()
    }

    pub(crate) fn controllers(&self) -> usize {
        self.seats.len()
    }

    /// Lets a controller take one thing that waits for it; returns whether there was one.
    pub(crate) fn step(&mut self, seat: usize, answers_first: bool) -> bool {
        let waiting = &mut self.seats[seat];
        let input = if answers_first {
            waiting.answers.pop_front().or_else(|| waiting.events.pop_front())
        } else {
            waiting.events.pop_front().or_else(|| waiting.answers.pop_front())
        };
        let due = waiting.machine.deadline().is_some_and(|at| at <= self.now);
        if input.is_none() && !due {
            return false;
        }
        let mut effects = Vec::new();
        waiting.machine.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Event(event) => self.events.push((event.reason.to_owned(), event.message)),
                Effect::Write(id, write) => self.perform(seat, id, &write),
            }
        }
        true
    }

    /// Lets everything happen that needs no time to pass.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if !(0..self.seats.len()).any(|seat| self.step(seat, false)) {
                return;
            }
        }
        panic!("the controllers do not come to rest; last: {:?}", &self.log[self.log.len() - 20..]);
    }

    /// Lets time pass, with everything that happens by itself.
    pub(crate) fn pass(&mut self, seconds: i64) {
        let end = Time::from_micros(self.now.as_micros() + seconds * 1_000_000);
        self.settle();
        while let Some(at) = self.seats.iter().filter_map(|seat| seat.machine.deadline()).min().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn perform(&mut self, seat: usize, id: WriteId, write: &Write) {
        let result = self.request(write);
        self.seats[seat].answers.push_back(Input::Answered(id, result));
    }

    fn request(&mut self, write: &Write) -> Result<Option<Object>, WriteFailure> {
        let at = (write.plural, write.name.clone());
        match &write.verb {
            Verb::Create(api::write::Body::Json(body)) => {
                if let Some(message) = self.refuse.get(write.plural) {
                    let terminating = message == "terminating";
                    let error = if terminating { WriteError::NamespaceTerminating } else { WriteError::Failed };
                    return Err(WriteFailure { error, message: message.clone() });
                }
                let prefix = body["metadata"]["generateName"].as_str();
                self.serial += 1;
                let name = prefix.map_or_else(|| write.name.clone(), |prefix| format!("{prefix}{:03}", self.serial));
                if self.objects.contains_key(&(write.plural, name.clone())) {
                    return Err(failure(WriteError::AlreadyExists));
                }
                self.create(write.plural, &name, body.clone());
                self.log.push(format!("create {} {name}", write.plural));
                Ok(Some(read(write.plural, &self.objects[&(write.plural, name)])))
            }
            Verb::Merge(patch) | Verb::Strategic(patch) => {
                let strategic = matches!(write.verb, Verb::Strategic(_));
                let known = self.objects.get(&at).ok_or_else(|| failure(WriteError::NotFound))?;
                for field in ["uid", "resourceVersion"] {
                    let wanted = &patch["metadata"][field];
                    if !wanted.is_null() && *wanted != known["metadata"][field] {
                        return Err(failure(WriteError::Conflict));
                    }
                }
                let mut new = known.clone();
                merge(&mut new, patch, strategic);
                if new != *known {
                    if new["spec"] != known["spec"] {
                        new["metadata"]["generation"] = json!(known["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
                    }
                    let part = if write.subresource.is_empty() { "patch" } else { write.subresource };
                    self.log.push(format!("{part} {} {}", write.plural, write.name));
                    self.put(write.plural, &write.name, new);
                }
                Ok(Some(read(write.plural, &self.objects[&at])))
            }
            Verb::Delete { uid, .. } => {
                let known = self.objects.get(&at).ok_or_else(|| failure(WriteError::NotFound))?;
                if known["metadata"]["uid"] != **uid {
                    return Err(failure(WriteError::Conflict));
                }
                self.log.push(format!("delete {} {}", write.plural, write.name));
                self.delete(write.plural, &write.name);
                Ok(None)
            }
            verb => panic!("{verb:?}"),
        }
    }

    /// Makes an object, as a user or a controller does.
    pub(crate) fn create(&mut self, plural: &'static str, name: &str, mut object: Value) {
        self.serial += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(name);
        metadata["namespace"] = json!(NS);
        metadata["uid"] = json!(format!("uid-{:05}", self.serial));
        metadata["generation"] = json!(1);
        metadata["creationTimestamp"] = json!(Timestamp(self.now).to_string());
        self.put(plural, name, object);
    }

    /// Changes an object, as a user does.
    pub(crate) fn patch(&mut self, plural: &'static str, name: &str, patch: &Value) {
        let write = Write {
            id: 0,
            group: "",
            version: "v1",
            kind: "",
            plural,
            namespace: NS.into(),
            name: name.into(),
            subresource: "",
            verb: Verb::Merge(patch.clone()),
        };
        self.request(&write).expect("a user's patch is good");
        self.log.pop();
    }

    fn put(&mut self, plural: &'static str, name: &str, mut object: Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.tell(plural, &Input::Applied(read(plural, &object)));
        self.objects.insert((plural, name.to_owned()), object);
    }

    fn tell(&mut self, plural: &str, input: &Input) {
        let kind = watched(plural).expect("a watched kind");
        for seat in self.seats.iter_mut().filter(|seat| seat.watched.contains(&kind)) {
            seat.events.push_back(input.clone());
        }
    }

    /// Deletes an object; pods stay for a while if they are graceful.
    pub(crate) fn delete(&mut self, plural: &'static str, name: &str) {
        let at = (plural, name.to_owned());
        let mut object = self.objects[&at].clone();
        if plural == "pods" && self.graceful {
            if object["metadata"].get("deletionTimestamp").is_none() {
                object["metadata"]["deletionTimestamp"] = json!(Timestamp(self.now).to_string());
                self.put(plural, name, object);
            }
            return;
        }
        self.remove(plural, name);
    }

    /// Removes an object at once.
    pub(crate) fn remove(&mut self, plural: &'static str, name: &str) {
        let object = self.objects.remove(&(plural, name.to_owned())).expect("it is there");
        self.revision += 1;
        self.tell(plural, &Input::Deleted(read(plural, &object)));
    }

    /// Removes the pods that are being deleted.
    pub(crate) fn finish_deletions(&mut self) {
        for name in self.pods(|pod| pod["metadata"].get("deletionTimestamp").is_some()) {
            self.remove("pods", &name);
        }
    }

    pub(crate) fn pods(&self, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let pods = self.objects.iter().filter(|((plural, _), value)| *plural == "pods" && wanted(value));
        pods.map(|((_, name), _)| name.clone()).collect()
    }

    /// Makes a pod run, ready or not.
    pub(crate) fn run(&mut self, name: &str, ready: bool) {
        let mut pod = self.objects[&("pods", name.to_owned())].clone();
        pod["spec"]["nodeName"] = json!("n");
        pod["status"]["phase"] = json!("Running");
        let now = Timestamp(self.now).to_string();
        let status = if ready { "True" } else { "False" };
        let stays = pod["status"]["conditions"][0]["status"] == status;
        let since = if stays { pod["status"]["conditions"][0]["lastTransitionTime"].clone() } else { json!(now) };
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": status, "lastTransitionTime": since}]);
        if pod != self.objects[&("pods", name.to_owned())] {
            self.put("pods", name, pod);
        }
    }

    /// Runs every pod for which this holds, until nothing changes any more.
    pub(crate) fn run_all(&mut self, ready: impl Fn(&Value) -> bool) {
        for _ in 0..200 {
            self.settle();
            let before = self.revision;
            for name in self.pods(|pod| pod["metadata"].get("deletionTimestamp").is_none()) {
                // What happened meanwhile may have taken it away.
                if let Some(is_ready) = self.objects.get(&("pods", name.clone())).map(&ready) {
                    self.run(&name, is_ready);
                    self.settle();
                }
            }
            self.finish_deletions();
            self.settle();
            if self.revision == before {
                return;
            }
        }
        panic!("pods come and go for ever; last: {:?}", &self.log[self.log.len() - 20..]);
    }

    pub(crate) fn get(&self, plural: &'static str, name: &str) -> &Value {
        self.objects.get(&(plural, name.to_owned())).unwrap_or_else(|| panic!("no {plural} {name}"))
    }

    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        self.objects.keys().filter(|(kind, _)| *kind == plural).map(|(_, name)| name.clone()).collect()
    }

    pub(crate) fn condition(&self, plural: &'static str, name: &str, type_: &str) -> Option<Value> {
        let conditions = self.get(plural, name)["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == type_)
    }
}

fn failure(error: WriteError) -> WriteFailure {
    WriteFailure { error, message: error.to_string() }
}

fn watched(plural: &str) -> Option<Watched> {
    match plural {
        "pods" => Some(Watched::Pods),
        "replicasets" => Some(Watched::ReplicaSets),
        "deployments" => Some(Watched::Deployments),
        "poddisruptionbudgets" => Some(Watched::Budgets),
        _ => None,
    }
}

fn read(plural: &str, value: &Value) -> Object {
    let value = value.clone();
    match plural {
        "pods" => Object::Pod(Arc::new(serde_json::from_value(value).unwrap())),
        "replicasets" => Object::ReplicaSet(Arc::new(serde_json::from_value(value).unwrap())),
        "deployments" => Object::Deployment(Arc::new(serde_json::from_value(value).unwrap())),
        _ => Object::Budget(Arc::new(serde_json::from_value(value).unwrap())),
    }
}

/// A merge patch; a strategic one merges conditions by type and owners by uid.
fn merge(object: &mut Value, patch: &Value, strategic: bool) {
    let Value::Object(members) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let target = object.as_object_mut().expect("made above");
    for (name, member) in members {
        let key = match name.as_str() {
            "conditions" if strategic => Some("type"),
            "ownerReferences" if strategic => Some("uid"),
            _ => None,
        };
        match (key, member) {
            (_, Value::Null) => drop(target.remove(name)),
            (Some(key), Value::Array(items)) => {
                let list = target.entry(name.clone()).or_insert_with(|| json!([])).as_array_mut().expect("a list");
                for item in items {
                    list.retain(|known| known[key] != item[key]);
                    if item.get("$patch").is_none() {
                        list.push(item.clone());
                    }
                }
                if list.is_empty() {
                    target.remove(name);
                }
            }
            _ => merge(target.entry(name.clone()).or_insert(Value::Null), member, strategic),
        }
    }
}

pub(crate) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub(crate) fn replica_set(replicas: i64) -> Value {
    json!({"metadata": {}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template("i:1"),
    }})
}

pub(crate) fn deployment(replicas: i64, surge: &Value, unavailable: &Value) -> Value {
    json!({"metadata": {}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template("i:1"),
        "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
    }})
}
