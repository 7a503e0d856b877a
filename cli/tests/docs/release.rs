//! What a release has in it: the archive that deploy/release makes, and the names that the binary goes by.

use std::path::Path;
use std::process::Command;

use crate::{lifesign, root};

#[test]
fn an_archive_has_the_binary_its_names_completions_and_pages_and_its_checksum_holds() {
    let out = tempfile::tempdir().unwrap();
    let made = Command::new(root().join("deploy/release"))
        .args(["--binary", env!("CARGO_BIN_EXE_lifesign")])
        .arg(out.path())
        .output()
        .expect("there is a shell");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let checked =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(out.path()).status().unwrap();
    assert!(checked.success());
    let names: Vec<String> =
        std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    let archive = names.iter().find(|name| name.ends_with(".tar.gz")).expect("an archive");
    assert!(archive.contains(env!("CARGO_PKG_VERSION")), "{archive}");
    assert!(Command::new("tar").arg("-xzf").arg(archive).current_dir(out.path()).status().unwrap().success());
    let tree = out.path().join(archive.trim_end_matches(".tar.gz"));
    for name in [
        "completions/lifesign.bash",
        "man/lifesign.1",
        "man/lifesign-up.1",
        "man/lifesign-profile-set.1",
        "LICENSE",
        "README.md",
    ] {
        assert!(std::fs::metadata(tree.join(name)).is_ok_and(|file| file.len() > 0), "{name}");
    }
    let help = Command::new(tree.join("kubectl-lifesign")).args(["why", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("Usage: kubectl lifesign why"), "{help}");
    as_plugin(&tree);
}

/// kubectl finds the plugin by its name.
fn as_plugin(tree: &Path) {
    if !testkit::kubectl::is_installed() {
        return;
    }
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(tree.to_owned()).chain(std::env::split_paths(&rest))).expect("no colon in it");
    let out = Command::new("kubectl").args(["lifesign", "--version"]).env("PATH", path).output().expect("kubectl runs");
    assert!(
        String::from_utf8_lossy(&out.stdout).contains(env!("CARGO_PKG_VERSION")),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn the_manual_page_is_printed() {
    let home = tempfile::tempdir().unwrap();
    let out = lifesign(home.path()).arg("man").output().unwrap();
    let page = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && page.contains(".TH lifesign 1") && page.contains("demo"), "{page}");
    let out = lifesign(home.path()).args(["man", "/no/such/folder"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
}
