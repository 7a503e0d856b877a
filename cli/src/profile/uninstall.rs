//! `lifesign profile uninstall`: everything as if nobody had ever asked for a profile.

use std::time::Duration;

use api::config_node::{ANNOTATION_PAUSED, ANNOTATION_RETRY};
use clap::Args;
use serde_json::{Value, json};

use super::api::{ApiArgs, CLUSTER};
use super::set::wait_for;
use crate::block_on;
use crate::error::Failure;

/// Restore the state before the first profile
///
/// Asks for no profile, takes back a pause, and waits until every value that was written for a profile is gone: heartbeats,
/// grace and tolerations are then what the components have built in. The way there is as safe as that to a profile.
#[derive(Args)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = api::duration::parse)]
    timeout: Duration,
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
            wait_for(&api, "", &cluster, self.timeout).await?;
            eprintln!("restored: no value of a profile is left");
            Ok(())
        })
    }
}
