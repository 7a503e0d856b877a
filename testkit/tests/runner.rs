//! The vector runner itself: what it runs, and how it fails.
//!
//! This target starts itself as a test target of a package would run: with a table, folders and a check of its own. So
//! what is looked at is the exit code and the output that a user of `cargo test` gets.

use std::path::Path;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use testkit::Verdict;
use testkit::table::{Runner, Table};
use testkit::vectors::{Suite, added_folders};

/// Says that this process is the runner to look at, and where its own folder is.
const OWN: &str = "LIFESIGN_RUNNER_OWN";
const TABLE: Table = &[("sums/small", Runner::Package("example")), ("sums/later", Runner::NotYetWired)];

type Case = testkit::Case<Vec<i64>, Value>;

fn main() -> ExitCode {
    if let Some(own) = std::env::var_os(OWN) {
        let folders = std::iter::once(own.into()).chain(added_folders()).collect();
        let check = |case: Case| testkit::same(&case.expect, &serde_json::json!({"sum": case.given.iter().sum::<i64>()}));
        return Suite::of("example", TABLE, folders).file("sums/small", check).run();
    }
    let trials = vec![
        trial("every_case_is_a_test_of_its_own", every_case_is_a_test_of_its_own),
        trial("a_wrong_case_fails_with_topic_file_name_and_difference", a_wrong_case_fails),
        trial("a_misspelt_key_is_an_error", a_misspelt_key_is_an_error),
        trial("an_added_folder_is_run_too", an_added_folder_is_run_too),
        trial("a_file_that_no_runner_knows_is_an_error", an_unknown_file_is_an_error),
        trial("a_topic_that_no_runner_knows_is_an_error", an_unknown_topic_is_an_error),
        trial("a_folder_without_vectors_is_an_error", a_folder_without_vectors_is_an_error),
        trial("a_file_that_does_not_parse_is_an_error", a_file_that_does_not_parse_is_an_error),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn() -> Verdict) -> Trial {
    Trial::test(name, move || test().map_err(Failed::from))
}

const GOOD: &str = "- {name: one and two, given: [1, 2], expect: {sum: 3}}\n- {name: nothing, given: [], expect: {sum: 0}}\n";
const WRONG: &str = "- {name: deliberately wrong, given: [1, 2], expect: {sum: 4}}\n";

/// A run of the runner: whether it passed, and what it said.
struct Run {
    passed: bool,
    output: String,
}

impl Run {
    /// Runs it over its own `sums/small`, and over added folders with one file each.
    fn of(own: &str, added: &[(&str, &str)]) -> Run {
        let folders = tempfile::tempdir().expect("a temporary folder can be made");
        let put = |path: &Path, text: &str| {
            std::fs::create_dir_all(path.parent().expect("files are in topics")).expect("folders can be made");
            std::fs::write(path, text).expect("files can be written");
        };
        put(&folders.path().join("own/sums/small.yaml"), own);
        let mut list = Vec::new();
        for (index, (file, text)) in added.iter().enumerate() {
            let folder = format!("added-{index}");
            put(&folders.path().join(&folder).join(file), text);
            list.push(folder);
        }
        let me = std::env::current_exe().expect("this process has a file");
        let out = Command::new(me)
            .env(OWN, folders.path().join("own"))
            // Relative, as users write it, to where they stand.
            .env("LIFESIGN_VECTORS", list.join(":"))
            .env("PWD", folders.path())
            .output()
            .expect("this file can be run");
        Run { passed: out.status.success(), output: String::from_utf8_lossy(&out.stdout).into_owned() }
    }

    /// Checks the verdict, and that every one of the texts was said.
    fn expect(&self, passed: bool, texts: &[&str]) -> Verdict {
        if self.passed != passed {
            return Err(format!("passed is {}: {}", self.passed, self.output));
        }
        match texts.iter().find(|text| !self.output.contains(**text)) {
            Some(text) => Err(format!("it does not say {text:?}: {}", self.output)),
            None => Ok(()),
        }
    }
}

fn every_case_is_a_test_of_its_own() -> Verdict {
    Run::of(GOOD, &[]).expect(true, &["test sums/small::one and two ... ok", "test sums/small::nothing ", "2 passed; 0 failed"])
}

fn a_wrong_case_fails() -> Verdict {
    let texts = ["sums/small::deliberately wrong", "sums/small.yaml", "/sum: expected 4, got 3", "2 passed; 1 failed"];
    // All cases run before the verdict, also those after the wrong one.
    Run::of(&format!("{WRONG}{GOOD}"), &[]).expect(false, &texts)?;
    Run::of(GOOD, &[("sums/small.yaml", WRONG)]).expect(false, &texts)?;
    Run::of(GOOD, &[("sums/small.yaml", WRONG)]).expect(false, &["added-0"])
}

fn a_misspelt_key_is_an_error() -> Verdict {
    let texts = ["sums/small::typo", "case \"typo\"", "unknown field `expects`"];
    Run::of("- {name: typo, given: [], expects: {sum: 0}}", &[]).expect(false, &texts)
}

fn an_added_folder_is_run_too() -> Verdict {
    let added = [("sums/small.yaml", "- {name: mine, given: [5], expect: {sum: 5.0}}"), ("sums/small.yaml", GOOD)];
    Run::of(GOOD, &added).expect(true, &["test sums/small::mine ", "5 passed; 0 failed"])?;
    // Known, but of a capability that is not there.
    Run::of(GOOD, &[("sums/later.yaml", WRONG)]).expect(true, &["2 passed; 0 failed"])
}

fn an_unknown_file_is_an_error() -> Verdict {
    Run::of(GOOD, &[("sums/large.yaml", GOOD)])
        .expect(false, &["sums/large", "no runner knows this file", "2 passed; 1 failed"])?;
    Run::of(GOOD, &[("sums/small.yml", GOOD)]).expect(false, &["sums/small.yml", "no runner knows this file"])?;
    Run::of(GOOD, &[("small.yaml", GOOD)]).expect(false, &["small.yaml", "no runner knows this file"])
}

fn an_unknown_topic_is_an_error() -> Verdict {
    Run::of(GOOD, &[("products/small.yaml", GOOD)]).expect(false, &["products/small", "no runner knows this file"])
}

fn a_folder_without_vectors_is_an_error() -> Verdict {
    Run::of(GOOD, &[("sums/README.md", "# Sums")]).expect(false, &["added-0", "no vector here"])?;
    Run::of(GOOD, &[(".hidden/small.yaml", GOOD)]).expect(false, &["added-0", "no vector here"])
}

fn a_file_that_does_not_parse_is_an_error() -> Verdict {
    Run::of("- {name: [", &[]).expect(false, &["sums/small::parses", "sums/small.yaml"])?;
    Run::of("- {given: []}", &[]).expect(false, &["sums/small::parses", "case 0 has no name"])
}
