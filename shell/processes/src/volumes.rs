//! Volumes of a pod, as directories that its processes find under `$LIFESIGN_VOLUMES/<name>`.
//!
//! A process sees the machine's own file system, so a volume cannot appear at its `mountPath`; only a hostPath that is mounted
//! where it is needs nothing. A volume is filled once, when the pod starts, and appears complete or not at all.

mod files;

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path};

use api::json::{get, int, items, text};
use serde_json::Value;

use files::Files;
use pods::environment::{ConfigError, PodContext, References};

/// Why the volumes of a pod are not there.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The pod, or what it refers to.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The disk.
    #[error("cannot write volume {volume:?}")]
    Io {
        /// The volume.
        volume: String,
        /// What happened.
        #[source]
        source: io::Error,
    },
}

/// Makes the volumes of a pod below `dir`; those that are there already stay as they are.
pub fn prepare(pod: &Value, dir: &Path, references: &References, context: &PodContext) -> Result<(), VolumeError> {
    let root = |source| VolumeError::Io { volume: String::new(), source };
    // Secrets lie here: for nobody else, unless a container runs as somebody else.
    let mode = if others_run(pod, context) { 0o711 } else { 0o700 };
    std::fs::DirBuilder::new().recursive(true).create(dir).map_err(root)?;
    std::fs::set_permissions(dir, PermissionsExt::from_mode(mode)).map_err(root)?;
    for volume in items(pod, &["spec", "volumes"]) {
        let name = text(volume, &["name"]);
        // The API server has checked that; a name that leads elsewhere would be a way out of the pod's directory.
        if !matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]) {
            return Err(ConfigError::Path { volume: name.to_owned(), path: name.to_owned() }.into());
        }
        let target = dir.join(name);
        let io = |source| VolumeError::Io { volume: name.to_owned(), source };
        let content = content(pod, volume, references, context)?;
        if !matches!(content, Content::InPlace) {
            check_reachable(pod, name, dir, context)?;
        }
        match content {
            Content::InPlace => {}
            Content::Empty => {
                if !target.exists() {
                    std::fs::DirBuilder::new().mode(0o777).create(&target).map_err(io)?;
                    // Not what the umask left of it: every user of the pod may write.
                    std::fs::set_permissions(&target, PermissionsExt::from_mode(0o777)).map_err(io)?;
                    give(&target, group(pod), context).map_err(io)?;
                }
            }
            Content::Files(files) => {
                if !target.exists() {
                    let group = group(pod).filter(|_| context.uid == 0);
                    files.write(&dir.join(format!(".{name}.new")), &target, group).map_err(io)?;
                }
            }
        }
    }
    Ok(())
}

/// What a volume holds.
enum Content {
    /// Something of the machine, where it is.
    InPlace,
    /// Nothing at first.
    Empty,
    /// Files.
    Files(Files),
}

fn content(pod: &Value, volume: &Value, references: &References, context: &PodContext) -> Result<Content, ConfigError> {
    let name = text(volume, &["name"]);
    let kind = volume.as_object().into_iter().flatten().find(|(key, value)| *key != "name" && !value.is_null());
    let Some((kind, source)) = kind else {
        // The API server makes it an emptyDir.
        return Ok(Content::Empty);
    };
    let mut files = Files::new(name, int(source, &["defaultMode"]));
    match kind.as_str() {
        "emptyDir" => return Ok(Content::Empty),
        "hostPath" => return host_path(pod, name, source).map(|()| Content::InPlace),
        "configMap" => files.config_map(source, references)?,
        "secret" => files.secret(source, "secretName", references)?,
        "downwardAPI" => files.downward(source, pod, context)?,
        "projected" => {
            for part in items(source, &["sources"]) {
                project(&mut files, part, pod, references, context)?;
            }
        }
        _ => return Err(ConfigError::Volume { volume: name.to_owned(), kind: kind.clone() }),
    }
    Ok(Content::Files(files))
}

fn project(
    files: &mut Files,
    part: &Value,
    pod: &Value,
    references: &References,
    context: &PodContext,
) -> Result<(), ConfigError> {
    for (kind, source) in part.as_object().into_iter().flatten().filter(|(_, source)| !source.is_null()) {
        match kind.as_str() {
            "configMap" => files.config_map(source, references)?,
            "secret" => files.secret(source, "name", references)?,
            "downwardAPI" => files.downward(source, pod, context)?,
            _ => return Err(files.unsupported(&format!("projected {kind}"))),
        }
    }
    Ok(())
}

/// Checks that a hostPath is used where it is, and makes it if it is to be made.
fn host_path(pod: &Value, volume: &str, source: &Value) -> Result<(), ConfigError> {
    let path = text(source, &["path"]);
    for mount in containers(pod).flat_map(|container| items(container, &["volumeMounts"])) {
        if text(mount, &["name"]) != volume {
            continue;
        }
        let mount_path = text(mount, &["mountPath"]);
        let partly = get(mount, "subPath").or_else(|| get(mount, "subPathExpr")).and_then(Value::as_str);
        if mount_path.trim_end_matches('/') != path.trim_end_matches('/') || partly.is_some_and(|part| !part.is_empty()) {
            return Err(ConfigError::HostPath {
                volume: volume.to_owned(),
                path: path.to_owned(),
                mount_path: mount_path.to_owned(),
            });
        }
    }
    let type_ = text(source, &["type"]);
    if !is_of_type(Path::new(path), type_) {
        return Err(ConfigError::HostPathType { volume: volume.to_owned(), path: path.to_owned(), type_: type_.to_owned() });
    }
    Ok(())
}

/// Returns whether something is what a hostPath's type asks for; `...OrCreate` makes it so.
fn is_of_type(path: &Path, type_: &str) -> bool {
    let found = || std::fs::metadata(path).ok().map(|metadata| metadata.file_type());
    match type_ {
        "" => true,
        "DirectoryOrCreate" => std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path).is_ok(),
        "FileOrCreate" => {
            found().is_some_and(|found| found.is_file()) || (found().is_none() && std::fs::File::create_new(path).is_ok())
        }
        "Directory" => found().is_some_and(|found| found.is_dir()),
        "File" => found().is_some_and(|found| found.is_file()),
        "Socket" => found().is_some_and(|found| found.is_socket()),
        "CharDevice" => found().is_some_and(|found| found.is_char_device()),
        "BlockDevice" => found().is_some_and(|found| found.is_block_device()),
        _ => false,
    }
}

/// Returns the containers of the pod.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().flat_map(|kind| items(pod, &["spec", kind]))
}

/// Returns the user or group of a container, where it is not lifesign's own.
fn other_id(pod: &Value, container: &Value, field: &str, own: u32) -> Option<u32> {
    let asked = int(container, &["securityContext", field]).or_else(|| int(pod, &["spec", "securityContext", field]));
    asked.and_then(|id| u32::try_from(id).ok()).filter(|id| *id != own)
}

/// Returns whether a container of the pod runs as another user than lifesign.
fn others_run(pod: &Value, context: &PodContext) -> bool {
    containers(pod).any(|container| other_id(pod, container, "runAsUser", context.uid).is_some())
}

/// Refuses a volume that a container mounts and its user cannot reach, because a folder above it is not theirs to enter.
fn check_reachable(pod: &Value, volume: &str, dir: &Path, context: &PodContext) -> Result<(), VolumeError> {
    for container in containers(pod) {
        let mounts = items(container, &["volumeMounts"]).iter().any(|mount| text(mount, &["name"]) == volume);
        let Some(user) = other_id(pod, container, "runAsUser", context.uid).filter(|user| mounts && *user != 0) else {
            continue;
        };
        let group = other_id(pod, container, "runAsGroup", context.gid).unwrap_or(context.gid);
        let closed = dir.ancestors().find(|folder| !may_enter(folder, user, group));
        if let Some(folder) = closed {
            let (volume, container) = (volume.to_owned(), text(container, &["name"]).to_owned());
            return Err(ConfigError::Unreachable { volume, container, user, path: folder.display().to_string() }.into());
        }
    }
    Ok(())
}

fn may_enter(folder: &Path, user: u32, group: u32) -> bool {
    // What cannot be asked about is not what keeps anybody out.
    let Ok(metadata) = std::fs::metadata(folder) else { return true };
    let right = match (metadata.uid() == user, metadata.gid() == group) {
        (true, _) => 0o100,
        (false, true) => 0o010,
        (false, false) => 0o001,
    };
    metadata.permissions().mode() & right != 0
}

/// Returns the group that owns the volumes.
fn group(pod: &Value) -> Option<u32> {
    int(pod, &["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok())
}

/// Gives a directory to a group; without root all processes have the same user, and it makes no difference.
fn give(path: &Path, group: Option<u32>, context: &PodContext) -> io::Result<()> {
    let Some(group) = group.filter(|_| context.uid == 0) else { return Ok(()) };
    std::os::unix::fs::chown(path, None, Some(group))?;
    // What is made in it belongs to the group too.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o2777))
}

#[cfg(test)]
mod tests;
