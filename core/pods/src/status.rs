//! The status of a pod: what the agent says about it, and the patch that says it.

use std::time::Duration;

use api::meta::Condition;
use api::pod::{ContainerRunning, ContainerState, ContainerStatus, ContainerTerminated, ContainerWaiting};
use api::{Pod, Timestamp, Verb, Write};
use machine::Time;
use probe::{ConditionFacts, PodPhase, Role, pod_conditions, pod_phase};
use serde_json::{Value, json};

use crate::container::{Ended, InstanceState, Next, PodContainer, Waiting};
use crate::machine::{PodMachine, Sandbox};
use crate::messages::Effect;
use crate::stop::Cause;

/// What stands before the name of an instance in `containerID`.
pub const CONTAINER_ID_PREFIX: &str = "lifesign://";
/// A container that waits before it is started again; kubelet.
pub(crate) const CRASH_LOOP: &str = "CrashLoopBackOff";

/// The conditions that the agent writes.
const OWNED: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// What the agent says about a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The phase.
    pub phase: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The address; empty while it has none.
    pub pod_ip: String,
    /// When the node took the pod; whole seconds.
    pub start_time: Option<Timestamp>,
    /// The conditions that the agent owns.
    pub conditions: Vec<Condition>,
    /// Init containers and sidecars.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Containers.
    pub container_statuses: Vec<ContainerStatus>,
}

impl Report {
    /// Returns what the stored status says.
    pub(crate) fn of(pod: &Pod) -> Report {
        let status = &pod.status;
        Report {
            phase: status.phase.clone(),
            reason: status.reason.clone(),
            message: status.message.clone(),
            pod_ip: status.pod_ip.clone(),
            start_time: status.start_time,
            conditions: status.conditions.iter().filter(|condition| is_owned(condition)).cloned().collect(),
            init_container_statuses: status.init_container_statuses.clone(),
            container_statuses: status.container_statuses.clone(),
        }
    }

    /// Returns whether stored conditions say something else, timestamps aside.
    fn differs_from(&self, stored: &[Condition]) -> bool {
        let same = |own: &Condition, stored: &Condition| {
            (&own.type_, &own.status, &own.reason) == (&stored.type_, &stored.status, &stored.reason)
        };
        self.conditions.iter().any(|own| !stored.iter().any(|stored| same(own, stored)))
    }

    /// Returns whether the pod is ready.
    pub fn is_ready(&self) -> bool {
        self.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    pub(crate) fn waiting(&self, container: &str) -> Option<&ContainerWaiting> {
        let mut all = self.init_container_statuses.iter().chain(&self.container_statuses);
        all.find(|status| status.name == container)?.state.waiting.as_ref()
    }

    /// Returns the patch that makes the stored status say the same; conditions of others are not in it.
    fn patch(&self, pod: &Pod, host_ip: &str) -> Value {
        let statuses = |statuses: &[ContainerStatus], containers: &[api::pod::Container]| -> Vec<Value> {
            statuses.iter().zip(containers).map(|(status, container)| status_value(status, &container.image)).collect()
        };
        let text = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
        let mut status = json!({
            "phase": self.phase,
            "reason": text(&self.reason),
            "message": text(&self.message),
            "startTime": self.start_time,
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "conditions": self.conditions.iter().map(condition_value).collect::<Vec<_>>(),
            "containerStatuses": statuses(&self.container_statuses, &pod.spec.containers),
        });
        if !self.init_container_statuses.is_empty() {
            let init = statuses(&self.init_container_statuses, &pod.spec.init_containers);
            status["initContainerStatuses"] = Value::from(init);
        }
        if !self.pod_ip.is_empty() {
            status["podIP"] = Value::from(self.pod_ip.as_str());
            status["podIPs"] = json!([{"ip": self.pod_ip}]);
        }
        if pod.metadata.generation > 0 {
            status["observedGeneration"] = Value::from(pod.metadata.generation);
        }
        json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
    }
}

/// Returns a condition for a patch: what it does not say must not stay from before.
fn condition_value(condition: &Condition) -> Value {
    let mut value = serde_json::to_value(condition).expect("a condition has only text keys");
    for key in ["reason", "message"] {
        if value.get(key).is_none() {
            value[key] = Value::Null;
        }
    }
    value
}

fn status_value(status: &ContainerStatus, image: &str) -> Value {
    let mut value = serde_json::to_value(status).expect("a status has only text keys");
    value["image"] = Value::from(image);
    value["imageID"] = Value::from("");
    value
}

pub(crate) fn is_owned(condition: &Condition) -> bool {
    OWNED.contains(&condition.type_.as_str())
}

/// Returns the conditions that others write.
pub(crate) fn foreign(conditions: &[Condition]) -> Vec<Condition> {
    conditions.iter().filter(|condition| !is_owned(condition)).cloned().collect()
}

impl PodMachine {
    fn phase(&self) -> PodPhase {
        if let Some((phase, ..)) = &self.fixed {
            return *phase;
        }
        let began = self.containers.iter().any(|container| container.role == Role::Regular && container.instances > 0);
        pod_phase(self.containers.iter().map(|container| (container.role, container.life())), began)
    }

    /// Returns whether the pod has ended for good.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.phase(), PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Computes the status anew if something has changed.
    pub(crate) fn update_report(&mut self, now: Time) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.revision += 1;
        let phase = self.phase();
        if self.fixed.is_none() && self.ending.is_some() && !self.is_alive() && self.is_terminal() {
            self.fixed = Some((phase, String::new(), String::new()));
        }
        let (reason, message) =
            self.fixed.as_ref().map(|(_, reason, message)| (reason.clone(), message.clone())).unwrap_or_default();
        let mut statuses: Vec<ContainerStatus> =
            self.containers.iter().map(|container| self.container_status(container)).collect();
        let mut current = self.foreign.clone();
        current.extend_from_slice(&self.report.conditions);
        let facts = ConditionFacts {
            spec: &self.pod.spec,
            statuses: Some(&statuses),
            phase: phase.name(),
            has_sandbox: !self.ip.is_empty() && !self.torn_down,
            generation: (self.pod.metadata.generation > 0).then_some(self.pod.metadata.generation),
        };
        let conditions = pod_conditions(now, &facts, &current).into_iter().filter(is_owned).collect();
        let container_statuses = statuses.split_off(self.pod.spec.init_containers.len());
        self.report = Report {
            phase: phase.name().to_owned(),
            reason,
            message,
            pod_ip: self.ip.clone(),
            start_time: Some(Timestamp(self.start_time.floor_second())),
            conditions,
            init_container_statuses: statuses,
            container_statuses,
        };
        self.writer.want(self.sent.as_ref() != Some(&self.report), self.changes_readiness());
    }

    fn changes_readiness(&self) -> bool {
        self.report.is_ready() != self.stored_ready
    }

    fn container_status(&self, container: &PodContainer) -> ContainerStatus {
        let mut status = ContainerStatus {
            name: container.name.to_string(),
            ready: container.is_ready(),
            started: Some(container.is_started()),
            restart_count: i64::try_from(container.instances.saturating_sub(1)).unwrap_or(i64::MAX),
            ..ContainerStatus::default()
        };
        let last = container.last.as_ref();
        match &container.state {
            InstanceState::New => status.state = waiting(self.waiting_for()),
            InstanceState::Starting { why: None, after: None, .. } => status.state = waiting(self.default_waiting()),
            InstanceState::Unfit { why, after, .. } | InstanceState::Starting { why: Some(why), after, .. } => {
                status.state = waiting((**why).clone());
                self.tell_last(&mut status, after.as_deref().or(last));
            }
            InstanceState::Running(instance) => {
                status.container_id = container_id(&instance.id);
                status.state =
                    if instance.in_post_start { waiting(self.default_waiting()) } else { running(instance.started_at) };
                status.last_state = last.map(terminated).unwrap_or_default();
            }
            InstanceState::Ended(ended) | InstanceState::Starting { why: None, after: Some(ended), .. } => match ended.next {
                Next::At { delay, .. } if !delay.is_zero() => {
                    status.state = waiting(self.back_off_waiting(container, delay));
                    self.tell_last(&mut status, Some(ended));
                }
                _ => {
                    status.container_id = container_id(&ended.id);
                    status.state = terminated(ended);
                    status.last_state = last.map(terminated).unwrap_or_default();
                }
            },
        }
        status
    }

    fn tell_last(&self, status: &mut ContainerStatus, ended: Option<&Ended>) {
        if let Some(ended) = ended {
            status.container_id = container_id(&ended.id);
            status.last_state = terminated(ended);
        }
    }

    /// Returns what a container that was never started waits for.
    fn waiting_for(&self) -> Waiting {
        match &self.sandbox {
            Sandbox::Missing { why: Some(why), .. } | Sandbox::Asked { why: Some(why), .. } => why.clone(),
            _ => self.default_waiting(),
        }
    }

    fn default_waiting(&self) -> Waiting {
        let reason = if self.pod.spec.init_containers.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        Waiting { reason: reason.to_owned(), message: String::new() }
    }

    fn back_off_waiting(&self, container: &PodContainer, delay: Duration) -> Waiting {
        let (meta, name) = (&self.pod.metadata, &container.name);
        let delay = api::duration::format(delay);
        let message =
            format!("back-off {delay} restarting failed container={name} pod={}_{}({})", meta.name, meta.namespace, meta.uid);
        Waiting { reason: CRASH_LOOP.to_owned(), message }
    }

    /// Takes the conditions that the API shows: the agent's own may have been written by somebody else, such as the node
    /// lifecycle controller after a silence of the node.
    pub(crate) fn stored_conditions(&mut self, now: Time, stored: Vec<Condition>) {
        if self.writer.is_under_way() {
            // Older or newer than what is under way: it is looked at when that has arrived.
            self.seen_meanwhile = Some(stored);
            return;
        }
        let Some(sent) = &self.sent else { return };
        let differs = sent.differs_from(&stored);
        self.stored_ready = stored.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        self.writer.restore(now, differs);
    }

    /// Writes the status if it is time; returns when it will be.
    pub(crate) fn write_due(&mut self, now: Time, out: &mut Vec<Effect>) -> Option<Time> {
        if self.ending.is_some_and(|ending| ending.cause == Cause::Gone) {
            return None;
        }
        if self.writer.begin(now) {
            let meta = &self.pod.metadata;
            let patch = self.report.patch(&self.pod, &self.settings.host_ip);
            let write = Write::to::<Pod>(meta.namespace.clone(), meta.name.clone(), Verb::Strategic(patch)).status();
            let urgent = self.changes_readiness();
            out.push(Effect::WriteStatus { write: Box::new(write), urgent });
            self.sent = Some(self.report.clone());
        }
        self.writer.deadline()
    }
}

fn container_id(id: &str) -> String {
    format!("{CONTAINER_ID_PREFIX}{id}")
}

fn waiting(Waiting { reason, message }: Waiting) -> ContainerState {
    ContainerState { waiting: Some(ContainerWaiting { reason, message }), ..ContainerState::default() }
}

fn running(started_at: Time) -> ContainerState {
    let started_at = Some(Timestamp(started_at.floor_second()));
    ContainerState { running: Some(ContainerRunning { started_at }), ..ContainerState::default() }
}

fn terminated(ended: &Ended) -> ContainerState {
    let exit = &ended.exit;
    let terminated = ContainerTerminated {
        exit_code: i64::from(exit.exit_code),
        signal: exit.signal.map(i64::from),
        reason: exit.reason.clone(),
        message: exit.message.clone(),
        started_at: Some(Timestamp(exit.started_at.floor_second())),
        finished_at: Some(Timestamp(exit.finished_at.floor_second())),
        container_id: container_id(&ended.id),
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}
