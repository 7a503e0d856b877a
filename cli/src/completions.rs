//! `lifesign completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::error::Failure;
use crate::{Cli, output};

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
        // Into memory first: the generator panics when its writer fails.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "lifesign", &mut script);
        output::print(&script)
    }
}
