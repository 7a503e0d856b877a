//! The whole plane through the real binary: `lifesign up`, real processes, real probes.

mod adoption;
mod breadth;
mod demo;
mod examples;
mod faults;
mod floods;
mod gates;
mod listening;
mod mistakes;
mod output;
mod pods;
mod profile_command;
mod profiles;
mod refusals;
mod services;
mod why;
mod workloads;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

/// What does not happen by then will not happen, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A plane with everything, and a client of it.
struct Up {
    plane: Plane,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Up {
    fn start() -> Up {
        Up::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Up {
        Up::start_in(arguments, &[])
    }

    fn start_in(arguments: &[&str], environment: &[(&str, &str)]) -> Up {
        let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
        plane.set_arguments(arguments.iter().copied());
        environment.iter().for_each(|(name, value)| plane.set_environment(name, value));
        if !environment.is_empty() {
            plane.choose_own_profile();
        }
        plane.start().expect("the plane comes up");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = Client::new(&plane.kubeconfig(), Protocol::Http2).expect("a client");
        Up { plane, client, runtime }
    }

    /// Starts the plane again on the same data.
    fn start_again(&mut self, arguments: &[&str]) {
        self.plane.set_arguments(arguments.iter().copied());
        self.plane.start().expect("the plane comes up again");
        self.client = Client::new(&self.plane.kubeconfig(), Protocol::Http2).expect("a client");
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let headers = [("content-type", if method == "PATCH" { "application/merge-patch+json" } else { "application/json" })];
        let answer = self.runtime.block_on(self.client.call_with(method, path, &headers, body)).expect("an answer");
        (answer.code, answer.json())
    }

    fn get(&self, path: &str) -> Value {
        let (code, object) = self.call("GET", path, &Value::Null);
        assert_eq!(code, 200, "{path}: {object}");
        object
    }

    fn text(&self, path: &str) -> String {
        let answer = self.runtime.block_on(self.client.call("GET", path, &Value::Null)).expect("an answer");
        assert_eq!(answer.code, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    /// Asks the agent something, with the credentials of the administrator.
    fn agent_text(&self, path: &str) -> String {
        let nodes = self.get("/api/v1/nodes");
        let port =
            nodes["items"][0]["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().expect("an agent endpoint");
        let client = Client::of_agent(&self.plane.kubeconfig(), &format!("127.0.0.1:{port}")).expect("a client");
        let answer = self.runtime.block_on(client.call("GET", path, &Value::Null)).expect("an answer");
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    fn create_pod(&self, pod: &Value) -> Value {
        let (code, answer) = self.call("POST", "/api/v1/namespaces/default/pods", pod);
        assert_eq!(code, 201, "{answer}");
        answer
    }

    /// Waits until an object of a collection satisfies a condition; says the last state if it never does.
    fn wait_for(&self, collection: &str, name: &str, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}");
        let mut last = Value::Null;
        let found = self.patiently(self.follow(&path, |type_, object| {
            last = object.clone();
            type_ != "DELETED" && good(object)
        }));
        match found {
            Some(object) => object,
            _ => panic!("{name} is never {what}; last seen: {last:#}\nlog:\n{}", self.plane.log()),
        }
    }

    fn wait_ready(&self, name: &str) -> Value {
        self.wait_for("/api/v1/namespaces/default/pods", name, "ready", is_ready)
    }

    /// Waits until an object is gone.
    fn wait_gone(&self, collection: &str, name: &str) {
        let (code, object) = self.call("GET", &format!("{collection}/{name}"), &Value::Null);
        if code == 404 {
            return;
        }
        // From the state just seen on: it may go before the watch begins.
        let version = object["metadata"]["resourceVersion"].as_str().expect("a version");
        let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
        let gone = self.patiently(self.follow(&path, |type_, _| type_ == "DELETED"));
        assert!(gone.is_some(), "{name} never goes; log:\n{}", self.plane.log());
    }

    /// Waits for something, but not for ever.
    fn patiently(&self, work: impl Future<Output = Option<Value>>) -> Option<Value> {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await.ok().flatten() })
    }

    /// Reads the events of a watch until one satisfies a condition.
    async fn follow(&self, path: &str, mut good: impl FnMut(&str, &Value) -> bool) -> Option<Value> {
        let request = http::Request::get(path).body(Full::new(Bytes::new())).ok()?;
        let mut body = self.client.send(request).await.ok()?.into_body();
        let mut buffer = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            buffer.extend_from_slice(frame.data_ref()?);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).ok()?;
                if good(event["type"].as_str().unwrap_or_default(), &event["object"]) {
                    return Some(event["object"].clone());
                }
            }
        }
        None
    }
}

/// Waits until something outside of the API holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// A pod that runs `lifesign serve` with a readiness probe every 200 ms until it is ready.
fn server(name: &str, arguments: &[&str]) -> Value {
    let command: Vec<&str> = ["lifesign", "serve", "--port", "8080"].iter().chain(arguments).copied().collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 3,
            "containers": [{
                "name": "server", "image": "none", "command": command,
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "periodMilliseconds": -800},
            }],
        },
    })
}

/// A pod that runs a shell script.
fn script(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}],
        },
    })
}

/// Returns the processes whose environment names a container of this plane's data directory: none may be left behind.
fn processes_below(plane: &Plane) -> Vec<String> {
    plane.processes().into_iter().map(|(_, command)| command).collect()
}
