//! `lifesign shim`: stays with one container, so that its logs and exit code survive everything else. Not for people.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

/// Stay with one container process
#[derive(Args)]
pub(crate) struct ShimArgs {
    /// Become a command whose standard input is the terminal of a session of its own
    #[arg(long)]
    terminal: bool,
    /// The container's specification; the command with --terminal
    #[arg(required = true)]
    words: Vec<String>,
}

impl ShimArgs {
    /// Runs until the container and everything that it started has ended.
    pub(crate) fn run(self) -> ExitCode {
        if self.terminal {
            return processes::interactive::become_command(&self.words);
        }
        processes::shim::run(Path::new(&self.words[0]))
    }
}
