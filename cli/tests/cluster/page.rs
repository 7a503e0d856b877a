//! `lifesign ui` of a stock cluster: conditions and events, as they change; attempts are not known there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("page::a_stock_cluster_is_shown_as_it_changes", a_stock_cluster_is_shown_as_it_changes)];

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// `lifesign ui`; it goes with this.
struct Ui {
    child: Child,
    address: String,
    token: String,
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ui {
    fn start(bed: &Bed) -> Ui {
        let mut command = Command::new(LIFESIGN);
        command.args(["ui", "--kubeconfig"]).arg(bed.kubeconfig()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (address, token) = url.trim().trim_start_matches("http://").split_once("/#").unwrap();
        Ui { address: address.to_owned(), token: token.to_owned(), child }
    }

    fn get(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (address, token) = (&self.address, &self.token);
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// Returns the lines of the stream: each is JSON in a chunk of its own.
    fn lines(&self) -> impl Iterator<Item = Value> + use<> {
        let lines = self.get("/stream").lines().map_while(Result::ok);
        lines.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(&line).unwrap())
    }

    fn detail(&self, query: &str) -> Value {
        let mut text = String::new();
        self.get(&format!("/detail?{query}")).read_to_string(&mut text).unwrap();
        serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap()
    }
}

fn row<'a>(line: &'a Value, kind: &str, good: impl Fn(&Value) -> bool) -> Option<&'a Value> {
    line[kind]["put"].as_array()?.iter().find(|row| good(row))
}

fn a_stock_cluster_is_shown_as_it_changes(bed: &Bed) {
    let (namespace, ui) = (bed.namespace("page"), Ui::start(bed));
    let name = &namespace.name;
    let mut lines = ui.lines();
    let hello = lines.next().unwrap();
    assert!(hello["cluster"].as_str().unwrap().starts_with("https://"), "{hello}");
    let pod = json!({
        "metadata": {"name": "web"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
            "name": "app", "image": bed.image, "imagePullPolicy": "Never",
            "command": ["sh", "-c", "sleep 3; touch /tmp/ready; sleep 1000"],
            "readinessProbe": {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1},
        }]},
    });
    bed.send("POST", &format!("/api/v1/namespaces/{name}/pods"), &pod);
    let key = format!("{name}/web");
    let (mut states, mut last, mut node, mut events) = (Vec::new(), Value::Null, Value::Null, Vec::new());
    let deadline = Instant::now() + PATIENCE;
    for line in lines {
        assert!(Instant::now() < deadline, "seen so far: {states:?} {events:?} {node}");
        assert_eq!(line.get("strips"), None, "nobody tells attempts here");
        if let Some(found) = row(&line, "pods", |row| row["key"] == key) {
            states.push(found["state"].as_str().unwrap().to_owned());
            last = found.clone();
        }
        if let Some(found) = row(&line, "nodes", |row| row["key"] == bed.node) {
            node = found.clone();
        }
        events.extend(row(&line, "events", |row| row["object"] == key && row["reason"] == "Started").cloned());
        if last["state"] == "ready" && !events.is_empty() && node["heartbeatAt"].as_i64() > Some(0) {
            break;
        }
    }
    states.dedup();
    let order = ["pending", "notReady", "ready"];
    let places: Vec<usize> = states.iter().map(|state| order.iter().position(|known| known == state).unwrap()).collect();
    assert!(places.is_sorted() && states.contains(&"notReady".to_owned()), "{states:?}");
    assert_eq!(last["probes"][0]["asks"], "test -f /tmp/ready");
    let steps: Vec<&Value> = last["steps"].as_array().unwrap().iter().map(|step| &step["step"]).collect();
    assert_eq!(steps, ["created", "scheduled", "started", "ready"], "{last:#}");
    assert_eq!(
        (&node["ready"], &node["agent"], &node["graceKnown"]),
        (&json!("True"), &json!(false), &json!(false)),
        "{node:#}"
    );
    let detail = ui.detail(&format!("kind=pod&namespace={name}&name=web"));
    assert_eq!(detail["why"]["verdict"], "healthy", "{detail:#}");
}
