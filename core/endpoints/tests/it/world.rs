//! A small world: an API that stores slices by its rules, and a controller that is watched while it works.
//!
//! The world keeps the controller's **view** of the slices on its own account, and compares every write with what a full
//! recomputation from that view wants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use api::endpointslice::{Endpoint, TRIGGER_TIME_ANNOTATION};
use api::endpointslice_rules::{drop_disabled_endpoint_fields, raises_endpoint_slice_generation};
use api::write::Body;
use api::{EndpointSlice, FeatureGates, Gate, Node, Pod, Service};
use api::{Verb, Write, WriteError, WriteFailure};
use endpoints::controller::{Answer, Effect, Input, Resource};
use endpoints::metrics::Metric;
use endpoints::plan::{plan, writes};
use endpoints::render::Writes;
use endpoints::{Config, Controller};
use machine::{Machine, Time};
use serde_json::{Value, json};

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused.
    Refused,
    /// It is done, but the answer is lost.
    Lost,
    /// The namespace is being terminated: creates are refused.
    NamespaceTerminating,
}

/// The world.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) controller: Controller,
    pub(crate) config: Config,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) slices: BTreeMap<String, Value>,
    /// What the controller knows of the slices: events that were delivered, and answers.
    pub(crate) view: BTreeMap<String, EndpointSlice>,
    /// What was sent, by uid, with the generation that answered.
    sent: BTreeMap<String, (i64, Vec<Endpoint>)>,
    /// Slices that the controller knows to be gone, though no event said so yet.
    dead: BTreeMap<String, String>,
    /// Events of slices that were not delivered yet.
    pub(crate) events: VecDeque<(bool, EndpointSlice)>,
    /// Whether events of slices wait until they are asked for.
    pub(crate) late: bool,
    /// Whether the API drops `serving` and `terminating`.
    pub(crate) api_gate: bool,
    /// What happens to the next writes.
    pub(crate) faults: VecDeque<Fault>,
    /// Everything that was measured and said.
    pub(crate) effects: Vec<Effect>,
    /// Writes since the last look, by operation.
    pub(crate) written: (usize, usize, usize),
    revision: u64,
    made: u64,
    /// What a full recomputation wanted when each Service was last looked at.
    expected: BTreeMap<String, Writes>,
    got: BTreeMap<String, Writes>,
    /// Writes without answer, and their Services.
    sent_for: BTreeMap<u64, String>,
}

impl World {
    pub(crate) fn new(config: Config) -> World {
        World {
            now: Time::from_secs(1_000_000),
            controller: Controller::new(config),
            config,
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            nodes: BTreeMap::new(),
            slices: BTreeMap::new(),
            view: BTreeMap::new(),
            sent: BTreeMap::new(),
            dead: BTreeMap::new(),
            events: VecDeque::new(),
            late: false,
            api_gate: true,
            faults: VecDeque::new(),
            effects: Vec::new(),
            written: (0, 0, 0),
            revision: 0,
            made: 0,
            expected: BTreeMap::new(),
            got: BTreeMap::new(),
            sent_for: BTreeMap::new(),
        }
    }

    /// Ends the first lists: from here on the controller acts.
    pub(crate) fn start(&mut self) {
        for resource in [Resource::Pods, Resource::Services, Resource::Nodes, Resource::Slices] {
            self.feed(Input::ListStarted(resource));
            self.feed_all(resource);
            self.feed(Input::ListEnded(resource));
        }
        self.settle();
    }

    /// Starts another instance: it knows nothing but what it is told.
    pub(crate) fn restart(&mut self, config: Config) {
        self.config = config;
        self.controller = Controller::new(config);
        self.sent.clear();
        self.dead.clear();
        self.events.clear();
        self.view.clear();
        self.start();
    }

    /// Lists a kind again, as a watch does that was interrupted.
    pub(crate) fn relist(&mut self, resource: Resource) {
        self.feed(Input::ListStarted(resource));
        if resource == Resource::Slices {
            self.events.clear();
        }
        // A list is of one moment: what goes while it is read is still named, and its event is still to come.
        let listed: BTreeSet<String> = self.slices.keys().cloned().collect();
        self.feed_all(resource);
        if resource == Resource::Slices {
            self.view.retain(|name, _| listed.contains(name) || self.slices.contains_key(name));
            self.dead.clear();
        }
        self.feed(Input::ListEnded(resource));
        self.settle();
    }

    fn feed_all(&mut self, resource: Resource) {
        match resource {
            Resource::Pods => self.pods.clone().into_values().for_each(|pod| self.feed(Input::Pod(pod.into()))),
            Resource::Services => self.services.clone().into_values().for_each(|it| self.feed(Input::Service(it.into()))),
            Resource::Nodes => self.nodes.clone().into_values().for_each(|node| self.feed(Input::Node(node.into()))),
            Resource::Slices => {
                for slice in self.stored() {
                    self.deliver(true, slice);
                }
            }
        }
    }

    pub(crate) fn stored(&self) -> Vec<EndpointSlice> {
        self.slices.values().map(read).collect()
    }

    pub(crate) fn put_pod(&mut self, pod: Value) {
        let mut pod: Pod = serde_json::from_value(pod).expect("a Pod");
        pod.metadata.resource_version = self.next_revision();
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.feed(Input::Pod(pod.into()));
        self.settle();
    }

    pub(crate) fn delete_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.feed(Input::PodDeleted { namespace: pod.metadata.namespace, name: name.to_owned() });
            self.settle();
        }
    }

    pub(crate) fn put_service(&mut self, service: Value) {
        let service: Service = serde_json::from_value(service).expect("a Service");
        let old = self.services.insert(service.metadata.name.clone(), service.clone());
        let managed = |service: &Service| endpoints::service::managed(service).then(|| service.metadata.uid.clone());
        if old.is_some_and(|old| managed(&old) != managed(&service)) {
            self.dead.retain(|_, of| *of != service.metadata.name);
        }
        self.feed(Input::Service(service.into()));
        self.settle();
    }

    pub(crate) fn delete_service(&mut self, name: &str) {
        if let Some(service) = self.services.remove(name) {
            self.dead.retain(|_, of| *of != name);
            self.feed(Input::ServiceDeleted { namespace: service.metadata.namespace, name: name.to_owned() });
            self.settle();
        }
    }

    pub(crate) fn put_node(&mut self, name: &str, zone: Option<&str>) {
        let labels = zone.map(|zone| json!({api::node::ZONE_LABEL: zone})).unwrap_or(json!({}));
        let node: Node = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).expect("a Node");
        self.nodes.insert(name.to_owned(), node.clone());
        self.feed(Input::Node(node.into()));
        self.settle();
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.feed(Input::NodeDeleted { name: name.to_owned() });
            self.settle();
        }
    }

    /// Lets somebody else write a slice; `None` deletes it.
    pub(crate) fn meddle(&mut self, name: &str, slice: Option<Value>) {
        match slice {
            None => self.remove(name),
            Some(mut slice) => {
                slice["metadata"]["name"] = json!(name);
                self.store(slice);
            }
        }
        if !self.late {
            self.deliver_events();
        }
        self.settle();
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(deadline) = self.controller.deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.step(None);
            self.settle();
        }
        self.now = until;
        self.settle();
    }

    /// Delivers the events of slices that are waiting.
    pub(crate) fn deliver_events(&mut self) {
        while let Some((applied, slice)) = self.events.pop_front() {
            self.deliver(applied, slice);
        }
    }

    fn deliver(&mut self, applied: bool, slice: EndpointSlice) {
        let name = slice.metadata.name.clone();
        let known = self.view.get(&name);
        // Each Service knows of its own slices which are gone: one that was given to another in the meantime is news to that one.
        let dead = self.dead.get(&slice.metadata.uid).is_some_and(|of| of == slice.service_name());
        let older = known.is_some_and(|known| known.metadata.uid == slice.metadata.uid && revision(known) > revision(&slice));
        if !applied {
            self.dead.remove(&slice.metadata.uid);
        }
        if applied && !older && !dead {
            self.view.insert(name, slice.clone());
        } else if !applied && known.is_some_and(|known| known.metadata.uid == slice.metadata.uid) {
            self.view.remove(&name);
        }
        self.feed(if applied { Input::Slice(slice.into()) } else { Input::SliceDeleted(slice.into()) });
    }

    pub(crate) fn feed(&mut self, input: Input) {
        self.step(Some(input));
    }

    /// Runs one step of the controller; what full recomputation wants at this moment is noted first.
    fn step(&mut self, input: Option<Input>) {
        for name in self.services.keys() {
            if !self.got.contains_key(name) {
                self.expected.insert(name.clone(), self.recomputed(name));
            }
        }
        let mut answered = match &input {
            Some(Input::Answered { id, .. }) => Some(self.sent_for.remove(id).expect("it was sent")),
            _ => None,
        };
        let mut effects = Vec::new();
        self.controller.step(self.now, input, &mut effects);
        let mut writes = Vec::new();
        for effect in effects {
            match effect {
                Effect::Write { service, write } => {
                    self.note(&service.name, &write);
                    writes.push(write);
                }
                other => {
                    // The first sync that ends in the step of an answer is the one that was answered.
                    if matches!(other, Effect::Metric(Metric::Sync { duration: Some(_), .. }))
                        && let Some(service) = answered.take()
                    {
                        self.compare(&service);
                    }
                    self.effects.push(other);
                }
            }
        }
        for write in writes {
            self.perform(write);
        }
    }

    fn note(&mut self, service: &str, write: &Write) {
        self.sent_for.insert(write.id, service.to_owned());
        let got = self.got.entry(service.to_owned()).or_default();
        match &write.verb {
            Verb::Create(Body::Encoded(body)) => got.creates.push(body.to_vec()),
            Verb::Update(Body::Encoded(body)) => got.updates.push((write.name.clone(), body.to_vec())),
            Verb::Delete { uid, .. } => got.deletes.push((write.name.clone(), uid.clone())),
            verb => panic!("{verb:?}"),
        }
    }

    /// Compares a sync that is over with what full recomputation wanted when it began.
    fn compare(&mut self, service: &str) {
        let (got, expected) = (self.got.remove(service).unwrap_or_default(), self.expected.remove(service).unwrap_or_default());
        let (got, expected) = (shown(&got), shown(&expected));
        assert!(is_begin(&got, &expected), "{service}: expected\n{expected:#}\ngot\n{got:#}");
        if self.services.contains_key(service) {
            self.expected.insert(service.to_owned(), self.recomputed(service));
        }
    }

    /// Returns what the controller's view of a Service's slices wants, by full recomputation.
    pub(crate) fn recomputed(&self, service: &str) -> Writes {
        let (service, settings) = (&self.services[service], &self.config.settings);
        let pods: Vec<Pod> = self.pods.values().cloned().collect();
        let nodes: Vec<Node> = self.nodes.values().cloned().collect();
        let mut slices: Vec<EndpointSlice> = self.view.values().cloned().collect();
        for slice in &mut slices {
            if let Some((generation, endpoints)) = self.sent.get(&slice.metadata.uid)
                && *generation == slice.metadata.generation
            {
                slice.endpoints.clone_from(endpoints);
            }
        }
        match plan(settings, service, &pods, &nodes, &slices) {
            Some(plan) => writes(settings, service, &slices, &plan, None),
            None => Writes::default(),
        }
    }

    fn perform(&mut self, write: Write) {
        let fault = self.faults.pop_front();
        let answer = match (fault, &write.verb) {
            (Some(Fault::Refused), _) => {
                Answer::Failed(WriteFailure { error: WriteError::Failed, message: "refused".to_owned() })
            }
            (Some(Fault::NamespaceTerminating), Verb::Create(_)) => failed(WriteError::NamespaceTerminating),
            (fault, _) => {
                let answer = self.execute(&write);
                if fault == Some(Fault::Lost) { failed(WriteError::Failed) } else { answer }
            }
        };
        if let Answer::Written(meta) = &answer {
            let slice = read(&self.slices[&meta.name]);
            let sent: EndpointSlice = serde_json::from_slice(body(&write)).expect("a slice");
            self.sent.insert(meta.uid.clone(), (meta.generation, sent.endpoints));
            self.view.insert(meta.name.clone(), slice);
        }
        let error = match &answer {
            Answer::Failed(failure) => Some(failure.error),
            _ => None,
        };
        let gone = match &write.verb {
            Verb::Delete { .. } => matches!(error, None | Some(WriteError::NotFound | WriteError::Conflict)),
            _ => error == Some(WriteError::NotFound),
        };
        if let Some(slice) = self.view.get(&write.name).filter(|_| gone).cloned() {
            self.view.remove(&write.name);
            self.dead.insert(slice.metadata.uid, self.sent_for[&write.id].clone());
        }
        if !self.late {
            // The watch is quicker than the answer.
            self.deliver_events();
        }
        self.feed(Input::Answered { id: write.id, answer });
    }

    fn execute(&mut self, write: &Write) -> Answer {
        let name = &write.name;
        match &write.verb {
            Verb::Create(_) => {
                self.made += 1;
                self.written.0 += 1;
                let mut slice: Value = serde_json::from_slice(body(write)).expect("JSON");
                slice["metadata"]["name"] = json!(format!("web-{:04}", self.made));
                Answer::Written(self.store(slice).metadata.into())
            }
            Verb::Update(_) => {
                let slice: Value = serde_json::from_slice(body(write)).expect("JSON");
                let Some(stored) = self.slices.get(name) else { return failed(WriteError::NotFound) };
                for key in ["uid", "resourceVersion"] {
                    if stored["metadata"][key] != slice["metadata"][key] {
                        return failed(WriteError::Conflict);
                    }
                }
                self.written.1 += 1;
                Answer::Written(self.store(slice).metadata.into())
            }
            Verb::Delete { uid, .. } => match self.slices.get(name) {
                None => failed(WriteError::NotFound),
                Some(stored) if stored["metadata"]["uid"] != json!(uid) => failed(WriteError::Conflict),
                Some(_) => {
                    self.written.2 += 1;
                    self.remove(name);
                    Answer::Deleted
                }
            },
            verb => panic!("{verb:?}"),
        }
    }

    fn next_revision(&mut self) -> String {
        self.revision += 1;
        self.revision.to_string()
    }

    fn store(&mut self, mut slice: Value) -> EndpointSlice {
        let gates = FeatureGates::default().with(Gate::EndpointSliceTerminatingCondition, self.api_gate);
        let name = slice["metadata"]["name"].as_str().expect("a name").to_owned();
        let old = self.slices.get(&name);
        drop_disabled_endpoint_fields(&mut slice, old, &gates);
        let generation = match old {
            None => 1,
            Some(old) => {
                old["metadata"]["generation"].as_i64().expect("a generation")
                    + i64::from(raises_endpoint_slice_generation(&slice, old))
            }
        };
        let uid = old.map_or_else(|| json!(format!("{name}-{}", self.revision)), |old| old["metadata"]["uid"].clone());
        slice["metadata"]["uid"] = uid;
        slice["metadata"]["namespace"] = json!("default");
        slice["metadata"]["generation"] = json!(generation);
        slice["metadata"]["resourceVersion"] = json!(self.next_revision());
        self.slices.insert(name, slice.clone());
        let slice = read(&slice);
        self.events.push_back((true, slice.clone()));
        slice
    }

    fn remove(&mut self, name: &str) {
        if let Some(slice) = self.slices.remove(name) {
            self.revision += 1;
            self.events.push_back((false, read(&slice)));
        }
    }

    /// Every sync that began is over: writes are answered at once.
    fn settle(&mut self) {
        assert!(self.sent_for.is_empty(), "answers are missing: {:?}", self.sent_for);
        assert!(self.got.is_empty(), "syncs without an end: {:?}", self.got.keys());
    }

    /// Returns the events that were written, and forgets them.
    pub(crate) fn events(&mut self) -> Vec<(&'static str, String)> {
        let events = self.effects.iter().filter_map(|effect| match effect {
            Effect::Event(event) => Some((event.reason, event.message.clone())),
            _ => None,
        });
        let events = events.collect();
        self.effects.retain(|effect| !matches!(effect, Effect::Event(_)));
        events
    }

    /// Returns the measurements, and forgets them.
    pub(crate) fn metrics(&mut self) -> Vec<Metric> {
        let (metrics, rest) = std::mem::take(&mut self.effects).into_iter().partition(|e| matches!(e, Effect::Metric(_)));
        self.effects = rest;
        let metric = |effect: Effect| match effect {
            Effect::Metric(metric) => metric,
            other => panic!("{other:?}"),
        };
        Vec::<Effect>::into_iter(metrics).map(metric).collect()
    }

    /// Returns how many creates, updates and deletes were done since the last call.
    pub(crate) fn writes_done(&mut self) -> (usize, usize, usize) {
        std::mem::take(&mut self.written)
    }
}

fn revision(slice: &EndpointSlice) -> u64 {
    slice.metadata.resource_version.parse().expect("a number")
}

fn read(slice: &Value) -> EndpointSlice {
    serde_json::from_value(slice.clone()).expect("a slice")
}

/// Returns writes as JSON, without the trigger time.
fn shown(writes: &Writes) -> Value {
    let body = |bytes: &Vec<u8>| {
        let mut body: Value = serde_json::from_slice(bytes).expect("JSON");
        if let Some(annotations) = body["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(TRIGGER_TIME_ANNOTATION);
            if annotations.is_empty() {
                body["metadata"].as_object_mut().expect("an object").remove("annotations");
            }
        }
        body
    };
    json!({
        "creates": writes.creates.iter().map(body).collect::<Vec<_>>(),
        "updates": writes.updates.iter().map(|(name, bytes)| json!([name, body(bytes)])).collect::<Vec<_>>(),
        "deletes": writes.deletes,
    })
}

/// A sync that failed stops before its deletes, or after its creates: then less is written, in the same order.
fn is_begin(got: &Value, expected: &Value) -> bool {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let same = |key: &str| list(got, key) == list(expected, key);
    let none = |key: &str| list(got, key).is_empty();
    same("creates") && ((same("updates") && (same("deletes") || none("deletes"))) || (none("updates") && none("deletes")))
}

fn failed(error: WriteError) -> Answer {
    Answer::Failed(WriteFailure { error, message: error.to_string() })
}

/// Returns the text of the slice in a write.
fn body(write: &Write) -> &[u8] {
    match &write.verb {
        Verb::Create(Body::Encoded(body)) | Verb::Update(Body::Encoded(body)) => body,
        verb => panic!("{verb:?}"),
    }
}
