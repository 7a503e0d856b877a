//! The files of components on a node: where they are, what they say, and what a step makes of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use api::duration;
use profiles::render::{drop_in, set_fields};
use profiles::steps::{Component, ComponentValues, KubeletValues};
use profiles::stock::{argument, arguments_of, explicit_arguments, set_arguments};
use serde_json::Value;

use crate::change::{Change, DROP_IN};

/// Where static pods are if the kubelet does not say.
const MANIFESTS: &str = "/etc/kubernetes/manifests";

/// Why the files of a component cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Obstacle(pub(crate) String);

/// The command line of the kubelet that runs, and the folder through which the machine's files are seen.
#[derive(Clone, Debug)]
pub(crate) struct KubeletFiles {
    pub(crate) root: PathBuf,
    pub(crate) command: Vec<String>,
    /// What `/configz` says, if it was asked.
    pub(crate) configz: Option<Value>,
}

impl KubeletFiles {
    fn seen(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn config_dir(&self) -> Option<PathBuf> {
        argument(&self.command, "config-dir").filter(|folder| !folder.is_empty()).map(|folder| self.seen(folder))
    }

    /// Returns the file that a profile is in: a drop-in where the kubelet reads a folder of them, else its main file.
    pub(crate) fn path(&self) -> Result<PathBuf, Obstacle> {
        let main = || argument(&self.command, "config").map(|file| self.seen(file));
        let path = self.config_dir().map(|folder| folder.join(DROP_IN)).or_else(main);
        path.ok_or_else(|| Obstacle("the kubelet has neither --config-dir nor --config".to_owned()))
    }

    /// Finds what would win over our file: a flag, or a drop-in that sorts after it.
    pub(crate) fn check(&self) -> Result<(), Obstacle> {
        if let Some(flag) = arguments_of(Component::Kubelet).iter().find(|name| argument(&self.command, name).is_some()) {
            return Err(Obstacle(format!("the flag --{flag} of the kubelet wins over every file: remove it")));
        }
        let Some(folder) = self.config_dir() else { return Ok(()) };
        let files = std::fs::read_dir(&folder).map_err(|error| Obstacle(format!("{}: {error}", folder.display())))?;
        for path in files.filter_map(Result::ok).map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.ends_with(".conf") || name == DROP_IN {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(|error| Obstacle(format!("{}: {error}", path.display())))?;
            let config: Value = serde_saphyr::from_str(&text).unwrap_or_default();
            if config["kind"] != "KubeletConfiguration" {
                return Err(Obstacle(format!("{} is no KubeletConfiguration: the kubelet would not start", path.display())));
            }
            if name.as_str() > DROP_IN && KUBELET_FIELDS.iter().any(|field| !config[*field].is_null()) {
                return Err(Obstacle(format!("{} sorts after {DROP_IN} and wins over it", path.display())));
            }
        }
        Ok(())
    }

    /// Returns the change that gives the kubelet these values.
    pub(crate) fn change(&self, values: &KubeletValues) -> Result<Change, Obstacle> {
        let path = self.path()?;
        let content = if self.config_dir().is_some() {
            // JSON is YAML, and always written the same way.
            serde_json::to_string_pretty(&drop_in(values)).map_err(|error| Obstacle(error.to_string()))? + "\n"
        } else {
            let mut config = read_yaml(&path)?;
            set_fields(&mut config, values);
            write_yaml(&config, &path)?
        };
        let values = Some(ComponentValues::Kubelet(*values));
        Ok(Change { component: Component::Kubelet, path, content: Some(content.into_bytes()), values })
    }

    /// Returns the folder of static pods.
    pub(crate) fn manifests(&self) -> PathBuf {
        let folder = self.configz.as_ref().and_then(|config| config["staticPodPath"].as_str()).filter(|path| !path.is_empty());
        self.seen(folder.unwrap_or(MANIFESTS))
    }
}

/// Reads what `/configz` of a kubelet says about the values of a profile.
pub(crate) fn kubelet_values(configz: &Value) -> Option<KubeletValues> {
    let span = |name: &str| configz[name].as_str().and_then(|text| duration::parse(text).ok());
    Some(KubeletValues {
        update_frequency: span("nodeStatusUpdateFrequency")?,
        report_frequency: span("nodeStatusReportFrequency")?,
        lease_duration: std::time::Duration::from_secs(configz["nodeLeaseDurationSeconds"].as_u64()?),
    })
}

fn read_yaml(path: &Path) -> Result<Value, Obstacle> {
    let bad = |error: &dyn std::fmt::Display| Obstacle(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| bad(&error))?;
    if value.is_object() { Ok(value) } else { Err(bad(&"no object")) }
}

/// Writes YAML that means the same: what would be read back as something else is not written at all.
fn write_yaml(value: &Value, path: &Path) -> Result<String, Obstacle> {
    let bad = |error: &dyn std::fmt::Display| Obstacle(format!("{}: {error}", path.display()));
    let text = serde_saphyr::to_string(value).map_err(|error| bad(&error))?;
    let back: Value = serde_saphyr::from_str(&text).map_err(|error| bad(&error))?;
    if back == *value { Ok(text) } else { Err(bad(&"cannot be written without a change of its meaning")) }
}

/// A static pod of a component.
#[derive(Clone, Debug)]
pub(crate) struct StaticPod {
    pub(crate) component: Component,
    pub(crate) path: PathBuf,
    manifest: Value,
}

impl StaticPod {
    /// Finds the static pod of a component by its container; `None`: this node has none.
    pub(crate) fn find(folder: &Path, component: Component) -> Result<Option<StaticPod>, Obstacle> {
        let Ok(files) = std::fs::read_dir(folder) else { return Ok(None) };
        let mut paths: Vec<PathBuf> = files.filter_map(Result::ok).map(|entry| entry.path()).collect();
        paths.sort();
        let mut found = None;
        for path in paths {
            let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            let Some(manifest) = (!hidden && path.is_file()).then(|| read_yaml(&path).ok()).flatten() else { continue };
            let containers = manifest["spec"]["containers"].as_array().into_iter().flatten();
            if !containers.into_iter().any(|container| container["name"] == component.name()) {
                continue;
            }
            if let Some(StaticPod { path: other, .. }) = &found {
                return Err(Obstacle(format!("both {} and {} run {}", other.display(), path.display(), component.name())));
            }
            found = Some(StaticPod { component, path, manifest });
        }
        Ok(found)
    }

    /// Returns the change that gives the component these values.
    pub(crate) fn change(&self, values: &ComponentValues) -> Result<Change, Obstacle> {
        let mut manifest = self.manifest.clone();
        if !set_arguments(&mut manifest, self.component, values.arguments()) {
            let (path, name) = (self.path.display(), self.component.name());
            return Err(Obstacle(format!("{path}: no container {name} with a command")));
        }
        let content = write_yaml(&manifest, &self.path)?.into_bytes();
        Ok(Change { component: self.component, path: self.path.clone(), content: Some(content), values: Some(*values) })
    }

    /// Returns where the component says whether it is well, as its own probes ask it.
    pub(crate) fn health_url(&self) -> Option<String> {
        let containers = self.manifest["spec"]["containers"].as_array()?;
        let container = containers.iter().find(|container| container["name"] == self.component.name())?;
        let probe = ["livenessProbe", "readinessProbe", "startupProbe"];
        let get = probe.iter().map(|probe| &container[*probe]["httpGet"]).find(|get| get.is_object())?;
        let scheme = get["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        let path = if self.component == Component::ApiServer { "readyz" } else { "healthz" };
        let port = match &get["port"] {
            Value::String(name) => {
                let ports = container["ports"].as_array()?;
                ports.iter().find(|port| port["name"] == name.as_str())?["containerPort"].as_u64()?
            }
            port => port.as_u64()?,
        };
        Some(format!("{scheme}://{}:{port}/{path}", get["host"].as_str().unwrap_or("127.0.0.1")))
    }
}

/// The fields of a kubelet's configuration that a profile is about.
const KUBELET_FIELDS: [&str; 3] = ["nodeStatusUpdateFrequency", "nodeStatusReportFrequency", "nodeLeaseDurationSeconds"];

/// Returns what the file of a component says explicitly about a profile, as text; a file that is not there says nothing. `None`: it cannot be
/// read, or is not a file of that component.
pub(crate) fn settings(component: Component, content: Option<&[u8]>) -> Option<BTreeMap<&'static str, String>> {
    let Some(content) = content else { return Some(BTreeMap::new()) };
    let file: Value = serde_saphyr::from_slice(content).ok()?;
    if component == Component::Kubelet {
        let text = |field: &&'static str| match &file[*field] {
            Value::Null => None,
            Value::String(text) => Some((*field, text.clone())),
            other => Some((*field, other.to_string())),
        };
        return (file["kind"] == "KubeletConfiguration").then(|| KUBELET_FIELDS.iter().filter_map(text).collect());
    }
    let containers = file["spec"]["containers"].as_array()?;
    let container = containers.iter().find(|container| container["name"] == component.name())?;
    let words = |list: &str| container[list].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let command: Vec<String> = words("command").chain(words("args")).collect();
    Some(explicit_arguments(component, &command))
}

/// Returns a file that says about a profile what `ours` says, with what `before` says in place of that; `None`: it does not say it.
pub(crate) fn with_settings(
    component: Component,
    file: Option<&[u8]>,
    ours: Option<&[u8]>,
    before: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let (is, before) = (settings(component, file)?, settings(component, before)?);
    if is.is_empty() || Some(is) != settings(component, ours) {
        return None;
    }
    let mut value: Value = serde_saphyr::from_slice(file?).ok()?;
    if component == Component::Kubelet {
        let fields = value.as_object_mut()?;
        for field in KUBELET_FIELDS {
            match before.get(field) {
                // A number is one of seconds.
                Some(text) => {
                    drop(fields.insert(field.to_owned(), text.parse::<u64>().map_or(text.clone().into(), Value::from)))
                }
                None => drop(fields.remove(field)),
            }
        }
    } else {
        set_arguments(&mut value, component, before);
    }
    write_yaml(&value, Path::new(component.name())).ok().map(String::into_bytes)
}

#[cfg(test)]
mod tests;
