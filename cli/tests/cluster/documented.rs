//! The worked example of docs/cluster.md, word for word.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::bed::Bed;
use crate::installation::static_program;
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[("documented::the_worked_example_runs_word_for_word", the_worked_example)];

/// Returns the lines of the first block of a language in a text.
fn block<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}");
    let lines = text.lines().skip_while(|line| *line != begin).skip(1);
    lines.take_while(|line| *line != "```").collect()
}

fn the_worked_example(bed: &Bed) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cluster.md")).unwrap();
    let example = page.split("\n## A worked example\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let (manifest, commands) = (block(example, "yaml").join("\n") + "\n", block(example, "sh"));
    let image = manifest.lines().find_map(|line| line.trim().strip_prefix("image: ")).expect("an image").to_owned();
    bed.run(&["image", &image, &static_program()]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("web.yaml"), manifest).unwrap();
    let programs = Path::new(LIFESIGN).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut reasons = String::new();
    for line in &commands {
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(folder.path()).env("PATH", &path).env("KUBECONFIG", bed.kubeconfig());
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{line}\n{text}");
        if line.contains("jsonpath") {
            reasons = text;
        }
    }
    assert!(commands.len() >= 9, "the example lost its commands: {commands:?}");
    assert_eq!(reasons, "ProbesSucceeded ProbesSucceeded");
    assert!(bed.find("/api/v1/namespaces/lifesign-system").is_none(), "something is left");
}
