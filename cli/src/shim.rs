//! `lifesign shim`: stays with one container, so that its logs and exit code survive everything else; or becomes a command in a terminal or in
//! another root, where nothing may run between fork and exec. Not for people.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

/// Stay with one container process
#[derive(Args)]
pub(crate) struct ShimArgs {
    /// Become a command whose standard input is the terminal of a session of its own
    #[arg(long)]
    terminal: bool,
    /// Become a command in this root
    #[arg(long, value_name = "DIR", conflicts_with = "terminal")]
    root: Option<PathBuf>,
    /// The container's specification; the command with --terminal or --root
    #[arg(required = true)]
    words: Vec<String>,
}

impl ShimArgs {
    /// Runs until the container and everything that it started has ended.
    pub(crate) fn run(self) -> ExitCode {
        if let Some(root) = &self.root {
            return match applier::become_command(root, &self.words) {
                Ok(never) => match never {},
                Err(error) => {
                    eprintln!("{} in {}: {error}", self.words[0], root.display());
                    ExitCode::FAILURE
                }
            };
        }
        if self.terminal {
            return processes::interactive::become_command(&self.words);
        }
        processes::shim::run(Path::new(&self.words[0]))
    }
}
