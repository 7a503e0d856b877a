//! The profiles agent of a node: takes the steps that its Node shows, changes files, and says what became of it.
//!
//! What is under way is finished or taken back before anything else, also when no API server answers, and as often as it takes.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use api::config_node::{ANNOTATION_APPLIED_STEP, ANNOTATION_APPLY_STEP};
use api::{Node, Verb, Write};
use machine::Time;
use profiles::steps::{
    AppliedStep, ApplyStep, Component, ComponentState, ComponentValues, Decision, StepResult, Unable, decide,
};
use profiles::stock::values_in_use;
use runtime::{Client, Clock, Config, Informers, WatchEvent, Writer};
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
    Client(#[source] runtime::ConfigError),
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
    let records = runtime::files::make_private_folder(&config.records)
        .and_then(|()| std::fs::set_permissions(&config.records, Permissions::from_mode(0o700)))
        .and_then(|()| runtime::files::tidy_private_folder(&config.records));
    records.map_err(|source| AgentError::Records { path: config.records.clone(), source })?;
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
        waits_since: None,
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
    /// Since when the step that the Node shows waits for a component.
    waits_since: Option<Time>,
}

impl Agent {
    async fn run(mut self, informers: Informers, stop: CancellationToken) {
        let own = format!("metadata.name={}", self.node);
        let mut nodes = informers.follow_in::<Node>(runtime::Scope::fields(own));
        let clock = self.clock.clone();
        let (mut shown, mut known) = (None, false);
        loop {
            if stop.is_cancelled() {
                return;
            }
            // Nothing else is begun while something is neither confirmed nor taken back.
            let over = self.recover().await;
            let mut again = if over { LOOK } else { AGAIN };
            if known {
                self.look().await;
                if over {
                    self.take(shown.as_deref()).await;
                }
                // A component that is about to start says soon what it uses.
                let starting = self.answer.components.values().any(is_starting);
                let unfinished = self.answer.result == Some(StepResult::Running);
                if !self.publish().await || starting || unfinished {
                    again = AGAIN;
                }
            }
            let until = clock.now() + again;
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep_until(Some(until)) => {}
                // Other news of the Node are no reason to look.
                step = next_step(&mut nodes, &shown, &mut known, &mut self) => (shown, self.waits_since) = (step, None),
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

    /// Finishes or takes back what was under way; returns whether nothing is any more.
    async fn recover(&mut self) -> bool {
        let mut over = true;
        for component in Component::ALL {
            let (outcome, why) = self.work(move |applier| (applier.recover_one(component), applier.why())).await;
            match outcome {
                Ok(None) => {}
                Ok(Some((id, outcome))) => {
                    tracing::info!(component = component.name(), id, ?outcome, "a change that was under way is over");
                    self.conclude(&id, component, Ok(outcome), &why);
                }
                // The next agent goes on.
                Err(Error::Stopped) => over = false,
                // Nothing can be undone by what cannot be read: the component is one that cannot be changed.
                Err(error @ Error::Record(_)) => {
                    tracing::error!(component = component.name(), error = runtime::chain(&error), "its record cannot be used");
                }
                Err(error) => {
                    let error = runtime::chain(&error);
                    tracing::error!(component = component.name(), error, "what was under way could not be finished yet");
                    (self.answer.message, over) = (error, false);
                }
            }
        }
        over
    }

    /// Looks at the components.
    async fn look(&mut self) {
        let components = self.components.clone();
        self.answer.components = self.work(move |applier| look_at(applier, &components)).await;
    }

    /// Takes the step that the Node shows, if it is a new one.
    async fn take(&mut self, shown: Option<&str>) {
        let answered = if self.answer.result == Some(StepResult::Running) { "" } else { self.answer.id.as_str() };
        let states = &self.answer.components;
        let able = |step: &ApplyStep| match states.get(&step.component) {
            Some(state) if state.able || state.adoptable && step.adopt => Ok(()),
            Some(state) if is_starting(state) => Err(Unable::Yet(state.message.clone())),
            Some(state) => Err(Unable::ByItself(state.message.clone())),
            None => {
                let name = step.component.name();
                Err(Unable::ByItself(format!("this node has no {name} that this agent may change")))
            }
        };
        let now = self.clock.now();
        let waited = now.since(*self.waits_since.get_or_insert(now));
        match decide(shown, answered, waited, able) {
            Decision::Nothing => self.waits_since = None,
            Decision::Wait => {}
            Decision::Refuse { id, message } => {
                tracing::warn!(id, message, "step refused");
                (self.answer.id, self.answer.result, self.answer.message) = (id, Some(StepResult::Refused), message);
            }
            Decision::Begin(step) => {
                tracing::info!(id = step.id, component = step.component.name(), "step begins");
                (self.answer.id, self.answer.result) = (step.id.clone(), Some(StepResult::Running));
                self.answer.message.clear();
                self.waits_since = None;
                // Nobody waits for that to be heard.
                self.publish().await;
                let (id, component) = (step.id.clone(), step.component);
                let work =
                    move |applier: &mut NodeApplier| (apply(applier, &step), applier.why(), applier.is_pending(component));
                let (outcome, why, pending) = self.work(work).await;
                match outcome {
                    // The next turn goes on, or the next agent, and says how it ends.
                    Err(StepError::Applier(Error::Stopped)) => {}
                    Err(StepError::Applier(error)) if pending => {
                        tracing::error!(id, error = runtime::chain(&error), "the step could not be finished yet");
                        self.answer.message = runtime::chain(&error);
                    }
                    // It was there a moment ago: the next turn waits for it.
                    Err(StepError::NoKubelet) => self.answer.message = NO_KUBELET.to_owned(),
                    Err(StepError::Obstacle(obstacle)) => self.conclude(&id, component, Err(obstacle), &why),
                    Err(StepError::Applier(error)) => {
                        self.conclude(&id, component, Err(Obstacle(runtime::chain(&error))), &why)
                    }
                    Ok(outcome) => self.conclude(&id, component, Ok(outcome), &why),
                }
                self.look().await;
            }
        }
    }

    /// Says how a step ended.
    fn conclude(&mut self, id: &str, component: Component, outcome: Result<Outcome, Obstacle>, why: &str) {
        let (result, message) = match outcome {
            Ok(Outcome::Applied | Outcome::Unchanged) => (StepResult::Applied, String::new()),
            Ok(Outcome::Reverted(_)) => (StepResult::Reverted, why.to_owned()),
            Ok(Outcome::Foreign(path)) => (StepResult::Refused, foreign(&path)),
            Err(obstacle) => (StepResult::Refused, obstacle.0),
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
    NoKubelet,
    Obstacle(Obstacle),
    Applier(Error),
}

/// Does a step, and returns when it is confirmed or taken back.
fn apply(applier: &mut NodeApplier, step: &ApplyStep) -> Result<Outcome, StepError> {
    let Some(values) = &step.values else {
        return applier.restore(step.component, &step.id, step.deadline).map_err(StepError::Applier);
    };
    if step.adopt {
        applier.adopt(step.component).map_err(StepError::Applier)?;
    }
    let kubelet = applier.host().kubelet();
    let kubelet = kubelet.ok_or(StepError::NoKubelet)?;
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
        let able = message.is_empty();
        let adoptable = !able && applier.is_adoptable(*component);
        states.insert(*component, ComponentState { able, changed, adoptable, values, message });
    }
    states
}

/// Returns whether a component will say more in a moment.
fn is_starting(state: &ComponentState) -> bool {
    state.values.is_none()
}

fn foreign(path: &std::path::Path) -> String {
    format!("{} was changed by somebody else since our last change", path.display())
}
