//! The agent as a whole: takes its directory and its addresses, registers its Node, beats, runs pods, until told to stop.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use machine::Rng;
use rustix::fs::FlockOperation;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::addresses::{Cidr, Claim, ClaimError, POD_RANGE};
use crate::config::{AgentConfig, AgentError, AgentReady};
use crate::heartbeat::Heartbeat;
use crate::machine_facts::MachineFacts;
use crate::node::{self, NodeFacts};

/// Runs an agent until told to stop; what then becomes of the pods is said by [`AgentConfig::on_stop`].
///
/// An API that does not answer is waited for; an error is something that waiting cannot mend.
pub async fn run(mut config: AgentConfig, stop: CancellationToken) -> Result<(), AgentError> {
    let data_dir = config.data_dir.clone();
    let unusable = |source| AgentError::DataDir { path: data_dir.clone(), source };
    let _lock = lock(&config.data_dir)?;
    let listener = listen(&config).await?;
    let address = listener.local_addr().map_err(|source| AgentError::Listen { address: config.listen, source })?;
    let stored = node::stored(&config.client, &config.node_name, &stop).await;
    let before = stored.as_ref().and_then(|node| node.spec.pod_cidr.parse().ok());
    let claim = claim(config.pod_cidr, before)?;
    let facts = NodeFacts {
        name: config.node_name.clone(),
        machine: MachineFacts::read(&config.data_dir),
        labels: config.labels.clone(),
        pod_cidr: claim.cidr(),
        endpoint: address,
        max_pods: config.max_pods,
    };
    node::register(&config.client, &facts, &stop).await?;
    let mut rng = Rng::new(random_seed().map_err(unusable)?);
    let tasks = TaskTracker::new();
    let heartbeat = Heartbeat {
        client: config.client.clone(),
        fresh: config.fresh_client.clone(),
        clock: config.clock.clone(),
        ready_since: node::ready_since(stored.as_ref()).unwrap_or_else(|| config.clock.now()),
        facts,
        interval: config.heartbeat,
        rng: rng.fork(),
    };
    tasks.spawn(heartbeat.run(stop.clone()));
    if let Some(tell) = config.on_ready.take() {
        // Whoever asked may have lost interest.
        let _ = tell.send(AgentReady { address, pod_cidr: claim.cidr() });
    }
    stop.cancelled().await;
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// Takes the directory: the lock goes with the returned file.
fn lock(data_dir: &Path) -> Result<File, AgentError> {
    let unusable = |source| AgentError::DataDir { path: data_dir.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(unusable)?;
    let file = File::options().create(true).append(true).open(data_dir.join("agent.lock")).map_err(unusable)?;
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
fn claim(wanted: Option<Cidr>, before: Option<Cidr>) -> Result<Claim, ClaimError> {
    if let Some(cidr) = wanted {
        return Claim::of(cidr, |_| false);
    }
    match before.map(|cidr| Claim::of(cidr, |_| false)) {
        Some(Ok(claim)) => Ok(claim),
        _ => Claim::first_free(POD_RANGE),
    }
}

fn random_seed() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
