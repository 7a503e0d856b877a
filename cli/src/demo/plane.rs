//! The temporary plane of the demo: processes of this binary, their folder, a client.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use runtime::{Client, RequestError, requests};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::config::read_kubeconfig;
use crate::error::Failure;

/// A part of the plane that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A part that was asked to stop and is still there by then is ended.
const STOP_WITHIN: Duration = Duration::from_secs(20);
const TIMEOUT: Duration = Duration::from_secs(30);

/// The collections of the namespace that everything is in.
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(super) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(super) const MARKERS: &str = "/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers";

/// A temporary plane.
pub(super) struct DemoPlane {
    folder: PathBuf,
    program: PathBuf,
    speed: u32,
    parts: Vec<Part>,
    client: Option<Client>,
}

/// A process of the plane.
struct Part {
    name: String,
    child: Child,
    /// Kept open, so that it can go on writing.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl DemoPlane {
    /// Makes the folder; nothing runs yet.
    pub(super) fn new(speed: u32) -> Result<DemoPlane, Failure> {
        let program = std::env::current_exe().map_err(Failure::bug)?;
        let folder = std::env::temp_dir().join(format!("lifesign-demo-{:x}", crate::apiserver::random_seed()?));
        runtime::files::claim_private_folder(&folder, &[]).map_err(|error| {
            Failure::usage(format!("{}: {error}", folder.display())).hint("choose another place with TMPDIR")
        })?;
        Ok(DemoPlane { folder, program, speed, parts: Vec::new(), client: None })
    }

    /// Returns how fast the clocks of the plane run.
    pub(super) fn speed(&self) -> u32 {
        self.speed
    }

    /// Returns a folder for the pods of the demo.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the command of a pod that runs a subcommand of this binary.
    pub(super) fn command<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        let program = self.program.display().to_string();
        std::iter::once(program).chain(arguments.into_iter().map(str::to_owned)).collect::<Vec<_>>().into()
    }

    fn base(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        // What the user has set for a plane of his own is not meant for this one.
        for name in ["LIFESIGN_DATA_DIR", "LIFESIGN_LISTEN", "LIFESIGN_FEATURE_GATES", "LIFESIGN_NODE_NAME", "KUBECONFIG"] {
            command.env_remove(name);
        }
        if self.speed > 1 {
            command.env("LIFESIGN_CLOCK_SPEED", self.speed.to_string());
        }
        command
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Starts the API server, the controllers and the node `near`.
    pub(super) async fn start(&mut self) -> Result<(), Failure> {
        let data = self.path("plane");
        self.run("plane", &["up", "--node-name", "near", "--listen", "127.0.0.1:0", "--data-dir", &data]).await?;
        let kubeconfig = self.folder.join("plane/kubeconfig");
        let config = read_kubeconfig(&kubeconfig, "lifesign-demo", "this is a mistake of ours").await?;
        self.client = Some(Client::try_from(config).map_err(Failure::bug)?);
        Ok(())
    }

    /// Starts the agent of another node.
    pub(super) async fn join(&mut self, node: &str, arguments: &[&str]) -> Result<(), Failure> {
        let (data, kubeconfig) = (self.path("plane"), self.folder.join(format!("{node}.kubeconfig")));
        let printed = self.base(&["kubeconfig", "--data-dir", &data, "--node", node]).output().await.map_err(Failure::bug)?;
        runtime::files::write_private(&kubeconfig, &printed.stdout).map_err(Failure::bug)?;
        let (kubeconfig, data) = (kubeconfig.display().to_string(), self.path(node));
        let agent = ["agent", "--node-name", node, "--kubeconfig", &kubeconfig, "--data-dir", &data];
        self.run(node, &[&agent, arguments].concat()).await
    }

    /// Runs a part and waits until it says that it is ready.
    async fn run(&mut self, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        let log = self.folder.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).map_err(Failure::bug)?;
        // In a group of its own: Ctrl-C is for the demo, which stops its parts in order.
        let mut command = self.base(arguments);
        let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(file).spawn().map_err(Failure::bug)?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::bug("a pipe is missing"))?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(READY_WITHIN, lines.next_line()).await;
        self.parts.push(Part { name: name.to_owned(), child, _stdout: lines });
        match first {
            Ok(Ok(Some(line))) if line.starts_with("ready ") => Ok(()),
            _ => {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                Err(Failure::bug(format!("the part {name} of the demo does not start: {}", log.trim())))
            }
        }
    }

    /// Sends a signal to the process of a node.
    pub(super) fn signal(&self, node: &str, signal: Signal) -> Result<(), Failure> {
        let part = self.parts.iter().find(|part| part.name == node).ok_or_else(|| Failure::bug("no such node"))?;
        part.signal(signal).map_err(Failure::bug)
    }

    /// Returns the client of the plane.
    pub(super) fn client(&self) -> &Client {
        self.client.as_ref().expect("the plane is started before anybody asks it")
    }

    /// Creates an object.
    pub(super) async fn create(&self, collection: &str, object: &Value) -> Result<Value, Failure> {
        runtime::request(self.client(), Method::POST, collection, object).await.map_err(failure)
    }

    /// Changes an object.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Result<Value, Failure> {
        runtime::request(self.client(), Method::PATCH, path, patch).await.map_err(failure)
    }

    /// Deletes an object and what belongs to it.
    pub(super) async fn delete(&self, path: &str) -> Result<(), Failure> {
        let options = json!({"propagationPolicy": "Background"});
        runtime::request(self.client(), Method::DELETE, path, &options).await.map_err(failure).map(drop)
    }

    /// Reads a text, such as the log of a pod.
    pub(super) async fn text(&self, path: &str) -> Result<String, Failure> {
        let bytes = requests::read(self.client(), path, TIMEOUT).await.map_err(failure)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a command of this binary about the plane and returns what it prints.
    pub(super) async fn ask(&self, arguments: &[&str]) -> Result<String, Failure> {
        let kubeconfig = self.path("plane/kubeconfig");
        let out = self.base(&[arguments, &["--kubeconfig", &kubeconfig]].concat()).output().await.map_err(Failure::bug)?;
        if !out.status.success() {
            return Err(Failure::bug(String::from_utf8_lossy(&out.stderr)));
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Stops every part, those that joined first, and removes the folder.
    pub(super) async fn stop(&mut self) -> Result<(), Failure> {
        let mut late = Vec::new();
        while let Some(mut part) = self.parts.pop() {
            // One that is suspended would not hear the other one.
            let _ = part.signal(Signal::CONT).and_then(|()| part.signal(Signal::TERM));
            if tokio::time::timeout(STOP_WITHIN, part.child.wait()).await.is_err() {
                let _ = part.child.kill().await;
                late.push(part.name);
            }
        }
        std::fs::remove_dir_all(&self.folder)
            .map_err(|error| Failure::bug(format!("{} cannot be removed: {error}", self.folder.display())))?;
        match late.is_empty() {
            true => Ok(()),
            false => Err(Failure::bug(format!("did not stop in time and was ended: {}", late.join(", ")))),
        }
    }
}

impl Part {
    fn signal(&self, signal: Signal) -> std::io::Result<()> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        pid.map_or(Ok(()), |pid| Ok(kill_process(pid, signal)?))
    }
}

fn failure(error: RequestError) -> Failure {
    Failure::bug(format!("the plane of the demo: {error}"))
}
