//! `lifesign profile get` and `status`: what is wanted, what is in force, how far a rollout is.

use api::config_node::{
    ANNOTATION_APPLIED_PROFILE, ANNOTATION_GRACE_PERIOD, ANNOTATION_NOT_READY_SECONDS, ANNOTATION_ROLLED_BACK_GENERATION,
    ANNOTATION_UNREACHABLE_SECONDS, ConfigNode, NAME,
};
use clap::Args;
use runtime::{Scope, WatchEvent};
use serde_json::{Value, json};

use super::api::{Api, ApiArgs};
use super::rollout::GraceArgs;
use super::table::table;
use super::{Format, print_json};
use crate::error::Failure;
use crate::{block_on, output, signals};

/// Say which profile is wanted and which is in force
#[derive(Args)]
pub(super) struct GetArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

/// Say how far the rollout of a profile is
///
/// Exit code 1 if a part of the plane has failed and everything went back to Default.
#[derive(Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
    /// Go on telling changes until interrupted
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    grace: GraceArgs,
}

fn annotation<'a>(cluster: &'a ConfigNode, name: &str) -> Option<&'a str> {
    cluster.metadata.annotations.get(name).map(String::as_str)
}

/// Returns what is wanted and what is in force.
fn summary(cluster: &ConfigNode) -> Value {
    let wanted = cluster.spec.worker_latency_profile.as_str();
    json!({
        "workerLatencyProfile": wanted,
        "applied": annotation(cluster, ANNOTATION_APPLIED_PROFILE),
        "paused": cluster.paused(),
        "rolledBack": annotation(cluster, ANNOTATION_ROLLED_BACK_GENERATION).is_some(),
        "nodeMonitorGracePeriod": annotation(cluster, ANNOTATION_GRACE_PERIOD),
        "defaultNotReadyTolerationSeconds": annotation(cluster, ANNOTATION_NOT_READY_SECONDS),
        "defaultUnreachableTolerationSeconds": annotation(cluster, ANNOTATION_UNREACHABLE_SECONDS),
    })
}

fn headline(cluster: &ConfigNode) -> String {
    let wanted = cluster.spec.worker_latency_profile.as_str();
    let mut text = format!("wanted   {}\n", if wanted.is_empty() { "nothing (Default)" } else { wanted });
    text.push_str(&format!("applied  {}\n", annotation(cluster, ANNOTATION_APPLIED_PROFILE).unwrap_or("nothing yet")));
    if cluster.paused() {
        text.push_str("paused   no step is started; `lifesign profile resume` goes on\n");
    }
    if annotation(cluster, ANNOTATION_ROLLED_BACK_GENERATION).is_some() {
        text.push_str("given up everything goes back to Default; `lifesign profile retry` tries again\n");
    }
    text
}

impl GetArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let cluster = block_on(async { self.api.client().await?.cluster().await })?;
        match self.output {
            Format::Json => print_json(&summary(&cluster)),
            Format::Table => output::print(headline(&cluster).as_bytes()),
        }
    }
}

/// Returns the rows of the owners: the one condition that matters, why, and the message.
fn status_table(cluster: &ConfigNode) -> String {
    let conditions = &cluster.status.worker_latency_profile_status.conditions;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for owner in api::config_node::OWNERS {
        let of_owner: Vec<_> = conditions.iter().filter(|condition| condition.owner == owner).collect();
        let on = |type_: &str| of_owner.iter().any(|condition| condition.type_ == type_ && condition.status == "True");
        let Some(first) = of_owner.first() else { continue };
        let state = match (on("Degraded"), on("Complete"), on("Progressing")) {
            (true, _, true) => "Degraded, Progressing",
            (true, ..) => "Degraded",
            (_, true, _) => "Complete",
            (_, _, true) => "Progressing",
            _ => "-",
        };
        rows.push(vec![owner.to_owned(), state.to_owned(), first.reason.clone(), first.message.replace('\n', " ")]);
    }
    format!("{}\n{}", headline(cluster), table(&["OWNER", "STATE", "REASON", "MESSAGE"], &[false; 4], &rows))
}

fn show(cluster: &ConfigNode, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => output::print(status_table(cluster).as_bytes()),
        Format::Json => {
            let mut value = summary(cluster);
            value["status"] = serde_json::to_value(&cluster.status.worker_latency_profile_status).map_err(Failure::bug)?;
            print_json(&value)
        }
    }
}

impl StatusArgs {
    /// Draws where the rollout stands, as far as that can be said now.
    async fn stand(&self, api: &Api) -> Result<(), Failure> {
        if self.output != Format::Table {
            return Ok(());
        }
        match super::plan::stand(api, self.grace.default_node_monitor_grace_period).await {
            Some(line) => output::print(format!("\n{line}\n").as_bytes()),
            None => Ok(()),
        }
    }

    pub(super) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let api = self.api.client().await?;
            let cluster = api.cluster().await?;
            show(&cluster, self.output)?;
            self.stand(&api).await?;
            if self.watch {
                let stop = signals::stop_on_signal()?;
                let mut events = runtime::watch::<ConfigNode>(&api.client, Scope::fields(format!("metadata.name={NAME}")));
                let mut last = status_table(&cluster);
                loop {
                    let seen = tokio::select! {
                        () = stop.cancelled() => return Ok(()),
                        seen = events.next() => seen,
                    };
                    if let WatchEvent::Applied(object) = seen
                        && status_table(&object.view) != last
                    {
                        last = status_table(&object.view);
                        output::print(b"\n")?;
                        show(&object.view, self.output)?;
                        self.stand(&api).await?;
                    }
                }
            }
            let conditions = &cluster.status.worker_latency_profile_status.conditions;
            let failed = conditions.iter().find(|condition| condition.type_ == "Degraded" && condition.status == "True");
            failed.map_or(Ok(()), |failed| Err(Failure::no(format!("{} is degraded: {}", failed.owner, failed.reason))))
        })
    }
}
