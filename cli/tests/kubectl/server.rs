//! What kubectl speaks to: a plane of ours that the test starts for itself, or a namespace of a real Kubernetes that it makes for
//! itself. Both are gone when the test ends, however it ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::client::{Client, Protocol, Response};
use testkit::plane::Plane;

use crate::{LIFESIGN, PATIENCE};

/// Why nothing runs on a cluster.
const NO_CLUSTER: &str = "needs a cluster: testbed/run start, eval \"$(testbed/run env)\"";
/// Tests share the cluster, but for those that take the node away from everybody.
static CLUSTER: RwLock<()> = RwLock::new(());

/// Where a test runs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum On {
    Plane,
    Cluster,
}

/// Returns why tests cannot run on a cluster here.
pub(crate) fn no_cluster() -> Option<String> {
    std::env::var_os("LIFESIGN_TEST_KUBECONFIG").is_none().then(|| NO_CLUSTER.to_owned())
}

/// Which parts of a plane a test needs; a cluster always has all of them, and of its own.
#[derive(Clone, Copy)]
pub(crate) enum Parts {
    /// The API server: the test plays controllers and kubelets.
    Server,
    /// Controllers and an agent too.
    All,
}

/// Who else may use the cluster meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum Sharing {
    Shared,
    Alone,
}

pub(crate) enum Server {
    Plane(Plane),
    Cluster(Cluster),
}

impl Server {
    pub(crate) fn start(on: On, parts: Parts, sharing: Sharing) -> Server {
        if on == On::Cluster {
            return Server::Cluster(Cluster::new(sharing));
        }
        let plane = Plane::new(LIFESIGN);
        let mut plane = match parts {
            Parts::Server => plane,
            Parts::All => plane.whole(),
        };
        plane.start().expect("the plane starts");
        Server::Plane(plane)
    }

    /// Returns the path of the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        match self {
            Server::Plane(plane) => plane.kubeconfig(),
            Server::Cluster(cluster) => cluster.kubeconfig(),
        }
    }

    /// Returns a folder that the test may use.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Server::Plane(plane) => plane.folder(),
            Server::Cluster(cluster) => cluster.folder.path(),
        }
    }

    /// Returns the log of a plane.
    pub(crate) fn log(&self) -> String {
        match self {
            Server::Plane(plane) => plane.log(),
            Server::Cluster(_) => String::new(),
        }
    }
}

/// A namespace of a cluster.
pub(crate) struct Cluster {
    folder: TempDir,
    pub(crate) namespace: String,
    /// Paths of what the test makes beside its namespace.
    others: Mutex<Vec<String>>,
    lock: Lock,
}

enum Lock {
    Shared(#[allow(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[allow(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

impl Cluster {
    fn new(sharing: Sharing) -> Cluster {
        // A test that failed while it had the cluster to itself has given the node back.
        let lock = match sharing {
            Sharing::Shared => Lock::Shared(CLUSTER.read().unwrap_or_else(std::sync::PoisonError::into_inner)),
            Sharing::Alone => Lock::Alone(CLUSTER.write().unwrap_or_else(std::sync::PoisonError::into_inner)),
        };
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let namespace = format!("kubectl-{:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let cluster = Cluster { folder, namespace, others: Mutex::default(), lock };
        std::fs::copy(environment("LIFESIGN_TEST_KUBECONFIG"), cluster.kubeconfig()).expect("the kubeconfig is there");
        cluster.kubectl(&["config", "set-context", "--current", "--namespace", &cluster.namespace]);
        cluster.kubectl(&["create", "namespace", &cluster.namespace]);
        // Pods and lists of these would come too early before controllers have made them.
        for object in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            let path = format!("/api/v1/namespaces/{}/{object}", cluster.namespace);
            let deadline = Instant::now() + PATIENCE;
            while ask(&cluster.kubeconfig(), "GET", &path, &Value::Null).map_or(0, |answer| answer.code) != 200 {
                assert!(Instant::now() < deadline, "never: {path}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        cluster
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn kubectl(&self, arguments: &[&str]) {
        let output =
            Command::new("kubectl").args(arguments).env("KUBECONFIG", self.kubeconfig()).output().expect("kubectl starts");
        assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns a name that no other test uses.
    pub(crate) fn own_name(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    /// Returns such a name for an object; it goes with the test.
    pub(crate) fn apart(&self, resource: &str, name: &str) -> String {
        let name = self.own_name(name);
        self.others.lock().expect("nobody panics with it").push(format!("/api/v1/{resource}/{name}"));
        name
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let kubeconfig = self.kubeconfig();
        if let Lock::Alone(_) = self.lock {
            let node = format!("/api/v1/nodes/{}", environment("LIFESIGN_TEST_NODE"));
            let _ = ask(&kubeconfig, "PATCH", &node, &json!({"spec": {"unschedulable": null}}));
        }
        let others = self.others.get_mut().map(std::mem::take).unwrap_or_default();
        for path in others.into_iter().chain([format!("/api/v1/namespaces/{}", self.namespace)]) {
            let _ = ask(&kubeconfig, "DELETE", &path, &Value::Null);
        }
    }
}

/// Returns what `testbed/run env` has set.
pub(crate) fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: eval \"$(testbed/run env)\""))
}

/// Sends a request as the user of a kubeconfig; a PATCH is a merge patch.
pub(crate) fn ask(kubeconfig: &Path, method: &str, path: &str, body: &Value) -> Result<Response, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let client = Client::new(kubeconfig, Protocol::Http1)?;
    let type_ = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    runtime.block_on(client.call_with(method, path, &[("content-type", type_)], body))
}
