//! kubeadm's record of a control plane: the ClusterConfiguration that the next `kubeadm upgrade` makes manifests of.
//!
//! It has to know the arguments of a profile, or an upgrade would drop them, and must forget them when they are given back. What it said before
//! the first change is remembered as text, so that it is what it was, byte for byte, unless somebody has edited it since.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::steps::Component;
use crate::stock::arguments_of;

/// The components that kubeadm makes manifests of, as far as a profile is about them.
const COMPONENTS: [Component; 2] = [Component::ControllerManager, Component::ApiServer];

/// A ClusterConfiguration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// As it is written.
    pub text: String,
    /// What it means.
    pub value: Value,
}

/// What kubeadm remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubeadm {
    /// Now.
    pub now: Configuration,
    /// Before the first change of ours; `None`: there was none.
    pub original: Option<Configuration>,
}

/// Whose arguments the static pods of a component have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// Those of a profile.
    Ours(BTreeMap<&'static str, String>),
    /// Those of before.
    Theirs,
    /// Nobody can say now.
    Unknown,
}

/// What kubeadm is to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeadmChange {
    /// This text: what it was before.
    Text(String),
    /// This configuration.
    Value(Value),
}

/// What follows for kubeadm from whose arguments the static pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeadmPlan {
    /// What it is to remember, if that is something else.
    pub change: Option<KubeadmChange>,
    /// What is to be remembered as its original; before that is so nothing is changed.
    pub original: Option<String>,
}

impl Kubeadm {
    /// Returns what follows from whose arguments the components have.
    pub fn plan(&self, arguments: impl Fn(Component) -> Arguments) -> KubeadmPlan {
        let all: Vec<(Component, Arguments)> =
            COMPONENTS.into_iter().map(|component| (component, arguments(component))).collect();
        let Some(original) = &self.original else {
            let ours = all.iter().any(|(_, arguments)| matches!(arguments, Arguments::Ours(_)));
            return KubeadmPlan { change: None, original: ours.then(|| self.now.text.clone()) };
        };
        let given_back = all.iter().all(|(_, arguments)| *arguments == Arguments::Theirs);
        if given_back && without_ours(&self.now.value) == without_ours(&original.value) {
            let differs = self.now.text != original.text;
            // It is forgotten when it is there again.
            let text = differs.then(|| original.text.clone());
            return KubeadmPlan { change: text.clone().map(KubeadmChange::Text), original: text };
        }
        let mut changed = None;
        for (component, arguments) in all {
            let arguments = match arguments {
                Arguments::Ours(arguments) => arguments,
                Arguments::Theirs => arguments_in(&original.value, component),
                Arguments::Unknown => continue,
            };
            changed = with_arguments(changed.as_ref().unwrap_or(&self.now.value), component, &arguments).or(changed);
        }
        let keep = !given_back || changed.is_some();
        KubeadmPlan { change: changed.map(KubeadmChange::Value), original: keep.then(|| original.text.clone()) }
    }
}

fn section(component: Component) -> Option<&'static str> {
    match component {
        Component::Kubelet => None,
        Component::ControllerManager => Some("controllerManager"),
        Component::ApiServer => Some("apiServer"),
    }
}

/// Returns whether arguments are a map of names and values: a list since v1beta4.
fn is_map(configuration: &Value) -> bool {
    matches!(configuration["apiVersion"].as_str(), Some("kubeadm.k8s.io/v1beta3" | "kubeadm.k8s.io/v1beta2"))
}

/// Returns the arguments of a component that a profile is about and that a ClusterConfiguration has.
fn arguments_in(configuration: &Value, component: Component) -> BTreeMap<&'static str, String> {
    let extra = section(component).map_or(&Value::Null, |section| &configuration[section]["extraArgs"]);
    let given = |name: &&'static str| {
        let value = if is_map(configuration) {
            &extra[*name]
        } else {
            &extra.as_array()?.iter().rfind(|one| one["name"] == *name)?["value"]
        };
        value.as_str().map(|value| (*name, value.to_owned()))
    };
    arguments_of(component).iter().filter_map(given).collect()
}

/// Returns a ClusterConfiguration without any argument that a profile is about: what else it says.
fn without_ours(configuration: &Value) -> Value {
    let mut rest = configuration.clone();
    for component in COMPONENTS {
        rest = with_arguments(&rest, component, &BTreeMap::new()).unwrap_or(rest);
        let section = section(component).expect("both have one");
        if rest[section] == json!({}) {
            rest.as_object_mut().expect("it has a section").remove(section);
        }
    }
    rest
}

/// Returns kubeadm's ClusterConfiguration with these arguments of a component, and without those of ours that are not among them;
/// `None`: it is so already. Otherwise the next `kubeadm upgrade` would write manifests without them.
fn with_arguments(configuration: &Value, component: Component, arguments: &BTreeMap<&'static str, String>) -> Option<Value> {
    let section = section(component)?;
    let mut changed = configuration.clone();
    if !changed[section].is_object() {
        changed[section] = json!({});
    }
    let is_map = is_map(configuration);
    let extra = &changed[section]["extraArgs"];
    let ours = |name: &str| arguments_of(component).contains(&name);
    let new = if is_map {
        let kept = extra.as_object().into_iter().flatten().filter(|(name, _)| !ours(name));
        let mut map: Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        map.extend(arguments.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        Value::Object(map)
    } else {
        let kept = extra.as_array().into_iter().flatten().filter(|one| !ours(one["name"].as_str().unwrap_or_default()));
        let added = arguments.iter().map(|(name, value)| json!({"name": name, "value": value}));
        Value::Array(kept.cloned().chain(added).collect())
    };
    let is_empty = new.as_array().is_some_and(Vec::is_empty) || new.as_object().is_some_and(Map::is_empty);
    let object = changed[section].as_object_mut().expect("it was made one");
    if is_empty {
        object.remove("extraArgs");
    } else {
        object.insert("extraArgs".to_owned(), new);
    }
    // A section that was not there is not made for nothing.
    if configuration.get(section).is_none() && changed[section] == json!({}) {
        return None;
    }
    (changed != *configuration).then_some(changed)
}
