//! The data directory: one process at a time, never overwritten when it is damaged or of a later version.

use std::path::Path;
use std::process::Output;

use redb::{Database, TableDefinition};
use serde_json::{Value, json};
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::LIFESIGN;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns a plane that has stored something and was stopped.
async fn used() -> Plane {
    let mut plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http1).unwrap();
    for number in 0..20 {
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": {"text": "sunflower".repeat(100)}});
        assert_eq!(client.call("POST", CONFIGMAPS, &object).await.unwrap().code, 201);
    }
    drop(client);
    assert!(plane.stop().success());
    plane
}

/// Starts the server, which must refuse; returns what it says.
fn refusal(plane: &Plane) -> String {
    let Output { status, stdout, stderr } = plane.server_command().output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(2), "{stderr}");
    assert!(stdout.is_empty(), "it never says that it is ready");
    stderr
}

/// The server must refuse these bytes, say which file is the matter and how, and leave them as they are.
fn assert_refused(plane: &Plane, bytes: &[u8], how: &str) {
    let path = plane.data_dir().join("store.redb");
    std::fs::write(&path, bytes).unwrap();
    let output = refusal(plane);
    assert!(output.contains(how) && output.contains(&path.display().to_string()), "{output}");
    assert!(!output.contains("panicked"), "{output}");
    assert!(std::fs::read(&path).unwrap() == bytes, "the file was changed");
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let plane = Plane::started(LIFESIGN);
    let output = refusal(&plane);
    assert!(
        output.contains("in use by another process") && output.contains(&plane.data_dir().display().to_string()),
        "{output}"
    );
    let client = Client::new(&plane.kubeconfig(), Protocol::Http2).unwrap();
    assert_eq!(client.call("GET", "/readyz", &Value::Null).await.unwrap().code, 200, "the first one goes on");
}

#[tokio::test]
async fn a_damaged_store_is_refused_and_left_alone() {
    let plane = used().await;
    let good = std::fs::read(plane.data_dir().join("store.redb")).unwrap();
    assert_refused(&plane, b"this is a letter, not a database", "damaged");
    assert_refused(&plane, &good[..good.len() / 3], "damaged");
    // A value that was changed on disk is still JSON; only its checksum tells.
    let mut changed = good.clone();
    for at in 0..changed.len() - 9 {
        if changed[at..].starts_with(b"sunflower") {
            changed[at] = b'S';
        }
    }
    assert_refused(&plane, &changed, "damaged");
    std::fs::write(plane.data_dir().join("store.redb"), &good).unwrap();
    let mut plane = plane;
    plane.start().unwrap();
}

#[tokio::test]
async fn a_store_of_a_later_version_is_refused_and_left_alone() {
    let plane = used().await;
    let path = plane.data_dir().join("store.redb");
    set_format(&path, 1_000);
    let later = std::fs::read(&path).unwrap();
    assert_refused(&plane, &later, "format 1000");
}

/// Flips a bit in the commit slot that a file says is the newer one.
fn tear(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let slot = if bytes[9] & 1 == 0 { 64 } else { 192 };
    bytes[slot + 40] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_commit_that_does_not_hold_is_told_and_no_revision_is_used_twice() {
    let mut plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http1).unwrap();
    let mut last = 0;
    for number in 0..5 {
        let object = json!({"metadata": {"name": format!("c{number}")}});
        let answer = client.call("POST", CONFIGMAPS, &object).await.unwrap();
        let stored: Value = serde_json::from_slice(&answer.body).unwrap();
        last = stored["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    }
    drop(client);
    plane.kill();
    tear(&plane.data_dir().join("store.redb"));
    plane.start().unwrap();
    assert!(plane.log().contains("the last commit of the store does not hold"), "{}", plane.log());
    let client = Client::new(&plane.kubeconfig(), Protocol::Http1).unwrap();
    let text = |answer: testkit::client::Response| String::from_utf8_lossy(&answer.body).into_owned();
    let ready = client.call("GET", "/readyz?verbose", &Value::Null).await.unwrap();
    assert_eq!(ready.code, 200, "it goes on: a commit that nobody was told of looks the same");
    let ready = text(ready);
    assert!(
        ready.contains(&format!(
            "[+]store-writable ok (at the start the last commit did not hold: changes after revision {}",
            last - 1
        )),
        "{ready}"
    );
    let metrics = text(client.call("GET", "/metrics", &Value::Null).await.unwrap());
    assert!(metrics.contains("lifesign_store_fallbacks_total 1\n"), "{metrics}");
    let answer = client.call("POST", CONFIGMAPS, &json!({"metadata": {"name": "late"}})).await.unwrap();
    let stored: Value = serde_json::from_slice(&answer.body).unwrap();
    let next = stored["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(next > last, "{next} after {last}");
    // Whoever saw the lost change starts over.
    let path = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1&resourceVersion={last}");
    let watch = client.call("GET", &path, &Value::Null);
    assert!(text(watch.await.unwrap()).contains("\"code\":410"));
}

/// Returns the modes of what lies below a folder, pods' own files left out, that others may do something with.
fn open_to_others(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            found.push(format!("{} {mode:o}", entry.path().display()));
        }
        if metadata.is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

#[tokio::test]
async fn the_data_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mut plane = Plane::new(LIFESIGN).whole();
    std::fs::create_dir(plane.data_dir()).unwrap();
    std::fs::set_permissions(plane.data_dir(), PermissionsExt::from_mode(0o755)).unwrap();
    plane.start().unwrap();
    assert_eq!(std::fs::metadata(plane.data_dir()).unwrap().permissions().mode() & 0o777, 0o700, "tightened");
    assert_eq!(open_to_others(&plane.data_dir()), Vec::<String>::new());
    assert!(plane.stop().success());
    let left: Vec<_> = std::fs::read_dir(plane.data_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "no temporary file is left: {left:?}");
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let plane = Plane::new(LIFESIGN);
    std::fs::create_dir(plane.data_dir()).unwrap();
    std::fs::write(plane.data_dir().join("letter"), "dear").unwrap();
    std::fs::set_permissions(plane.data_dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let output = refusal(&plane);
    assert!(output.contains("others may enter it (mode 755)") && output.contains("--data-dir"), "{output}");
    assert_eq!(std::fs::read_dir(plane.data_dir()).unwrap().count(), 1);
}

fn set_format(path: &Path, format: u64) {
    let database = Database::open(path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(TableDefinition::<&str, u64>::new("meta")).unwrap().insert("format", format).unwrap();
    write.commit().unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let plane = Plane::new(LIFESIGN);
    std::fs::write(plane.data_dir(), "a file where the folder should be").unwrap();
    let output = refusal(&plane);
    assert!(output.contains(&plane.data_dir().display().to_string()) && output.contains("--data-dir"), "{output}");
}

#[test]
fn credentials_of_a_plane_that_never_ran_are_refused() {
    let plane = Plane::new(LIFESIGN);
    let output = plane.command("kubeconfig").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no plane was ever started"));
}

#[test]
fn an_unknown_gate_is_refused() {
    let mut plane = Plane::new(LIFESIGN);
    plane.set_arguments(["--feature-gates", "NoSuchGate=true"]);
    assert!(refusal(&plane).contains("NoSuchGate"));
}

/// Runs the server with arguments that make it exit.
fn run(plane: &Plane, arguments: &[&str]) -> Output {
    plane.server_command().args(arguments).output().unwrap()
}

#[tokio::test]
async fn a_backup_of_a_running_plane_becomes_the_data_of_another() {
    let plane = Plane::started(LIFESIGN);
    let client = Client::new(&plane.kubeconfig(), Protocol::Http1).unwrap();
    for number in 0..50 {
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": {"text": "sunflower".repeat(2000)}});
        assert_eq!(client.call("POST", CONFIGMAPS, &object).await.unwrap().code, 201);
    }
    // The certificate of the authority is another one there.
    let own = format!("{CONFIGMAPS}?fieldSelector=metadata.name!=kube-root-ca.crt");
    let before = client.call("GET", &own, &Value::Null).await.unwrap().json();
    let file = plane.folder().join("backup.jsonl");
    let file = file.to_str().unwrap();
    let ran = run(&plane, &["--backup", file]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(String::from_utf8_lossy(&ran.stdout).starts_with(&format!("backup {file}: ")));

    let mut other = Plane::new(LIFESIGN);
    assert!(run(&other, &["--restore", file]).status.success());
    other.start().unwrap();
    let client = Client::new(&other.kubeconfig(), Protocol::Http1).unwrap();
    let after = client.call("GET", &own, &Value::Null).await.unwrap().json();
    assert!(after["items"].as_array().unwrap().len() == 50 && after["items"] == before["items"], "they are the same");
    let revision = |list: &Value| list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(revision(&after) > revision(&before), "no revision is given out twice");
    let refused = run(&other, &["--restore", file]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("in use"), "a server runs there");
    other.stop();
    let refused = run(&other, &["--restore", file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has data of a plane"));
}

#[tokio::test]
async fn a_backup_of_a_plane_that_is_stopped_is_the_same() {
    let plane = used().await;
    let file = plane.folder().join("backup.jsonl");
    let path = file.to_str().unwrap();
    assert!(run(&plane, &["--backup", path]).status.success());
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("sunflower")).count(), 20);
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let empty = Plane::new(LIFESIGN);
    let refused = run(&empty, &["--restore", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!empty.data_dir().join("store.redb").exists(), "half a backup is none");
}
