//! `docs/cli.md` is the help of all commands: a flag cannot change unnoticed.

use std::fmt::Write;
use std::path::Path;

use crate::{lifesign, written};

const HEAD: &str = "# Command line\n\n\
    The help of every command, as the binary prints it; `LIFESIGN_UPDATE=1 cargo test -p lifesign --test docs` writes this file.\n";

#[test]
fn the_help_of_every_command_is_in_docs_cli_md() {
    let home = tempfile::tempdir().unwrap();
    let mut text = HEAD.to_owned();
    describe(home.path(), &mut Vec::new(), &mut text);
    written("docs/cli.md", &text);
}

/// Appends the help of a command, then that of its subcommands.
fn describe(home: &Path, way: &mut Vec<String>, text: &mut String) {
    let out = lifesign(home).args(&*way).arg("--help").output().expect("the binary runs");
    let help = String::from_utf8(out.stdout).expect("help is text");
    assert!(out.status.success() && out.stderr.is_empty(), "lifesign {} --help failed", way.join(" "));
    let title = ["lifesign"].into_iter().chain(way.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
    let _ = write!(text, "\n## `{title}`\n\n```\n");
    for line in help.trim_end().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("```\n");
    for name in subcommands(&help) {
        way.push(name);
        describe(home, way, text);
        way.pop();
    }
}

/// Returns the commands that a help lists, without `help` itself.
fn subcommands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        // The name is two columns in; what is further in goes on with a description.
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_wrong_command_line_is_exit_2_and_talks_on_stderr() {
    let home = tempfile::tempdir().unwrap();
    for arguments in
        [&["no-such-command"][..], &["apiserver", "--no-such-flag"], &["apiserver", "--feature-gates", "Nope=true"], &[]]
    {
        let out = lifesign(home.path()).args(arguments).output().unwrap();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{arguments:?}");
        assert!(!out.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_unknown_gate_is_refused_with_the_known_ones() {
    let home = tempfile::tempdir().unwrap();
    let out = lifesign(home.path()).args(["apiserver", "--feature-gates", "Nope=true"]).output().unwrap();
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    let known = [
        "EndpointSliceTerminatingCondition",
        "PreferSameTrafficDistribution",
        "ProbeOnListen",
        "SubSecondProbeTimeouts",
        "SubSecondProbes",
    ];
    for name in known.into_iter().chain(["Nope"]) {
        assert!(output.contains(name), "{output}");
    }
}

#[test]
fn completions_exist_for_every_shell() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = lifesign(home.path()).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success() && script.contains("lifesign") && script.contains("kubeconfig"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let home = tempfile::tempdir().unwrap();
    let mut child =
        lifesign(home.path()).args(["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), String::from_utf8_lossy(&out.stderr).as_ref()), (Some(0), ""));
}
