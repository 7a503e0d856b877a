//! The machine under the agent: components are restarted, and asked what they use and how they are.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::{Lease, Node};
use machine::Time;
use profiles::steps::{Component, ComponentValues};
use profiles::stock::explicit_arguments;
use runtime::{Client, Config, Trust, requests};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::files::{KubeletFiles, StaticPod, kubelet_values, settings};
use super::processes::{self, Process};
use super::root;
use crate::change::Change;
use crate::{Health, Host};

/// A question that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A command that has not restarted the kubelet by then never does.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// From look to look.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row a static pod must be well: one that crashes after a moment is not.
const STEADY: u32 = 3;
/// So often a kubelet must have renewed its Lease.
const RENEWALS: u32 = 2;

/// Where things of a node are.
#[derive(Clone, Debug)]
pub struct NodePlace {
    /// The name of the node.
    pub name: String,
    /// The folder through which the files of the machine are seen: `/host` in a pod.
    pub root: PathBuf,
    /// Where its kubelet answers: `https://127.0.0.1:10250`.
    pub kubelet: String,
    /// What restarts the kubelet; `None`: SIGTERM, and its supervisor starts it again.
    pub restart_command: Option<String>,
}

/// The machine.
pub(crate) struct NodeHost {
    place: NodePlace,
    config: Config,
    client: Client,
    runtime: Handle,
    stop: CancellationToken,
    /// Which process the kubelet was before its restart.
    kubelet_before: Option<i32>,
    /// When the kubelet last renewed its Lease, and how often since its restart.
    renewals: (Option<api::Timestamp>, u32),
    /// Which process of a static pod was well last, and how often in a row.
    steady: (i32, u32),
    why: String,
}

impl NodeHost {
    pub(crate) fn new(place: NodePlace, config: Config, client: Client, stop: CancellationToken) -> NodeHost {
        let (runtime, kubelet_before, why) = (Handle::current(), None, String::new());
        NodeHost { place, config, client, runtime, stop, kubelet_before, renewals: (None, 0), steady: (0, 0), why }
    }

    pub(crate) fn process(&self, component: Component) -> Option<Process> {
        processes::find(std::path::Path::new("/proc"), component.name())
    }

    /// Returns the files of the kubelet that runs.
    pub(crate) fn kubelet(&self) -> Option<KubeletFiles> {
        let command = self.process(Component::Kubelet)?.command;
        Some(KubeletFiles { root: self.place.root.clone(), command, configz: self.configz().ok() })
    }

    /// Returns what the kubelet says that it uses.
    pub(crate) fn configz(&self) -> Result<Value, String> {
        let mut config = self.config.clone();
        config.cluster_url = self.place.kubelet.parse().map_err(|error| format!("{}: {error}", self.place.kubelet))?;
        let answer: Value = self.ask(config, "/configz").map_err(|error| format!("{}/configz: {error}", self.place.kubelet))?;
        Ok(answer["kubeletconfig"].clone())
    }

    /// Asks a component of this machine. Its certificate is of its own making more often than not, and nobody but root listens there.
    fn ask<T: serde::de::DeserializeOwned>(&self, mut config: Config, path: &str) -> Result<T, String> {
        config.trust = Trust::Everything;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        self.runtime.block_on(requests::get(&client, path, TIMEOUT)).map_err(|error| error.to_string())
    }

    /// Finds whether a component answers that it is well.
    fn answers(&self, url: &str) -> Result<(), String> {
        let uri: http::Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let mut config = Config::new(
            format!("{}://{}", uri.scheme_str().unwrap_or("https"), uri.authority().map_or("", |host| host.as_str()))
                .parse()
                .map_err(|error| format!("{url}: {error}"))?,
        );
        config.trust = Trust::Everything;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let asked = self.runtime.block_on(requests::read(&client, uri.path(), TIMEOUT));
        asked.map(drop).map_err(|error| format!("{url}: {error}"))
    }

    fn kubelet_health(&mut self, change: &Change) -> Result<Health, String> {
        let process = self.process(Component::Kubelet).ok_or("the kubelet does not run")?;
        if self.kubelet_before == Some(process.pid) {
            return Err("the kubelet is not restarted yet".to_owned());
        }
        let configz = self.configz()?;
        if let Some(ComponentValues::Kubelet(wanted)) = change.values {
            let used = kubelet_values(&configz).ok_or("the kubelet does not say what it uses")?;
            if used != wanted {
                let (used, wanted) = (ComponentValues::Kubelet(used), ComponentValues::Kubelet(wanted));
                self.why =
                    format!("the kubelet uses {used} instead of {wanted}: something wins over {}", change.path.display());
                return Ok(Health::Bad);
            }
        }
        let path = format!("/api/v1/nodes/{}", self.place.name);
        let node: Node = self.get(&path)?;
        if node.ready() != Some("True") {
            return Err(format!("the node is not Ready: {}", node.ready().unwrap_or("no condition")));
        }
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", self.place.name);
        let lease: Lease = self.get(&path)?;
        let as_wanted = match change.values {
            Some(ComponentValues::Kubelet(wanted)) => lease.spec.duration() == Some(wanted.lease_duration),
            _ => true,
        };
        if as_wanted && lease.spec.renew_time != self.renewals.0 {
            self.renewals = (lease.spec.renew_time, self.renewals.1 + 1);
        }
        match self.renewals.1 {
            // The first one may be from before the restart.
            count if count > RENEWALS => Ok(Health::Good),
            count => Err(format!("the Lease was renewed {} times since the restart", count.saturating_sub(1))),
        }
    }

    fn static_pod_health(&mut self, change: &Change) -> Result<Health, String> {
        let name = change.component.name();
        let process = self.process(change.component).ok_or_else(|| format!("{name} does not run"))?;
        // By their text: an argument that says what is built in is another one than none. Which process it is says nothing: the kubelet may
        // have restarted the pod before anybody looked.
        let wanted = settings(change.component, change.content.as_deref());
        if wanted != Some(explicit_arguments(change.component, &process.command)) {
            return Err(format!("{name} runs with other arguments than {} has", change.path.display()));
        }
        let folder = change.path.parent().ok_or("no folder")?;
        let pod = StaticPod::find(folder, change.component).map_err(|obstacle| obstacle.0)?;
        match pod.and_then(|pod| pod.health_url()) {
            Some(url) => self.answers(&url)?,
            None => return Err(format!("{} has no probe that says where {name} answers", change.path.display())),
        }
        // Another process has to prove itself anew.
        let times = if self.steady.0 == process.pid { self.steady.1 + 1 } else { 1 };
        self.steady = (process.pid, times);
        if times >= STEADY { Ok(Health::Good) } else { Err(format!("{name} is well for {times} s")) }
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        self.runtime.block_on(requests::get(&self.client, path, TIMEOUT)).map_err(|error| format!("{path}: {error}"))
    }
}

impl Host for NodeHost {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn restart(&mut self, component: Component) -> io::Result<()> {
        (self.renewals, self.steady) = ((None, 0), (0, 0));
        if component != Component::Kubelet {
            // The kubelet sees that the manifest is another one.
            return Ok(());
        }
        let process = self.process(component);
        self.kubelet_before = process.as_ref().map(|process| process.pid);
        match (&self.place.restart_command, process) {
            (Some(command), _) => root::run(&self.place.root, command, RESTART_TIMEOUT),
            (None, Some(process)) => process.terminate(),
            // Its supervisor is about to start it.
            (None, None) => Ok(()),
        }
    }

    fn health(&mut self, change: &Change) -> Health {
        let health = match change.component {
            Component::Kubelet => self.kubelet_health(change),
            Component::ControllerManager | Component::ApiServer => self.static_pod_health(change),
        };
        health.unwrap_or_else(|why| {
            tracing::debug!(component = change.component.name(), why, "not healthy yet");
            self.why = why;
            Health::Waiting
        })
    }

    fn why(&self) -> String {
        self.why.clone()
    }

    fn pause(&mut self) {
        std::thread::sleep(LOOK);
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}
