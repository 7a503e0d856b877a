//! The shim and nothing else, for the tests of this package; `lifesign shim` is the one that users run.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(spec) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: lifesign-agent-shim SPEC");
        return ExitCode::from(2);
    };
    agent::shim::run(&spec)
}
