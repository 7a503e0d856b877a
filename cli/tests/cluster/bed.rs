//! The cluster under test: its API, its kubectl, its script, and processes of ours beside it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol, Response};

use crate::LIFESIGN;

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(60);
/// An answer that is not there by then never comes.
const ANSWER: Duration = Duration::from_secs(30);

/// The cluster.
#[derive(Clone)]
pub(crate) struct Bed {
    kubeconfig: PathBuf,
    script: PathBuf,
    /// Which bed of this clone it is, if it is not the one that the environment names.
    name: Option<String>,
    /// The folder of its node.
    pub(crate) root: PathBuf,
    /// The name of its node.
    pub(crate) node: String,
    /// An image that the node has, with busybox in it.
    pub(crate) image: String,
}

impl Bed {
    /// Returns the cluster that the environment names.
    pub(crate) fn found() -> Option<Bed> {
        let kubeconfig = std::env::var_os("LIFESIGN_TEST_KUBECONFIG")?.into();
        let text =
            |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: eval \"$(testbed/run env)\""));
        Some(Bed {
            kubeconfig,
            script: text("LIFESIGN_TEST_BED").into(),
            name: None,
            root: text("LIFESIGN_TEST_NODE_ROOT").into(),
            node: text("LIFESIGN_TEST_NODE"),
            image: text("LIFESIGN_TEST_IMAGE"),
        })
    }

    /// Returns a bed beside this one, which nobody has started yet.
    pub(crate) fn another(&self, name: &str) -> Bed {
        Bed { name: Some(format!("{name}-{:x}", std::process::id())), ..self.clone() }
    }

    /// Learns from a bed that has been started where it is.
    pub(crate) fn ask_environment(&mut self) {
        let environment = self.run(&["env"]);
        let value = |name: &str| {
            let word = environment.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            PathBuf::from(word.unwrap_or_else(|| panic!("{name} is not in {environment}")))
        };
        self.kubeconfig = value("LIFESIGN_TEST_KUBECONFIG");
        self.root = value("LIFESIGN_TEST_NODE_ROOT");
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Sends a request as the administrator; a PATCH is a merge patch.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Response {
        self.try_ask(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends a request to an API server that may be away.
    pub(crate) fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Response, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::new(&self.kubeconfig, Protocol::Http1).unwrap();
        let type_ = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers = [("content-type", type_)];
        let answer = async { tokio::time::timeout(ANSWER, client.call_with(method, path, &headers, body)).await };
        runtime.block_on(answer).unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}")))
    }

    /// Returns an object, if the API server is there and has it.
    pub(crate) fn find(&self, path: &str) -> Option<Value> {
        let answer = self.try_ask("GET", path, &Value::Null).ok()?;
        (answer.code == 200).then(|| answer.json())
    }

    /// Sends a request with a token, and nothing else that says who asks.
    pub(crate) fn call_as(&self, token: &str, method: &str, path: &str, body: &Value) -> Response {
        // Custom resources have no strategic merge patch.
        let type_ = match method {
            "PATCH" if path.starts_with("/apis/apps.kruise.io/") => "application/merge-patch+json",
            "PATCH" => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::without_certificate(&self.kubeconfig, Protocol::Http1).unwrap();
        let bearer = format!("Bearer {token}");
        let headers = [("content-type", type_), ("authorization", bearer.as_str())];
        runtime.block_on(client.call_with(method, path, &headers, body)).unwrap()
    }

    /// Sends a patch with a token.
    pub(crate) fn patch_as(&self, token: &str, path: &str, patch: &Value) -> Response {
        self.call_as(token, "PATCH", path, patch)
    }

    /// Sends a request that must succeed and returns the object.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert!(answer.code < 300, "{method} {path}: {}", answer.json());
        answer.json()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null)
    }

    /// Returns the items of a list.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns whether the API server says that it is well; it may be away.
    pub(crate) fn healthy(&self) -> bool {
        self.try_ask("GET", "/readyz", &Value::Null).is_ok_and(|answer| answer.code == 200)
    }

    /// Waits until a question has an answer.
    pub(crate) fn until<T>(&self, what: &str, mut ask: impl FnMut(&Bed) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(Instant::now() < deadline, "never: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs kubectl with a text on stdin; returns whether it succeeded, and what it said.
    pub(crate) fn kubectl(&self, arguments: &[&str], stdin: &str) -> (bool, String) {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs the script of the bed; returns what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.script);
        command.args(arguments).stdin(Stdio::null());
        if let Some(name) = &self.name {
            command.env("LIFESIGN_TESTBED_NAME", name);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Installs the definitions of our kinds.
    pub(crate) fn install_definitions(&self) {
        // Two at a time would both create them.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds");
        let (good, output) = self.kubectl(&["apply", "--validate=strict", "-f", folder], "");
        assert!(good, "{output}");
        let (good, output) = self.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "-f", folder], "");
        assert!(good, "{output}");
    }

    /// Removes the definitions of our kinds, and waits until they are gone.
    pub(crate) fn remove_definitions(&self) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds");
        let (good, output) = self.kubectl(&["delete", "--timeout=60s", "-f", folder], "");
        assert!(good, "{output}");
    }

    /// Makes a namespace that goes with what is returned.
    pub(crate) fn namespace(&self, name: &str) -> Namespace<'_> {
        // The one of an earlier test with that name may still be on its way out.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("{name}-{:x}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        self.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        self.until("a service account", |bed| (bed.ask("GET", &account, &Value::Null).code == 200).then_some(()));
        Namespace { bed: self, name }
    }
}

/// A namespace that is deleted at the end.
pub(crate) struct Namespace<'a> {
    bed: &'a Bed,
    pub(crate) name: String,
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        self.bed.ask("DELETE", &format!("/api/v1/namespaces/{}", self.name), &Value::Null);
    }
}

/// A process of ours; it ends with the test.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    /// The Lease that it leads by.
    pub(crate) lease: String,
    _folder: tempfile::TempDir,
}

impl Running {
    /// Starts `lifesign controllers`, with a Lease of its own that nobody else waits for.
    pub(crate) fn controllers(kubeconfig: &Path, arguments: &[&str]) -> Running {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let lease = format!("lifesign-test-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let kubeconfig = kubeconfig.to_str().unwrap();
        let own = ["controllers", "--leader-elect-resource-name", &lease, "--kubeconfig", kubeconfig];
        let mut running = Running::start(&[&own[..], arguments].concat());
        running.lease.clone_from(&lease);
        running
    }

    /// Starts `lifesign` with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new(LIFESIGN);
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        Running { child: command.spawn().unwrap(), log, lease: String::new(), _folder: folder }
    }

    /// Returns what it has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it has said something.
    pub(crate) fn says(&self, bed: &Bed, text: &str) {
        bed.until(text, |_| self.log().contains(text).then_some(()));
    }

    /// Ends it as a supervisor would.
    pub(crate) fn stop(mut self) -> bool {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("lifesign said:\n{}", self.log());
        }
    }
}
