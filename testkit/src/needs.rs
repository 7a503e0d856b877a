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
    let trial = |missing: Option<String>, (name, test): (&'static str, fn())| match missing {
        Some(reason) => {
            let why = reason.clone();
            Trial::test(format!("{name} ({reason})"), move || Err(Failed::from(why))).with_ignored_flag(true)
        }
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    };
    let mut arguments = Arguments::from_args();
    // The standard harness looks there too.
    let threads = || std::env::var("RUST_TEST_THREADS").ok()?.parse().ok();
    arguments.test_threads = arguments.test_threads.or_else(threads);
    let trials =
        groups.into_iter().flat_map(|(missing, tests)| tests.into_iter().map(move |test| trial(missing.clone(), test)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
