//! The client against a runtime of the test's own, over a unix socket.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

mod runtime;

use std::time::Duration;

use cri::{Client, ContainerState, Error};
use runtime::{Command, Made, Runtime};

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn made(pod_uid: &str, name: &str) -> Made {
    Made { pod_uid: pod_uid.into(), name: name.into(), running: true, started_at: 1_700, ip: "10.1.0.9".into(), exit_code: 0 }
}

#[tokio::test]
async fn containers_their_state_and_their_address_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(&folder.path().join("cri.sock"));
    let client = Client::new(&format!("unix://{}", folder.path().join("cri.sock").display()));
    assert_eq!(client.version().await.unwrap().runtime_name, "fake");
    runtime.set("c1", made("u1", "app"));
    runtime.set("c2", Made { running: false, exit_code: 137, ..made("u2", "web") });
    let all = client.containers(None).await.unwrap();
    let shown: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.pod_uid.as_str(), one.name.as_str(), one.state)).collect();
    assert_eq!(shown, [("c1", "u1", "app", ContainerState::Running), ("c2", "u2", "web", ContainerState::Exited)]);
    let of_pod = client.containers(Some("u2")).await.unwrap();
    assert_eq!(of_pod.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["c2"]);
    let status = client.container_status("c1").await.unwrap();
    assert_eq!((status.state, status.started_at), (ContainerState::Running, 1_700_000_000_000));
    assert_eq!(client.container_status("c2").await.unwrap().exit_code, 137);
    assert_eq!(client.sandbox_addresses(&all[0].sandbox_id).await.unwrap(), ["10.1.0.9"]);
    assert!(client.container_status("c3").await.unwrap_err().is_not_found());
    runtime.refuse("c1", true);
    let refused = client.container_status("c1").await.unwrap_err();
    assert!(!refused.is_not_found() && matches!(refused, Error::Refused { code: 2, .. }), "{refused}");
}

#[tokio::test]
async fn commands_end_with_their_output_or_are_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(&folder.path().join("cri.sock"));
    let client = Client::new(folder.path().join("cri.sock").to_str().unwrap());
    runtime.set("c1", made("u1", "app"));
    runtime.command("loud", Command { stdout: vec![b'x'; 3 << 20], exit_code: 3, ..Command::default() });
    runtime.command("slow", Command { takes: Duration::from_secs(3600), ..Command::default() });
    let output = client.exec("c1", &words(&["loud", ""]), Duration::from_secs(1)).await.unwrap();
    assert_eq!((output.stdout.len(), output.exit_code), (10_240, 3), "more than a window came, little of it is kept");
    match client.exec("c1", &words(&["nope"]), Duration::from_secs(1)).await {
        Err(Error::Refused { code: 2, message }) => assert!(message.contains("\"nope\": executable file not found")),
        other => panic!("{other:?}"),
    }
    let slow = words(&["slow"]);
    tokio::select! {
        ended = client.exec("c1", &slow, Duration::from_secs(60)) => panic!("{ended:?}"),
        () = until(|| runtime.under_way() == 1) => {}
    }
    until(|| runtime.calls().contains(&"Cancelled".to_owned())).await;
}

#[tokio::test]
async fn a_command_whose_time_is_over_is_ended_by_the_runtime_and_its_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(&folder.path().join("cri.sock"));
    let client = Client::new(folder.path().join("cri.sock").to_str().unwrap());
    runtime.set("c1", made("u1", "app"));
    let dies_in = Duration::from_millis(200);
    runtime.command("slow", Command { takes: Duration::from_secs(3600), dies_in, ..Command::default() });
    let began = std::time::Instant::now();
    match client.exec("c1", &words(&["slow"]), Duration::from_millis(100)).await {
        Err(Error::Refused { code: 4, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() >= Duration::from_millis(320), "not before the command is gone: {:?}", began.elapsed());
    assert_eq!(runtime.under_way(), 0);
}

/// Waits until something holds.
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_runtime_that_comes_back_is_found_again_and_one_that_is_away_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let client = Client::new(socket.to_str().unwrap());
    let error = client.version().await.unwrap_err().to_string();
    assert!(error.contains(&format!("unix://{}", socket.display())), "{error}");
    let mut runtime = Runtime::start(&socket);
    client.version().await.unwrap();
    runtime.go_away();
    // The connection notices at its next call, or the one after.
    while client.version().await.is_ok() {}
    runtime.come_back();
    client.version().await.unwrap();
}
