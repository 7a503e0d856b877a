//! Tests against a real Kubernetes, that of `LIFESIGN_TEST_KUBECONFIG`: `testbed/run start`, then `eval "$(testbed/run env)"`.
//!
//! Without one every test is listed as ignored, with the reason. The cases of the API server run first, several at a time; what
//! changes the cluster for everybody follows, one at a time.

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
mod workloads;
mod writes;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");
/// Why nothing runs.
const NO_CLUSTER: &str = "needs a cluster: testbed/run start, eval \"$(testbed/run env)\"";

type Test = fn(&bed::Bed);

fn main() -> ExitCode {
    let bed = bed::Bed::found();
    let cases = scripts::run(bed.as_ref());
    let tests = [
        applying::TESTS,
        kubectl::TESTS,
        manifests::TESTS,
        slices::TESTS,
        markers::TESTS,
        container_runtime::TESTS,
        moved::TESTS,
        guarding::TESTS,
        why::TESTS,
        page::TESTS,
        workloads::TESTS,
        writes::TESTS,
        installation::TESTS,
        documented::TESTS,
        profiles::TESTS,
        components::TESTS,
    ]
    .concat();
    let long = [slices::LONG, markers::LONG, writes::LONG, profiles::LONG].concat();
    let mut trials: Vec<Trial> = tests.into_iter().map(|(name, test)| trial(bed.as_ref(), name, test)).collect();
    trials.extend(long.into_iter().map(|(name, test)| long_trial(bed.as_ref(), name, test)));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let others = libtest_mimic::run(&arguments, trials).exit_code();
    if cases == ExitCode::SUCCESS { others } else { cases }
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
    Trial::test(name, move || {
        test(&bed);
        Ok(())
    })
}
