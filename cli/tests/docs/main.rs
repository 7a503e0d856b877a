//! What the documents say is what the binary does: the help of every command, and the commands of the README.

mod features;
mod help;
mod install;
mod metrics;
mod readme;
mod release;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the binary under test, in a world of its own: nothing of the caller's environment, and an empty home.
fn lifesign(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
    command.env_clear().env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Asserts that a file is what it should be; with `LIFESIGN_UPDATE` it is written first.
fn written(path: &str, text: &str) {
    if std::env::var_os("LIFESIGN_UPDATE").is_some() {
        std::fs::write(root().join(path), text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let stored = read(path);
    let first = stored.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        stored == text,
        "{path} is not what it should be, from line {}; write it again with LIFESIGN_UPDATE=1",
        first.unwrap_or_else(|| stored.lines().count().min(text.lines().count())) + 1
    );
}
