//! Where containers come from: processes of this agent, or a container runtime that a kubelet uses.
//!
//! A runtime is asked again and again which containers there are; when and about which pods is said by [`pods::kubelet::Lists`]. One list
//! is under way at a time. Machines are told of what has changed, and when the runtime does not answer.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use cri::{Container, ContainerState};
use futures::future::{BoxFuture, try_join, try_join_all};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use machine::Time;
use pods::kubelet::{Ask, Lists};
use pods::{Input, Observed, ObservedContainer, ObservedState};
use processes::addresses::Pool;

use super::Supervisor;
use super::adopt::Adopted;
use super::messages::Message;

/// The key of the lists where pods have theirs; no pod gets it.
pub(super) const RUNTIME: u64 = u64::MAX;

/// Containers that are looked at closely at the same time.
const LOOKS: usize = 16;

/// Where containers come from.
pub(crate) enum Source {
    /// They are processes of this agent.
    Processes {
        /// Addresses of pods.
        pool: Pool,
        /// What an earlier agent left.
        adopted: HashMap<String, Adopted>,
    },
    /// A kubelet runs them.
    Runtime(Box<RuntimeLists>),
}

impl Source {
    pub(super) fn has_processes(&self) -> bool {
        matches!(self, Source::Processes { .. })
    }

    /// Frees the address of a pod.
    pub(super) fn release_address(&mut self, address: Option<Ipv4Addr>) {
        if let (Source::Processes { pool, .. }, Some(address)) = (self, address) {
            pool.release(address);
        }
    }

    /// Forgets a pod.
    pub(super) fn release(&mut self, uid: &str, address: Option<Ipv4Addr>) {
        if let Source::Runtime(runtime) = self {
            runtime.observed.remove(uid);
        }
        self.release_address(address);
    }
}

/// What is known of the containers of a runtime.
pub(crate) struct RuntimeLists {
    client: Arc<cri::Client>,
    lists: Lists,
    /// `None` while a list is under way.
    lister: Option<Lister>,
    timer: Option<Time>,
    /// Whether the runtime did not answer the last time; `None`: it was not asked yet.
    away: Option<bool>,
    /// What the machines were told, by uid.
    observed: HashMap<String, Observed>,
}

impl RuntimeLists {
    pub(crate) fn new(client: Arc<cri::Client>) -> RuntimeLists {
        let (started, addresses, refused) = (HashMap::new(), HashMap::new(), HashSet::new());
        let lister = Lister { client: Arc::clone(&client), started, addresses, refused };
        let (lists, observed) = (Lists::default(), HashMap::new());
        RuntimeLists { client, lists, lister: Some(lister), timer: None, away: None, observed }
    }

    pub(super) fn client(&self) -> &Arc<cri::Client> {
        &self.client
    }

    pub(super) fn is_away(&self) -> bool {
        self.away == Some(true)
    }
}

/// A list that has ended.
pub(crate) struct Listed {
    lister: Lister,
    ask: Ask,
    began: Time,
    result: Result<HashMap<String, Observed>, cri::Error>,
}

/// Asks the runtime, and remembers what does not change.
struct Lister {
    client: Arc<cri::Client>,
    /// When instances were started, by ID.
    started: HashMap<String, Time>,
    /// Addresses of sandboxes, by ID; empty: on the network of the node.
    addresses: HashMap<String, String>,
    /// Containers of which it was said that the runtime tells nothing, by ID.
    refused: HashSet<String>,
}

/// What is known of a container after a closer look, and what of it was not known before.
struct Look<'a> {
    container: &'a Container,
    /// `None`: the runtime refuses to tell.
    state: Option<ObservedState>,
    ip: Option<String>,
}

impl Lister {
    /// Returns what there is of the pods that somebody wants to know about, by uid.
    async fn list(&mut self, ask: &Ask) -> Result<HashMap<String, Observed>, cri::Error> {
        let containers = match ask {
            Ask::All(_) => self.client.containers(None).await?,
            Ask::Pods(uids) => try_join_all(uids.iter().map(|uid| self.client.containers(Some(uid)))).await?.concat(),
        };
        let wanted: HashSet<&str> = ask.pods().iter().map(String::as_str).collect();
        let mut latest: HashMap<(&str, &str), &Container> = HashMap::new();
        for container in containers.iter().filter(|container| wanted.contains(container.pod_uid.as_str())) {
            let known = latest.entry((&container.pod_uid, &container.name)).or_insert(container);
            if known.created_at < container.created_at {
                *known = container;
            }
        }
        let looks: Vec<BoxFuture<'_, _>> = latest.into_values().map(|container| self.look(container).boxed()).collect();
        let looks: Vec<Look<'_>> = stream::iter(looks).buffer_unordered(LOOKS).try_collect().await?;
        let mut pods: HashMap<String, Observed> = HashMap::new();
        for look in looks {
            self.remember(&look);
            let Look { container, state: Some(state), ip } = look else { continue };
            let pod = pods.entry(container.pod_uid.clone()).or_default();
            if let Some(ip) = ip.filter(|ip| !ip.is_empty()) {
                pod.ip = ip;
            }
            let (name, id) = (container.name.clone(), container.id.clone());
            pod.containers.push(ObservedContainer { name, id, state });
        }
        // What is compared must not depend on the order of a map.
        pods.values_mut().for_each(|pod| pod.containers.sort_by(|one, other| one.name.cmp(&other.name)));
        if matches!(ask, Ask::All(_)) {
            self.started.retain(|id, _| containers.iter().any(|container| container.id == *id));
            self.addresses.retain(|id, _| containers.iter().any(|container| container.sandbox_id == *id));
            self.refused.retain(|id| containers.iter().any(|container| container.id == *id));
        }
        Ok(pods)
    }

    fn remember(&mut self, look: &Look<'_>) {
        if let Some(ObservedState::Running { started_at }) = look.state {
            self.started.insert(look.container.id.clone(), started_at);
        }
        if let Some(ip) = &look.ip {
            self.addresses.insert(look.container.sandbox_id.clone(), ip.clone());
        }
        if look.state.is_none() {
            self.refused.insert(look.container.id.clone());
        }
    }

    async fn look<'a>(&self, container: &'a Container) -> Result<Look<'a>, cri::Error> {
        let (state, ip) = try_join(self.state(container), self.address(container)).await?;
        Ok(Look { container, state, ip })
    }

    /// Returns in which state a container is; `None`: the runtime answers, but not about this one, which concerns no other.
    async fn state(&self, container: &Container) -> Result<Option<ObservedState>, cri::Error> {
        match container.state {
            ContainerState::Created => return Ok(Some(ObservedState::Created)),
            ContainerState::Exited => return Ok(Some(ObservedState::Ended)),
            ContainerState::Running | ContainerState::Unknown => {}
        }
        if let Some(started_at) = self.started.get(&container.id) {
            return Ok(Some(ObservedState::Running { started_at: *started_at }));
        }
        // Only a closer look tells when it was started, to the nanosecond.
        match self.client.container_status(&container.id).await {
            Ok(status) if status.state == ContainerState::Running => {
                Ok(Some(ObservedState::Running { started_at: Time::from_micros(status.started_at / 1_000) }))
            }
            Ok(_) => Ok(Some(ObservedState::Ended)),
            Err(error) if error.is_not_found() => Ok(Some(ObservedState::Ended)),
            Err(error @ cri::Error::Refused { .. }) => {
                if !self.refused.contains(&container.id) {
                    let (id, name, uid) = (&container.id, &container.name, &container.pod_uid);
                    tracing::warn!(%error, id, name, uid, "nothing is known of this container, it counts as not started");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the address of a container's sandbox; `None`: the runtime does not tell, and is asked again.
    async fn address(&self, container: &Container) -> Result<Option<String>, cri::Error> {
        if let Some(address) = self.addresses.get(&container.sandbox_id) {
            return Ok(Some(address.clone()));
        }
        match self.client.sandbox_addresses(&container.sandbox_id).await {
            Ok(addresses) => Ok(Some(addresses.into_iter().next().unwrap_or_default())),
            Err(cri::Error::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Supervisor {
    /// Asks the runtime if it is time, and sees to it that the next time is not missed.
    pub(super) fn list_due(&mut self) {
        let now = self.now();
        let Source::Runtime(runtime) = &mut self.source else { return };
        if let Some(before) = runtime.timer.take() {
            self.timers.remove(&(before, RUNTIME));
        }
        // When it ends, this is asked again.
        let Some(mut lister) = runtime.lister.take() else { return };
        let probed = self.markers.probed();
        let machines = self.pods.values().filter_map(|local| local.machine.kubelet());
        let interests = machines.map(|machine| {
            let by_markers = |name: &str| probed.contains(&(machine.uid().to_owned(), name.to_owned()));
            (machine.uid(), machine.interest(by_markers))
        });
        let (ask, next) = runtime.lists.due(now, interests);
        runtime.timer = Some(next);
        self.timers.insert((next, RUNTIME));
        let Some(ask) = ask else {
            runtime.lister = Some(lister);
            return;
        };
        let context = Arc::clone(&self.context);
        self.context.spawn(async move {
            let result = lister.list(&ask).await;
            context.send(Message::Listed(Box::new(Listed { lister, ask, began: now, result }))).await;
        });
    }

    /// Takes a list.
    pub(super) fn listed(&mut self, listed: Listed) {
        let Listed { lister, ask, began, result } = listed;
        let now = self.now();
        let Source::Runtime(runtime) = &mut self.source else { return };
        runtime.lister = Some(lister);
        runtime.lists.answered(began, now);
        let socket = runtime.client.socket().display().to_string();
        match result {
            Ok(pods) => {
                if runtime.away.replace(false) != Some(false) {
                    tracing::info!(socket, "the container runtime answers");
                }
                self.observed(&ask, pods);
            }
            Err(error) => {
                if runtime.away.replace(true) != Some(true) {
                    tracing::warn!(%error, "containers are known from pod statuses alone, and commands cannot be run in them");
                    runtime.observed.clear();
                    let keys: Vec<u64> = self.pods.keys().copied().collect();
                    keys.into_iter().for_each(|key| self.step(key, Some(Input::RuntimeAway)));
                }
            }
        }
        self.list_due();
    }

    /// Tells the machines of the pods that were asked about what has changed.
    fn observed(&mut self, ask: &Ask, mut pods: HashMap<String, Observed>) {
        let asked = ask.pods().iter().filter_map(|uid| Some((uid.clone(), *self.by_uid.get(uid)?)));
        let asked: Vec<(String, u64)> = asked.collect();
        for (uid, key) in asked {
            let Source::Runtime(runtime) = &mut self.source else { return };
            let observed = pods.remove(&uid).unwrap_or_default();
            if runtime.observed.get(&uid) != Some(&observed) {
                runtime.observed.insert(uid, observed.clone());
                self.step(key, Some(Input::Observed(Box::new(observed))));
            }
        }
    }
}
