//! Steps of a rollout on a stock cluster: handed out by annotation of the core Node, answered by its agent.
//!
//! The controllers write [`ApplyStep`], one for a node at a time; the agent of the node alone touches files, and writes
//! [`AppliedStep`]: what it can change, what is in use, and what became of the last step. Both are text of others, so that each
//! side reads strictly: a step with anything but the values of a profile is refused, an answer that cannot be read is none.

mod decide;
mod fields;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::time::Duration;

use api::Node;
use api::config_node::{ANNOTATION_APPLIED_STEP, ANNOTATION_APPLY_STEP};
use machine::Time;
use serde_json::{Map, Value, json};

pub use decide::{Decision, Unable, WAIT_MAX, decide};
use fields::Fields;
pub use values::{ComponentValues, KubeletValues};

use crate::plan::{InstanceKind, Step};

/// A step that was taken back this often in a row has failed: the reason `ApplyFailed`.
pub const ATTEMPTS_MAX: u32 = 3;
/// The longest deadline that a step may have.
const DEADLINE_MAX: Duration = Duration::from_secs(3_600);

/// A component of a stock cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The kubelet: a service of the machine.
    Kubelet,
    /// The controller manager: a static pod.
    ControllerManager,
    /// The API server: a static pod.
    ApiServer,
}

impl Component {
    /// Every component.
    pub const ALL: [Component; 3] = [Component::Kubelet, Component::ControllerManager, Component::ApiServer];

    /// Returns the name, as files, steps and messages have it.
    pub const fn name(self) -> &'static str {
        match self {
            Component::Kubelet => "kubelet",
            Component::ControllerManager => "kube-controller-manager",
            Component::ApiServer => "kube-apiserver",
        }
    }

    /// Returns the component of that name.
    pub fn parse(name: &str) -> Option<Component> {
        Component::ALL.into_iter().find(|component| component.name() == name)
    }

    /// Returns what the planner calls it.
    pub const fn kind(self) -> InstanceKind {
        match self {
            Component::Kubelet => InstanceKind::Node,
            Component::ControllerManager => InstanceKind::Kcm,
            Component::ApiServer => InstanceKind::Kas,
        }
    }

    /// Returns the component that the planner calls so.
    pub const fn of(kind: InstanceKind) -> Component {
        match kind {
            InstanceKind::Node => Component::Kubelet,
            InstanceKind::Kcm => Component::ControllerManager,
            InstanceKind::Kas => Component::ApiServer,
        }
    }

    /// Returns how long the component has to prove healthy with new values; a kubelet must renew its Lease twice meanwhile.
    pub fn deadline(self, values: Option<&ComponentValues>) -> Duration {
        let base = match self {
            Component::Kubelet | Component::ControllerManager => 120,
            Component::ApiServer => 300,
        };
        let renewals = match values {
            Some(ComponentValues::Kubelet(kubelet)) => kubelet.update_frequency * 2,
            _ => Duration::ZERO,
        };
        Duration::from_secs(base) + renewals
    }
}

/// Why a text is no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StepError(pub String);

/// What an agent is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyStep {
    /// Which step; never used twice.
    pub id: String,
    /// What is changed.
    pub component: Component,
    /// To what; `None`: everything as it was before the first change, byte for byte.
    pub values: Option<ComponentValues>,
    /// How long the component has to prove healthy, from when the agent begins.
    pub deadline: Duration,
    /// The generation of the desired profile that it belongs to.
    pub generation: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// Whether a file that somebody has written anew, with our values in it, counts as ours: a person has asked for that.
    pub adopt: bool,
}

impl ApplyStep {
    /// Returns the text of the annotation.
    pub fn to_text(&self) -> String {
        let mut step = json!({
            "id": self.id,
            "component": self.component.name(),
            "values": self.values.as_ref().map(ComponentValues::to_json),
            "deadlineSeconds": self.deadline.as_secs(),
            "generation": self.generation,
            "attempt": self.attempt,
        });
        // Only agents that offer it know the word.
        if self.adopt {
            step["adopt"] = json!(true);
        }
        step.to_string()
    }

    /// Returns the ID of a step that is handed out now.
    pub fn id_at(generation: &str, now: Time) -> String {
        format!("{generation}-{}", now.as_micros())
    }

    /// Returns when the step was handed out, in microseconds, as its ID says; 0: it does not.
    pub(crate) fn handed_at(&self) -> i64 {
        self.id.rsplit_once('-').and_then(|(_, micros)| micros.parse().ok()).unwrap_or_default()
    }

    /// Reads a step. Values that belong to no profile are refused: whoever may write annotations of a Node must not be able to
    /// set anything else through a privileged agent.
    pub fn parse(text: &str) -> Result<ApplyStep, StepError> {
        let value: Value = serde_json::from_str(text).map_err(|error| StepError(format!("no JSON: {error}")))?;
        let mut fields = Fields::of(value)?;
        let id = fields.text("id")?;
        if id.is_empty() {
            return Err(StepError("id: required".to_owned()));
        }
        let name = fields.text("component")?;
        let component = Component::parse(&name).ok_or_else(|| StepError(format!("component: unknown {name:?}")))?;
        let values = match fields.take("values") {
            Value::Null => None,
            values => Some(ComponentValues::read(component, values)?),
        };
        if let Some(values) = values.as_ref().filter(|values| !values.is_preset()) {
            return Err(StepError(format!("values: {values} belong to no profile")));
        }
        let deadline = Duration::from_secs(fields.number("deadlineSeconds")?);
        if deadline.is_zero() || deadline > DEADLINE_MAX {
            return Err(StepError("deadlineSeconds: must be from 1 to 3600".to_owned()));
        }
        let generation = fields.text("generation")?;
        let attempt = u32::try_from(fields.number("attempt")?).map_err(|_| StepError("attempt: too large".to_owned()))?;
        let adopt = match fields.take("adopt") {
            Value::Null => false,
            Value::Bool(adopt) => adopt,
            _ => return Err(StepError("adopt: must be true or false".to_owned())),
        };
        fields.finish()?;
        Ok(ApplyStep { id, component, values, deadline, generation, attempt, adopt })
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// It has not: the agent is at it.
    Running,
    /// The values are in use, and the component is healthy.
    Applied,
    /// They were not, or it was not, before the deadline: everything is as before.
    Reverted,
    /// The agent has touched nothing: the message says why.
    Refused,
}

impl StepResult {
    const ALL: [StepResult; 4] = [StepResult::Running, StepResult::Applied, StepResult::Reverted, StepResult::Refused];

    /// Returns the word of the annotation.
    pub const fn name(self) -> &'static str {
        match self {
            StepResult::Running => "running",
            StepResult::Applied => "applied",
            StepResult::Reverted => "reverted",
            StepResult::Refused => "refused",
        }
    }
}

/// A component as the agent of its node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentState {
    /// Whether the agent can change it now; if not, the message says why.
    pub able: bool,
    /// Whether something of ours is in its files.
    pub changed: bool,
    /// Whether somebody has written its file anew, with our values in it: a step may make it ours again.
    pub adoptable: bool,
    /// What it uses, if it shows that.
    pub values: Option<ComponentValues>,
    /// What stands in the way.
    pub message: String,
}

/// What an agent says: who it is, what it sees, and what became of the last step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppliedStep {
    /// The version of the agent.
    pub version: String,
    /// The components of its node.
    pub components: BTreeMap<Component, ComponentState>,
    /// The last step that it has taken up; empty: none.
    pub id: String,
    /// How that ended.
    pub result: Option<StepResult>,
    /// Why, for people.
    pub message: String,
}

impl AppliedStep {
    /// Returns the text of the annotation.
    pub fn to_text(&self) -> String {
        let components: Map<String, Value> = self
            .components
            .iter()
            .map(|(name, state)| {
                let state = json!({"able": state.able, "changed": state.changed, "adoptable": state.adoptable,
                    "message": state.message, "values": state.values.as_ref().map(ComponentValues::to_json)});
                (name.name().to_owned(), state)
            })
            .collect();
        json!({"version": self.version, "components": components, "id": self.id,
            "result": self.result.map(StepResult::name), "message": self.message})
        .to_string()
    }

    /// Reads what an agent says. Fields and components that a later version may have are passed over.
    pub fn parse(text: &str) -> Result<AppliedStep, StepError> {
        let value: Value = serde_json::from_str(text).map_err(|error| StepError(format!("no JSON: {error}")))?;
        let text_of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let mut components = BTreeMap::new();
        for (name, state) in value["components"].as_object().into_iter().flatten() {
            let Some(component) = Component::parse(name) else { continue };
            let state = ComponentState {
                able: state["able"] == true,
                changed: state["changed"] == true,
                adoptable: state["adoptable"] == true,
                values: ComponentValues::read(component, state["values"].clone()).ok(),
                message: text_of(state, "message"),
            };
            components.insert(component, state);
        }
        let result = StepResult::ALL.into_iter().find(|result| value["result"] == result.name());
        let (version, id) = (text_of(&value, "version"), text_of(&value, "id"));
        if !id.is_empty() && result.is_none() {
            return Err(StepError(format!("result: unknown {}", value["result"])));
        }
        Ok(AppliedStep { version, components, id, result, message: text_of(&value, "message") })
    }
}

/// What the two annotations of a Node say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSteps {
    /// The step that was handed out last.
    pub handed: Option<ApplyStep>,
    /// What the agent says; `None`: nothing that can be read.
    pub answer: Option<AppliedStep>,
}

impl NodeSteps {
    /// Reads the annotations of a Node.
    pub fn read(node: &Node) -> NodeSteps {
        let text = |name: &str| node.metadata.annotations.get(name);
        NodeSteps {
            handed: text(ANNOTATION_APPLY_STEP).and_then(|text| ApplyStep::parse(text).ok()),
            answer: text(ANNOTATION_APPLIED_STEP).and_then(|text| AppliedStep::parse(text).ok()),
        }
    }

    /// Returns how the step that was handed out has ended, as far as the agent has said.
    pub fn result(&self) -> Option<StepResult> {
        let (handed, answer) = (self.handed.as_ref()?, self.answer.as_ref()?);
        answer.result.filter(|_| answer.id == handed.id)
    }

    /// Returns the step that is under way, of this component.
    pub fn pending(&self, component: Component) -> Option<&ApplyStep> {
        let over = self.result().is_some_and(|result| result != StepResult::Running);
        self.handed.as_ref().filter(|handed| handed.component == component && !over)
    }

    /// Returns the step that ended so, of this component and generation.
    pub fn ended(&self, component: Component, generation: &str, result: StepResult) -> Option<&ApplyStep> {
        let handed = self.handed.as_ref()?;
        let same = handed.component == component && handed.generation == generation;
        (same && self.result() == Some(result)).then_some(handed)
    }

    /// Returns how the agent sees a component; `None`: there is no agent that could, or no such component.
    pub fn component(&self, component: Component) -> Option<&ComponentState> {
        self.answer.as_ref()?.components.get(&component)
    }

    /// Returns what the kubelet uses, if its agent says that.
    pub fn kubelet(&self) -> Option<KubeletValues> {
        match self.component(Component::Kubelet)?.values? {
            ComponentValues::Kubelet(values) => Some(values),
            _ => None,
        }
    }

    /// Returns why a component cannot be changed, `None`: it can. Only what its agent publishes counts.
    pub fn obstacle(&self, component: Component, generation: &str) -> Option<String> {
        let Some(answer) = &self.answer else { return Some("no agent of its node says that it can change it".to_owned()) };
        match answer.components.get(&component) {
            None => Some(format!("its agent ({}) does not know it", answer.version)),
            Some(state) if !state.able => Some(state.message.clone()),
            // An agent that says that it can and refuses again and again does not understand what it is asked for.
            Some(_) => self
                .ended(component, generation, StepResult::Refused)
                .filter(|step| step.attempt >= ATTEMPTS_MAX)
                .map(|_| answer.message.clone()),
        }
    }

    /// Returns whether the file of a component is to be made ours again: somebody has written it anew, and a person has asked for another try
    /// (`retry`) since the last step of that component.
    pub fn is_adopted(&self, component: Component, generation: &str) -> bool {
        let retried = generation.contains('/');
        let asked = self.handed.as_ref().is_some_and(|handed| handed.component == component && handed.generation == generation);
        retried && !asked && self.component(component).is_some_and(|state| state.adoptable && state.values.is_some())
    }

    /// Returns whether a component of this generation has been taken back too often.
    pub fn has_failed(&self, component: Component, generation: &str) -> bool {
        self.ended(component, generation, StepResult::Reverted).is_some_and(|step| step.attempt >= ATTEMPTS_MAX)
    }

    /// Returns which attempt the next step with these values is.
    pub fn next_attempt(&self, component: Component, generation: &str, values: Option<&ComponentValues>) -> u32 {
        let ended = |result| self.ended(component, generation, result);
        let before = ended(StepResult::Reverted).or_else(|| ended(StepResult::Refused));
        let before = before.filter(|step| step.values.as_ref() == values);
        before.map_or(1, |step| step.attempt.saturating_add(1))
    }
}

/// Returns the component, the node and the values that a step of a plan means on a stock cluster.
pub fn values_of(step: &Step) -> (Component, ComponentValues) {
    let values = match step {
        Step::Node { heartbeat, .. } => ComponentValues::Kubelet(KubeletValues::of(*heartbeat)),
        Step::Kcm { grace, .. } => ComponentValues::ControllerManager { grace: *grace },
        Step::Kas { not_ready_seconds, unreachable_seconds, .. } => {
            ComponentValues::ApiServer { not_ready_seconds: *not_ready_seconds, unreachable_seconds: *unreachable_seconds }
        }
    };
    (Component::of(step.kind()), values)
}
