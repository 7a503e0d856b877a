//! What is to be changed, and what a profile means for each file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use profiles::render::{kas_args, kcm_args, kubelet_dropin};
use profiles::{Target, Values};
use serde_json::Value;

/// The drop-in of the kubelet; it must sort after all others.
pub const DROP_IN: &str = "90-lifesign-latency.conf";

/// A component of a stock cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The kubelet: a systemd unit.
    Kubelet,
    /// The controller manager: a static pod.
    ControllerManager,
    /// The API server: a static pod.
    ApiServer,
}

impl Component {
    /// Every component.
    pub const ALL: [Component; 3] = [Component::Kubelet, Component::ControllerManager, Component::ApiServer];

    /// Returns the name, as files and messages have it.
    pub const fn name(self) -> &'static str {
        match self {
            Component::Kubelet => "kubelet",
            Component::ControllerManager => "kube-controller-manager",
            Component::ApiServer => "kube-apiserver",
        }
    }

    /// Returns how long the component has to prove healthy.
    pub const fn deadline(self) -> Duration {
        match self {
            Component::Kubelet | Component::ControllerManager => Duration::from_secs(120),
            Component::ApiServer => Duration::from_secs(300),
        }
    }
}

/// A file that is to have this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose file.
    pub component: Component,
    /// Which file.
    pub path: PathBuf,
    /// The content; `None`: no file.
    pub content: Option<Vec<u8>>,
}

/// Why a manifest cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is no YAML.
    #[error("not a manifest: {0}")]
    Yaml(String),
    /// It has no container with a command.
    #[error("no container `{0}` with a command")]
    NoCommand(&'static str),
}

/// Returns the drop-in of the kubelet for a profile.
pub fn kubelet(config_dir: &Path, target: Target, values: &Values) -> Change {
    let content = kubelet_dropin(target, values).map(|dropin| {
        // JSON is YAML, and always written the same way.
        let text = serde_json::to_string_pretty(&dropin).expect("a JSON value serializes");
        (text + "\n").into_bytes()
    });
    Change { component: Component::Kubelet, path: config_dir.join(DROP_IN), content }
}

/// Returns the static pod manifest of a control plane component with the arguments of a profile in place of any before.
///
/// For an empty profile only the arguments go; `uninstall` restores the original text.
pub fn static_pod(
    component: Component,
    path: &Path,
    manifest: &str,
    target: Target,
    values: &Values,
) -> Result<Change, ManifestError> {
    let arguments = match component {
        Component::ApiServer => kas_args(target, values),
        Component::ControllerManager | Component::Kubelet => kcm_args(target, values),
    };
    let ours: Vec<&str> = match component {
        Component::ApiServer => vec!["--default-not-ready-toleration-seconds=", "--default-unreachable-toleration-seconds="],
        Component::ControllerManager | Component::Kubelet => vec!["--node-monitor-grace-period="],
    };
    let mut pod: Value = serde_saphyr::from_str(manifest).map_err(|error| ManifestError::Yaml(error.to_string()))?;
    let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut).map(Vec::as_mut_slice);
    let container = containers.unwrap_or_default().iter_mut().find(|container| container["name"] == component.name());
    let command = container.and_then(|container| container.get_mut("command")).and_then(Value::as_array_mut);
    let command = command.ok_or(ManifestError::NoCommand(component.name()))?;
    let mine = |argument: &Value| argument.as_str().is_some_and(|text| ours.iter().any(|prefix| text.starts_with(prefix)));
    command.retain(|argument| !mine(argument));
    command.extend(arguments.into_iter().map(Value::String));
    let text = serde_saphyr::to_string(&pod).map_err(|error| ManifestError::Yaml(error.to_string()))?;
    Ok(Change { component, path: path.to_owned(), content: Some(text.into_bytes()) })
}
