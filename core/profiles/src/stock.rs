//! The control plane of a stock cluster: static pods whose arguments say what is in use.
//!
//! A component is found by its container, never by a label. What an argument does not say is what the component has built in.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::duration;
use api::meta::{Kind, ObjectMeta, Scope};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openshift::Rendered;
use crate::profile::{BUILT_IN_GRACE, Profile};
use crate::steps::{Component, ComponentValues};

/// The annotation that tells the mirror of a static pod from any other pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The name of what operators run, in place of a node.
const OPERATORS: &str = "openshift";
/// The arguments that a profile is about, by component; also those that kubeadm has to remember.
const GRACE: &str = "node-monitor-grace-period";
const NOT_READY: &str = "default-not-ready-toleration-seconds";
const UNREACHABLE: &str = "default-unreachable-toleration-seconds";

/// Returns the arguments of a component that a profile sets.
pub const fn arguments_of(component: Component) -> &'static [&'static str] {
    match component {
        Component::Kubelet => &["node-status-update-frequency"],
        Component::ControllerManager => &[GRACE],
        Component::ApiServer => &[NOT_READY, UNREACHABLE],
    }
}

/// A pod as far as it may be the mirror of a static one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorPod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: MirrorPodSpec,
}

/// The part of a pod that says how a component was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MirrorPodSpec {
    /// Where it runs.
    #[serde(deserialize_with = "api::meta::null_default")]
    pub node_name: String,
    /// Its containers.
    #[serde(deserialize_with = "api::meta::null_default")]
    pub containers: Vec<MirrorContainer>,
}

/// The command of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorContainer {
    /// Its name: that of the component.
    pub name: String,
    /// The program and arguments.
    #[serde(deserialize_with = "api::meta::null_default")]
    pub command: Vec<String>,
    /// Further arguments.
    #[serde(deserialize_with = "api::meta::null_default")]
    pub args: Vec<String>,
}

impl Kind for MirrorPod {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const SCOPE: Scope = Scope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl MirrorPod {
    /// Returns the component that it mirrors and its command line; `None`: it mirrors none of ours.
    pub fn component(&self) -> Option<(Component, Vec<String>)> {
        self.metadata.annotations.get(MIRROR)?;
        let found = |container: &MirrorContainer| {
            let component = Component::parse(&container.name).filter(|component| *component != Component::Kubelet)?;
            Some((component, [container.command.as_slice(), &container.args].concat()))
        };
        self.spec.containers.iter().find_map(found)
    }
}

/// Returns what a command line says for an argument; of several the last one counts.
pub fn argument<'a>(command: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (index, text) in command.iter().enumerate() {
        let Some(rest) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else { continue };
        match rest.split_once('=') {
            Some((argument, value)) if argument == name => found = Some(value),
            None if rest == name => found = command.get(index + 1).map(String::as_str),
            _ => {}
        }
    }
    found
}

/// Returns the arguments of a component that a command line gives explicitly, as text.
pub fn explicit_arguments(component: Component, command: &[String]) -> BTreeMap<&'static str, String> {
    let given = |name: &&'static str| argument(command, name).map(|value| (*name, value.to_owned()));
    arguments_of(component).iter().filter_map(given).collect()
}

/// Returns what a component uses that was started so; `None`: a value cannot be read, or it is a kubelet, which has files.
pub fn values_in_use(component: Component, command: &[String]) -> Option<ComponentValues> {
    let seconds = |name: &str, built_in: i64| argument(command, name).map_or(Some(built_in), |text| text.parse().ok());
    let built_in = Profile::Default.values();
    match component {
        Component::Kubelet => None,
        Component::ControllerManager => {
            let grace = argument(command, GRACE).map_or(Some(BUILT_IN_GRACE), |text| duration::parse(text).ok())?;
            Some(ComponentValues::ControllerManager { grace })
        }
        Component::ApiServer => Some(ComponentValues::ApiServer {
            not_ready_seconds: seconds(NOT_READY, built_in.default_not_ready_toleration_seconds)?,
            unreachable_seconds: seconds(UNREACHABLE, built_in.default_unreachable_toleration_seconds)?,
        }),
    }
}

/// What the mirror pods of a cluster say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticPods {
    /// The command line of each component, by node.
    commands: BTreeMap<(Component, String), Vec<String>>,
    /// The node whose controller manager leads, if that is known.
    pub leader: Option<String>,
}

impl StaticPods {
    /// Takes the mirror of a component; returns whether that is news.
    pub fn take(&mut self, pod: &MirrorPod) -> bool {
        let Some((component, command)) = pod.component() else { return false };
        let key = (component, pod.spec.node_name.clone());
        self.commands.insert(key, command.clone()).is_none_or(|before| before != command)
    }

    /// Takes what an operator of OpenShift has rendered for all replicas of a component; returns whether that is news.
    pub fn take_rendered(&mut self, rendered: &Rendered, config: &Value) -> bool {
        let command = rendered.command(config);
        let key = (rendered.component, OPERATORS.to_owned());
        self.commands.insert(key, command.clone()).is_none_or(|before| before != command)
    }

    /// Forgets a mirror that is gone.
    pub fn remove(&mut self, pod: &MirrorPod) -> bool {
        let Some((component, _)) = pod.component() else { return false };
        self.commands.remove(&(component, pod.spec.node_name.clone())).is_some()
    }

    /// Takes the holder of the Lease of the controller managers: `host_uuid`, where the host is the node.
    pub fn take_leader(&mut self, holder: &str) -> bool {
        let leader = holder.rsplit_once('_').map(|(host, _)| host.to_owned());
        std::mem::replace(&mut self.leader, leader.clone()) != leader
    }

    /// Returns the nodes of a component and what each uses; `None`: it does not show that.
    pub fn of(&self, component: Component) -> impl Iterator<Item = (&str, Option<ComponentValues>)> {
        let all = self.commands.iter().filter(move |((of, _), _)| *of == component);
        all.map(move |((_, node), command)| (node.as_str(), values_in_use(component, command)))
    }

    /// Returns the arguments that every replica of a component is given explicitly, with the same value.
    pub fn explicit(&self, component: Component) -> BTreeMap<&'static str, String> {
        let commands = || self.commands.iter().filter(|((of, _), _)| *of == component).map(|(_, command)| command);
        let given = |name: &&'static str| {
            let values: BTreeSet<Option<&str>> = commands().map(|command| argument(command, name)).collect();
            let one = values.first().copied().flatten().filter(|_| values.len() == 1);
            one.map(|value| (*name, value.to_owned()))
        };
        arguments_of(component).iter().filter_map(given).collect()
    }
}

/// Gives the container of a component in a manifest these arguments in place of any before that a profile is about. Returns whether there is
/// such a container with a command.
pub fn set_arguments(
    manifest: &mut Value,
    component: Component,
    arguments: impl IntoIterator<Item = (&'static str, String)>,
) -> bool {
    let containers = manifest.pointer_mut("/spec/containers").and_then(Value::as_array_mut).map(Vec::as_mut_slice);
    let container = containers.unwrap_or_default().iter_mut().find(|container| container["name"] == component.name());
    let Some(container) = container.filter(|container| container["command"].is_array()) else { return false };
    for list in ["command", "args"] {
        let Some(words) = container.get_mut(list).and_then(Value::as_array_mut) else { continue };
        remove_arguments(words, arguments_of(component));
    }
    let words = container["command"].as_array_mut().expect("it was looked at");
    words.extend(arguments.into_iter().map(|(name, value)| Value::String(format!("--{name}={value}"))));
    true
}

/// Removes arguments in both forms: `--name=value`, and `--name` with the value as the next word.
fn remove_arguments(words: &mut Vec<Value>, names: &[&str]) {
    let mut value_follows = false;
    words.retain(|word| {
        if std::mem::take(&mut value_follows) {
            return false;
        }
        let Some(rest) = word.as_str().and_then(|text| text.strip_prefix("--").or_else(|| text.strip_prefix('-'))) else {
            return true;
        };
        let name = rest.split_once('=').map_or(rest, |(name, _)| name);
        let ours = names.contains(&name);
        value_follows = ours && rest == name;
        !ours
    });
}
