//! Our client of the container runtime against a real one.

use std::time::{Duration, Instant};

use cri::{Client, ContainerState, Error};

use crate::Test;
use crate::bed::Bed;

pub(crate) const TESTS: &[(&str, Test)] = &[("container_runtime::is_understood", is_understood)];

const FIVE_SECONDS: Duration = Duration::from_secs(5);

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn is_understood(_: &Bed) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let client = Client::new(&std::env::var("LIFESIGN_TEST_CRI").expect("LIFESIGN_TEST_CRI: eval \"$(testbed/run env)\""));
        assert_eq!(client.version().await.unwrap().runtime_name, "containerd");
        let all = client.containers(None).await.unwrap();
        let runs = |name: &str| all.iter().find(|one| one.name == name && one.state == ContainerState::Running).cloned();
        let server = runs("kube-apiserver").expect("it runs");
        assert!(!server.pod_uid.is_empty() && server.created_at > 1_700_000_000_000_000_000, "{server:?}");
        let of_pod = client.containers(Some(&server.pod_uid)).await.unwrap();
        assert!(of_pod.iter().any(|one| one.id == server.id) && of_pod.iter().all(|one| one.pod_uid == server.pod_uid));
        let status = client.container_status(&server.id).await.unwrap();
        assert!(status.started_at >= server.created_at, "{status:?}");
        // On the network of the node.
        assert_eq!(client.sandbox_addresses(&server.sandbox_id).await.unwrap(), Vec::<String>::new());
        let echo =
            client.exec(&server.id, &words(&["sh", "-c", "echo out; echo err >&2; exit 4"]), FIVE_SECONDS).await.unwrap();
        assert_eq!((echo.stdout.as_slice(), echo.stderr.as_slice(), echo.exit_code), (&b"out\n"[..], &b"err\n"[..], 4));
        match client.exec(&server.id, &words(&["/no/such/program"]), FIVE_SECONDS).await {
            Err(Error::Refused { message, .. }) => assert!(message.contains("no such file"), "{message}"),
            other => panic!("{other:?}"),
        }
        // A child that holds the output keeps nobody waiting: the call is cancelled when its time is over.
        let began = Instant::now();
        let held = client.exec(&server.id, &words(&["sh", "-c", "sleep 8 & wait"]), Duration::from_millis(700)).await;
        assert!(held.is_err(), "{held:?}");
        println!("a command whose child holds its output: back after {:?} with {held:?}", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    });
}
