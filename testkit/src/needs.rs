//! Tests that need something of the machine: kubectl, a browser, a cluster.
//!
//! Where it is missing, each of them is listed as ignored with the reason, and the verdict counts it: a test that did not run
//! never looks like one that passed.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Tests with their names.
pub type Tests = Vec<(&'static str, fn())>;

/// Runs a test target without the standard harness: every test by its name, or (`missing` says why) none.
pub fn run(missing: Option<String>, tests: Tests) -> ExitCode {
    run_groups(vec![(missing, tests)])
}

/// Runs several groups of tests that need different things.
pub fn run_groups(groups: Vec<(Option<String>, Tests)>) -> ExitCode {
    let all = groups
        .into_iter()
        .flat_map(|(missing, tests)| tests.into_iter().map(move |(name, test)| trial(missing.clone(), name, test)));
    run_trials(all.collect(), None)
}

/// Returns one test by its name, or (`missing` says why) one that is listed as ignored.
pub fn trial(missing: Option<String>, name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    match missing {
        Some(reason) => Trial::test(format!("{name} ({reason})"), move || Err(Failed::from(reason))).with_ignored_flag(true),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    }
}

/// Runs tests, so many at a time unless the command line or `RUST_TEST_THREADS` says otherwise.
pub fn run_trials(trials: Vec<Trial>, threads: Option<usize>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The standard harness looks there too.
    let wanted = || std::env::var("RUST_TEST_THREADS").ok()?.parse().ok();
    arguments.test_threads = arguments.test_threads.or_else(wanted).or(threads);
    libtest_mimic::run(&arguments, trials).exit_code()
}
