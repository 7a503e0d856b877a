//! Tests against a real Kubernetes, that of `LIFESIGN_TEST_KUBECONFIG`: `testbed/run start`, then `eval "$(testbed/run env)"`.
//!
//! Without one every test is listed as ignored, with the reason. The cases of the API server run first, several at a time; then tests that
//! disturb nobody, several at a time too: they have a namespace, or a bed, of their own. What changes the cluster for everybody follows,
//! one at a time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod applying;
mod bed;
mod components;
mod container_runtime;
mod differences;
mod documented;
mod following;
mod guarding;
mod installation;
mod installed;
mod kubectl;
mod latency;
mod manifests;
mod markers;
mod moved;
mod page;
mod profiles;
mod scripts;
mod slices;
mod why;
mod worked;
mod workloads;
mod writes;

use std::process::ExitCode;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");
/// Why nothing runs.
const NO_CLUSTER: &str = "needs a cluster: testbed/run start, eval \"$(testbed/run env)\"";

/// Tests that disturb nobody, at a time: they wait more than they compute.
const BESIDE_EACH_OTHER: usize = 4;

type Test = fn(&bed::Bed);

fn main() -> ExitCode {
    let bed = bed::Bed::found();
    let cases = scripts::run(bed.as_ref());
    let every = |tests: Vec<(&'static str, Test)>| -> Vec<Trial> {
        tests.into_iter().map(|(name, test)| trial(bed.as_ref(), name, test)).collect()
    };
    // The longest first: the others are done meanwhile.
    let beside = every(
        [
            workloads::TESTS,
            components::TESTS,
            guarding::TESTS,
            kubectl::TESTS,
            applying::TESTS,
            why::TESTS,
            page::TESTS,
            manifests::TESTS,
            container_runtime::TESTS,
        ]
        .concat(),
    );
    let mut alone = every(
        [
            kubectl::ALONE,
            slices::TESTS,
            markers::TESTS,
            moved::TESTS,
            writes::TESTS,
            installation::TESTS,
            documented::TESTS,
            profiles::TESTS,
        ]
        .concat(),
    );
    let long = [slices::LONG, markers::LONG, writes::LONG, profiles::LONG].concat();
    alone.extend(long.into_iter().map(|(name, test)| long_trial(bed.as_ref(), name, test)));
    let codes = [cases, run(beside, BESIDE_EACH_OTHER), run(alone, 1)];
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

fn run(trials: Vec<Trial>, at_a_time: usize) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(arguments.test_threads.unwrap_or(at_a_time).min(at_a_time));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Tests that take long run when they are asked for.
fn long_trial(bed: Option<&bed::Bed>, name: &str, test: Test) -> Trial {
    if bed.is_none() || std::env::var_os("LIFESIGN_TEST_LONG").is_some() {
        return trial(bed, name, test);
    }
    Trial::test(format!("{name} (takes long: testbed/run long)"), || Err(Failed::from("not asked for"))).with_ignored_flag(true)
}

fn trial(bed: Option<&bed::Bed>, name: &str, test: Test) -> Trial {
    let Some(bed) = bed.cloned() else {
        return Trial::test(format!("{name} ({NO_CLUSTER})"), || Err(Failed::from(NO_CLUSTER))).with_ignored_flag(true);
    };
    let own = name.to_owned();
    Trial::test(name, move || {
        let began = Instant::now();
        test(&bed);
        println!("{own} took {} s", began.elapsed().as_secs());
        Ok(())
    })
}
