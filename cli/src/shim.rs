//! `lifesign shim`: stays with one container, so that its logs and exit code survive everything else. Not for people.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Stay with one container process
#[derive(Args)]
pub(crate) struct ShimArgs {
    /// The container's specification
    spec: PathBuf,
}

impl ShimArgs {
    /// Runs until the container and everything that it started has ended.
    pub(crate) fn run(self) -> ExitCode {
        processes::shim::run(&self.spec)
    }
}
