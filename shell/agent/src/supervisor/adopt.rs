//! What an earlier agent left on this machine: found at the start, handed to its pod, or removed if there is none.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use api::Pod;
use pods::{Exit, Found, FoundState};
use processes::container::{Instance, Running, adopt};
use processes::layout::{Layout, PodDir, is_interrupted};
use processes::state::{ExitRecord, StateDir, instances};

use super::Supervisor;
use super::source::Source;

/// What is left of a pod.
#[derive(Default)]
pub(crate) struct Adopted {
    pub(crate) found: Vec<Found>,
    /// Containers that run.
    pub(crate) running: Vec<(String, Arc<Running>)>,
    /// The address that they have.
    pub(crate) address: Option<Ipv4Addr>,
}

/// Returns what is left of every pod, by uid.
pub(crate) async fn adopt_all(layout: &Layout) -> io::Result<HashMap<String, Adopted>> {
    let mut all = HashMap::new();
    for uid in layout.uids()? {
        let Some(dir) = layout.pod(&uid) else { continue };
        let mut adopted = Adopted::default();
        for container in dir.containers()? {
            for number in instances(&dir.container(&container))? {
                adopted.adopt(&container, number, &dir.instance(&container, number)).await;
            }
        }
        all.insert(uid, adopted);
    }
    Ok(all)
}

impl Adopted {
    async fn adopt(&mut self, container: &str, number: u64, dir: &Path) {
        let (id, state) = match adopt(dir).await {
            Ok(Some(Instance::Running(running))) => {
                let env = &running.spec().env;
                self.address = self.address.or_else(|| env.get("POD_IP")?.parse().ok());
                let (id, started_at) = (running.id().to_owned(), running.started_at());
                self.running.push((container.to_owned(), running));
                (id, FoundState::Running { started_at })
            }
            Ok(Some(Instance::Exited(record))) => match StateDir::new(dir).spec() {
                Ok(spec) => (spec.id, FoundState::Ended(exit_of(&record))),
                Err(_) => return,
            },
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(path = %dir.display(), %error, "an instance of a container cannot be read");
                return;
            }
        };
        self.found.push(Found { container: container.to_owned(), number, id, state, interrupted: is_interrupted(dir) });
    }
}

/// Returns the end of an instance as machines are told it.
pub(super) fn exit_of(record: &ExitRecord) -> Exit {
    Exit {
        exit_code: record.exit_code,
        signal: record.signal,
        reason: record.reason.clone(),
        message: record.message.clone(),
        started_at: record.started(),
        finished_at: record.finished(),
    }
}

impl Supervisor {
    /// Keeps the addresses of what runs from being given out before its pods are seen.
    pub(super) fn reserve_adopted(&mut self) {
        let Source::Processes { pool, adopted } = &mut self.source else { return };
        for adopted in adopted.values_mut() {
            adopted.address = adopted.address.filter(|address| pool.reserve(*address));
        }
    }

    /// Returns the address of a pod that is new to this agent, if it has one already.
    pub(super) fn address_of(&mut self, pod: &Pod, adopted: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        if adopted.is_some() || pod.terminal() || pod.spec.host_network {
            return adopted;
        }
        let Source::Processes { pool, .. } = &mut self.source else { return None };
        let stored = pod.status.pod_ip.parse().ok()?;
        pool.reserve(stored).then_some(stored)
    }

    /// Stops and removes what belongs to no pod; called when all pods have been seen.
    pub(super) fn remove_orphans(&mut self) {
        let Source::Processes { pool, adopted } = &mut self.source else { return };
        for (uid, adopted) in adopted.drain() {
            tracing::info!(uid, running = adopted.running.len(), "what is left of a pod is removed");
            if let Some(address) = adopted.address {
                pool.release(address);
            }
            if let Some(dir) = self.context.processes().layout.pod(&uid) {
                self.context.spawn(remove(dir, adopted.running));
            }
        }
    }
}

/// Kills what runs and removes the directory.
async fn remove(dir: PodDir, running: Vec<(String, Arc<Running>)>) {
    for (_, running) in running {
        if let Err(error) = running.kill_all().await {
            // The directory is needed as long as a process may be there.
            return tracing::warn!(id = running.id(), %error, "an orphan cannot be killed");
        }
    }
    remove_dir(dir).await;
}

/// Removes the directory of a pod.
pub(super) async fn remove_dir(dir: PodDir) {
    let path = dir.path().to_owned();
    match tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path)).await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %dir.path().display(), %error, "the directory of a pod cannot be removed");
        }
        _ => {}
    }
}
