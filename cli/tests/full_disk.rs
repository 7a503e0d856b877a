//! A full disk: reads and deletions go on, writes are refused with the reason, and all is well when there is room again.
//!
//! The disk is a small tmpfs in namespaces of the server's own, which takes no root. Where the machine does not allow that, the
//! test is listed as ignored; the store's own tests of a small disk remain.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");
/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(30);
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const MOUNT: &str = "mount -t tmpfs -o size=40m,mode=700 tmpfs";

fn main() -> ExitCode {
    let test: (&'static str, fn()) = ("a_full_disk_takes_deletions_and_comes_back", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(a_full_disk_takes_deletions_and_comes_back());
    });
    testkit::needs::run(missing(), vec![test])
}

/// Returns why a server cannot have a disk of its own here, if so.
fn missing() -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{MOUNT} {}", folder.path().display());
    let tried = Command::new("unshare").args(["-Urm", "sh", "-c", &script]).output();
    (!tried.is_ok_and(|output| output.status.success())).then(|| "no mount in a namespace of one's own".to_owned())
}

/// Returns the path of a file as the server sees it.
fn seen(plane: &Plane, name: &str) -> PathBuf {
    let inside = plane.data_dir().join(name);
    PathBuf::from(format!("/proc/{}/root", plane.pid().as_raw_pid())).join(inside.strip_prefix("/").unwrap())
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"text": "x".repeat(100_000)}})
}

async fn ready(client: &Client) -> (u16, String) {
    let answer = client.call("GET", "/readyz?verbose", &Value::Null).await.unwrap();
    (answer.code, String::from_utf8_lossy(&answer.body).into_owned())
}

/// Takes every byte of the disk that is left.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let block = vec![0; 1 << 20];
    while file.write_all(&block).is_ok() {}
    let byte = [0; 512];
    while file.write_all(&byte).is_ok() {}
}

async fn a_full_disk_takes_deletions_and_comes_back() {
    let mut plane = Plane::new(LIFESIGN);
    std::fs::create_dir(plane.data_dir()).unwrap();
    let script = format!("{MOUNT} {} && exec \"$0\" \"$@\"", plane.data_dir().display());
    plane.run_by(&["unshare", "-Urm", "sh", "-c", &script]);
    plane.start().unwrap();
    let kubeconfig = plane.folder().join("kubeconfig");
    std::fs::copy(seen(&plane, "kubeconfig"), &kubeconfig).unwrap();
    let client = Client::new(&kubeconfig, Protocol::Http2).unwrap();
    for number in 0..20 {
        assert_eq!(client.call("POST", CONFIGMAPS, &object(&format!("o{number}"))).await.unwrap().code, 201);
    }
    let other = seen(&plane, "somebody-else");
    fill(&other);
    let mut stored = 20;
    let refused = loop {
        let answer = client.call("POST", CONFIGMAPS, &object(&format!("o{stored}"))).await.unwrap();
        if answer.code != 201 {
            break answer;
        }
        stored += 1;
        assert!(stored < 1_000, "a full disk takes no end of objects");
    };
    assert_eq!(refused.code, 503);
    assert!(String::from_utf8_lossy(&refused.body).contains("is full; free some space"));
    fill(&seen(&plane, "the-rest"));
    let (code, text) = ready(&client).await;
    assert_eq!(code, 500, "{text}");
    assert!(text.contains("[-]store-writable failed: the disk of ") && text.contains("is full"), "{text}");
    let list = client.call("GET", CONFIGMAPS, &Value::Null).await.unwrap();
    let list: Value = serde_json::from_slice(&list.body).unwrap();
    let ours = list["items"].as_array().unwrap().iter().filter(|item| item["metadata"]["name"] != "kube-root-ca.crt").count();
    assert_eq!(ours, stored, "reads go on, and nothing that was refused is there");
    for number in 0..stored {
        let answer = client.call("DELETE", &format!("{CONFIGMAPS}/o{number}"), &Value::Null).await.unwrap();
        assert_eq!(answer.code, 200, "deletions go on: {}", String::from_utf8_lossy(&answer.body));
    }
    for name in ["somebody-else", "the-rest"] {
        std::fs::remove_file(seen(&plane, name)).unwrap();
    }
    // Nobody writes: the server finds out by itself.
    let coming_back = async { while ready(&client).await.0 != 200 {} };
    tokio::time::timeout(PATIENCE, coming_back).await.expect("it is ready again without a restart");
    assert_eq!(client.call("POST", CONFIGMAPS, &object("late")).await.unwrap().code, 201);
}
