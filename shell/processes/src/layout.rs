//! Where things are in the data directory.
//!
//! ```text
//! pods/<uid>/volumes/<volume>/                what containers find under $LIFESIGN_VOLUMES
//! pods/<uid>/tmp/                             their $TMPDIR
//! pods/<uid>/containers/<name>/<number>/      one instance: see `state`
//! ```

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use runtime::files::write_private;

use crate::state::instance_dir;

/// The file in the directory of an instance that says that it was stopped because the agent stopped.
const INTERRUPTED: &str = "interrupted";

/// The data directory of an agent.
#[derive(Clone, Debug)]
pub struct Layout(PathBuf);

impl Layout {
    /// Returns the layout of a data directory.
    pub fn new(data_dir: &Path) -> Layout {
        Layout(data_dir.join("pods"))
    }

    /// Returns the directory of a pod; `None` for a uid that is no name of a directory.
    pub fn pod(&self, uid: &str) -> Option<PodDir> {
        let plain = !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        plain.then(|| PodDir(self.0.join(uid)))
    }

    /// Returns the uids of the pods that have a directory.
    pub fn uids(&self) -> io::Result<Vec<String>> {
        names(&self.0)
    }
}

/// The directory of a pod.
#[derive(Clone, Debug)]
pub struct PodDir(PathBuf);

impl PodDir {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where the volumes are.
    pub fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    /// Returns where temporary files are.
    pub fn tmp(&self) -> PathBuf {
        self.0.join("tmp")
    }

    /// Returns the directory of a container.
    pub fn container(&self, name: &str) -> PathBuf {
        self.0.join("containers").join(name)
    }

    /// Returns the directory of an instance of a container.
    pub fn instance(&self, name: &str, number: u64) -> PathBuf {
        instance_dir(&self.container(name), number)
    }

    /// Returns the containers that have a directory.
    pub fn containers(&self) -> io::Result<Vec<String>> {
        names(&self.0.join("containers"))
    }

    /// Makes the directory, and the one for temporary files. `shared`: containers may run as other users.
    pub fn create(&self, shared: bool) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::DirBuilder::new().recursive(true).mode(if shared { 0o711 } else { 0o700 }).create(&self.0)?;
        std::fs::DirBuilder::new().recursive(true).create(self.tmp())?;
        std::fs::set_permissions(self.tmp(), PermissionsExt::from_mode(0o1777))
    }
}

/// Returns the names of the directories in a directory; one that is not there has none.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|type_| type_.is_dir());
    Ok(entries.filter_map(Result::ok).filter(directory).filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Notes that an instance is stopped because the agent stops, so that the next agent does not judge it by its exit code.
pub fn mark_interrupted(instance: &Path) {
    // Without the mark the exit code decides: no harm for nearly every container.
    if let Err(error) = write_private(&instance.join(INTERRUPTED), b"") {
        tracing::warn!(path = %instance.display(), %error, "a container cannot be marked as interrupted");
    }
}

/// Returns whether an instance was stopped because the agent stopped.
pub fn is_interrupted(instance: &Path) -> bool {
    instance.join(INTERRUPTED).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_never_leads_out_of_the_directory() {
        let layout = Layout::new(Path::new("/data"));
        assert!(layout.pod("0b1c-77").is_some());
        for bad in ["", "..", "a/b", ".", "a\0b"] {
            assert!(layout.pod(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn what_was_made_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        assert_eq!(layout.uids().unwrap(), Vec::<String>::new());
        let pod = layout.pod("u1").unwrap();
        pod.create(false).unwrap();
        std::fs::create_dir_all(pod.instance("app", 3)).unwrap();
        assert_eq!((layout.uids().unwrap(), pod.containers().unwrap()), (vec!["u1".to_owned()], vec!["app".to_owned()]));
        mark_interrupted(&pod.instance("app", 3));
        assert!(is_interrupted(&pod.instance("app", 3)) && !is_interrupted(&pod.instance("app", 2)));
    }
}
