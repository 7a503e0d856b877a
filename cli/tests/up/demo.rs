//! `lifesign demo`, at ten times the speed: two at once, each to its end, and nothing is left.

use std::path::Path;
use std::process::{Child, Command, Stdio};

fn demo(folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_lifesign"))
        .args(["demo", "--fast"])
        .env("TMPDIR", folder)
        .env_remove("LIFESIGN_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

/// Returns the processes that a folder is named by.
fn processes(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let command = |entry: std::fs::DirEntry| {
        let text = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&text).replace('\0', " ")).filter(|text| text.contains(&mark))
    };
    std::fs::read_dir("/proc").expect("this is Linux").filter_map(Result::ok).filter_map(command).collect()
}

#[test]
fn two_demos_at_once_show_all_four_features_and_leave_nothing() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let running: Vec<Child> = folders.iter().map(|folder| demo(folder.path())).collect();
    for (child, folder) in running.into_iter().zip(&folders) {
        let out = child.wait_with_output().expect("it is our child");
        let (text, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(0), "{text}\n{log}");
        for words in [
            "1. Ready when it listens",
            "asked once a second",
            "2. The idle game server is scaled in first",
            "the two idle servers went within",
            "3. A rolling update loses no request",
            "requests to their Service: 0 failed",
            "4. A node falls silent",
            "the node is Unknown",
            "MediumUpdateAverageReaction",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "plain text where there is no terminal: {text}");
        assert_eq!(log, "", "nothing to complain about");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folder is removed");
        assert_eq!(processes(folder.path()), Vec::<String>::new(), "every process has ended");
    }
}
