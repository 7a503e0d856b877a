//! The commands of the README run.
//!
//! Every line of its `sh` blocks that begins with `lifesign ` or `cargo run --release -- ` is run by the binary under test, in an empty
//! home. A command that serves is stopped once it has said `ready`. Lines for other programs are not run, but must be ones that
//! are known here, so that a new one is a decision.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{lifesign, read, root};

/// Commands that the README has and the binary not yet; a command leaves this list when it lands.
const NOT_YET: [&str; 0] = [];
/// Commands that say `ready` and then serve until they are told to stop.
const SERVING: [&str; 2] = ["up", "apiserver"];
/// What the README names for other programs.
const ELSEWHERE: [&str; 3] = [
    "cargo test --workspace",
    "kubectl --kubeconfig lifesign.kubeconfig get pods,endpointslices",
    "kubectl apply -f lifesign.yaml",
];
/// A machine with two busy cores gets there long before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the lines of the `sh` blocks of a document.
pub(crate) fn shell_lines(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) if !line.trim().is_empty() && !line.starts_with('#') => lines.push(line),
            _ => {}
        }
    }
    lines
}

/// Returns the arguments of a line that runs lifesign, and the file that its output goes to.
fn arguments(line: &str) -> Option<(Vec<&str>, Option<&str>)> {
    let rest = line.strip_prefix("lifesign ").or_else(|| line.strip_prefix("cargo run --release -- "))?;
    let (rest, file) = match rest.split_once(" > ") {
        Some((rest, file)) => (rest, Some(file)),
        None => (rest, None),
    };
    Some((rest.split_whitespace().collect(), file))
}

#[test]
fn every_shell_line_of_the_readme_is_known() {
    let text = read("README.md");
    let lines = shell_lines(&text);
    for line in &lines {
        assert!(arguments(line).is_some() || ELSEWHERE.contains(line), "what is this line of the README? {line}");
    }
    for line in ["cargo run --release -- up -f examples/fast-ready.yaml", "cargo test --workspace"] {
        assert_eq!(lines.iter().filter(|have| **have == line).count(), 1, "the README says once: {line}");
    }
}

#[test]
fn what_is_not_yet_there_is_really_not_there() {
    let home = tempfile::tempdir().unwrap();
    for name in NOT_YET {
        let out = lifesign(home.path()).args([name, "--help"]).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "`lifesign {name}` exists now: take it from NOT_YET, so that its line is run");
    }
}

#[test]
fn the_commands_of_the_readme_run() {
    let home = tempfile::tempdir().unwrap();
    let text = read("README.md");
    let mut running = Vec::new();
    let mut ran = 0;
    // Something must serve for the commands that ask a running plane, whether or not the README's first command is there.
    if NOT_YET.contains(&"up") {
        running.push(Serving::start(home.path(), &["apiserver", "--listen", "127.0.0.1:0"]));
    }
    for (line, (arguments, file)) in shell_lines(&text).into_iter().filter_map(|line| Some((line, arguments(line)?))) {
        let name = arguments[0];
        if NOT_YET.contains(&name) {
            continue;
        }
        ran += 1;
        let mut arguments = arguments;
        // As it is written it takes a minute: `.ci/run` asks for that, here it is ten times as fast.
        if name == "demo" && std::env::var_os("LIFESIGN_WHOLE_DEMO").is_none() {
            arguments.push("--fast");
        }
        if SERVING.contains(&name) {
            running.push(Serving::start(home.path(), &[&arguments[..], &["--listen", "127.0.0.1:0"]].concat()));
            continue;
        }
        let out = in_root(home.path(), &arguments).output().unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        assert!(!out.stdout.is_empty(), "{line} says nothing");
        if let Some(file) = file {
            std::fs::write(home.path().join(file), &out.stdout).unwrap();
        }
    }
    assert!(ran >= 4, "the README lost its commands");
    let config = std::fs::read_to_string(home.path().join("lifesign.kubeconfig")).unwrap();
    assert!(running.iter().any(|serving| config.contains(&serving.url)), "the kubeconfig leads to the running plane: {config}");
    for serving in running {
        serving.stop();
    }
}

/// Returns a command that runs where the README is read: paths in it are relative to the root.
fn in_root(home: &Path, arguments: &[&str]) -> Command {
    let mut command = lifesign(home);
    command.args(arguments).current_dir(root());
    command
}

/// A command that serves.
pub(crate) struct Serving {
    child: Child,
    url: String,
    output: Receiver<String>,
}

impl Serving {
    /// Starts it and waits until it says `ready`.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Serving {
        let log = std::fs::File::create(home.join("log")).expect("the home is ours");
        let mut child = in_root(home, arguments).stdout(Stdio::piped()).stderr(log).spawn().expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = lines.read_line(&mut line);
            let _ = send.send(line);
            // Whatever follows is read, so that the command never waits for us; the end of it is the end of the command.
            let mut rest = String::new();
            let _ = lines.read_to_string(&mut rest);
            let _ = send.send(rest);
        });
        let line = receive.recv_timeout(PATIENCE).unwrap_or_default();
        let mut serving = Serving { child, url: String::new(), output: receive };
        match line.trim_end().strip_prefix("ready ") {
            Some(url) => serving.url = url.to_owned(),
            None => panic!(
                "{arguments:?} said {line:?}, not ready: {}",
                std::fs::read_to_string(home.join("log")).unwrap_or_default()
            ),
        }
        serving
    }

    /// Asks it to stop, as Ctrl-C does, and expects that it does so in good order.
    pub(crate) fn stop(mut self) {
        let interrupted = Command::new("sh")
            .args(["-c", "kill -INT \"$0\"", &self.child.id().to_string()])
            .status()
            .expect("there is a shell");
        assert!(interrupted.success());
        self.output.recv_timeout(PATIENCE).expect("it stops");
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "it stopped with {status}");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Also when an assertion fails: nothing outlives the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
