//! The profiles agent of a node: takes the steps that its Node shows, changes files, and says what became of it.
//!
//! What was under way when it ended is finished or taken back before anything else, also when no API server answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use api::config_node::{ANNOTATION_APPLIED_STEP, ANNOTATION_APPLY_STEP};
use api::{Node, Verb, Write};
use kube::{Client, Config};
use profiles::steps::{AppliedStep, ApplyStep, Component, ComponentState, ComponentValues, Decision, StepResult, decide};
use profiles::stock::values_in_use;
use runtime::{Clock, Informers, WatchEvent, Writer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::node::files::{Obstacle, StaticPod, kubelet_values};
use crate::node::host::{NodeHost, NodePlace};
use crate::{Applier, Disk, Error, Outcome};

/// How often the components are looked at while nothing is asked for.
const LOOK: Duration = Duration::from_secs(30);
/// After something that could not be said.
const AGAIN: Duration = Duration::from_secs(2);
/// Why nothing can be changed while the kubelet is away; its supervisor is about to start it.
const NO_KUBELET: &str = "no kubelet runs here";
/// Whom managedFields name.
const MANAGER: &str = "lifesign-profiles-agent";

/// What a profiles agent is told.
pub struct AgentConfig {
    /// How the API is reached.
    pub config: Config,
    /// The clock.
    pub clock: Clock,
    /// The node.
    pub place: NodePlace,
    /// What it may change.
    pub components: Vec<Component>,
    /// Where records of changes are, on the machine.
    pub records: PathBuf,
}

/// Why an agent cannot work.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The client.
    #[error("the API cannot be reached that way")]
    Client(#[source] kube::Error),
    /// The folder of records.
    #[error("{}", path.display())]
    Records {
        /// Which one.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

type NodeApplier = Applier<Disk, NodeHost>;

/// Runs the agent until told to stop.
pub async fn run(config: AgentConfig, stop: CancellationToken) -> Result<(), AgentError> {
    let client = Client::try_from(config.config.clone()).map_err(AgentError::Client)?;
    std::fs::create_dir_all(&config.records).map_err(|source| AgentError::Records { path: config.records.clone(), source })?;
    let host = NodeHost::new(config.place.clone(), config.config.clone(), client.clone(), stop.clone());
    let metrics = runtime::Metrics::default();
    let agent = Agent {
        applier: Some(Applier::new(config.records, Disk, host)),
        writer: Writer::new(client.clone(), config.clock.clone(), MANAGER, metrics.clone()),
        clock: config.clock,
        node: config.place.name,
        components: config.components,
        answer: AppliedStep { version: env!("CARGO_PKG_VERSION").to_owned(), ..AppliedStep::default() },
        published: None,
    };
    agent.run(Informers::new(client, metrics), stop).await;
    Ok(())
}

struct Agent {
    /// `None` while a thread works with it.
    applier: Option<NodeApplier>,
    writer: Writer,
    clock: Clock,
    node: String,
    components: Vec<Component>,
    answer: AppliedStep,
    /// What was last said.
    published: Option<String>,
}

impl Agent {
    async fn run(mut self, informers: Informers, stop: CancellationToken) {
        self.recover().await;
        let own = format!("metadata.name={}", self.node);
        let mut nodes = informers.follow_in::<Node>(runtime::Scope::fields(own));
        let clock = self.clock.clone();
        let (mut shown, mut known) = (None, false);
        loop {
            if stop.is_cancelled() {
                return;
            }
            let mut again = LOOK;
            if known {
                self.look().await;
                self.take(shown.as_deref(), &stop).await;
                // A component that is about to start says soon what it uses.
                let starting = self.answer.components.values().any(is_starting);
                if !self.publish().await || starting {
                    again = AGAIN;
                }
            }
            let until = clock.now() + again;
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep_until(Some(until)) => {}
                // Other news of the Node are no reason to look.
                step = next_step(&mut nodes, &shown, &mut known, &mut self) => shown = step,
            }
        }
    }

    /// Lets a thread work with the applier: it waits for components.
    async fn work<T: Send + 'static>(&mut self, work: impl FnOnce(&mut NodeApplier) -> T + Send + 'static) -> T {
        let mut applier = self.applier.take().expect("one thing at a time");
        let (applier, result) = tokio::task::spawn_blocking(move || {
            let result = work(&mut applier);
            (applier, result)
        })
        .await
        .expect("the applier does not panic");
        self.applier = Some(applier);
        result
    }

    /// Finishes or takes back what was under way.
    async fn recover(&mut self) {
        let (outcomes, why) = self.work(|applier| (applier.recover(), applier.host().why().to_owned())).await;
        match outcomes {
            Ok(outcomes) => {
                // One whose deadline was over was not looked at again.
                let why = if why.is_empty() {
                    "an agent ended before it was proven, and its deadline is over".to_owned()
                } else {
                    why
                };
                for (component, id, outcome) in outcomes {
                    tracing::info!(component = component.name(), id, ?outcome, "a change that was under way is over");
                    self.conclude(&id, component, Ok(outcome), &why);
                }
            }
            Err(Error::Stopped) => {}
            Err(error) => tracing::error!(error = runtime::chain(&error), "what was under way could not be finished"),
        }
    }

    /// Looks at the components.
    async fn look(&mut self) {
        let components = self.components.clone();
        self.answer.components = self.work(move |applier| look_at(applier, &components)).await;
    }

    /// Takes the step that the Node shows, if it is a new one.
    async fn take(&mut self, shown: Option<&str>, stop: &CancellationToken) {
        let answered = if self.answer.result == Some(StepResult::Running) { "" } else { self.answer.id.as_str() };
        let states = &self.answer.components;
        let able = |component: Component| match states.get(&component) {
            Some(state) if state.able => Ok(()),
            Some(state) => Err(state.message.clone()),
            None => Err(format!("this node has no {} that this agent may change", component.name())),
        };
        match decide(shown, answered, able) {
            Decision::Nothing => {}
            Decision::Refuse { id, message } => {
                tracing::warn!(id, message, "step refused");
                (self.answer.id, self.answer.result, self.answer.message) = (id, Some(StepResult::Refused), message);
            }
            Decision::Begin(step) => {
                tracing::info!(id = step.id, component = step.component.name(), "step begins");
                (self.answer.id, self.answer.result) = (step.id.clone(), Some(StepResult::Running));
                self.answer.message.clear();
                // Nobody waits for that to be heard.
                self.publish().await;
                let (id, component) = (step.id.clone(), step.component);
                let (outcome, why) = self.work(move |applier| (apply(applier, &step), applier.host().why().to_owned())).await;
                if !stop.is_cancelled() || !matches!(outcome, Err(StepError::Applier(Error::Stopped))) {
                    self.conclude(&id, component, outcome, &why);
                }
                self.look().await;
            }
        }
    }

    /// Says how a step ended.
    fn conclude(&mut self, id: &str, component: Component, outcome: Result<Outcome, StepError>, why: &str) {
        let (result, message) = match outcome {
            Ok(Outcome::Applied | Outcome::Unchanged) => (StepResult::Applied, String::new()),
            Ok(Outcome::Reverted(_)) => (StepResult::Reverted, why.to_owned()),
            Ok(Outcome::Foreign(path)) => (StepResult::Refused, foreign(&path)),
            Err(StepError::Obstacle(obstacle)) => (StepResult::Refused, obstacle.0),
            Err(StepError::Applier(error)) => (StepResult::Refused, runtime::chain(&error)),
        };
        tracing::info!(id, component = component.name(), result = result.name(), message, "step over");
        (self.answer.id, self.answer.result, self.answer.message) = (id.to_owned(), Some(result), message);
    }

    /// Says what there is to say, if it is news; returns whether it was heard.
    async fn publish(&mut self) -> bool {
        let text = self.answer.to_text();
        if self.published.as_ref() == Some(&text) {
            return true;
        }
        let patch = json!({"metadata": {"annotations": {ANNOTATION_APPLIED_STEP: text}}});
        match self.writer.perform(&Write::to::<Node>("", self.node.as_str(), Verb::Merge(patch))).await {
            Ok(_) => {
                self.published = Some(text);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the state of this node could not be said");
                false
            }
        }
    }

    /// Takes what an earlier agent of this node has said: a step that is answered is not done again.
    fn remember(&mut self, node: &Node) {
        let stored = node.metadata.annotations.get(ANNOTATION_APPLIED_STEP).and_then(|text| AppliedStep::parse(text).ok());
        if let Some(earlier) = stored.filter(|_| self.answer.id.is_empty()) {
            (self.answer.id, self.answer.result, self.answer.message) = (earlier.id, earlier.result, earlier.message);
        }
    }
}

/// Waits until the Node shows another step than before, or is seen for the first time.
async fn next_step(
    nodes: &mut runtime::Events<Node>,
    shown: &Option<String>,
    known: &mut bool,
    agent: &mut Agent,
) -> Option<String> {
    loop {
        if let WatchEvent::Applied(node) = nodes.next().await {
            if !*known {
                agent.remember(&node.view);
            }
            let step = node.view.metadata.annotations.get(ANNOTATION_APPLY_STEP).cloned();
            if !std::mem::replace(known, true) || step != *shown {
                return step;
            }
        }
    }
}

/// Why a step was not begun.
enum StepError {
    Obstacle(Obstacle),
    Applier(Error),
}

/// Does a step, and returns when it is confirmed or taken back.
fn apply(applier: &mut NodeApplier, step: &ApplyStep) -> Result<Outcome, StepError> {
    let Some(values) = &step.values else {
        return applier.restore(step.component, &step.id, step.deadline).map_err(StepError::Applier);
    };
    let kubelet = applier.host().kubelet();
    let kubelet = kubelet.ok_or_else(|| StepError::Obstacle(Obstacle(NO_KUBELET.to_owned())))?;
    let change = match values {
        ComponentValues::Kubelet(values) => kubelet.change(values),
        values => match StaticPod::find(&kubelet.manifests(), step.component) {
            Ok(Some(pod)) => pod.change(values),
            Ok(None) => Err(Obstacle(format!("no static pod of {}", step.component.name()))),
            Err(obstacle) => Err(obstacle),
        },
    };
    applier.apply(&change.map_err(StepError::Obstacle)?, &step.id, step.deadline).map_err(StepError::Applier)
}

/// Returns how the components of this node are; those that it does not have are left out.
fn look_at(applier: &mut NodeApplier, components: &[Component]) -> BTreeMap<Component, ComponentState> {
    let kubelet = applier.host().kubelet();
    let mut states = BTreeMap::new();
    for component in components {
        let Some(kubelet) = &kubelet else {
            let message = NO_KUBELET.to_owned();
            states.insert(*component, ComponentState { message, ..ComponentState::default() });
            continue;
        };
        let (path, values) = match component {
            Component::Kubelet => {
                let configz = applier.host().configz();
                let values = configz.as_ref().ok().and_then(kubelet_values).map(ComponentValues::Kubelet);
                let known = configz.map_err(Obstacle).map(drop);
                (known.and_then(|()| kubelet.check()).and_then(|()| kubelet.path()), values)
            }
            component => match StaticPod::find(&kubelet.manifests(), *component) {
                Ok(None) => continue,
                Ok(Some(pod)) => {
                    let process = applier.host().process(*component);
                    (Ok(pod.path), process.and_then(|process| values_in_use(*component, &process.command)))
                }
                Err(obstacle) => (Err(obstacle), None),
            },
        };
        let path = path.and_then(|path| match applier.is_foreign(*component, &path) {
            Ok(false) => Ok(path),
            Ok(true) => Err(Obstacle(foreign(&path))),
            Err(error) => Err(Obstacle(runtime::chain(&error))),
        });
        let changed = applier.has_changed(*component);
        let message = path.err().map(|obstacle| obstacle.0).unwrap_or_default();
        states.insert(*component, ComponentState { able: message.is_empty(), changed, values, message });
    }
    states
}

/// Returns whether a component will say more in a moment.
fn is_starting(state: &ComponentState) -> bool {
    state.values.is_none() && (state.able || state.message == NO_KUBELET)
}

fn foreign(path: &std::path::Path) -> String {
    format!("{} was changed by somebody else since our last change", path.display())
}
