//! How a plane rolls out latency profiles: the flags of `lifesign up`.

use std::time::Duration;

use clap::Args;
use profiles::rollout::{Deadlines, Options};
use profiles::status::PROGRESS_DEADLINE_MIN;
use profiles::steps::Component;

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
    /// On a Kubernetes cluster: how long a component has to prove healthy after a step, for example kubelet=30s; repeatable [default: kubelet
    /// 2m and two heartbeats, kube-controller-manager 2m, kube-apiserver 5m]
    #[arg(long, value_name = "COMPONENT=DURATION", value_parser = step_deadline)]
    profile_step_deadline: Vec<(Component, Duration)>,
}

/// What `Default` means on the cluster that is asked.
#[derive(Args, Clone)]
pub(super) struct GraceArgs {
    /// The grace of the latency profile Default, 40s to 60s, as the controllers have it
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = default_grace)]
    pub(super) default_node_monitor_grace_period: Duration,
}

/// What the controllers do about latency profiles on a Kubernetes cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProfilesMode {
    /// Nothing
    Off,
    /// Observe, plan and measure; write nothing
    Observe,
    /// Roll out, through the agents that run with --profiles
    Apply,
}

impl RolloutArgs {
    /// Returns what the controllers are told.
    pub(crate) fn options(&self) -> Options {
        Options {
            progress_deadline: self.profile_progress_deadline,
            max_unavailable: self.profile_max_unavailable,
            default_grace: self.default_node_monitor_grace_period,
            per_node: self.per_node_latency_profiles,
            deadlines: self
                .profile_step_deadline
                .iter()
                .fold(Deadlines::default(), |all, (component, span)| all.with(*component, *span)),
        }
    }
}

fn step_deadline(text: &str) -> Result<(Component, Duration), String> {
    let (name, span) = text.split_once('=').ok_or("must be COMPONENT=DURATION")?;
    let names = Component::ALL.map(Component::name).join(", ");
    let component = Component::parse(name).ok_or_else(|| format!("{name:?} is none of {names}"))?;
    let span = api::duration::parse(span).map_err(|error| error.to_string())?;
    if (1..=3600).contains(&span.as_secs()) { Ok((component, span)) } else { Err("from 1s to 1h".to_owned()) }
}

fn deadline(text: &str) -> Result<Duration, String> {
    let span = api::duration::parse(text).map_err(|error| error.to_string())?;
    if span < PROGRESS_DEADLINE_MIN { Err("at least 1m".to_owned()) } else { Ok(span) }
}

/// Reads the grace of Default.
fn default_grace(text: &str) -> Result<Duration, String> {
    let span = api::duration::parse(text).map_err(|error| error.to_string())?;
    if (40..=60).contains(&span.as_secs()) && span.subsec_nanos() == 0 {
        Ok(span)
    } else {
        Err("whole seconds from 40s to 60s".to_owned())
    }
}
