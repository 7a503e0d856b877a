//! The test bed: one plane, several agents, a link for each.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::link::Link;
use testkit::plane::{Plane, end_containers};

/// What does not happen by then will not happen, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(180);
/// From look to look: what is waited for is a state, and every look asks for the whole of it.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) const CLUSTER: &str = "/apis/config.openshift.io/v1/nodes/cluster";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A plane and its agents.
pub(crate) struct Bed {
    pub(crate) plane: Plane,
    pub(crate) agents: Vec<Agent>,
    controllers: Option<Child>,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

/// An agent of its own process behind a link of its own.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) link: Link,
    data: PathBuf,
    child: Child,
}

impl Bed {
    /// Starts a plane and so many agents on clocks of this speed; returns when all nodes are ready.
    pub(crate) fn start(agents: usize, speed: u32) -> Bed {
        let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
        plane.set_environment("LIFESIGN_CLOCK_SPEED", &speed.to_string());
        plane.set_arguments(["--node-name", "control"]);
        plane.choose_own_profile();
        plane.start().expect("the plane comes up");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).expect("a client");
        let mut bed = Bed { plane, agents: Vec::new(), controllers: None, client, runtime };
        // The node of the plane itself never loses its link: it is no worker, so that it cannot speak for the others.
        bed.call(
            "PATCH",
            "/api/v1/nodes/control",
            &json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
        );
        for number in 1..=agents {
            let agent = bed.join(&format!("edge-{number}"), speed, &[]);
            bed.agents.push(agent);
        }
        bed.until("all nodes are ready", || (bed.ready().len() == agents + 1).then_some(()));
        bed
    }

    /// Starts an API server, controllers and agents, each as a process of its own.
    pub(crate) fn apart(agents: usize, speed: u32) -> Bed {
        let plane = Plane::started(env!("CARGO_BIN_EXE_lifesign"));
        let printed = plane.command("kubeconfig").args(["--role", "controllers"]).output().expect("a kubeconfig");
        let path = plane.folder().join("controllers.kubeconfig");
        std::fs::write(&path, printed.stdout).expect("a file");
        let log = std::fs::File::create(plane.folder().join("controllers.log")).expect("a log");
        let controllers = Command::new(env!("CARGO_BIN_EXE_lifesign"))
            .args(["controllers", "--kubeconfig"])
            .arg(&path)
            .env("LIFESIGN_CLOCK_SPEED", speed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the controllers start");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).expect("a client");
        let mut bed = Bed { plane, agents: Vec::new(), controllers: Some(controllers), client, runtime };
        for number in 1..=agents {
            let agent = bed.join(&format!("edge-{number}"), speed, &[]);
            bed.agents.push(agent);
        }
        bed.until("all nodes are ready", || (bed.ready().len() == agents).then_some(()));
        bed.until("the controllers have made the object", || bed.find(CLUSTER));
        bed
    }

    fn find(&self, path: &str) -> Option<Value> {
        let answer = self.runtime.block_on(self.client.call("GET", path, &Value::Null)).expect("an answer");
        (answer.code == 200).then(|| answer.json())
    }

    /// Starts an agent, with further arguments.
    pub(crate) fn join(&self, name: &str, speed: u32, arguments: &[&str]) -> Agent {
        let server: SocketAddr = self.plane.url().trim_start_matches("https://").parse().expect("an address");
        let link = Link::open(server, name.bytes().map(u64::from).sum()).expect("a link");
        let printed = self.plane.command("kubeconfig").args(["--node", name]).output().expect("a kubeconfig");
        let kubeconfig =
            String::from_utf8(printed.stdout).expect("text").replace(&server.to_string(), &link.address().to_string());
        let (data, path) = (self.plane.folder().join(name), self.plane.folder().join(format!("{name}.kubeconfig")));
        std::fs::write(&path, kubeconfig).expect("a file");
        let log = std::fs::File::create(self.plane.folder().join(format!("{name}.log"))).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_lifesign"))
            .args(["agent", "--node-name", name])
            .arg("--kubeconfig")
            .arg(&path)
            .arg("--data-dir")
            .arg(&data)
            .args(arguments)
            .env("LIFESIGN_CLOCK_SPEED", speed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the agent starts");
        Agent { name: name.to_owned(), link, data, child }
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let headers = [("content-type", kind)];
        let answer = self.runtime.block_on(self.client.call_with(method, path, &headers, body)).expect("an answer");
        assert!(answer.code < 300, "{method} {path}: {} {}", answer.code, answer.json());
        answer.json()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null)
    }

    pub(crate) fn items(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the names of nodes that are ready.
    pub(crate) fn ready(&self) -> Vec<String> {
        let nodes = self.items("/api/v1/nodes").into_iter().filter(|node| condition(node, "Ready") == "True");
        nodes.map(|node| node["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Asks for a profile, and waits until it is in force. `look` is called all the time meanwhile.
    pub(crate) fn set_profile(&self, profile: &str, mut look: impl FnMut(&Value)) {
        self.call("PATCH", CLUSTER, &json!({"spec": {"workerLatencyProfile": profile}}));
        self.until(&format!("{profile} is in force"), || {
            let cluster = self.get(CLUSTER);
            look(&cluster);
            let conditions =
                cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array().cloned().unwrap_or_default();
            let complete = conditions.iter().filter(|condition| condition["type"] == "Complete");
            let complete =
                complete.filter(|condition| condition["status"] == "True" && condition["reason"] == "ProfileUpdated");
            (complete.count() == 3 && cluster["metadata"]["annotations"]["lifesign.dev/applied-profile"] == profile)
                .then_some(())
        });
    }

    /// Returns what the clock of the plane says now, in whole seconds: what the API server writes on a new object.
    pub(crate) fn now(&self) -> i64 {
        let object = self.call("POST", "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"generateName": "now-"}}));
        seconds(&object["metadata"]["creationTimestamp"])
    }

    /// Returns for how many seconds the plane has not heard a node.
    pub(crate) fn silence(&self, node: &str) -> f64 {
        let answer = self.runtime.block_on(self.client.call("GET", "/metrics", &Value::Null)).expect("an answer");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let name = format!("lifesign_node_heartbeat_age_seconds{{node=\"{node}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|age| age.parse().ok()).unwrap_or_else(|| panic!("no {name:?} in\n{text}"))
    }

    /// Runs a pod on a node and waits until it is ready.
    pub(crate) fn run_pod(&self, name: &str, node: &str, tolerations: &[Value]) {
        let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"]});
        let spec = json!({
            "nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container], "tolerations": tolerations,
        });
        self.call("POST", PODS, &json!({"metadata": {"name": name}, "spec": spec}));
        self.until(&format!("{name} is ready"), || {
            (condition(&self.get(&format!("{PODS}/{name}")), "Ready") == "True").then_some(())
        });
    }

    /// Returns the reasons of all events.
    pub(crate) fn events(&self) -> Vec<String> {
        let events = self.items("/api/v1/namespaces/default/events");
        events.iter().map(|event| event["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until a check finds something.
    pub(crate) fn until<T>(&self, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = check() {
                return found;
            }
            assert!(Instant::now() < deadline, "never: {what}\n{:#}\nlog:\n{}", self.get(CLUSTER), self.plane.log());
            std::thread::sleep(LOOK);
        }
    }
}

/// Returns the status of a condition, or nothing.
pub(crate) fn condition(object: &Value, type_: &str) -> String {
    condition_of(object, type_)["status"].as_str().unwrap_or_default().to_owned()
}

/// Returns a condition, or null.
pub(crate) fn condition_of(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default()
}

/// Returns the whole seconds of a time of the API.
pub(crate) fn seconds(time: &Value) -> i64 {
    let time: api::Timestamp = serde_json::from_value(time.clone()).unwrap_or_else(|error| panic!("{time}: {error}"));
    time.0.as_secs()
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Some(controllers) = &mut self.controllers {
            let _ = controllers.kill();
            let _ = controllers.wait();
        }
    }
}

impl Agent {
    /// Sends the agent a signal: to stop or to go on.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the agent can be signalled");
    }

    /// Kills the agent: it has no chance to say anything.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the agent can be killed");
        self.child.wait().expect("the agent can be waited for");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        end_containers(&self.data);
    }
}
