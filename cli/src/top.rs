//! `lifesign top`: the live view in a terminal.

use std::io::IsTerminal;

use ::ui::top::{self, TopConfig};
use clap::Args;

use crate::connect::ConnectArgs;
use crate::error::Failure;
use crate::ui::AgentsArgs;
use crate::{block_on, signals, ui};

/// Show what happens on a cluster in the terminal
///
/// Pods with their last probe attempts, Services, nodes and events, as they change: filter, order, drill down. Reads only.
/// Attempts are known where an agent of Lifesign runs the pods; elsewhere conditions and events are shown. NO_COLOR switches
/// colours off.
#[derive(Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    agents: AgentsArgs,
}

impl TopArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if !std::io::stdout().is_terminal() {
            return Err(Failure::usage("top needs a terminal").hint("`lifesign ui` shows the same in a browser"));
        }
        block_on(async {
            let stop = signals::stop_on_signal()?;
            let (config, source) = self.connect.config(concat!("lifesign-top/", env!("CARGO_PKG_VERSION"))).await?;
            let cluster = config.cluster_url.to_string().trim_end_matches('/').to_owned();
            let (followed, shared) = ui::reader(config, &source, self.agents.agents)?;
            let colour = std::env::var_os("NO_COLOR").is_none();
            let feed = ::ui::follow(followed, shared.clone(), stop.clone());
            let shown = top::run(shared, TopConfig { cluster, colour }, stop.clone());
            let (shown, ()) = tokio::join!(shown, feed);
            shown.map_err(|error| Failure::bug(format!("the terminal: {error}")))
        })
    }
}
