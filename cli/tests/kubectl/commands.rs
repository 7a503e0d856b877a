//! A kubectl and the server that it speaks to: command lines, and the requests of those whose part a test plays.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use testkit::plane::Plane;

use crate::server::{self, On, Parts, Server, Sharing, ask};
use crate::table::{table, without_age, words};

pub(crate) struct Kubectl {
    server: Server,
    pub(crate) kubeconfig: PathBuf,
    /// Flags of every command, such as those that make it somebody else's.
    pub(crate) flags: Vec<String>,
}

/// What a command said.
pub(crate) struct CommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) good: bool,
}

impl Kubectl {
    /// Starts an API server; on a cluster, makes a namespace. The test plays controllers and kubelets.
    pub(crate) fn start(on: On) -> Kubectl {
        Kubectl::with(Server::start(on, Parts::Server, Sharing::Shared))
    }

    /// The same with controllers, and with a node whose pods run.
    pub(crate) fn whole(on: On) -> Kubectl {
        Kubectl::with(Server::start(on, Parts::All, Sharing::Shared))
    }

    /// The same while no other test uses the cluster.
    pub(crate) fn alone(on: On) -> Kubectl {
        Kubectl::with(Server::start(on, Parts::All, Sharing::Alone))
    }

    fn with(server: Server) -> Kubectl {
        let kubeconfig = server.kubeconfig();
        Kubectl { server, kubeconfig, flags: Vec::new() }
    }

    /// Returns the plane; a test that runs on a cluster has none.
    pub(crate) fn plane(&self) -> Option<&Plane> {
        match &self.server {
            Server::Plane(plane) => Some(plane),
            Server::Cluster(_) => None,
        }
    }

    /// Returns a folder that the test may use: commands run there.
    pub(crate) fn folder(&self) -> &Path {
        self.server.folder()
    }

    /// Returns the namespace of commands that name none.
    pub(crate) fn namespace(&self) -> &str {
        match &self.server {
            Server::Plane(_) => "default",
            Server::Cluster(cluster) => &cluster.namespace,
        }
    }

    /// Returns the name of an object of the core group that is in no namespace, made from now on: it goes with the test.
    pub(crate) fn apart(&self, resource: &str, name: &str) -> String {
        match &self.server {
            Server::Plane(_) => name.to_owned(),
            Server::Cluster(cluster) => cluster.apart(resource, name),
        }
    }

    /// Returns the name of a node of this test, which may be there or not: pods that nobody runs are bound to it. After a while a
    /// cluster deletes pods of nodes that are not there, whoever's they are, so each test has its own.
    pub(crate) fn node(&self, name: &str) -> String {
        match &self.server {
            Server::Plane(_) => name.to_owned(),
            Server::Cluster(cluster) => cluster.own_name(name),
        }
    }

    /// Returns a text with the names that it would have on a plane.
    pub(crate) fn plain(&self, text: &str) -> String {
        match &self.server {
            Server::Plane(_) => text.to_owned(),
            Server::Cluster(cluster) => {
                text.replace(&format!("-{}", cluster.namespace), "").replace(&cluster.namespace, "default")
            }
        }
    }

    /// Returns an image and a command line in it that serves HTTP on port 8080 until it is told to end.
    pub(crate) fn web_server(&self) -> (String, &'static str) {
        match &self.server {
            Server::Plane(_) => ("none".to_owned(), "lifesign serve --port 8080"),
            Server::Cluster(_) => (server::environment("LIFESIGN_TEST_IMAGE"), "/bin/bed serve 8080 0"),
        }
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command.args(&self.flags).args(words(line)).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder());
        command.current_dir(self.folder());
        command
    }

    /// Runs a command line (words, quoted with ' where they have blanks).
    pub(crate) fn try_run(&self, line: &str) -> CommandOutput {
        self.try_run_with(line, "")
    }

    /// Runs a command line with a text on stdin.
    pub(crate) fn try_run_with(&self, line: &str, stdin: &str) -> CommandOutput {
        let mut child = self
            .command(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("stdin is piped").write_all(stdin.as_bytes()).expect("kubectl reads");
        let output = child.wait_with_output().expect("kubectl ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        CommandOutput { stdout: text(&output.stdout), stderr: text(&output.stderr), good: output.status.success() }
    }

    /// Runs a command that must succeed and returns what it printed.
    pub(crate) fn run(&self, line: &str) -> String {
        self.run_with(line, "")
    }

    /// Runs a command with a text on stdin that must succeed.
    pub(crate) fn run_with(&self, line: &str, stdin: &str) -> String {
        let output = self.try_run_with(line, stdin);
        assert!(output.good, "kubectl {line}\n{}{}\n{}", output.stdout, output.stderr, self.server.log());
        output.stdout
    }

    /// Runs a command that must fail and returns its complaint.
    pub(crate) fn refused(&self, line: &str) -> String {
        let output = self.try_run(line);
        assert!(!output.good, "kubectl {line} should fail\n{}", output.stdout);
        output.stderr
    }

    /// Returns a table with its columns told apart, without what differs from run to run and from server to server.
    pub(crate) fn table(&self, line: &str) -> String {
        self.plain(&table(&self.run(line)))
    }

    /// Starts a command that goes on, and returns its lines as they come.
    pub(crate) fn follow(&self, line: &str) -> Following {
        let mut child = self.command(line).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        Following { child, lines }
    }

    /// Applies a manifest.
    pub(crate) fn apply(&self, manifest: &str) -> String {
        self.run_with("apply -f -", manifest)
    }

    /// Returns the path of a resource of the core group in the namespace of the test.
    pub(crate) fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace())
    }

    /// Sends a request as an agent or a controller would, without kubectl; returns the object.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = ask(&self.server.kubeconfig(), method, path, body).expect("the server answers");
        assert!(answer.code < 300, "{method} {path}: {}", answer.json());
        answer.json()
    }

    /// Sets the status of a pod, as an agent would.
    pub(crate) fn set_pod_status(&self, pod: &str, status: Value) {
        self.send("PATCH", &self.path(&format!("pods/{pod}/status")), &json!({"status": status}));
    }

    /// Makes a node that is ready, and that nobody else's pods are put on; returns its name.
    pub(crate) fn ready_node(&self, name: &str) -> String {
        let name = self.apart("nodes", name);
        let metadata = json!({"name": name, "labels": {"node-role.kubernetes.io/worker": ""}});
        let spec = json!({"taints": [{"key": "test", "effect": "NoSchedule"}]});
        let node = self.send("POST", "/api/v1/nodes", &json!({"metadata": metadata, "spec": spec}));
        let taints = node["spec"]["taints"].to_string();
        assert!(taints.contains("node.kubernetes.io/not-ready"), "not ready until its controller says so: {taints}");
        let status = json!({
            "conditions": [{"type": "Ready", "status": "True", "reason": "AgentReady"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
            "nodeInfo": {
                "kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1.0", "architecture": "amd64",
                "containerRuntimeVersion": "process://1", "operatingSystem": "linux",
                "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
            },
        });
        self.send("PATCH", &format!("/api/v1/nodes/{name}/status"), &json!({"status": status}));
        name
    }

    /// Makes a pod on a node of this test (empty: on none) that nobody has reported about.
    pub(crate) fn pending_pod(&self, name: &str, node: &str) {
        let node = if node.is_empty() { String::new() } else { self.node(node) };
        self.send("POST", &self.path("pods"), &pod(name, &node));
    }

    /// Makes a pod that runs on a node of this test.
    pub(crate) fn running_pod(&self, name: &str, node: &str) {
        self.pending_pod(name, node);
        let status = json!({
            "phase": "Running", "podIP": "127.88.0.7", "podIPs": [{"ip": "127.88.0.7"}], "hostIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
            "containerStatuses": [{
                "name": "app", "ready": true, "started": true, "restartCount": 0, "image": "web:1", "imageID": "",
                "state": {"running": {"startedAt": "2026-11-15T00:00:00Z"}},
            }],
        });
        self.set_pod_status(name, status);
    }

    /// Makes a Deployment that its controller leaves alone.
    pub(crate) fn paused_deployment(&self, name: &str, image: &str, replicas: usize) {
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": image}]}});
        let spec = json!({"paused": true, "replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": spec});
        self.run_with("create -f -", &deployment.to_string());
    }
}

/// Returns a pod that no scheduler puts on a node.
pub(crate) fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node, "schedulerName": "nobody",
            "containers": [{
                "name": "app", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}],
                "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 1},
            }],
        },
    })
}

/// A command that goes on until it is dropped.
pub(crate) struct Following {
    pub(crate) child: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// Waits for the next line.
    pub(crate) fn next(&mut self) -> String {
        let line = self.lines.next().expect("kubectl goes on").expect("kubectl writes text");
        // In a watch every line has its own widths.
        line.split_whitespace().map(without_age).collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
