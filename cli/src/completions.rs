//! `lifesign completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::error::Failure;

/// Print the completion script of a shell
///
/// For example: lifesign completions bash > ~/.local/share/bash-completion/completions/lifesign
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        clap_complete::generate(self.shell, &mut Cli::command(), "lifesign", &mut std::io::stdout());
        Ok(())
    }
}
