//! The ConfigMaps and Secrets that a pod refers to.

use std::collections::{BTreeMap, BTreeSet};

use api::json::{boolean, get, items, object, text};
use base64::Engine;
use serde_json::Value;

use super::ConfigError;

/// ConfigMaps and Secrets of the pod's namespace by name, as the caller found them.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// ConfigMaps.
    pub config_maps: BTreeMap<String, Value>,
    /// Secrets.
    pub secrets: BTreeMap<String, Value>,
}

/// The names that a pod refers to, for the caller to look up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Secrets.
    pub secrets: BTreeSet<String>,
}

impl Needed {
    /// Returns what the containers and volumes of a pod refer to.
    pub fn of(pod: &Value) -> Needed {
        let mut needed = Needed::default();
        for kind in ["initContainers", "containers"] {
            for container in items(pod, &["spec", kind]) {
                for source in items(container, &["envFrom"]) {
                    needed.config_map(text(source, &["configMapRef", "name"]));
                    needed.secret(text(source, &["secretRef", "name"]));
                }
                for entry in items(container, &["env"]) {
                    needed.config_map(text(entry, &["valueFrom", "configMapKeyRef", "name"]));
                    needed.secret(text(entry, &["valueFrom", "secretKeyRef", "name"]));
                }
            }
        }
        for volume in items(pod, &["spec", "volumes"]) {
            needed.config_map(text(volume, &["configMap", "name"]));
            needed.secret(text(volume, &["secret", "secretName"]));
            for source in items(volume, &["projected", "sources"]) {
                needed.config_map(text(source, &["configMap", "name"]));
                needed.secret(text(source, &["secret", "name"]));
            }
        }
        needed
    }

    fn config_map(&mut self, name: &str) {
        self.config_maps.extend(Some(name.to_owned()).filter(|name| !name.is_empty()));
    }

    fn secret(&mut self, name: &str) {
        self.secrets.extend(Some(name.to_owned()).filter(|name| !name.is_empty()));
    }
}

/// Which kind of object a reference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl ReferenceKind {
    fn name(self) -> &'static str {
        match self {
            ReferenceKind::ConfigMap => "configmap",
            ReferenceKind::Secret => "secret",
        }
    }
}

impl References {
    /// Returns the value of a `configMapKeyRef`; `None`: optional and not there.
    pub(super) fn config_map_key(&self, reference: &Value) -> Result<Option<String>, ConfigError> {
        self.key(ReferenceKind::ConfigMap, reference)
    }

    /// Returns the value of a `secretKeyRef`; `None`: optional and not there.
    pub(super) fn secret_key(&self, reference: &Value) -> Result<Option<String>, ConfigError> {
        self.key(ReferenceKind::Secret, reference)
    }

    fn key(&self, kind: ReferenceKind, reference: &Value) -> Result<Option<String>, ConfigError> {
        let (name, key) = (text(reference, &["name"]), text(reference, &["key"]));
        let optional = boolean(reference, &["optional"]).unwrap_or(false);
        let Some(data) = self.data(kind, name, optional)? else { return Ok(None) };
        match data.get(key) {
            Some(bytes) => as_text(kind, name, key, bytes).map(Some),
            None if optional => Ok(None),
            None => Err(ConfigError::MissingKey { kind: kind.name(), name: name.to_owned(), key: key.to_owned() }),
        }
    }

    /// Returns all pairs of an `envFrom` entry; binary data of ConfigMaps is no text and is left out.
    pub(super) fn whole(&self, source: &Value) -> Result<Vec<(String, String)>, ConfigError> {
        let (kind, reference) = match (get(source, "configMapRef"), get(source, "secretRef")) {
            (Some(reference), _) => (ReferenceKind::ConfigMap, reference),
            (None, Some(reference)) => (ReferenceKind::Secret, reference),
            (None, None) => return Ok(Vec::new()),
        };
        let name = text(reference, &["name"]);
        let Some(found) = self.object(kind, name, boolean(reference, &["optional"]).unwrap_or(false))? else {
            return Ok(Vec::new());
        };
        let pairs = object(found, &["data"]).into_iter().flatten();
        pairs
            .map(|(key, value)| {
                let bytes = decode(kind, value);
                as_text(kind, name, key, &bytes).map(|value| (key.clone(), value))
            })
            .collect()
    }

    /// Returns the bytes of an object by key; `None`: optional and not there.
    pub fn data(
        &self,
        kind: ReferenceKind,
        name: &str,
        optional: bool,
    ) -> Result<Option<BTreeMap<String, Vec<u8>>>, ConfigError> {
        let Some(found) = self.object(kind, name, optional)? else { return Ok(None) };
        let mut data: BTreeMap<String, Vec<u8>> =
            object(found, &["data"]).into_iter().flatten().map(|(key, value)| (key.clone(), decode(kind, value))).collect();
        if kind == ReferenceKind::ConfigMap {
            let binary = object(found, &["binaryData"]).into_iter().flatten();
            data.extend(binary.map(|(key, value)| (key.clone(), decode(ReferenceKind::Secret, value))));
        }
        Ok(Some(data))
    }

    /// Returns the error of a key that is not there.
    pub fn missing_key(kind: ReferenceKind, name: &str, key: &str) -> ConfigError {
        ConfigError::MissingKey { kind: kind.name(), name: name.to_owned(), key: key.to_owned() }
    }

    fn object(&self, kind: ReferenceKind, name: &str, optional: bool) -> Result<Option<&Value>, ConfigError> {
        let found = match kind {
            ReferenceKind::ConfigMap => self.config_maps.get(name),
            ReferenceKind::Secret => self.secrets.get(name),
        };
        match found {
            Some(found) => Ok(Some(found)),
            None if optional => Ok(None),
            None => Err(ConfigError::Missing { kind: kind.name(), name: name.to_owned() }),
        }
    }
}

/// Returns the bytes of a value: ConfigMaps hold text, Secrets base64 that the API server has checked.
fn decode(kind: ReferenceKind, value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    match kind {
        ReferenceKind::ConfigMap => text.as_bytes().to_owned(),
        ReferenceKind::Secret => base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default(),
    }
}

fn as_text(kind: ReferenceKind, name: &str, key: &str, bytes: &[u8]) -> Result<String, ConfigError> {
    let not_text = |_| ConfigError::NotText { kind: kind.name(), name: name.to_owned(), key: key.to_owned() };
    String::from_utf8(bytes.to_owned()).map_err(not_text)
}
