//! The agent as a whole: takes its directory and its addresses, registers its Node, beats, runs pods, until told to stop.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use machine::{Rng, Time};
use processes::addresses::{Cidr, Claim, ClaimError, POD_RANGE, Pool};
use processes::layout::Layout;
use proxy::drain::Drains;
use runtime::files::{claim_private_folder, open_private};
use runtime::{EventWriter, Tasks, Writer};
use rustix::fs::FlockOperation;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{AgentConfig, AgentError, AgentReady};
use crate::endpoint::{Endpoint, server_config};
use crate::heartbeat::Heartbeat;
use crate::machine_facts::MachineFacts;
use crate::metrics::Metrics;
use crate::node::{self, NodeFacts};
use crate::supervisor::{Adopted, AgentContext, Parts, ProcessContext, Source, Supervisor, adopt_all, message_channel};

/// The address of the node: pods are processes of this machine.
const HOST_IP: &str = "127.0.0.1";
/// Whom managedFields and events name.
pub(crate) const MANAGER: &str = "lifesign-agent";
/// Heartbeat and endpoint end within moments of being told; what has not by then is dropped.
const PARTS_END_WITHIN: Duration = Duration::from_secs(5);

/// Runs an agent until told to stop; what then becomes of the pods is said by [`AgentConfig::on_stop`].
///
/// An API that does not answer is waited for; an error is something that waiting cannot mend.
pub async fn run(mut config: AgentConfig, stop: CancellationToken) -> Result<(), AgentError> {
    let data_dir = config.data_dir.clone();
    let unusable = |source| AgentError::DataDir { path: data_dir.clone(), source };
    let _lock = lock(&config.data_dir)?;
    let tls = server_config(&config.tls, &config.node_name)?;
    let listener = listen(&config).await?;
    let address = listener.local_addr().map_err(|source| AgentError::Listen { address: config.listen, source })?;
    let layout = Layout::new(&config.data_dir);
    let adopted = adopt_all(&layout).await.map_err(unusable)?;
    let stored = node::stored(&config.client, &config.node_name, &stop).await;
    let before = stored.as_ref().and_then(|node| node.spec.pod_cidr.parse().ok());
    let claim = claim(config.pod_cidr, before, &adopted)?;
    let pod_cidr = claim.cidr();
    let interval = match &stored {
        None if config.follow_profile => node::first_interval(&config.client).await,
        _ => None,
    };
    let facts = NodeFacts {
        name: config.node_name.clone(),
        machine: MachineFacts::read(&config.data_dir),
        labels: config.labels.clone(),
        pod_cidr,
        endpoint: address,
        max_pods: config.max_pods,
        interval,
    };
    let writer = Writer::new(config.client.clone(), config.clock.clone(), MANAGER, config.metrics.clone());
    node::register(&writer, &facts, &stop).await?;
    let ready_since = node::ready_since(stored.as_ref()).unwrap_or_else(|| config.clock.now());
    // Not only with the first beat: whoever sees a pod of this node run must find its logs.
    if let Err(error) = node::post_status(&writer, &facts, config.clock.now(), ready_since).await {
        tracing::warn!(node = facts.name, %error, "the status of the node could not be posted");
    }
    let mut rng = Rng::new(runtime::random_seed().map_err(unusable)?);
    let metrics = Arc::new(Metrics::new());
    let (messages, inbox) = message_channel();
    let context = Arc::new(AgentContext {
        client: config.client.clone(),
        writer: writer.clone(),
        clock: config.clock.clone(),
        node: config.node_name.clone(),
        messages: messages.clone(),
        processes: Some(ProcessContext {
            layout,
            shim: config.shim.clone(),
            program: config.program.clone(),
            allocatable: facts.allocatable(),
            claim: pod_cidr.to_string(),
        }),
        host_ip: HOST_IP.to_owned(),
        tasks: TaskTracker::new(),
        halt: CancellationToken::new(),
    });
    // Logs and metrics are served, and the node is alive, until the last pod has stopped.
    let stopped = CancellationToken::new();
    // However this ends, nothing of it goes on.
    let _ends = (stopped.clone().drop_guard(), context.halt.clone().drop_guard());
    let mut parts_of_agent = Tasks::<AgentError>::default();
    let endpoint = Endpoint::new(messages, Arc::clone(&metrics)).serve(listener, Some(tls), stopped.clone());
    parts_of_agent.spawn("agent-endpoint", endpoint.map(Ok));
    let annotated = stored
        .as_ref()
        .filter(|_| config.follow_profile)
        .and_then(|node| api::config_node::annotated_interval(node).ok().flatten())
        .or(interval);
    let beating = heartbeat(&config, writer.clone(), facts, annotated, ready_since, rng.fork()).run(stopped.clone());
    parts_of_agent.spawn("heartbeat", beating.map(Ok));
    if let Some(tell) = config.on_ready.take() {
        // Whoever asked may have lost interest.
        let _ = tell.send(AgentReady { address, pod_cidr });
    }
    let drains = config.drain_wait.map(|_| {
        let given = config.drains.take();
        given.unwrap_or_else(|| {
            let drains = Drains::default();
            let following = drains.clone().follow(config.informers.clone(), stopped.clone());
            parts_of_agent.spawn("drains", following.map(Ok));
            drains
        })
    });
    let parts = Parts {
        informers: config.informers.clone(),
        context,
        drains,
        inbox,
        source: Source::Processes { pool: Pool::new(claim), adopted },
        settings: Arc::new(settings(&config)),
        metrics,
        events: EventWriter::start(writer, config.clock.clone(), MANAGER, &config.node_name),
        on_stop: config.on_stop,
        network_probes: config.max_concurrent_network_probes,
        exec_probes: config.max_concurrent_exec_probes,
        rng,
    };
    supervise(parts, parts_of_agent, stop, stopped).await
}

/// Runs the supervisor beside the other parts until told to stop, then waits for all of them.
pub(crate) async fn supervise(
    parts: Parts,
    mut others: Tasks<AgentError>,
    stop: CancellationToken,
    stopped: CancellationToken,
) -> Result<(), AgentError> {
    let (informers, tasks) = (parts.informers.clone(), parts.context.tasks.clone());
    tokio::select! {
        // A node whose heartbeat has ended only looks alive.
        ended = others.ended() => return Err(AgentError::Ended(ended.to_string())),
        why = informers.failed() => return Err(AgentError::Ended(why)),
        () = Supervisor::run(parts, stop) => {}
    }
    stopped.cancel();
    others.finish(PARTS_END_WITHIN).await;
    tasks.close();
    tasks.wait().await;
    Ok(())
}

fn settings(config: &AgentConfig) -> pods::Settings {
    pods::Settings {
        node: config.node.clone(),
        back_off: config.back_off,
        drain_wait: config.drain_wait,
        host_ip: HOST_IP.to_owned(),
    }
}

fn heartbeat(
    config: &AgentConfig,
    writer: Writer,
    facts: NodeFacts,
    annotated: Option<Duration>,
    ready_since: Time,
    rng: Rng,
) -> Heartbeat {
    Heartbeat {
        client: config.client.clone(),
        writer,
        informers: config.informers.clone(),
        fresh: config.fresh_client.clone(),
        clock: config.clock.clone(),
        ready_since,
        facts,
        interval: config.heartbeat,
        follows_node: config.follow_profile,
        first: annotated.unwrap_or(config.heartbeat),
        rng,
    }
}

/// Takes the directory: the lock goes with the returned file.
fn lock(data_dir: &Path) -> Result<File, AgentError> {
    let unusable = |source| AgentError::DataDir { path: data_dir.to_owned(), source };
    claim_private_folder(data_dir, &["agent.lock", "pods"]).map_err(unusable)?;
    let file = open_private(&data_dir.join("agent.lock")).map_err(unusable)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(AgentError::InUse(PathBuf::from(data_dir))),
        Err(error) => Err(unusable(error.into())),
    }
}

async fn listen(config: &AgentConfig) -> Result<TcpListener, AgentError> {
    TcpListener::bind(config.listen).await.map_err(|source| AgentError::Listen { address: config.listen, source })
}

/// Claims the range that was asked for, else the one that the node had, else a free one.
fn claim(wanted: Option<Cidr>, before: Option<Cidr>, adopted: &HashMap<String, Adopted>) -> Result<Claim, ClaimError> {
    let own: HashSet<&str> = adopted.values().flat_map(|adopted| &adopted.running).map(|(_, running)| running.id()).collect();
    // What runs has its addresses already.
    let held = adopted.values().flat_map(|adopted| &adopted.running).find_map(|(_, running)| {
        let cidr = running.spec().claim.as_ref()?;
        cidr.parse().ok()
    });
    if let Some(cidr) = wanted {
        return Claim::of(cidr, |id| own.contains(id));
    }
    let held = held.map(|cidr| (cidr, true));
    for (cidr, lives_here) in held.into_iter().chain(before.map(|cidr| (cidr, false))) {
        let mine = |id: &str| own.contains(id);
        match if lives_here { Claim::return_to(cidr, mine) } else { Claim::of(cidr, mine) } {
            Err(ClaimError::InUse(_)) => {}
            claimed => return claimed,
        }
    }
    Claim::first_free(POD_RANGE)
}
