//! Tasks that set up pods and start containers. Each ends with a message to the loop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Service;
use api::json::{items, text};
use pods::{Exit, Input};
use processes::container::{Instance, LaunchError, Running, ShimProgram, launch};
use processes::layout::{Layout, PodDir};
use processes::state::{ContainerSpec, LogLimits, prune};
use processes::volumes::{self, VolumeError};
use runtime::{Client, Clock, RequestError, Writer, chain, requests};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::adopt::exit_of;
use super::messages::Message;
use pods::environment::references::Needed;
use pods::environment::{PodContext, References, Resolved, resolve};

/// Instances of a container that are kept: the one that runs, and the one whose log `--previous` shows.
const KEPT: usize = 2;
/// Reading a ConfigMap or Secret may take this long.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Reading one again: what was read before is as good when the API does not answer.
const READ_AGAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// A container whose spec, or what it refers to, is not right; kubelet.
const CONFIG_ERROR: &str = "CreateContainerConfigError";
/// A container that the node could not start; kubelet.
const RUN_ERROR: &str = "RunContainerError";
/// What containers wait for that have no problem; kubelet.
const CREATING: &str = "ContainerCreating";

/// What every task of the agent needs.
pub(crate) struct AgentContext {
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
    pub(crate) node: String,
    pub(crate) messages: mpsc::Sender<Message>,
    /// What it takes to run containers as processes; `None`: a kubelet runs them.
    pub(crate) processes: Option<ProcessContext>,
    pub(crate) host_ip: String,
    /// Every task, so that none outlives the agent.
    pub(crate) tasks: TaskTracker,
    /// Ends them.
    pub(crate) halt: CancellationToken,
}

/// What it takes to run containers as processes.
pub(crate) struct ProcessContext {
    pub(crate) layout: Layout,
    pub(crate) shim: ShimProgram,
    pub(crate) program: PathBuf,
    pub(crate) allocatable: BTreeMap<String, String>,
    /// The range that shims hold.
    pub(crate) claim: String,
}

impl AgentContext {
    /// Returns what it takes to run containers as processes.
    pub(super) fn processes(&self) -> &ProcessContext {
        self.processes.as_ref().expect("a pod that a kubelet runs is never prepared or started here")
    }

    /// Starts a task that ends with the agent at the latest.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let halt = self.halt.clone();
        let task = self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = halt.cancelled() => {}
            }
        });
        task.abort_handle()
    }

    /// Writes to the loop; if that is gone, nobody is interested.
    pub(super) async fn send(&self, message: Message) {
        let _ = self.messages.send(message).await;
    }

    pub(super) async fn fact(&self, pod: u64, input: Input) {
        self.send(Message::Fact { pod, input }).await;
    }

    fn pod_context(&self, dir: &PodDir, pod_ip: &str) -> PodContext {
        PodContext {
            pod_ip: pod_ip.to_owned(),
            host_ip: self.host_ip.clone(),
            allocatable: self.processes().allocatable.clone(),
            base: base_environment(&self.processes().program, &dir.tmp(), &dir.volumes()),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Reads the ConfigMaps and Secrets that a pod refers to; one that is not there is left out.
    ///
    /// A container that is started again does not wait for the API: what was read before is kept for that.
    async fn references(&self, pod: &Value, known: &CachedReferences) -> Result<Arc<References>, RequestError> {
        let before = known.lock().expect("nothing panics while it is held").clone();
        let timeout = if before.is_some() { READ_AGAIN_TIMEOUT } else { READ_TIMEOUT };
        match (self.read_references(pod, timeout).await, before) {
            (Ok(read), _) => {
                let read = Arc::new(read);
                *known.lock().expect("nothing panics while it is held") = Some(Arc::clone(&read));
                Ok(read)
            }
            (Err(error), Some(before)) => {
                tracing::warn!(%error, "the ConfigMaps and Secrets of a pod cannot be read; it gets those of before");
                Ok(before)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn read_references(&self, pod: &Value, timeout: Duration) -> Result<References, RequestError> {
        let needed = Needed::of(pod);
        let namespace = text(pod, &["metadata", "namespace"]);
        let config_maps = self.read_all(namespace, "configmaps", needed.config_maps, timeout).await?;
        let secrets = self.read_all(namespace, "secrets", needed.secrets, timeout).await?;
        Ok(References { config_maps, secrets })
    }

    async fn read_all(
        &self,
        namespace: &str,
        plural: &str,
        names: impl IntoIterator<Item = String>,
        timeout: Duration,
    ) -> Result<BTreeMap<String, Value>, RequestError> {
        let mut found = BTreeMap::new();
        for name in names {
            let path = format!("/api/v1/namespaces/{namespace}/{plural}/{name}");
            if let Some(object) = requests::get_opt(&self.client, &path, timeout).await? {
                found.insert(name, object);
            }
        }
        Ok(found)
    }
}

/// What a pod refers to, as it was read last.
pub(super) type CachedReferences = Arc<Mutex<Option<Arc<References>>>>;

/// Makes the directory and the volumes of a pod.
pub(super) async fn prepare(
    context: Arc<AgentContext>,
    pod: u64,
    raw: Arc<Value>,
    dir: PodDir,
    ip: String,
    known: CachedReferences,
) {
    let input = match context.references(&raw, &known).await {
        Err(error) => Input::PrepareFailed { reason: CREATING.to_owned(), message: unreadable(&error) },
        Ok(references) => {
            let pod_context = context.pod_context(&dir, &ip);
            let path = api::field::Path::new("spec");
            let not_honoured = api::process_rules::pod_not_honoured(&raw["spec"], &path);
            let refusal = api::process_rules::refusal(&raw["spec"]);
            let made = tokio::task::spawn_blocking(move || {
                let made = dir.create(pod_context.uid == 0);
                made.map_err(|source| VolumeError::Io { volume: String::new(), source })?;
                volumes::prepare(&raw, &dir.volumes(), &references, &pod_context)
            });
            match made.await {
                Ok(Ok(())) => match refusal {
                    Some(message) => Input::PrepareFailed { reason: CONFIG_ERROR.to_owned(), message },
                    None => {
                        for message in not_honoured {
                            context.send(Message::Warning { pod, message }).await;
                        }
                        Input::Prepared { ip }
                    }
                },
                Ok(Err(VolumeError::Config(error))) => {
                    Input::PrepareFailed { reason: CONFIG_ERROR.to_owned(), message: error.to_string() }
                }
                Ok(Err(error)) => Input::PrepareFailed { reason: CREATING.to_owned(), message: chain(&error) },
                Err(panic) => Input::PrepareFailed { reason: CREATING.to_owned(), message: panic.to_string() },
            }
        }
    };
    context.fact(pod, input).await;
}

/// A container to start.
pub(super) struct Order {
    pub(super) pod: u64,
    pub(super) container: Arc<str>,
    pub(super) number: u64,
    pub(super) id: Arc<str>,
    pub(super) raw: Arc<Value>,
    pub(super) dir: PodDir,
    pub(super) ip: String,
    pub(super) services: Vec<Service>,
    pub(super) known: CachedReferences,
}

/// Starts a container, and watches over it until its end.
pub(super) async fn start(context: Arc<AgentContext>, order: Order) {
    let (pod, container) = (order.pod, Arc::clone(&order.container));
    // What it was started with is not kept while it runs: the whole pod would be there once for every container.
    if let Some(running) = launch_ordered(&context, order).await {
        watch_over(context, pod, container, running).await;
    }
}

/// Starts a container; `None`: it does not run, and the loop has been told why.
async fn launch_ordered(context: &AgentContext, order: Order) -> Option<Arc<Running>> {
    let Order { pod, container, id, .. } = &order;
    let failed = |reason: &str, message: String| Input::StartFailed {
        container: Arc::clone(container),
        id: Arc::clone(id),
        reason: reason.to_owned(),
        message,
    };
    let references = match context.references(&order.raw, &order.known).await {
        Ok(references) => references,
        Err(error) => {
            context.fact(*pod, failed(CONFIG_ERROR, unreadable(&error))).await;
            return None;
        }
    };
    let pod_context = context.pod_context(&order.dir, &order.ip);
    let Some(spec) = find(&order.raw, container) else {
        context.fact(*pod, failed(CONFIG_ERROR, "the pod has no such container".to_owned())).await;
        return None;
    };
    let resolved = match resolve(&order.raw, spec, &references, &order.services, &pod_context) {
        Ok(resolved) => resolved,
        Err(error) => {
            context.fact(*pod, failed(CONFIG_ERROR, error.to_string())).await;
            return None;
        }
    };
    if order.number == 0 {
        for message in &resolved.warnings {
            context.send(Message::Warning { pod: *pod, message: format!("container {container}: {message}") }).await;
        }
    }
    let spec = spec_of(resolved, id.to_string(), context.processes().claim.clone());
    let instance = order.dir.instance(container, order.number);
    match launch(&context.processes().shim, &instance, &spec).await {
        Ok(Instance::Running(running)) => {
            let at = context.clock.now();
            let started = Message::Started { pod: *pod, container: Arc::clone(container), running: Arc::clone(&running), at };
            context.send(started).await;
            forget_old(order.dir.container(container));
            return Some(running);
        }
        Ok(Instance::Exited(record)) => {
            let exit = exit_of(&record);
            context.fact(*pod, Input::Exited { container: Arc::clone(container), id: Arc::clone(id), exit }).await;
            forget_old(order.dir.container(container));
        }
        Err(error) => {
            if !matches!(error, LaunchError::Used(_)) {
                // Nothing of it runs, and the next try needs a clean directory.
                let _ = std::fs::remove_dir_all(&instance);
            }
            context.fact(*pod, failed(RUN_ERROR, chain(&error))).await;
        }
    }
    None
}

/// Tells the loop when an instance has ended.
pub(super) async fn watch_over(context: Arc<AgentContext>, pod: u64, container: Arc<str>, running: Arc<Running>) {
    let exit = match running.wait().await {
        Ok(record) => exit_of(&record),
        Err(error) => {
            tracing::warn!(id = running.id(), %error, "the end of a container cannot be read");
            Exit::unknown(running.started_at(), context.clock.now())
        }
    };
    let id = Arc::from(running.id());
    context.fact(pod, Input::Exited { container, id, exit }).await;
}

fn forget_old(container_dir: PathBuf) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = prune(&container_dir, KEPT) {
            tracing::warn!(path = %container_dir.display(), %error, "old instances cannot be removed");
        }
    });
}

/// Returns a container of a pod by its name.
fn find<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let lists = ["initContainers", "containers"].into_iter();
    lists.flat_map(|list| items(pod, &["spec", list])).find(|container| text(container, &["name"]) == name)
}

fn unreadable(error: &RequestError) -> String {
    format!("the ConfigMaps and Secrets of the pod cannot be read: {error}")
}

/// Returns the base environment of a pod's containers, from the environment of this process.
///
/// The directory of `lifesign` comes first in PATH, so that `command: [lifesign, serve]` needs no installation.
fn base_environment(program: &Path, tmp_dir: &Path, volumes_dir: &Path) -> BTreeMap<String, String> {
    let inherited =
        |name: &str, default: &str| std::env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or(default.to_owned());
    let path = inherited("PATH", "/usr/local/bin:/usr/bin:/bin");
    let path = match program.parent().and_then(Path::to_str) {
        Some(folder) if !folder.is_empty() => format!("{folder}:{path}"),
        _ => path,
    };
    [
        ("PATH", path),
        ("HOME", inherited("HOME", "/")),
        ("TMPDIR", tmp_dir.display().to_string()),
        ("LIFESIGN_VOLUMES", volumes_dir.display().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Returns what a shim runs.
fn spec_of(resolved: Resolved, id: String, claim: String) -> ContainerSpec {
    let Resolved { command, env, working_dir, user, group, warnings: _ } = resolved;
    ContainerSpec { id, command, env, working_dir, user, group, claim: Some(claim), log: LogLimits::default() }
}
