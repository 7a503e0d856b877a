//! `lifesign profile uninstall`: everything as if nobody had ever asked for a profile.

use std::time::Duration;

use api::Node;
use api::config_node::{ANNOTATION_PAUSED, ANNOTATION_RETRY};
use clap::Args;
use profiles::steps::NodeSteps;
use serde_json::{Value, json};

use super::api::{Api, ApiArgs, CLUSTER};
use super::set::wait_for;
use crate::block_on;
use crate::error::Failure;

/// From look to look at what agents say.
const LOOK: Duration = Duration::from_secs(1);

/// Restore the state before the first profile
///
/// Asks for no profile, takes back a pause, and waits until every value that was written for a profile is gone: heartbeats,
/// grace and tolerations are then what the components have built in, and on a Kubernetes cluster every file is as it was before. The way
/// there is as safe as that to a profile.
#[derive(Args)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = api::duration::parse)]
    timeout: Duration,
}

/// Waits until the agents of a stock cluster have given back every file as it was, and says who has not yet.
async fn files_are_given_back(api: &Api) {
    let mut printed = String::new();
    loop {
        // The API server is one of those that are given back: it may be away.
        if let Ok(nodes) = api.list::<Node>("/api/v1/nodes").await {
            let left = nodes.iter().filter_map(|node| {
                let answer = NodeSteps::read(node).answer?;
                let changed =
                    answer.components.iter().filter(|(_, state)| state.changed).map(|(component, _)| component.name());
                let changed: Vec<&str> = changed.collect();
                (!changed.is_empty()).then(|| format!("{} ({})", node.metadata.name, changed.join(", ")))
            });
            let left = left.collect::<Vec<_>>().join(", ");
            if left.is_empty() {
                return;
            }
            if left != printed {
                eprintln!("files of ours are left on {left}");
                printed = left;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl UninstallArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let api = self.api.client().await?;
            if api.get::<Value>(CLUSTER).await?.is_none() {
                eprintln!("nothing to restore: nobody has ever asked for a profile");
                return Ok(());
            }
            let patch = json!({
                "metadata": {"annotations": {ANNOTATION_PAUSED: null, ANNOTATION_RETRY: null}},
                "spec": {"workerLatencyProfile": null},
            });
            let cluster = api.change(patch).await?;
            // Later the API server may be away for a moment.
            let (own, began) = (api.is_own().await?, tokio::time::Instant::now());
            wait_for(&api, "", &cluster, self.timeout).await?;
            if !own {
                let left = self.timeout.saturating_sub(began.elapsed());
                let given_back = tokio::time::timeout(left, files_are_given_back(&api)).await;
                given_back
                    .map_err(|_| Failure::no("some files are not given back yet").hint("look at `lifesign profile status`"))?;
            }
            eprintln!("restored: no value of a profile is left");
            Ok(())
        })
    }
}
