//! `lifesign ui`: the live page of any cluster; and what `up` needs to have one.

use std::net::SocketAddr;
use std::sync::Arc;

use ::ui::{self as view, Page, PageConfig, Shared, Source, Subject};
use clap::Args;
use futures::FutureExt;
use runtime::{Config, Informers};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use why::{Query, Reply, Resource, Target};

use crate::ask::{Asker, client, examine};
use crate::connect::ConnectArgs;
use crate::error::Failure;
use crate::logging::LogArgs;
use crate::{block_on, signals};

/// Show what happens on a cluster as a live page
///
/// Pods with every probe attempt, starts in milliseconds, Services with their endpoints, nodes with their heartbeats, markers,
/// latency profiles and events, as they change. Reads only. The page is served on this machine alone; its address, with a token
/// that changes with every start, is the first line on stdout. Attempts are known where an agent of Lifesign runs the pods;
/// elsewhere conditions and events are shown.
#[derive(Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    agents: AgentsArgs,
    /// Where the page is served: a loopback address; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Agents beside a kubelet, whose attempts the API does not lead to.
#[derive(Args)]
pub(crate) struct AgentsArgs {
    /// An agent of a cluster (`lifesign agent --cluster`) whose attempts are shown, through `kubectl port-forward`; may be repeated
    #[arg(long = "agent", value_name = "http://ADDR:PORT", value_parser = agent_url)]
    pub(crate) agents: Vec<String>,
}

fn agent_url(text: &str) -> Result<String, String> {
    match text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/').parse::<SocketAddr>()) {
        Some(Ok(address)) => Ok(format!("http://{address}")),
        _ => Err("must be like http://127.0.0.1:9000".to_owned()),
    }
}

impl UiArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        LogArgs::from_environment().start("warn");
        block_on(async {
            let stop = signals::stop_on_signal()?;
            let (config, source) = self.connect.config(concat!("lifesign-ui/", env!("CARGO_PKG_VERSION"))).await?;
            let (followed, shared) = reader(config.clone(), &source, self.agents.agents)?;
            let page = open(self.listen, &config, &shared).await?;
            crate::output::print(format!("{}\n", page.url()).as_bytes())?;
            tokio::join!(view::follow(followed, shared, stop.clone()), page.run(stop.clone()));
            Ok(())
        })
    }
}

/// Returns what a view of a cluster reads from, and the board that it fills.
pub(crate) fn reader(config: Config, source: &str, agents: Vec<String>) -> Result<(Source, Shared), Failure> {
    let bad = |error: String| Failure::usage(format!("{source}: {error}"));
    let client = client(config.clone()).map_err(bad)?;
    let asker = Arc::new(Asker::new(config).map_err(bad)?);
    let informers = Informers::new(client.clone(), runtime::Metrics::default());
    Ok((
        Source { client, informers, ask_agent: self::agents(asker), agents, connections: None, default_grace: None },
        Shared::new(crate::config::clock()),
    ))
}

/// Begins to listen.
pub(crate) async fn open(listen: SocketAddr, config: &Config, shared: &Shared) -> Result<Page, Failure> {
    let asker = Arc::new(Asker::new(config.clone()).map_err(Failure::usage)?);
    let page = PageConfig {
        cluster: config.cluster_url.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ask_detail: details(asker),
    };
    Page::bind(listen, page, shared.clone()).await.map_err(|error| Failure::usage(format!("the page at {listen}: {error}")))
}

/// Returns what asks agents.
pub(crate) fn agents(asker: Arc<Asker>) -> view::AskAgent {
    Arc::new(move |address, path| {
        let asker = Arc::clone(&asker);
        async move { asker.agent(&address, &path).await }.boxed()
    })
}

/// Returns what says more about objects.
fn details(asker: Arc<Asker>) -> view::AskDetail {
    Arc::new(move |subject| {
        let asker = Arc::clone(&asker);
        async move { detail(&asker, &subject).await }.boxed()
    })
}

/// Returns what `why` says of an object, and what `explain` says of a pod.
async fn detail(asker: &Asker, subject: &Subject) -> Value {
    let words = [format!("{}/{}", subject.kind, subject.name)];
    let namespace = if subject.namespace.is_empty() { "default" } else { &subject.namespace };
    let answered = match Target::parse(&words, namespace) {
        Ok(target) => match examine(asker, &target).await {
            Ok(Ok((answer, _))) => serde_json::to_value(answer).map_err(|error| error.to_string()),
            Ok(Err(why)) => Err(why),
            Err(failure) => Err(failure.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    let mut detail = match answered {
        Ok(answer) => json!({"why": answer}),
        Err(error) => json!({"error": error}),
    };
    if subject.kind == "pod"
        && let Ok(Reply::Object(mut pod)) = asker.ask(&Query::get(Resource::Pods, namespace, &subject.name)).await
    {
        // What was observed is not what was written.
        pod.as_object_mut().map(|pod| pod.remove("status"));
        let report = explain::explain(&[pod], &explain::Options::default());
        detail["findings"] = json!(report.findings().collect::<Vec<_>>());
    }
    detail
}

/// A page inside of a plane: it opens when the API serves, and stops with it.
pub(crate) async fn run_in_plane(page: Page, source: Source, shared: Shared, stop: CancellationToken) -> Result<(), Failure> {
    tokio::join!(view::follow(source, shared, stop.clone()), page.run(stop));
    Ok(())
}
