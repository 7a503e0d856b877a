//! The few operations on files that a change consists of.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Operations on files; tests interrupt each of them.
pub trait Files {
    /// Returns the content of a file; `None`: there is none.
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// Makes a file with this content, durable on return.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Puts a file in the place of another.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file if it is there.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Makes renames and removals in the folder of a file durable.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        // Records and prepared files are copies of manifests, which are not for everybody to read.
        let mut file = runtime::files::open_private(path)?;
        file.set_len(0)?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // A file that was there keeps its rights.
        if let Ok(before) = std::fs::metadata(to) {
            std::fs::set_permissions(from, before.permissions())?;
        }
        std::fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_written_is_for_its_owner_alone_and_a_file_that_was_there_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let (aside, place) = (folder.path().join(".aside"), folder.path().join("place"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        std::fs::write(&aside, b"left by an earlier version, and longer").unwrap();
        std::fs::set_permissions(&aside, Permissions::from_mode(0o644)).unwrap();
        Disk.write(&aside, b"new").unwrap();
        assert_eq!((std::fs::read(&aside).unwrap(), mode(&aside)), (b"new".to_vec(), 0o600));
        Disk.rename(&aside, &place).unwrap();
        assert_eq!(mode(&place), 0o600);
        std::fs::set_permissions(&place, Permissions::from_mode(0o640)).unwrap();
        Disk.write(&aside, b"newer").unwrap();
        Disk.rename(&aside, &place).unwrap();
        assert_eq!(mode(&place), 0o640);
    }
}
