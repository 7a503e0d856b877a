//! How a plane rolls out latency profiles: the flags of `lifesign up`.

use std::time::Duration;

use clap::Args;
use profiles::rollout::Options;
use profiles::status::PROGRESS_DEADLINE_MIN;

/// How latency profiles are rolled out by a plane.
#[derive(Args, Clone)]
pub(crate) struct RolloutArgs {
    /// How long a part of the plane may be without progress before a latency profile is given up
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = deadline)]
    profile_progress_deadline: Duration,
    /// How many nodes change their heartbeat at a time; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    profile_max_unavailable: usize,
    /// The grace of the latency profile Default, 40s to 60s
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = default_grace)]
    default_node_monitor_grace_period: Duration,
    /// Let the annotation lifesign.dev/worker-latency-profile give a node a heartbeat and a grace of its own
    #[arg(long)]
    per_node_latency_profiles: bool,
}

impl RolloutArgs {
    /// Returns what the controllers are told.
    pub(crate) fn options(&self) -> Options {
        Options {
            progress_deadline: self.profile_progress_deadline,
            max_unavailable: self.profile_max_unavailable,
            default_grace: self.default_node_monitor_grace_period,
            per_node: self.per_node_latency_profiles,
        }
    }
}

fn deadline(text: &str) -> Result<Duration, String> {
    let span = api::duration::parse(text).map_err(|error| error.to_string())?;
    if span < PROGRESS_DEADLINE_MIN { Err("at least 1m".to_owned()) } else { Ok(span) }
}

/// Reads the grace of Default.
pub(super) fn default_grace(text: &str) -> Result<Duration, String> {
    let span = api::duration::parse(text).map_err(|error| error.to_string())?;
    if (40..=60).contains(&span.as_secs()) && span.subsec_nanos() == 0 {
        Ok(span)
    } else {
        Err("whole seconds from 40s to 60s".to_owned())
    }
}
