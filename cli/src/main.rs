//! The `lifesign` binary: one file per subcommand.

mod agent;
mod apiserver;
mod ask;
mod backup;
mod completions;
mod config;
mod connect;
mod controllers;
mod demo;
mod error;
mod explain;
mod install;
mod kubeconfig;
mod logging;
mod man;
mod manifests;
mod metrics;
mod output;
mod parts;
mod profile;
mod progress;
mod serve;
mod shim;
mod signals;
mod top;
mod ui;
mod up;
mod why;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use error::Failure;

/// The health plane of Kubernetes, as one binary
///
/// Decides whether containers are up, ready and alive, what an application means by healthy, where traffic may go while
/// pods drain, and whether a node is gone or only far away. Runs on one machine without a cluster, or on any cluster.
#[derive(Parser)]
#[command(name = "lifesign", version, max_term_width = 100, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::UpArgs),
    Demo(demo::DemoArgs),
    Install(install::InstallArgs),
    Controllers(controllers::ControllersArgs),
    Agent(agent::AgentArgs),
    Explain(explain::ExplainArgs),
    Why(why::WhyArgs),
    Ui(ui::UiArgs),
    Top(top::TopArgs),
    Serve(serve::ServeArgs),
    #[command(hide = true)]
    Shim(shim::ShimArgs),
    Profile(profile::ProfileArgs),
    Apiserver(apiserver::ApiserverArgs),
    Kubeconfig(kubeconfig::KubeconfigArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

fn main() -> ExitCode {
    // clap prints usage errors itself and exits with 2.
    let cli = parse();
    let outcome = match cli.command {
        Command::Up(args) => args.run(),
        Command::Demo(args) => args.run(),
        Command::Install(args) => args.run(),
        Command::Controllers(args) => args.run(),
        Command::Agent(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::Why(args) => return args.run(),
        Command::Ui(args) => args.run(),
        Command::Top(args) => args.run(),
        Command::Serve(args) => args.run(),
        Command::Shim(args) => return args.run(),
        Command::Profile(args) => args.run(),
        Command::Apiserver(args) => args.run(),
        Command::Kubeconfig(args) => args.run(),
        Command::Completions(args) => args.run(),
        Command::Man(args) => args.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Reads the command line. Run as `kubectl lifesign`, by the name kubectl-lifesign, help says so.
fn parse() -> Cli {
    let program = std::env::args_os().next().map(std::path::PathBuf::from);
    let is_plugin = program.as_deref().and_then(std::path::Path::file_stem).is_some_and(|name| name == "kubectl-lifesign");
    if !is_plugin {
        return Cli::parse();
    }
    let matches = Cli::command().bin_name("kubectl lifesign").get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Raises how many files this process may open as far as it may: probes, pods, agents and clients each take some, and
/// whoever runs out of them cannot even say so.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the number of open files");
        }
    }
}

/// Runs an async command on a runtime of its own.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::bug(format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn as_many_files_may_be_open_as_the_system_lets() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let few = maximum.map_or(512, |maximum| maximum.min(512));
        setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum }).expect("a limit can be lowered");
        super::raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: maximum, maximum });
    }
}
