//! What a machine says is done here. Nothing waits: what takes time becomes a task.

use std::sync::Arc;

use api::event::EventType;
use api::{Event, Pod, ProbeType, Service, Verb, Write};
use machine::Time;
use pods::{Effect, Input};
use processes::layout::mark_interrupted;
use rustix::process::Signal;

use super::Supervisor;
use super::adopt::remove_dir;
use super::containers::{self, AgentContext};
use super::hooks;
use super::local::{LocalPod, place};
use super::markers::MARKERS;
use super::messages::{Ask, Message};
use super::source::Source;
use crate::metrics::WorkerLabels;

/// Something of a pod's spec is not honoured as on a cluster.
const NOT_HONOURED: &str = "NotHonoured";

impl LocalPod {
    pub(super) fn labels(&self, container: &str, probe: ProbeType) -> WorkerLabels {
        WorkerLabels {
            probe_type: probe.name(),
            container: container.to_owned(),
            pod: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }
}

impl Supervisor {
    /// Takes a message.
    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Fact { pod, input } => {
                if let Input::Exited { container, id, .. } = &input
                    && let Some(local) = self.pods.get_mut(&pod)
                {
                    local.ended(container, id);
                }
                self.step(pod, Some(input));
            }
            Message::Started { pod, container, running, at } => {
                let Some(local) = self.pods.get_mut(&pod) else { return };
                let id = Arc::from(running.id());
                local.runs(&container, running, at);
                self.step(pod, Some(Input::Started { container, id, at }));
            }
            Message::Warning { pod, message } => {
                let Some(local) = self.pods.get(&pod) else { return };
                let meta = &local.machine.pod().metadata;
                let object = api::write::reference::<api::Pod>(&meta.namespace, &meta.name, &meta.uid);
                self.events.record(Event { object, type_: EventType::Warning, reason: NOT_HONOURED, message });
            }
            message @ Message::Attempt { .. } => self.attempt_ended(message),
            Message::Written { pod, result } => self.written(pod, result),
            Message::Listed(listed) => self.listed(*listed),
            Message::Ask(ask) => self.answer(ask),
        }
    }

    fn named(&self, namespace: &str, name: &str) -> Option<&LocalPod> {
        self.pods.values().find(|local| local.name == name && local.namespace == namespace)
    }

    fn answer(&self, ask: Ask) {
        // Whoever asked may be gone.
        match ask {
            Ask::Logs { namespace, pod, container, answer } => {
                let found = self.named(&namespace, &pod);
                let _ = answer.send(found.and_then(|local| Some(local.dir.as_ref()?.container(&container))));
            }
            Ask::Instance { namespace, pod, container, answer } => {
                let running = self.named(&namespace, &pod).and_then(|local| local.containers.get(&*container)?.running.clone());
                let shim = self.context.processes.as_ref().map(|processes| processes.shim.clone());
                let _ = answer.send(running.zip(shim));
            }
            Ask::Address { namespace, pod, answer } => {
                let found = self.named(&namespace, &pod).filter(|local| local.is_alive());
                let _ = answer.send(found.and_then(|local| local.ip(&self.context).parse().ok()));
            }
            Ask::Probes { since, answer } => drop(answer.send(self.probes(since))),
            Ask::AgentCounts { answer } => drop(answer.send(self.counts())),
        }
    }

    fn written(&mut self, pod: u64, result: Result<(), api::WriteError>) {
        self.writes.done();
        if pod == MARKERS {
            return self.markers_written(result);
        }
        let now = self.now();
        self.metrics.wrote(match result {
            Ok(()) => "ok",
            Err(error) if error.is_retryable() => "retried",
            Err(_) => "refused",
        });
        let Some(local) = self.pods.get_mut(&pod) else { return };
        if result.is_ok()
            && let Some(at) = local.changed_at.take()
        {
            self.metrics.published_after(now.since(at));
        }
        self.step(pod, Some(Input::StatusWritten(result)));
    }

    /// Does what the machine of a pod says.
    pub(super) fn perform(&mut self, now: Time, key: u64, effect: Effect) {
        match effect {
            Effect::Prepare => self.prepare(key),
            Effect::Start { container, number, id } => self.start(key, container, number, id),
            Effect::Hook { container, id, hook, handler, timeout } => {
                let Some(local) = self.pods.get_mut(&key) else { return };
                let Some(running) = local.running(&container, &id).cloned() else { return };
                let pod = local.machine.pod();
                let mut all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
                let ports = all.find(|spec| spec.name == *container).map(|spec| spec.ports.clone()).unwrap_or_default();
                let ip = local.ip(&self.context);
                let order =
                    hooks::Order { pod: key, container: Arc::clone(&container), running, hook, handler, timeout, ports, ip };
                let task = self.context.spawn(hooks::run(Arc::clone(&self.context), order));
                local.hooks.insert((container, hook), task);
            }
            Effect::CancelHook { container, hook, .. } => {
                if let Some(task) = self.pods.get_mut(&key).and_then(|local| local.hooks.remove(&(container, hook))) {
                    task.abort();
                }
            }
            Effect::Signal { container, id, signal } => self.signal(key, &container, &id, &signal),
            Effect::Kill { container, id } => self.kill(key, &container, &id),
            Effect::Probe { container, effect } => self.probe(now, key, container, effect),
            Effect::WriteStatus { write, urgent } => self.writes.push(key, write, urgent),
            Effect::DeletePod { namespace, name, uid } => {
                self.context.spawn(delete(Arc::clone(&self.context), key, namespace, name, uid));
            }
            Effect::Event { event, count } => self.events.record_times(event, count),
            Effect::TearDown => {
                let address = self.pods.get_mut(&key).and_then(|local| local.address.take());
                self.source.release_address(address);
            }
            Effect::Release => self.release(key),
        }
    }

    fn prepare(&mut self, key: u64) {
        let Source::Processes { pool, .. } = &mut self.source else { return };
        let Some(local) = self.pods.get_mut(&key) else { return };
        if local.address.is_none() && !local.machine.pod().spec.host_network {
            local.address = pool.allocate();
        }
        let ip = local.ip(&self.context);
        let context = Arc::clone(&self.context);
        if ip.is_empty() {
            let message = format!("no address is free in {}; delete pods that are not needed", pool.cidr());
            let input = Input::PrepareFailed { reason: "ContainerCreating".to_owned(), message };
            // As a message: a machine is never told something while it says something.
            self.context.spawn(async move { context.fact(key, input).await });
            return;
        }
        let Some(dir) = local.dir.clone() else { return };
        let (raw, known) = (Arc::new(local.object.json()), Arc::clone(&local.known));
        self.context.spawn(containers::prepare(context, key, raw, dir, ip, known));
    }

    fn start(&mut self, key: u64, container: Arc<str>, number: u64, id: Arc<str>) {
        let Some(local) = self.pods.get(&key) else { return };
        let Some(dir) = local.dir.clone() else { return };
        let seen = |service: &&Service| {
            let meta = &service.metadata;
            meta.namespace == local.namespace || (meta.namespace == "default" && meta.name == "kubernetes")
        };
        let order = containers::Order {
            pod: key,
            container,
            number,
            id,
            raw: Arc::new(local.object.json()),
            dir,
            ip: local.ip(&self.context),
            services: self.services.values().filter(seen).cloned().collect(),
            known: Arc::clone(&local.known),
        };
        self.context.spawn(containers::start(Arc::clone(&self.context), order));
    }

    fn signal(&self, key: u64, container: &str, id: &str, name: &str) {
        let Some(running) = self.pods.get(&key).and_then(|local| local.running(container, id)) else { return };
        if self.stopping {
            mark_interrupted(running.dir().path());
        }
        let signal = signal_of(name);
        tracing::info!(id, signal = name, "container is asked to stop");
        if let Err(error) = running.signal(signal) {
            tracing::warn!(id, signal = name, %error, "a container cannot be signaled");
        }
    }

    fn kill(&self, key: u64, container: &str, id: &str) {
        let Some(running) = self.pods.get(&key).and_then(|local| local.running(container, id)).cloned() else { return };
        tracing::info!(id, "container is killed");
        self.context.spawn(async move {
            // Its end is told by whoever watches over it.
            if let Err(error) = running.kill_all().await {
                tracing::error!(id = running.id(), %error, "a container cannot be killed");
            }
        });
    }

    fn probe(&mut self, now: Time, key: u64, container: Arc<str>, effect: probe::Effect) {
        match effect {
            probe::Effect::Launch(launch) => self.launch(key, container, launch),
            probe::Effect::Cancel { probe, attempt } => {
                let Some(local) = self.pods.get_mut(&key) else { return };
                let worker = &mut local.local_container(&container).workers[place(probe)];
                if let Some(active) = worker.active.take_if(|active| active.attempt == attempt) {
                    self.attempts.cancel(&active);
                }
            }
            probe::Effect::Started(_) => self.published(key),
            probe::Effect::Ready(ready) => {
                self.published(key);
                let Some(local) = self.pods.get_mut(&key) else { return };
                tracing::info!(
                    pod = local.name,
                    namespace = local.namespace,
                    container = &*container,
                    ready,
                    "container ready"
                );
                let local_container = local.local_container(&container);
                if let Some(started_at) = local_container.started_at
                    && ready
                    && !std::mem::replace(&mut local_container.was_ready, true)
                {
                    self.metrics.ready_after(now.since(started_at));
                }
            }
            probe::Effect::Ended { probe } => {
                let Some(local) = self.pods.get(&key) else { return };
                self.metrics.forget(&local.labels(&container, probe), local.machine.uid());
            }
            probe::Effect::Stale { .. } => self.metrics.stale(),
            probe::Effect::Overrun { probe } => {
                let handler = self.pods.get(&key).and_then(|local| {
                    let prepared = local.containers.get(&container)?.workers[place(probe)].prepared.as_ref()?;
                    Some(prepared.handler)
                });
                if let Some(handler) = handler {
                    self.metrics.overran(probe, handler);
                }
            }
            probe::Effect::Publish { probe, result } => {
                tracing::debug!(container = &*container, probe = probe.name(), ?result, "probe verdict");
            }
            probe::Effect::Knock(knock) => self.knock(key, container, &knock),
            probe::Effect::StopKnocking { probe } => self.stop_knocking(key, container, probe),
            probe::Effect::Hold { .. } | probe::Effect::Kill { .. } | probe::Effect::Event { .. } => {}
        }
    }

    /// Remembers that the result of an attempt is on its way to the API, for the metric.
    fn published(&mut self, key: u64) {
        if let Some(local) = self.pods.get_mut(&key) {
            local.changed_at = local.changed_at.or(local.attempt_at);
        }
    }

    fn release(&mut self, key: u64) {
        self.cancel_all(key);
        let Some(local) = self.pods.remove(&key) else { return };
        self.by_uid.remove(local.machine.uid());
        self.step_markers(Some(markers::agent::Input::PodGone { uid: local.machine.uid().to_owned() }));
        if let Some(at) = local.timer {
            self.timers.remove(&(at, key));
        }
        self.source.release(local.machine.uid(), local.address);
        for task in local.hooks.values() {
            task.abort();
        }
        tracing::info!(pod = local.name, namespace = local.namespace, "pod released");
        if let Some(dir) = local.dir {
            self.context.spawn(remove_dir(dir));
        }
    }
}

impl LocalPod {
    /// Returns the address as containers are told it; empty: none.
    pub(super) fn ip(&self, context: &AgentContext) -> String {
        if let Some(machine) = self.machine.kubelet() {
            return machine.ip().to_owned();
        }
        match self.address {
            Some(address) => address.to_string(),
            None if self.machine.pod().spec.host_network => context.host_ip.clone(),
            None => String::new(),
        }
    }
}

async fn delete(context: Arc<AgentContext>, pod: u64, namespace: String, name: String, uid: String) {
    let write = Write::to::<Pod>(namespace, name, Verb::Delete { uid, grace_seconds: Some(0) });
    let result = context.writer.perform(&write).await.map(drop).map_err(Into::into);
    context.fact(pod, Input::PodDeleted(result)).await;
}

/// Returns a signal by its name; one that does not exist asks as `SIGTERM` does.
fn signal_of(name: &str) -> Signal {
    match name {
        "SIGHUP" => Signal::HUP,
        "SIGINT" => Signal::INT,
        "SIGQUIT" => Signal::QUIT,
        "SIGABRT" => Signal::ABORT,
        "SIGKILL" => Signal::KILL,
        "SIGUSR1" => Signal::USR1,
        "SIGUSR2" => Signal::USR2,
        "SIGALRM" => Signal::ALARM,
        "SIGCONT" => Signal::CONT,
        "SIGSTOP" => Signal::STOP,
        "SIGWINCH" => Signal::WINCH,
        _ => Signal::TERM,
    }
}
