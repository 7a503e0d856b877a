//! `lifesign controllers --webhook` as a process: certificates come into the Secret, and only then does the replica take part.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::{LIFESIGN, until};

struct Replica {
    child: Child,
    log: std::path::PathBuf,
}

impl Replica {
    fn start(plane: &Plane) -> Replica {
        let log = plane.folder().join("replica");
        let arguments = ["controllers", "--namespace", "default", "--webhook", "127.0.0.1:0", "--kubeconfig"];
        let mut command = Command::new(LIFESIGN);
        // Those of the administrator: the role of the controllers of a plane reads no Secrets.
        command.args(arguments).arg(plane.kubeconfig());
        command.stdin(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        Replica { child: command.spawn().unwrap(), log }
    }

    /// Returns what follows a text in what the process has written.
    fn after(&self, text: &str) -> Option<String> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let rest = log.split(text).nth(1)?;
        Some(rest.split(['/', '\n']).next().unwrap().to_owned())
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.after("metrics on http://")?).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_ready_when_it_has_a_certificate() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    let replica = Replica::start(&plane);
    until("it answers", || replica.get("/readyz").is_some_and(|(code, _)| code == 503)).await;
    assert_eq!(replica.get("/healthz").unwrap().0, 200, "it is well, it only has nothing to show");

    let secret = json!({"metadata": {"name": "lifesign-webhook"}});
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/secrets", &secret).await.unwrap().code, 201);
    until("it is ready", || replica.get("/readyz").is_some_and(|(code, _)| code == 200)).await;
    let path = "/api/v1/namespaces/default/secrets/lifesign-webhook";
    let secret: Value = client.call("GET", path, &Value::Null).await.unwrap().json();
    let keys: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "tls.crt", "tls.key"]);
    let metrics = replica.get("/metrics").unwrap().1;
    assert!(metrics.contains(r#"lifesign_admission_reviews_total{resource="pods",outcome="patched"} 0"#), "{metrics}");
    assert!(TcpStream::connect(replica.after("webhook on https://").unwrap()).is_ok());
}

#[test]
fn a_webhook_needs_to_know_its_namespace() {
    let output = Command::new(LIFESIGN).args(["controllers", "--webhook", "127.0.0.1:0"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("--namespace"), "{text}");
}
