//! `lifesign why`: the first broken link between an object and its health, on any cluster, reading only.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;
use why::{Answer, Finding, Target};

use crate::ask::{Asker, examine};
use crate::config::cause;
use crate::connect::ConnectArgs;
use crate::error::Failure;
use crate::{block_on, output};

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
    #[command(flatten)]
    connect: ConnectArgs,
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

impl WhyArgs {
    pub(crate) fn run(self) -> ExitCode {
        crate::logging::LogArgs::from_environment().start("warn");
        match block_on(self.answer()) {
            Ok(code) => ExitCode::from(code),
            Err(failure) => failure.report(),
        }
    }

    async fn answer(self) -> Result<u8, Failure> {
        let namespace_given = self.namespace.clone();
        // Words that are no target are refused before anything is asked.
        Target::parse(&self.object, "default").map_err(Failure::usage)?;
        let (config, source) = self.connect.config(concat!("lifesign-why/", env!("CARGO_PKG_VERSION"))).await?;
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
        let colour = crate::logging::has_colour(&std::io::stdout());
        let text = if colour { text.replacen("  BROKEN ", "  \u{1b}[1;31mBROKEN\u{1b}[0m ", 1) } else { text };
        output::print(text.as_bytes())
    }
}

fn unreachable(target: &Target, address: &str, source: &str, why: &str) -> Answer {
    let what = format!("the API server at {address} cannot be reached: {}", cause(address, why));
    let finding = Finding::new("Unreachable", address, what)
        .seen(source, "cluster.server", address)
        .act("is that the cluster you mean, and does its API server run", "kubectl cluster-info");
    Answer::cannot_tell(target, finding)
}
