//! Reading logs of real containers: followed, rotated, of the instance before.

use std::path::Path;

use futures::StreamExt;
use processes::container::{Instance, launch};
use processes::logs::{self, LogError, LogOptions};
use processes::state::{ContainerSpec, LogLimits, instance_dir, instances};

use crate::support::{shell, shim, start};

async fn run(dir: &Path, spec: &ContainerSpec) {
    if let Instance::Running(running) = launch(&shim(), dir, spec).await.unwrap() {
        running.wait().await.unwrap();
    }
}

async fn text(dir: &Path, options: &LogOptions) -> String {
    let mut stream = logs::read(dir, options).unwrap();
    let mut all = Vec::new();
    while let Some(chunk) = stream.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn the_newest_instance_is_read_or_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let previous = LogOptions { previous: true, ..LogOptions::default() };
    assert!(matches!(logs::read(folder.path(), &LogOptions::default()).err(), Some(LogError::NotStarted)));
    for number in [0, 9, 10] {
        run(&instance_dir(folder.path(), number), &shell(&format!("echo instance {number}"))).await;
        if number == 0 {
            assert!(matches!(logs::read(folder.path(), &previous).err(), Some(LogError::NoPrevious)));
        }
    }
    assert_eq!(text(folder.path(), &LogOptions::default()).await, "instance 10\n");
    assert_eq!(text(folder.path(), &previous).await, "instance 9\n");
    assert_eq!(instances(folder.path()).unwrap(), [0, 9, 10]);
}

#[tokio::test]
async fn a_follower_sees_every_line_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = "echo one; until [ -e \"$GO\" ]; do sleep 0.01; done; echo two; printf three; exit 1";
    let mut spec = shell(script);
    spec.env.insert("GO".to_owned(), go.to_str().unwrap().to_owned());
    let dir = instance_dir(folder.path(), 0);
    let _running = start(&dir, &spec).await;
    let mut stream = logs::read(folder.path(), &LogOptions { follow: true, ..LogOptions::default() }).unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "one\n");
    std::fs::write(go, "").unwrap();
    let mut rest = Vec::new();
    while let Some(chunk) = stream.next().await {
        rest.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(String::from_utf8(rest).unwrap(), "two\nthree");
}

#[tokio::test]
async fn a_follower_goes_across_rotated_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done");
    // Enough files that a slow reader loses nothing.
    spec.log = LogLimits { max_bytes: 10_000, max_files: 1000 };
    let dir = instance_dir(folder.path(), 0);
    let launched = launch(&shim(), &dir, &spec).await.unwrap();
    let followed = text(folder.path(), &LogOptions { follow: true, ..LogOptions::default() }).await;
    let expected: String = (0..3000).map(|index| format!("line {index}\n")).collect();
    assert!(followed == expected, "{} bytes instead of {}", followed.len(), expected.len());
    assert!(dir.join("log.5").exists(), "it rotated");
    let tail = LogOptions { tail_lines: Some(1500), ..LogOptions::default() };
    let expected: String = (1500..3000).map(|index| format!("line {index}\n")).collect();
    assert!(text(folder.path(), &tail).await == expected, "a tail goes across files too");
    drop(launched);
}

#[tokio::test]
async fn a_follower_with_a_tail_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let mut spec = shell("echo one; echo two; until [ -e \"$GO\" ]; do sleep 0.01; done; echo three");
    spec.env.insert("GO".to_owned(), go.to_str().unwrap().to_owned());
    let dir = instance_dir(folder.path(), 0);
    let _running = start(&dir, &spec).await;
    crate::support::wait_for_line(&dir, "two").await;
    let options = LogOptions { follow: true, tail_lines: Some(1), ..LogOptions::default() };
    let mut stream = logs::read(folder.path(), &options).unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "two\n");
    std::fs::write(go, "").unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "three\n");
    assert!(stream.next().await.is_none());
}
