//! lifecycle.yaml: syncs of one Service in a row, against an API that may drop fields.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::endpointslice::Endpoint;
use api::endpointslice_rules::{drop_disabled_endpoint_fields, raises_endpoint_slice_generation};
use api::write::Body;
use api::{EndpointSlice, FeatureGates, Gate, Pod, Service, Verb};
use endpoints::controller::{Answer, Effect, Input, Resource};
use endpoints::metrics::Metric;
use endpoints::plan::{plan, writes};
use endpoints::render::Writes;
use endpoints::transitions::Churn;
use endpoints::{Config, Controller, Settings};
use machine::{Machine, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

use crate::tokens::{Token, expand, node, pods, ports_text, service, token};

pub(crate) type Case = testkit::Case<Given, Vec<Expect>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Given {
    max_endpoints_per_slice: usize,
    publish_not_ready_addresses: bool,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Step {
    pods: BTreeMap<String, Vec<String>>,
    gate: Option<bool>,
    api_gate: Option<bool>,
}

impl Step {
    fn gate(&self) -> bool {
        self.gate.unwrap_or(true)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    create: usize,
    update: usize,
    delete: usize,
    transitions: BTreeMap<String, usize>,
    slices: Vec<ExpectedSlice>,
    form: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedSlice {
    name: String,
    ports: String,
    endpoints: Vec<String>,
}

/// The API server of a case: the rules of the API over a list of slices.
#[derive(Default)]
struct Store {
    slices: BTreeMap<String, Value>,
    created: usize,
    revision: u64,
}

impl Store {
    fn read(&self) -> Vec<EndpointSlice> {
        self.slices.values().map(|slice| serde_json::from_value(slice.clone()).expect("a slice")).collect()
    }

    /// Stores a body and returns the slice as answered.
    fn put(&mut self, body: &[u8], gates: &FeatureGates) -> EndpointSlice {
        let mut new: Value = serde_json::from_slice(body).expect("JSON");
        let name = match new["metadata"]["name"].as_str() {
            Some(name) => name.to_owned(),
            None => {
                self.created += 1;
                format!("c{}", self.created)
            }
        };
        let old = self.slices.get(&name);
        drop_disabled_endpoint_fields(&mut new, old, gates);
        let generation = match old {
            None => 1,
            Some(old) => {
                assert_eq!(
                    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"],
                    "an update of what was seen"
                );
                old["metadata"]["generation"].as_i64().expect("a generation")
                    + i64::from(raises_endpoint_slice_generation(&new, old))
            }
        };
        self.revision += 1;
        new["metadata"]["name"] = json!(name);
        new["metadata"]["uid"] = json!(format!("{name}-uid"));
        new["metadata"]["generation"] = json!(generation);
        new["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.slices.insert(name, new.clone());
        serde_json::from_value(new).expect("a slice")
    }
}

/// What one sync wrote.
struct Synced {
    writes: Writes,
    churn: Churn,
}

/// The controller by full recomputation, with its memory of what it sent.
#[derive(Default)]
struct Recomputing {
    sent: BTreeMap<String, (i64, Vec<Endpoint>)>,
}

impl Recomputing {
    fn sync(
        &mut self,
        settings: &Settings,
        service: &Service,
        pods: &[Pod],
        store: &mut Store,
        gates: &FeatureGates,
    ) -> Synced {
        let mut slices = store.read();
        for slice in &mut slices {
            if let Some((generation, endpoints)) = self.sent.get(&slice.metadata.uid)
                && *generation == slice.metadata.generation
            {
                slice.endpoints.clone_from(endpoints);
            }
        }
        let plan = plan(settings, service, pods, &[node()], &slices).expect("managed");
        let writes = writes(settings, service, &slices, &plan, None);
        for body in writes.creates.iter().chain(writes.updates.iter().map(|(_, body)| body)) {
            let answer = store.put(body, gates);
            let sent: EndpointSlice = serde_json::from_slice(body).expect("a slice");
            self.sent.insert(answer.metadata.uid, (answer.metadata.generation, sent.endpoints));
        }
        for (name, _) in &writes.deletes {
            store.slices.remove(name);
        }
        let mut churn = Churn::default();
        plan.churn.iter().for_each(|family| churn.add(family));
        Synced { writes, churn }
    }
}

/// The controller itself, with a batch period as long as a step.
struct Stepping {
    controller: Controller,
    now: Time,
    pods: BTreeMap<String, Pod>,
}

impl Stepping {
    const STEP: Duration = Duration::from_secs(10);

    fn new(settings: &Settings, service: &Service, store: &Store) -> Stepping {
        let config = Config { settings: *settings, batch: Stepping::STEP, ..Config::default() };
        let (controller, now) = (Controller::new(config), Time::from_secs(1_000));
        let mut stepping = Stepping { controller, now, pods: BTreeMap::new() };
        stepping.feed(Input::Node(node().into()));
        stepping.feed(Input::Service(service.clone().into()));
        store.read().into_iter().for_each(|slice| stepping.feed(Input::Slice(slice.into())));
        stepping
    }

    fn feed(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.controller.step(self.now, Some(input), &mut effects);
        assert_eq!(effects, [], "nothing is due yet");
    }

    fn sync(&mut self, pods: &[Pod], store: &mut Store, gates: &FeatureGates) -> Synced {
        let pods: BTreeMap<String, Pod> = pods.iter().map(|pod| (pod.metadata.name.clone(), pod.clone())).collect();
        for name in self.pods.keys().filter(|name| !pods.contains_key(*name)).cloned().collect::<Vec<_>>() {
            self.feed(Input::PodDeleted { namespace: "default".to_owned(), name });
        }
        pods.values().for_each(|pod| self.feed(Input::Pod(pod.clone().into())));
        self.pods = pods;
        self.now += Stepping::STEP;
        let mut synced = Synced { writes: Writes::default(), churn: Churn::default() };
        let mut effects = Vec::new();
        for resource in [Resource::Pods, Resource::Services, Resource::Nodes, Resource::Slices] {
            self.controller.step(self.now, Some(Input::ListEnded(resource)), &mut effects);
        }
        while !effects.is_empty() {
            for effect in std::mem::take(&mut effects) {
                let input = self.perform(effect, store, gates, &mut synced);
                input.into_iter().for_each(|input| self.controller.step(self.now, Some(input), &mut effects));
            }
        }
        store.read().into_iter().for_each(|slice| self.feed(Input::Slice(slice.into())));
        synced
    }

    fn perform(&mut self, effect: Effect, store: &mut Store, gates: &FeatureGates, synced: &mut Synced) -> Option<Input> {
        let write = match effect {
            Effect::Write { write, .. } => write,
            Effect::Metric(Metric::Transition { from, to, count }) => {
                synced.churn.transitions.insert((from, to), count);
                return None;
            }
            _ => return None,
        };
        let answer = match write.verb {
            Verb::Create(Body::Encoded(body)) => {
                let answer = store.put(&body, gates);
                synced.writes.creates.push(body.to_vec());
                Answer::Written(answer.metadata.into())
            }
            Verb::Update(Body::Encoded(body)) => {
                let answer = store.put(&body, gates);
                synced.writes.updates.push((write.name, body.to_vec()));
                Answer::Written(answer.metadata.into())
            }
            Verb::Delete { uid, .. } => {
                store.slices.remove(&write.name);
                synced.writes.deletes.push((write.name, uid));
                Answer::Deleted
            }
            verb => panic!("{verb:?}"),
        };
        Some(Input::Answered { id: write.id, answer })
    }
}

pub(crate) fn lifecycle(case: Case) -> Verdict {
    let given = &case.given;
    let publish = given.publish_not_ready_addresses;
    let service = service(publish, false);
    let (mut store, mut recomputing) = (Store::default(), Recomputing::default());
    let (mut store_of_steps, mut stepping) = (Store::default(), None);
    let mut gate = true;
    for (index, (step, expect)) in given.steps.iter().zip(&case.expect).enumerate() {
        if step.gate() != gate {
            // Gates are read at start-up: a new instance remembers nothing.
            gate = step.gate();
            recomputing = Recomputing::default();
            stepping = None;
        }
        let settings = Settings {
            max_endpoints_per_slice: given.max_endpoints_per_slice,
            terminating_condition: gate,
            ..Settings::default()
        };
        let api = FeatureGates::default().with(Gate::EndpointSliceTerminatingCondition, step.api_gate.unwrap_or(gate));
        let pods = pods(&step.pods);
        let synced = recomputing.sync(&settings, &service, &pods, &mut store, &api);
        check(&synced, &store, expect, publish).map_err(|why| format!("step {index}, recomputed: {why}"))?;
        let stepping = stepping.get_or_insert_with(|| Stepping::new(&settings, &service, &store_of_steps));
        let synced = stepping.sync(&pods, &mut store_of_steps, &api);
        check(&synced, &store_of_steps, expect, publish).map_err(|why| format!("step {index}, incremental: {why}"))?;
    }
    Ok(())
}

fn check(synced: &Synced, store: &Store, expect: &Expect, publish: bool) -> Verdict {
    let form = |endpoint: &Endpoint| if endpoint.conditions.serving.is_some() { "full" } else { "ready-only" };
    let slices = store.read();
    let forms: BTreeSet<String> = slices.iter().flat_map(|slice| &slice.endpoints).map(|e| form(e).to_owned()).collect();
    let ready_only = forms.contains("ready-only");
    // With `ready` alone stored, only that can be compared.
    let show = |token: &Token| {
        let ready = publish || (token.serving && !token.terminating);
        let state = if ready_only { format!("ready {ready}") } else { format!("{} {}", token.serving, token.terminating) };
        format!("{} {} {} {state}", token.pod, token.uid, token.address)
    };
    let stored = |endpoint: &Endpoint| {
        let shown = token(endpoint);
        let ready = endpoint.conditions.ready.expect("always written");
        match ready_only {
            true => format!("{} {} {} ready {ready}", shown.pod, shown.uid, shown.address),
            false => {
                assert_eq!(ready, publish || (shown.serving && !shown.terminating), "ready follows from the others");
                show(&shown)
            }
        }
    };
    let got_slices: Vec<Value> = slices
        .iter()
        .map(|slice| {
            let endpoints: Vec<String> = slice.endpoints.iter().map(stored).collect();
            json!({"name": slice.metadata.name, "ports": ports_text(&slice.ports), "endpoints": endpoints})
        })
        .collect();
    let wanted_slices: Vec<Value> = expect
        .slices
        .iter()
        .map(|slice| {
            let endpoints: Vec<String> = expand(&slice.endpoints).iter().map(show).collect();
            json!({"name": slice.name, "ports": slice.ports, "endpoints": endpoints})
        })
        .collect();
    let transitions: BTreeMap<String, usize> = synced
        .churn
        .transitions
        .iter()
        .map(|((from, to), count)| (format!("{}->{}", from.name(), to.name()), *count))
        .collect();
    let writes = &synced.writes;
    let forms = expect.form.as_ref().map(|_| forms);
    let got = json!({
        "create": writes.creates.len(), "update": writes.updates.len(), "delete": writes.deletes.len(),
        "transitions": transitions, "slices": got_slices, "form": forms,
    });
    let expected = json!({
        "create": expect.create, "update": expect.update, "delete": expect.delete,
        "transitions": expect.transitions, "slices": wanted_slices, "form": expect.form,
    });
    same(&expected, &got)
}
