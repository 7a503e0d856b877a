//! What a container of a pod runs: its command, environment, directory and user, from the pod and the objects it refers to.
//!
//! Pure: the caller brings the objects. Order of variables as in the kubelet: `envFrom`, then `env` (a later entry wins), then
//! what nobody set: service variables, then the base environment. `$(NAME)` sees what stands before it.

pub mod config;
mod fields;
pub mod references;
mod security;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use api::json::{boolean, items, text};
use serde_json::Value;

pub use config::ConfigError;
pub use fields::{field, pod_field, resource};
pub use references::References;

/// Facts about the node and the pod that no object holds.
#[derive(Clone, Debug, Default)]
pub struct PodContext {
    /// Address of the pod.
    pub pod_ip: String,
    /// Address of the node.
    pub host_ip: String,
    /// What the node has to give, by resource name: stands in for a limit that is not set.
    pub allocatable: BTreeMap<String, String>,
    /// Variables that every container has unless it sets them.
    pub base: BTreeMap<String, String>,
    /// The user that lifesign runs as.
    pub uid: u32,
    /// The group that lifesign runs as.
    pub gid: u32,
}

/// What a container runs, with what could only be honoured in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub working_dir: Option<PathBuf>,
    /// The user, if it is not lifesign's own.
    pub user: Option<u32>,
    /// The group, if it is not lifesign's own.
    pub group: Option<u32>,
    /// What somebody should be told (an event), but keeps nothing from running.
    pub warnings: Vec<String>,
}

/// Resolves a container of a pod; `services` are those of the pod's namespace and `default/kubernetes`.
///
/// An error is a `CreateContainerConfigError`: its text says what to do.
pub fn resolve(
    pod: &Value,
    container: &Value,
    references: &References,
    services: &[api::Service],
    context: &PodContext,
) -> Result<Resolved, ConfigError> {
    let mut warnings = Vec::new();
    let user = security::user(pod, container, context)?;
    let place = api::field::Path::new(format!("spec.containers{{{}}}", text(container, &["name"])));
    warnings.extend(api::process_rules::container_not_honoured(&pod["spec"], container, &place));
    let mut env = base(pod, context, user.user);
    env.extend(services::variables(text(pod, &["metadata", "namespace"]), links(pod), services));
    let given = variables(pod, container, references, context, &env, &mut warnings)?;
    env.extend(given);
    if let Some((name, _)) = env.iter().find(|(_, value)| value.contains('\0')) {
        return Err(ConfigError::ZeroByte { name: name.clone() });
    }
    let words = |name: &str| items(container, &[name]).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let mut command = words("command");
    if command.is_empty() {
        return Err(ConfigError::NoCommand { container: text(container, &["name"]).to_owned() });
    }
    command.extend(words("args"));
    let command = probe::outcome::expand(&command, |name| env.get(name).map(String::as_str));
    let working_dir = Some(text(container, &["workingDir"])).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    Ok(Resolved { command, env, working_dir, user: user.user, group: user.group, warnings })
}

fn links(pod: &Value) -> bool {
    boolean(pod, &["spec", "enableServiceLinks"]).unwrap_or(true)
}

fn base(pod: &Value, context: &PodContext, user: Option<u32>) -> BTreeMap<String, String> {
    let mut env = context.base.clone();
    if user.is_some() {
        // The home of whoever started lifesign is not theirs, and they may not enter its data directory.
        env.insert("HOME".to_owned(), "/".to_owned());
        env.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    }
    for (name, value) in [
        ("POD_IP", context.pod_ip.as_str()),
        ("POD_NAME", text(pod, &["metadata", "name"])),
        ("POD_NAMESPACE", text(pod, &["metadata", "namespace"])),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
    env
}

/// Returns what `envFrom` and `env` set.
fn variables(
    pod: &Value,
    container: &Value,
    references: &References,
    context: &PodContext,
    below: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    for source in items(container, &["envFrom"]) {
        let prefix = text(source, &["prefix"]);
        let mut skipped = BTreeSet::new();
        for (key, value) in references.whole(source)? {
            let name = format!("{prefix}{key}");
            if !is_name(&name) {
                skipped.insert(name);
            } else {
                env.insert(name, value);
            }
        }
        if !skipped.is_empty() {
            let names: Vec<&str> = skipped.iter().map(String::as_str).collect();
            warnings.push(format!("keys that cannot be names of variables were skipped: {}", names.join(", ")));
        }
    }
    for entry in items(container, &["env"]) {
        let name = text(entry, &["name"]).to_owned();
        let literal = text(entry, &["value"]);
        let value = if !literal.is_empty() {
            let known = |name: &str| env.get(name).or_else(|| below.get(name)).map(String::as_str);
            Some(probe::outcome::expand(&[literal.to_owned()], known).remove(0))
        } else if let Some(source) = api::json::get(entry, "valueFrom") {
            value_from(pod, container, source, references, context)?
        } else {
            Some(String::new())
        };
        // An optional source that is not there sets nothing.
        if let Some(value) = value {
            env.insert(name, value);
        }
    }
    Ok(env)
}

fn value_from(
    pod: &Value,
    container: &Value,
    source: &Value,
    references: &References,
    context: &PodContext,
) -> Result<Option<String>, ConfigError> {
    if let Some(reference) = api::json::get(source, "fieldRef") {
        return field(pod, text(reference, &["fieldPath"]), context).map(Some);
    }
    if let Some(reference) = api::json::get(source, "resourceFieldRef") {
        return resource(pod, Some(container), reference, context).map(Some);
    }
    if let Some(reference) = api::json::get(source, "configMapKeyRef") {
        return references.config_map_key(reference);
    }
    if let Some(reference) = api::json::get(source, "secretKeyRef") {
        return references.secret_key(reference);
    }
    let kind = source.as_object().and_then(|containers| containers.keys().next()).cloned().unwrap_or_default();
    Err(ConfigError::ValueFrom { kind })
}

/// Returns whether a text can be the name of a variable: printable ASCII without `=`.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=')
}

#[cfg(test)]
mod tests;
