//! The pods that wait for the condition of an agent: what is known of each, and what is to be said of it.

use std::time::Duration;

use api::event::EventType;
use api::moved::{self, AGENT_LOST, CONDITION, INSTANCE_CHANGED, Judgement, bare_id};
use api::write::reference;
use api::{Event, Pod, Timestamp, Write};
use machine::{BackOff, Time};

/// A status that shows another instance for so long is not merely late.
pub(crate) const INSTANCE_CHANGED_AFTER: Duration = Duration::from_secs(1);
/// A node without an agent for so long has none.
pub(crate) const NO_AGENT_AFTER: Duration = Duration::from_secs(60);
/// How often that is said.
pub(crate) const NO_AGENT_EVERY: Duration = Duration::from_secs(600);
/// The waits after writes that failed.
pub(crate) const RETRY: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_secs(30) };

/// No agent lives on the node of a pod that waits for one.
const NO_AGENT: &str = "NoAgent";
/// A pod asks for a moved probe and has it from the kubelet.
const PROBE_NOT_MOVED: &str = "ProbeNotMoved";

/// A pod that waits for the condition of an agent, or meant to.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) pod: Pod,
    /// Since when its status shows another instance than the one that was judged.
    pub(crate) changed_since: Option<Time>,
    /// When it was first seen on its node.
    pub(crate) since: Time,
    pub(crate) no_agent_said: Option<Time>,
    pub(crate) writing: bool,
    pub(crate) failures: u32,
    pub(crate) retry_at: Option<Time>,
}

impl Waiting {
    pub(crate) fn new(now: Time, pod: Pod) -> Waiting {
        Waiting { pod, changed_since: None, since: now, no_agent_said: None, writing: false, failures: 0, retry_at: None }
    }

    pub(crate) fn node(&self) -> &str {
        &self.pod.spec.node_name
    }

    /// Takes a later state.
    pub(crate) fn take(&mut self, now: Time, pod: Pod) {
        self.pod = pod;
        match shows_another_instance(&self.pod) {
            true => self.changed_since = self.changed_since.or(Some(now)),
            false => self.changed_since = None,
        }
    }

    /// Returns what to write now, if anything is wrong: `lost`: the agent of its node is.
    pub(crate) fn wanted(&self, now: Time, lost: bool) -> Option<Write> {
        let condition = self.pod.condition(CONDITION);
        let shows = |status: &str, reason: &str| {
            condition.is_some_and(|condition| condition.status == status && condition.reason == reason)
        };
        let node = self.node();
        if lost && !shows("Unknown", AGENT_LOST) {
            let message = format!(
                "the lifesign agent of node {node} has not renewed its Lease {}: nobody probes this pod",
                moved::agent_lease(node)
            );
            return Some(self.write(now, "Unknown", AGENT_LOST, &message));
        }
        if self.changed_since.is_some_and(|since| since + INSTANCE_CHANGED_AFTER <= now) {
            let message = "a container was started again since its readiness probe succeeded, and was not probed since";
            return Some(self.write(now, "False", INSTANCE_CHANGED, message));
        }
        None
    }

    fn write(&self, now: Time, status: &str, reason: &str, message: &str) -> Write {
        let changes = self.pod.condition(CONDITION).is_none_or(|condition| condition.status != status);
        moved::condition_write(&self.pod.metadata, status, reason, message, changes.then_some(Timestamp(now)), None)
    }

    fn event(&self, type_: EventType, reason: &'static str, message: String) -> Event {
        let meta = &self.pod.metadata;
        Event { object: reference::<Pod>(&meta.namespace, &meta.name, &meta.uid), type_, reason, message }
    }

    pub(crate) fn agent_lost(&self) -> Event {
        let node = self.node();
        let message = format!("The lifesign agent of node {node} is gone: the pod is not ready until it is back");
        self.event(EventType::Warning, AGENT_LOST, message)
    }

    pub(crate) fn instance_changed(&self) -> Event {
        let message = "A container was started again and was not probed since: the pod is not ready until it was";
        self.event(EventType::Warning, INSTANCE_CHANGED, message.to_owned())
    }

    pub(crate) fn no_agent(&self) -> Event {
        let node = self.node();
        let message = format!(
            "No lifesign agent lives on node {node}, so the readiness probe of this pod is not run: see whether the DaemonSet \
             lifesign-agent covers the node (kubectl get pods -A --field-selector spec.nodeName={node}), or remove the annotation {} \
             from the pod template",
            moved::ANNOTATION_PROBES
        );
        self.event(EventType::Warning, NO_AGENT, message)
    }
}

/// Returns whether a pod asks for a moved probe that nobody moved.
pub(crate) fn is_not_moved(pod: &Pod) -> bool {
    pod.metadata.annotations.contains_key(moved::ANNOTATION_PROBES) && !moved::is_gated(pod) && !pod.terminal()
}

/// Returns what is said about such a pod.
pub(crate) fn not_moved(pod: &Pod) -> Event {
    let meta = &pod.metadata;
    let message = format!(
        "The annotation {} was not acted on when the pod was made, so the kubelet runs its readiness probe: the lifesign webhook was away, or \
         does not serve this namespace; make the pod again",
        moved::ANNOTATION_PROBES
    );
    let object = reference::<Pod>(&meta.namespace, &meta.name, &meta.uid);
    Event { object, type_: EventType::Warning, reason: PROBE_NOT_MOVED, message }
}

/// Returns whether the status shows an instance that was started after the one that is said to be ready.
///
/// The kubelet writes its status later than an agent sees a container start, so a status may also show an instance that is older.
fn shows_another_instance(pod: &Pod) -> bool {
    let Some(condition) = pod.condition(CONDITION).filter(|condition| condition.status == "True") else { return false };
    let judged = Judgement::parse(&condition.message).ready;
    let said_at = condition.last_transition_time.map_or(Time::ZERO, |at| at.0.floor_second());
    let mut statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    statuses.any(|status| {
        let judged = judged.iter().find(|(name, _)| *name == status.name);
        let another = judged.is_some_and(|(_, id)| bare_id(&status.container_id) != id);
        let running = status.state.running.as_ref().and_then(|running| running.started_at);
        another && running.is_some_and(|at| at.0 >= said_at)
    })
}
