//! The files of a volume, put together before anything is written.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use api::json::{boolean, get, int, items, text};
use serde_json::Value;

use pods::environment::references::ReferenceKind;
use pods::environment::{ConfigError, PodContext, References, field, pod_field, resource};

/// Mode of files that do not say otherwise.
const DEFAULT_MODE: i64 = 0o644;

/// Files by path, with their modes.
#[derive(Debug)]
pub(super) struct Files {
    volume: String,
    default_mode: u32,
    files: BTreeMap<PathBuf, (Vec<u8>, u32)>,
}

impl Files {
    pub(super) fn new(volume: &str, default_mode: Option<i64>) -> Files {
        Files { volume: volume.to_owned(), default_mode: mode(default_mode, DEFAULT_MODE), files: BTreeMap::new() }
    }

    pub(super) fn unsupported(&self, kind: &str) -> ConfigError {
        ConfigError::Volume { volume: self.volume.clone(), kind: kind.to_owned() }
    }

    pub(super) fn config_map(&mut self, source: &Value, references: &References) -> Result<(), ConfigError> {
        self.object(ReferenceKind::ConfigMap, text(source, &["name"]), source, references)
    }

    pub(super) fn secret(&mut self, source: &Value, name: &str, references: &References) -> Result<(), ConfigError> {
        self.object(ReferenceKind::Secret, text(source, &[name]), source, references)
    }

    /// Adds the keys of an object: all of them, or those of `items`.
    fn object(&mut self, kind: ReferenceKind, name: &str, source: &Value, references: &References) -> Result<(), ConfigError> {
        let optional = boolean(source, &["optional"]).unwrap_or(false);
        let Some(data) = references.data(kind, name, optional)? else { return Ok(()) };
        let wanted = items(source, &["items"]);
        if wanted.is_empty() {
            return data.into_iter().try_for_each(|(key, bytes)| self.add(&key, bytes, None));
        }
        for item in wanted {
            let key = text(item, &["key"]);
            match data.get(key) {
                Some(bytes) => self.add(text(item, &["path"]), bytes.clone(), int(item, &["mode"]))?,
                None if optional => {}
                None => return Err(References::missing_key(kind, name, key)),
            }
        }
        Ok(())
    }

    /// Adds fields of the pod.
    pub(super) fn downward(&mut self, source: &Value, pod: &Value, context: &PodContext) -> Result<(), ConfigError> {
        for item in items(source, &["items"]) {
            let value = match (get(item, "fieldRef"), get(item, "resourceFieldRef")) {
                (Some(reference), _) => {
                    let path = text(reference, &["fieldPath"]);
                    if path.starts_with("metadata.") { pod_field(pod, path)? } else { field(pod, path, context)? }
                }
                (None, Some(reference)) => resource(pod, None, reference, context)?,
                (None, None) => String::new(),
            };
            self.add(text(item, &["path"]), value.into_bytes(), int(item, &["mode"]))?;
        }
        Ok(())
    }

    fn add(&mut self, path: &str, bytes: Vec<u8>, wanted: Option<i64>) -> Result<(), ConfigError> {
        let inside = !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return Err(ConfigError::Path { volume: self.volume.clone(), path: path.to_owned() });
        }
        self.files.insert(path.into(), (bytes, mode(wanted, i64::from(self.default_mode))));
        Ok(())
    }

    /// Writes the files beside their place and moves them there at once.
    pub(super) fn write(&self, beside: &Path, target: &Path, group: Option<u32>) -> io::Result<()> {
        match std::fs::remove_dir_all(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Left by an agent that was killed, or not there.
            _ => std::fs::create_dir(beside)?,
        }
        for (path, (bytes, mode)) in &self.files {
            let path = beside.join(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(bytes)?;
            if let Some(group) = group {
                std::os::unix::fs::chown(&path, None, Some(group))?;
            }
            // As the kubelet does: who owns the volume's group may read.
            let mode = if group.is_some() { mode | 0o440 } else { *mode };
            file.set_permissions(PermissionsExt::from_mode(mode))?;
        }
        std::fs::rename(beside, target)
    }
}

fn mode(wanted: Option<i64>, default: i64) -> u32 {
    u32::try_from(wanted.unwrap_or(default) & 0o777).unwrap_or(0o644)
}
