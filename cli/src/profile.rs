//! `lifesign profile`: worker latency profiles, how to change them safely, and what they do.

mod agent;
mod api;
mod get;
mod plan;
mod recommend;
mod retolerate;
mod rollout;
mod set;
mod simulate;
mod table;
mod uninstall;

use ::profiles::{Profile, UnknownProfile};
use clap::{Args, Subcommand, ValueEnum};

pub(crate) use agent::ProfilesArgs;
pub(crate) use api::ask_at_start;
pub(crate) use rollout::{ProfilesMode, RolloutArgs};

use crate::error::Failure;

/// Choose, plan and simulate worker latency profiles
///
/// A profile says how often nodes speak and how long the control plane waits: Default (10 s, 40 s, 300 s),
/// MediumUpdateAverageReaction (20 s, 2 m, 60 s), LowUpdateSlowReaction (1 m, 5 m, 60 s); Medium and Low are short for the latter two.
#[derive(Args)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Get(get::GetArgs),
    Set(set::SetArgs),
    Plan(plan::PlanArgs),
    Status(get::StatusArgs),
    Pause(set::PauseArgs),
    Resume(set::ResumeArgs),
    Retry(set::RetryArgs),
    Simulate(simulate::SimulateArgs),
    Recommend(recommend::RecommendArgs),
    Retolerate(retolerate::RetolerateArgs),
    Uninstall(uninstall::UninstallArgs),
}

impl ProfileArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Get(args) => args.run(),
            Command::Set(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Pause(args) => args.run(),
            Command::Resume(args) => args.run(),
            Command::Retry(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Recommend(args) => args.run(),
            Command::Retolerate(args) => args.run(),
            Command::Uninstall(args) => args.run(),
        }
    }
}

/// Reads a profile that a person names: `Medium` and `Low` are short for the names of the API.
pub(crate) fn profile(text: &str) -> Result<Profile, UnknownProfile> {
    Profile::parse(long_name(text))
}

fn long_name(text: &str) -> &str {
    match text {
        "Medium" => Profile::Medium.name(),
        "Low" => Profile::Low.name(),
        other => other,
    }
}

/// How to say it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Prints a value as JSON.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::bug)?;
    crate::output::print((text + "\n").as_bytes())
}
