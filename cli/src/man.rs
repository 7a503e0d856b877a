//! `lifesign man`: manual pages.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::error::Failure;
use crate::{Cli, output};

/// Print the manual page, or write those of all commands to a folder
///
/// For example: lifesign man > lifesign.1; man ./lifesign.1
#[derive(Args)]
pub(crate) struct ManArgs {
    /// Write one page for each command into this folder
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl ManArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let command = Cli::command();
        match self.folder {
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page).map_err(Failure::bug)?;
                output::print(&page)
            }
            Some(folder) => clap_mangen::generate_to(command, &folder)
                .map_err(|error| Failure::usage(format!("{}: {error}", folder.display())).hint("name a folder that is there")),
        }
    }
}
