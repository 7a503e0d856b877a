//! Every feature has a page that answers four questions, and every command on it runs.
//!
//! Lines of `sh` blocks run in order, in a shell at the root of the repository, with a `lifesign` and a kubeconfig of their own.
//! `lifesign up` serves for the lines that follow it, until the next one. Lines for kubectl are left out where it is not installed.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::readme::{PATIENCE, Serving, shell_lines};
use crate::{read, root};

/// The pages.
const PAGES: [&str; 4] = ["docs/probes.md", "docs/markers.md", "docs/endpointslices.md", "docs/profiles.md"];
/// What everybody asks.
const QUESTIONS: [&str; 4] =
    ["## How do I turn it on", "## How do I see that it works", "## How do I turn it off", "## What breaks"];

#[test]
fn every_page_of_a_feature_answers_four_questions() {
    for page in PAGES {
        let text = read(page);
        for question in QUESTIONS {
            let Some((_, answer)) = text.split_once(&format!("{question}\n")) else { panic!("{page} has no {question:?}") };
            let answer = answer.split("\n## ").next().unwrap_or_default();
            let kind = if question == "## What breaks" { "|---" } else { "```sh" };
            assert!(answer.contains(kind), "{page}: {question:?} has no {kind}");
        }
    }
}

#[test]
fn commands_about_probes_run() {
    run("docs/probes.md");
}

#[test]
fn commands_about_markers_run() {
    run("docs/markers.md");
}

#[test]
fn commands_about_endpointslices_run() {
    run("docs/endpointslices.md");
}

#[test]
fn commands_about_profiles_run() {
    run("docs/profiles.md");
}

fn run(page: &str) {
    let home = tempfile::tempdir().expect("a temporary folder can be made");
    let text = read(page);
    let (mut plane, mut ran) = (None, 0);
    for line in shell_lines(&text) {
        if let Some(arguments) = line.strip_prefix("lifesign up") {
            plane.take().into_iter().for_each(Serving::stop);
            let arguments: Vec<&str> =
                ["up", "--listen", "127.0.0.1:0"].into_iter().chain(arguments.split_whitespace()).collect();
            plane = Some(Serving::start(home.path(), &arguments));
            ran += 1;
            continue;
        }
        assert!(line.starts_with("lifesign ") || line.starts_with("kubectl "), "{page}: what is {line:?}?");
        if line.starts_with("kubectl ") && !testkit::kubectl::is_installed() {
            continue;
        }
        let mut out = shell(home.path(), line).output().expect("there is a shell");
        // Of what has just changed, `why` says itself that it is to be asked again in a moment.
        let deadline = Instant::now() + PATIENCE;
        while line.starts_with("lifesign why") && !out.status.success() && Instant::now() < deadline {
            out = shell(home.path(), line).output().expect("there is a shell");
        }
        let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{page}: {line}\n{stdout}{stderr}");
        assert!(!stdout.is_empty() || !stderr.is_empty(), "{page}: {line} says nothing");
        ran += 1;
    }
    assert!(ran >= 3, "{page} lost its commands");
    plane.into_iter().for_each(Serving::stop);
}

/// Returns a command of a page, with the binary under test first on the path.
fn shell(home: &Path, line: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_lifesign")).parent().expect("it is in a folder").to_owned();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&rest))).expect("no colon in it");
    let mut command = Command::new("sh");
    let kubeconfig = home.join(".local/state/lifesign/kubeconfig");
    command
        .args(["-c", line])
        .current_dir(root())
        .env_clear()
        .env("HOME", home)
        .env("PATH", path)
        .env("KUBECONFIG", kubeconfig);
    command
}
