//! The controller and its API server on a virtual clock; every message takes its time.

use std::collections::BTreeMap;
use std::time::Duration;

use machine::{Machine, Rng, Time};
use markers::controller::{Effect, Input, List, Object, Target};
use markers::{Controller, plan};
use serde_json::Value;

use super::server::{Event, Server};

/// Something under way.
enum Message {
    ToController(Box<Input>),
    Request(Target, Box<api::Write>),
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) server: Server,
    pub(crate) controller: Controller,
    pub(crate) notes: Vec<api::Note>,
    /// Requests that the network loses, in percent.
    pub(crate) lossy: u64,
    /// Every request, with the instant at which it was sent.
    pub(crate) log: Vec<(Time, api::Write)>,
    queue: BTreeMap<(Time, u64), Message>,
    sequence: u64,
    rng: Rng,
    /// Watch events come in order.
    last_watch: Time,
    told: usize,
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
            notes: Vec::new(),
            lossy: 0,
            log: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            rng: Rng::new(seed),
            last_watch: Time::ZERO,
            told: 0,
        }
    }

    /// Tells the controller everything, as after a restart of either side.
    pub(crate) fn list_all(&mut self) {
        self.server.events.clear();
        let lists = [
            List::Markers(parsed(self.server.list("podprobemarkers"))),
            List::Pods(parsed(self.server.list("pods"))),
            List::Nodes(parsed(self.server.list("nodes"))),
            List::NodePodProbes(parsed(self.server.list("nodepodprobes"))),
        ];
        for list in lists {
            self.step(Some(Input::Listed(list)));
        }
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
        loop {
            let message_at = self.queue.keys().next().map(|(at, _)| *at);
            let next = [message_at, self.controller.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            match message_at.filter(|at| *at <= self.now) {
                Some(_) => {
                    let (_, message) = self.queue.pop_first().expect("it has an instant");
                    self.deliver(message);
                }
                None => self.step(None),
            }
        }
        self.now = end;
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::ToController(input) => self.step(Some(*input)),
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
                Effect::Note(note) => self.notes.push(note),
            }
        }
    }

    /// Tells watchers what has happened since.
    fn tell(&mut self) {
        for event in std::mem::take(&mut self.server.events) {
            self.told += 1;
            let input = match event {
                Event::Applied(plural, object) => typed(plural, object).map(Input::Applied),
                Event::Deleted(plural, object) => typed(plural, object).map(Input::Deleted),
            };
            let at = (self.now + self.delay() + Duration::from_millis(1)).max(self.last_watch);
            self.last_watch = at;
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
        "podprobemarkers" => Object::Marker(serde_json::from_value(object).expect(read)),
        "pods" => Object::Pod(serde_json::from_value(object).expect(read)),
        "nodes" => Object::Node(serde_json::from_value(object).expect(read)),
        "nodepodprobes" => Object::NodePodProbe(serde_json::from_value(object).expect(read)),
        _ => return None,
    })
}
