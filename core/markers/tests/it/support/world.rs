//! The controller and its API server on a virtual clock; every message takes its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use machine::{Machine, Rng, Time};
use markers::agent::{self, ContainerNews, Finished, Launch, Runtime};
use markers::controller::{Effect, Input, Object, Target, Watched};
use markers::{Agent, Controller, plan};
use probe::{NodePolicy, Outcome};
use serde_json::Value;

use super::server::{Event, Server};

/// How long an attempt takes.
const ATTEMPT: Duration = Duration::from_millis(5);

/// Something under way.
enum Message {
    ToController(Box<Input>),
    Request(Target, Box<api::Write>),
    ToAgent(String, Box<agent::Input>),
    AgentRequest(String, Box<api::Write>),
    AttemptEnds(String, Box<(Launch, Time)>),
}

/// What attempts of a probe return.
#[derive(Clone)]
pub(crate) struct Script {
    /// `<namespace>/<pod or *>/<marker>#<probe>`.
    pub(crate) pattern: String,
    pub(crate) outcome: Outcome,
    /// `$ATTEMPT` in it becomes the number of the attempt.
    pub(crate) message: String,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) server: Server,
    pub(crate) controller: Controller,
    pub(crate) events: Vec<api::Event>,
    /// Requests that the network loses, in percent.
    pub(crate) lossy: u64,
    /// Every request, with the instant at which it was sent.
    pub(crate) log: Vec<(Time, api::Write)>,
    /// The agents of nodes, if the world has any.
    pub(crate) agents: BTreeMap<String, Agent>,
    /// Whether a new node gets an agent.
    pub(crate) with_agents: bool,
    /// The last script that fits counts.
    pub(crate) scripts: Vec<Script>,
    pub(crate) attempts: u64,
    containers: u64,
    queue: BTreeMap<(Time, u64), Message>,
    sequence: u64,
    rng: Rng,
    /// Watch events come in order.
    last_watch: Time,
}

impl World {
    /// Returns a world whose controller has been told that there is nothing.
    pub(crate) fn new(seed: u64) -> World {
        let mut world = World::unlisted(seed);
        world.list_all();
        world
    }

    /// Returns a world whose controller has not been told anything.
    pub(crate) fn unlisted(seed: u64) -> World {
        World {
            now: Time::from_secs(1_800_000_000),
            server: Server::default(),
            controller: Controller::new(),
            events: Vec::new(),
            lossy: 0,
            log: Vec::new(),
            agents: BTreeMap::new(),
            with_agents: false,
            scripts: Vec::new(),
            attempts: 0,
            containers: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            rng: Rng::new(seed),
            last_watch: Time::ZERO,
        }
    }

    /// Tells the controller everything, as after a restart of either side.
    pub(crate) fn list_all(&mut self) {
        for plural in ["podprobemarkers", "pods", "nodes", "nodepodprobes"] {
            for object in self.server.list(plural) {
                self.step(typed(plural, object).map(Input::Applied));
            }
        }
        Watched::ALL.into_iter().for_each(|kind| self.step(Some(Input::Synced(kind))));
    }

    pub(crate) fn put(&mut self, plural: &'static str, object: Value) {
        self.server.put(plural, object, self.now);
        self.tell();
    }

    pub(crate) fn delete(&mut self, plural: &'static str, namespace: &str, name: &str) {
        self.server.delete(plural, namespace, name, self.now);
        self.tell();
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        let mut idle = 0;
        loop {
            let message_at = self.queue.keys().next().map(|(at, _)| *at);
            let agents = self.agents.values().filter_map(Machine::deadline);
            let next = agents.chain(message_at).chain(self.controller.deadline()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            idle = if next > self.now { 0 } else { idle + 1 };
            assert!(idle < 100_000, "somebody has something to do for ever");
            self.now = next.max(self.now);
            if message_at.is_some_and(|at| at <= self.now) {
                let (_, message) = self.queue.pop_first().expect("it has an instant");
                self.deliver(message);
            } else if self.controller.deadline().is_some_and(|at| at <= self.now) {
                self.step(None);
            } else {
                let due = |agent: &Agent| agent.deadline().is_some_and(|at| at <= self.now);
                let node = self.agents.iter().find(|(_, agent)| due(agent)).map(|(node, _)| node.clone());
                self.step_agent(&node.expect("somebody has a deadline"), None);
            }
        }
        self.now = end;
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::ToController(input) => self.step(Some(*input)),
            Message::ToAgent(node, input) => self.step_agent(&node, Some(*input)),
            Message::AgentRequest(node, write) => {
                let lost = self.rng.below(100) < self.lossy;
                let result = if lost { Err(api::WriteError::Failed) } else { self.server.write(&write, self.now).map(drop) };
                self.tell();
                let delay = self.delay();
                self.send(delay, Message::ToAgent(node, Box::new(agent::Input::Written(result))));
            }
            Message::AttemptEnds(node, attempt) => {
                let (launch, began) = *attempt;
                let end = self.scripted(&launch, began);
                self.step_agent(&node, Some(agent::Input::Finished(end)));
            }
            Message::Request(target, write) => {
                let result = if self.rng.below(100) < self.lossy {
                    Err(api::WriteError::Failed)
                } else {
                    let answer = self.server.write(&write, self.now);
                    answer.map(|object| object.and_then(|object| typed(write.plural, object)))
                };
                self.tell();
                let delay = self.delay();
                self.send(delay, Message::ToController(Box::new(Input::Written(target, result))));
            }
        }
    }

    fn step(&mut self, input: Option<Input>) {
        let mut effects = Vec::new();
        self.controller.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Write { target, write, .. } => {
                    self.log.push((self.now, write.clone()));
                    let delay = self.delay();
                    self.send(delay, Message::Request(target, Box::new(write)));
                }
                Effect::Event(event) => self.events.push(event),
            }
        }
    }

    fn step_agent(&mut self, node: &str, input: Option<agent::Input>) {
        let Some(agent) = self.agents.get_mut(node) else { return };
        let mut effects = Vec::new();
        agent.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                agent::Effect::Launch(launch) => {
                    self.attempts += 1;
                    let attempt = Box::new((*launch, self.now));
                    self.send(ATTEMPT, Message::AttemptEnds(node.to_owned(), attempt));
                }
                agent::Effect::Write(status) => {
                    let (write, delay) = (agent::status_write(node, &status), self.delay());
                    self.log.push((self.now, write.clone()));
                    self.send(delay, Message::AgentRequest(node.to_owned(), Box::new(write)));
                }
                agent::Effect::Event(event) => self.events.push(event),
                _ => {}
            }
        }
    }

    fn scripted(&self, launch: &Launch, began: Time) -> Finished {
        let fits = |script: &&Script| {
            ["*", launch.pod.as_str()]
                .iter()
                .any(|pod| script.pattern == format!("{}/{pod}/{}", launch.namespace, launch.worker.entry))
        };
        let script = self.scripts.iter().rfind(fits);
        Finished {
            worker: launch.worker.clone(),
            container_id: launch.container_id.clone(),
            began,
            outcome: script.map_or(Outcome::Success, |script| script.outcome),
            message: script.map_or(String::new(), |script| script.message.replace("$ATTEMPT", &self.attempts.to_string())),
        }
    }

    /// The runtime starts a container after a while; returns its id and the instant.
    pub(crate) fn start_container(&mut self, pod: &Value, name: &str, started: bool, after: Duration) -> (String, Time) {
        self.containers += 1;
        let (id, at) = (format!("{name}-{}", self.containers), self.now + after);
        self.container_news(pod, name, &id, Runtime::Running, Some(at), started, at);
        (id, at)
    }

    /// The runtime says something about a container.
    #[expect(clippy::too_many_arguments, reason = "the members of the news")]
    pub(crate) fn container_news(
        &mut self,
        pod: &Value,
        name: &str,
        id: &str,
        runtime: Runtime,
        started_at: Option<Time>,
        started: bool,
        at: Time,
    ) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let news = ContainerNews { uid, name: name.to_owned(), id: id.to_owned(), runtime, started_at, started };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        self.send_at(at, Message::ToAgent(node, Box::new(agent::Input::Container(news))));
    }

    /// Tells every agent what its object is, as after a restart of either side.
    pub(crate) fn resync_agents(&mut self) {
        for node in self.agents.keys().cloned().collect::<Vec<_>>() {
            let object = self.server.get("nodepodprobes", "", &node).cloned();
            let read = |object| serde_json::from_value(object).expect("the view reads what the server keeps");
            let input = object.map_or(agent::Input::NoSpec, |object| agent::Input::Spec(Box::new(read(object))));
            self.send_at(self.now, Message::ToAgent(node, Box::new(input)));
        }
    }

    /// Tells the agent of a node what its object is, and gives a new node its agent.
    fn tell_agent(&mut self, event: &Event, at: Time) {
        let (plural, object, gone) = match event {
            Event::Applied(plural, object) => (*plural, object, false),
            Event::Deleted(plural, object) => (*plural, object, true),
        };
        let node = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match (plural, gone) {
            ("nodes", false) if self.with_agents => {
                let rng = self.rng.fork();
                self.agents.entry(node).or_insert_with(|| Agent::new(NodePolicy::default(), rng));
            }
            ("nodes", true) => drop(self.agents.remove(&node)),
            ("nodepodprobes", _) if self.agents.contains_key(&node) => {
                let read = || serde_json::from_value(object.clone()).expect("the view reads what the server keeps");
                let input = if gone { agent::Input::NoSpec } else { agent::Input::Spec(Box::new(read())) };
                self.send_at(at, Message::ToAgent(node, Box::new(input)));
            }
            ("pods", true) => {
                let node = object["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                self.send_at(at, Message::ToAgent(node, Box::new(agent::Input::PodGone { uid })));
            }
            _ => {}
        }
    }

    /// Tells watchers what has happened since.
    fn tell(&mut self) {
        for event in std::mem::take(&mut self.server.events) {
            let at = (self.now + self.delay() + Duration::from_millis(1)).max(self.last_watch);
            self.last_watch = at;
            self.tell_agent(&event, at);
            let input = match event {
                Event::Applied(plural, object) => typed(plural, object).map(Input::Applied),
                Event::Deleted(plural, object) => typed(plural, object).map(Input::Deleted),
            };
            if let Some(input) = input {
                self.send_at(at, Message::ToController(Box::new(input)));
            }
        }
    }

    fn delay(&mut self) -> Duration {
        Duration::from_micros(500 + self.rng.below(5_000))
    }

    fn send(&mut self, delay: Duration, message: Message) {
        self.send_at(self.now + delay, message);
    }

    fn send_at(&mut self, at: Time, message: Message) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), message);
    }

    /// Returns what a plan over the stored objects would still write.
    pub(crate) fn left_over(&self) -> markers::Plan {
        plan(
            parsed(self.server.list("podprobemarkers")),
            parsed(self.server.list("pods")),
            &parsed::<api::Node>(self.server.list("nodes")),
            parsed(self.server.list("nodepodprobes")),
        )
    }
}

fn parsed<T: serde::de::DeserializeOwned>(objects: Vec<Value>) -> Vec<T> {
    objects.into_iter().map(|object| serde_json::from_value(object).expect("the view reads what the server keeps")).collect()
}

fn typed(plural: &str, object: Value) -> Option<Object> {
    let read = "the view reads what the server keeps";
    Some(match plural {
        "podprobemarkers" => Object::Marker(Arc::new(serde_json::from_value(object).expect(read))),
        "pods" => Object::Pod(Arc::new(serde_json::from_value(object).expect(read))),
        "nodes" => Object::Node(Arc::new(serde_json::from_value(object).expect(read))),
        "nodepodprobes" => Object::NodePodProbe(Arc::new(serde_json::from_value(object).expect(read))),
        _ => return None,
    })
}
