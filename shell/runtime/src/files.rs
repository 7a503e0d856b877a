//! Files and folders for their owner alone.
//!
//! A file is written beside its place under a name that nobody can foresee, and takes its place whole or not at all. What is
//! the same as before is not written: a start on a full disk changes nothing.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What the names of files end with that are being written.
const TEMPORARY: &str = ".lifesign-new";
/// What others may do, in the mode of a file.
const OTHERS: u32 = 0o077;

/// Makes a folder that only its owner may enter, and the folders above it.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a folder for data that only we may enter. One that others may enter is tightened if nothing or one of `ours` lies in
/// it, and refused otherwise: it may be somebody's home.
pub fn claim_private_folder(path: &Path, ours: &[&str]) -> io::Result<()> {
    make_private_folder(path)?;
    let metadata = fs::metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own {
        let (owner, refused) = (metadata.uid(), io::ErrorKind::PermissionDenied);
        return Err(io::Error::new(refused, format!("it belongs to user {owner}, who may enter it, and not to user {own}")));
    }
    let mode = metadata.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let known = ours.iter().any(|name| path.join(name).exists());
    if !known && fs::read_dir(path)?.next().is_some() {
        let why = format!(
            "others may enter it (mode {:o}) and it holds files of something else; chmod 700 makes it private",
            mode & 0o7777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    tracing::warn!(path = %path.display(), mode = format!("{:o}", mode & 0o7777), "others could enter this folder; now they cannot");
    fs::set_permissions(path, Permissions::from_mode(mode & 0o700))
}

/// Takes the rights of others to the files of a folder, and removes what a crash has left half written.
pub fn tidy_private_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if !metadata.is_file() {
            continue;
        }
        if entry.file_name().to_string_lossy().ends_with(TEMPORARY) {
            fs::remove_file(entry.path())?;
        } else if metadata.permissions().mode() & OTHERS != 0 {
            fs::set_permissions(entry.path(), Permissions::from_mode(metadata.permissions().mode() & 0o700))?;
        }
    }
    Ok(())
}

/// Opens a file for its owner alone, made if it is not there; one that others could read is theirs no longer.
pub fn open_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(mode & 0o700))?;
    }
    Ok(file)
}

/// Makes an empty file beside a place, for its owner alone, with a name that nobody could have taken before.
pub fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{:016x}{TEMPORARY}", u64::from_le_bytes(random)));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
    Ok((beside, file))
}

/// Writes a file that only its owner may read, whole or not at all, unless it is as it should be.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        make_private_folder(folder)?;
    }
    let same = fs::read(path).is_ok_and(|present| present == content);
    if same && fs::metadata(path)?.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    match replace(path, content) {
        // A full disk still has the blocks of the file itself.
        Err(error) if error.kind() == io::ErrorKind::StorageFull && path.exists() => overwrite(path, content),
        outcome => outcome,
    }
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (beside, mut file) = create_beside(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is half written helps nobody; the error that matters is the first one.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn overwrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = open_private(path)?;
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_the_owner_may_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/secret");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn what_is_the_same_is_not_written_but_made_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_private(&path, b"one").unwrap();
        let before = fs::metadata(&path).unwrap().ino();
        write_private(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), before);
        chmod(&path, 0o644);
        write_private(&path, b"one").unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_failure_leaves_nothing_behind_and_a_full_disk_uses_the_blocks_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        // A file cannot take the place of a folder.
        let place = folder.path().join("place");
        fs::create_dir(&place).unwrap();
        assert!(write_private(&place, b"one").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let path = folder.path().join("file");
        fs::write(&path, b"a longer text than the next").unwrap();
        overwrite(&path, b"short").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"short".to_vec(), 0o600));
    }

    #[test]
    fn a_link_that_somebody_laid_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (first, _) = create_beside(&path).unwrap();
        let (second, _) = create_beside(&path).unwrap();
        assert_ne!(first, second, "names cannot be foreseen");
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        write_private(&path, b"secret").unwrap();
        assert!(!target.exists() && !fs::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[test]
    fn a_folder_that_others_may_enter_is_tightened_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        chmod(&data, 0o755);
        claim_private_folder(&data, &["lock"]).unwrap();
        assert_eq!(mode(&data), 0o700, "an empty folder");
        fs::write(data.join("lock"), b"").unwrap();
        chmod(&data, 0o2771);
        claim_private_folder(&data, &["lock"]).unwrap();
        assert_eq!(mode(&data) & OTHERS, 0, "a folder of ours");
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("letter"), b"").unwrap();
        chmod(&home, 0o755);
        let error = claim_private_folder(&home, &["lock"]).unwrap_err();
        assert!(error.to_string().contains("mode 755") && error.to_string().contains("chmod 700"), "{error}");
        assert_eq!(mode(&home), 0o755, "somebody else's folder is left as it is");
    }

    #[test]
    fn files_of_the_past_are_made_private_and_half_written_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("store"), b"").unwrap();
        chmod(&folder.path().join("store"), 0o644);
        fs::create_dir(folder.path().join("pods")).unwrap();
        create_beside(&folder.path().join("store")).unwrap();
        tidy_private_folder(folder.path()).unwrap();
        assert_eq!(mode(&folder.path().join("store")), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
