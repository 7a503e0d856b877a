//! `lifesign why`: the first broken link between an object and its health, on any cluster, reading only.

mod ask;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use futures::future::join_all;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use why::{Answer, Examined, Facts, Finding, Target};

use crate::config::DataDir;
use crate::error::Failure;
use crate::{block_on, output};
use ask::Asker;

/// Say why an object is not healthy: the first broken link, with evidence and what to do
///
/// Walks the chain from the object to its health (scheduled, node, configuration, image, init containers, running, startup and
/// readiness probes, readiness gates, Services, ports, slices, endpoints) and stops at the first link that does not hold.
/// Works on any cluster, installs and changes nothing. Exit code 0: healthy; 1: found; 2: cannot tell.
///
/// For example: lifesign why pod/web-5f6d-x2x -n shop; lifesign why svc/web; lifesign why node/n1; lifesign why deploy/web
#[derive(Args)]
pub(crate) struct WhyArgs {
    /// What to ask about: pod/NAME, svc/NAME, node/NAME, deploy/NAME, rs, sts, ds or job; NAME alone is a pod
    #[arg(required = true, num_args = 1..=2, value_name = "OBJECT")]
    object: Vec<String>,
    /// Where it is [default: the namespace of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Credentials [default: $KUBECONFIG, else those of the plane in the data directory, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    data_dir: DataDir,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// At most 40 lines
    Text,
    /// Everything, for programs
    Json,
}

/// More rounds of questions than a chain has links would be a mistake of ours.
const ROUNDS_MAX: usize = 32;

impl WhyArgs {
    pub(crate) fn run(self) -> ExitCode {
        crate::start_logging();
        match block_on(self.answer()) {
            Ok(code) => ExitCode::from(code),
            Err(failure) => failure.report(),
        }
    }

    async fn answer(self) -> Result<u8, Failure> {
        let namespace_given = self.namespace.clone();
        // Words that are no target are refused before anything is asked.
        Target::parse(&self.object, "default").map_err(Failure::usage)?;
        let (config, source) = self.config().await?;
        let namespace = namespace_given.unwrap_or_else(|| config.default_namespace.clone());
        if let Some(why) = api::names::dns1123_label(&namespace) {
            return Err(Failure::usage(format!("--namespace {namespace:?}: {why}")));
        }
        let target = Target::parse(&self.object, &namespace).map_err(Failure::usage)?;
        let address = config.cluster_url.to_string();
        let asker = Asker::new(config).map_err(|error| Failure::usage(format!("{source}: {error}")))?;
        let (answer, requests) = match examine(&asker, &target).await? {
            Ok(found) => found,
            Err(why) => (unreachable(&target, &address, &source, &why), 1),
        };
        self.say(&answer, asker.now(), requests)?;
        Ok(answer.exit_code())
    }

    fn say(&self, answer: &Answer, now: machine::Time, requests: usize) -> Result<(), Failure> {
        if self.output == Format::Json {
            let mut value = serde_json::to_value(answer).map_err(Failure::bug)?;
            value["requests"] = json!(requests);
            return output::print(format!("{value:#}\n").as_bytes());
        }
        let text = why::render(answer, now);
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let text = if colour { text.replacen("  BROKEN ", "  \u{1b}[1;31mBROKEN\u{1b}[0m ", 1) } else { text };
        output::print(text.as_bytes())
    }

    /// Returns how to reach the API, and where that stands.
    async fn config(&self) -> Result<(Config, String), Failure> {
        let hint = "name a kubeconfig with --kubeconfig, or start a plane with `lifesign up`";
        let bad = |source: &str, error: &dyn std::fmt::Display| Failure::usage(format!("{source}: {error}")).hint(hint);
        let file = |path: &Path| {
            let source = path.display().to_string();
            Kubeconfig::read_from(path).map(|read| (read, source.clone())).map_err(|error| bad(&source, &error))
        };
        let plane = self.data_dir.path().map(|dir| dir.join("kubeconfig")).ok().filter(|path| path.exists());
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config")).filter(|path| path.exists());
        let (kubeconfig, source) = match (&self.kubeconfig, Kubeconfig::from_env().map_err(|error| bad("$KUBECONFIG", &error))?)
        {
            (Some(path), _) => file(path)?,
            (None, Some(read)) => (read, "$KUBECONFIG".to_owned()),
            (None, None) => match plane.or(home) {
                Some(path) => file(&path)?,
                None => {
                    let config = Config::incluster().map_err(|error| bad("no kubeconfig is named or found", &error))?;
                    return Ok((config, "the service account of this pod".to_owned()));
                }
            },
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| bad(&source, &error))?;
        let agent = concat!("lifesign-why/", env!("CARGO_PKG_VERSION"));
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
        Ok((config, source))
    }
}

/// Asks what the core wants to know until it has an answer; `Err`: the API cannot be reached.
async fn examine(asker: &Asker, target: &Target) -> Result<Result<(Answer, usize), String>, Failure> {
    let mut facts = Facts::default();
    for _ in 0..ROUNDS_MAX {
        match why::examine(asker.now(), target, &facts) {
            Examined::Answer(answer) => return Ok(Ok((*answer, facts.len()))),
            Examined::Ask(queries) => {
                let replies = join_all(queries.iter().map(|query| asker.ask(query))).await;
                for (query, reply) in queries.into_iter().zip(replies) {
                    match reply {
                        Ok(reply) => facts.insert(query, reply),
                        Err(why) => return Ok(Err(why)),
                    }
                }
            }
        }
    }
    Err(Failure::bug(format!("{}: no answer after {ROUNDS_MAX} rounds", target.short())))
}

fn unreachable(target: &Target, address: &str, source: &str, why: &str) -> Answer {
    let what = format!("the API server at {address} cannot be reached: {why}");
    let finding = Finding::new("Unreachable", address, what)
        .seen(source, "cluster.server", address)
        .act("is that the cluster you mean, and does its API server run", "kubectl cluster-info");
    Answer::cannot_tell(target, finding)
}

/// Returns a client of an API.
fn client(config: Config) -> Result<Client, String> {
    Client::try_from(config).map_err(|error| runtime::chain(&error))
}
