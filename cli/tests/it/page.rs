//! `lifesign ui --agent`: the attempts of an agent that no Node leads to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::{LIFESIGN, PATIENCE};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// `lifesign ui`; it goes with this.
struct Ui(Child);

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers every request with this, as an agent beside a kubelet does at `/debug/probes`; returns where.
fn agent(answer: &Value) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = answer.to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or_default();
            assert!(request[..length].starts_with(b"GET /debug/probes"), "{:?}", String::from_utf8_lossy(&request[..length]));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

#[tokio::test]
async fn an_agent_that_is_named_tells_its_attempts() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let probe = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let spec = json!({"containers": [{"name": "app", "image": "none", "readinessProbe": probe}]});
    let pod = client.call("POST", PODS, &json!({"metadata": {"name": "web"}, "spec": spec})).await.unwrap().json();
    // As old as a strip may be: what is older is forgotten.
    let now = pod["metadata"]["creationTimestamp"].clone();
    let outcome = json!({"began": now, "ended": now, "outcome": "failure", "message": "connection refused"});
    let worker = json!({"uid": pod["metadata"]["uid"], "container": "app", "probe": "Readiness", "outcomes": [outcome]});
    let agent = agent(&json!({"workers": [worker]}));

    let mut command = Command::new(LIFESIGN);
    command.args(["ui", "--agent", &format!("http://{agent}"), "--kubeconfig"]).arg(plane.kubeconfig());
    let mut ui = Ui(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut url = String::new();
    BufReader::new(ui.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let (address, token) = url.trim().trim_start_matches("http://").split_once("/#").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request =
        format!("GET /stream HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok).filter(|line| line.starts_with('{'));
    let strips = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok()?.get("strips").cloned());
    let found =
        strips.into_iter().find(|strips| strips["put"][0]["attempts"].is_array()).expect("the stream goes on until then");
    assert!(found["put"][0].to_string().contains("connection refused"), "{found}");
}

#[test]
fn an_agent_is_named_by_its_address() {
    let out = Command::new(LIFESIGN).args(["ui", "--agent", "node-1"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{text}");
    assert!(text.contains("must be like http://127.0.0.1:9000"), "{text}");
}
