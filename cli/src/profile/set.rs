//! `lifesign profile set`, `pause`, `resume` and `retry`: what is wanted.

use std::time::Duration;

use api::config_node::{
    ANNOTATION_APPLIED_PROFILE, ANNOTATION_PAUSED, ANNOTATION_RETRY, ANNOTATION_ROLLED_BACK_GENERATION, ConfigNode, NAME,
};
use clap::Args;
use profiles::Target;
use runtime::{Scope, WatchEvent};
use serde_json::json;

use super::api::{Api, ApiArgs};
use super::plan;
use super::rollout::GraceArgs;
use crate::block_on;
use crate::error::Failure;

/// Ask for a profile
///
/// The plane gets there by itself, one safe step after the other; Default and LowUpdateSlowReaction are two steps apart.
/// An empty name asks for nothing: what was written is removed.
#[derive(Args)]
pub(super) struct SetArgs {
    /// Default, MediumUpdateAverageReaction (or Medium), LowUpdateSlowReaction (or Low), or an empty text
    #[arg(value_name = "PROFILE", value_parser = profile)]
    profile: String,
    #[command(flatten)]
    api: ApiArgs,
    /// Wait until the profile is in force everywhere; fail if it is given up
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = api::duration::parse, requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    grace: GraceArgs,
}

/// Start no further step of a rollout
#[derive(Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    api: ApiArgs,
}

/// Go on with a paused rollout
#[derive(Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    api: ApiArgs,
}

/// Try a profile again that was given up
#[derive(Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    api: ApiArgs,
}

fn profile(text: &str) -> Result<String, String> {
    let name = super::long_name(text);
    Target::parse(name).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

impl SetArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let api = self.api.client().await?;
            let cluster = api.change(json!({"spec": {"workerLatencyProfile": self.profile}})).await?;
            let name = if self.profile.is_empty() { "no profile".to_owned() } else { self.profile.clone() };
            if !self.wait {
                eprintln!("asked for {name}; `lifesign profile status` shows how far it is, --wait waits for it");
                return Ok(());
            }
            let target = Target::parse(&self.profile).unwrap_or_default();
            wait_for(&api, target, &cluster, self.timeout, &self.grace).await?;
            eprintln!("{name} is in force");
            Ok(())
        })
    }
}

/// Waits until what `cluster` asks for is in force everywhere, but not for ever.
pub(super) async fn wait_for(
    api: &Api,
    wanted: Target,
    cluster: &ConfigNode,
    timeout: Duration,
    grace: &GraceArgs,
) -> Result<(), Failure> {
    let generation = profiles::status::generation(&cluster.metadata);
    tokio::time::timeout(timeout, wait(api, wanted, &generation, grace.default_node_monitor_grace_period))
        .await
        .unwrap_or_else(|_| Err(Failure::no("not in force yet").hint("look at `lifesign profile status`")))
}

/// Waits until the desired profile is in force everywhere, printing what happens.
async fn wait(api: &Api, target: Target, generation: &str, default_grace: Duration) -> Result<(), Failure> {
    let mut events = runtime::watch::<ConfigNode>(&api.client, Scope::fields(format!("metadata.name={NAME}")));
    let mut printed: Vec<String> = Vec::new();
    let mut progress = Progress::default();
    loop {
        let WatchEvent::Applied(object) = events.next().await else { continue };
        let cluster = &object.view;
        let annotation = |name: &str| cluster.metadata.annotations.get(name).map_or("", String::as_str);
        if profiles::status::generation(&cluster.metadata) != generation {
            return Err(Failure::no("somebody else asks for another profile now"));
        }
        let conditions = &cluster.status.worker_latency_profile_status.conditions;
        let lines = conditions.iter().filter(|condition| condition.type_ == "Complete");
        let lines: Vec<String> =
            lines.map(|condition| format!("{}: {}: {}", condition.owner, condition.reason, condition.message)).collect();
        lines.iter().filter(|line| !printed.contains(line)).for_each(|line| eprintln!("{line}"));
        printed = lines;
        if let Some(line) = progress.line(plan::steps_left(api, target, default_grace).await) {
            eprintln!("{line}");
        }
        if annotation(ANNOTATION_ROLLED_BACK_GENERATION) == generation {
            let failed = conditions.iter().find(|condition| condition.type_ == "Degraded" && condition.status == "True");
            let why = failed.map_or("a part of the plane failed", |condition| condition.reason.as_str());
            return Err(Failure::no(format!("given up: {why}; everything goes back to Default")));
        }
        let reason = if target == Target::Empty { "ProfileEmpty" } else { "ProfileUpdated" };
        let complete = |owner: &str| {
            conditions.iter().any(|condition| {
                condition.owner == owner
                    && condition.type_ == "Complete"
                    && condition.status == "True"
                    && condition.reason == reason
            })
        };
        if annotation(ANNOTATION_APPLIED_PROFILE) == target.profile().name()
            && api::config_node::OWNERS.iter().all(|owner| complete(owner))
        {
            return Ok(());
        }
    }
}

/// How far a rollout is: of the most steps that were ever left, so many are done.
#[derive(Default)]
struct Progress {
    most: usize,
    last: Option<Vec<String>>,
}

impl Progress {
    /// Returns what to say about the steps that are left, if it is news; `None`: they are not known now.
    fn line(&mut self, left: Option<Vec<String>>) -> Option<String> {
        let left = left.filter(|left| self.last.as_ref() != Some(left))?;
        self.most = self.most.max(left.len());
        let done = (self.most - left.len()) * 100 / self.most.max(1);
        let line = match left.as_slice() {
            [] => (self.most > 0).then(|| "100% no step left".to_owned()),
            [next] => Some(format!("{done}% 1 step left: {next}")),
            [next, .., last] => Some(format!("{done}% {} steps left: {next} ... {last}", left.len())),
        };
        self.last = Some(left);
        line
    }
}

/// Changes an annotation of the object `cluster` and says so.
fn annotate(api: &ApiArgs, name: &str, value: Option<String>, done: impl Fn(&ConfigNode) -> String) -> Result<(), Failure> {
    let patch = json!({"metadata": {"annotations": {name: value}}});
    block_on(async {
        let cluster = api.client().await?.change(patch).await?;
        eprintln!("{}", done(&cluster));
        Ok(())
    })
}

/// Returns the profile that is asked for, in words.
fn wanted(cluster: &ConfigNode) -> String {
    match cluster.spec.worker_latency_profile.as_str() {
        "" => "no profile is asked for".to_owned(),
        profile => format!("{profile} is asked for"),
    }
}

impl PauseArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let done = |cluster: &ConfigNode| {
            format!("paused: no further step begins ({}); `lifesign profile resume` goes on", wanted(cluster))
        };
        annotate(&self.api, ANNOTATION_PAUSED, Some("true".to_owned()), done)
    }
}

impl ResumeArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        annotate(&self.api, ANNOTATION_PAUSED, None, |cluster| format!("resumed: {}", wanted(cluster)))
    }
}

impl RetryArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let now = api::Timestamp(runtime::Clock::system().now()).micro();
        let done =
            |cluster: &ConfigNode| format!("tried again: {}; `lifesign profile status` shows how far it is", wanted(cluster));
        annotate(&self.api, ANNOTATION_RETRY, Some(now), done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_once_with_what_is_left() {
        let mut progress = Progress::default();
        let left = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(progress.line(left(&["a", "b", "c", "d"])).as_deref(), Some("0% 4 steps left: a ... d"));
        assert_eq!(progress.line(left(&["a", "b", "c", "d"])), None, "no news");
        assert_eq!(progress.line(None), None, "nobody knows");
        assert_eq!(progress.line(left(&["d"])).as_deref(), Some("75% 1 step left: d"));
        assert_eq!(progress.line(left(&[])).as_deref(), Some("100% no step left"));
        assert_eq!(profile("Low").as_deref(), Ok("LowUpdateSlowReaction"));
        assert!(profile("low").is_err());
    }
}
