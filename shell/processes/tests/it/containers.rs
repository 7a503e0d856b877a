//! A container from its start to its end: exit records, logs, signals, adoption, and that nothing is left behind.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use processes::container::{Instance, adopt, launch};
use processes::procfs;
use processes::state::{ContainerSpec, ExitRecord, StateDir};
use rustix::process::Signal;

use crate::PARTS;
use crate::support::{self, log_text, shell, shim, start, wait_for_line};

async fn run(dir: &Path, spec: &ContainerSpec) -> ExitRecord {
    match launch(&shim(), dir, spec).await.unwrap() {
        Instance::Running(running) => running.wait().await.unwrap(),
        Instance::Exited(record) => record,
    }
}

/// Starts a container from another process, which can be killed.
fn launch_in_another_process(dir: &Path, spec: &ContainerSpec) -> Child {
    let mut agent = Command::new(PARTS)
        .arg("launch")
        .arg(dir)
        .arg(serde_json::to_string(spec).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut report = String::new();
    BufReader::new(agent.stdout.take().unwrap()).read_line(&mut report).unwrap();
    assert_eq!(report, "launched\n");
    agent
}

#[tokio::test]
async fn a_container_runs_in_its_environment_and_leaves_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let mut spec = shell("env; pwd; cat; echo oops >&2; printf unfinished; exit 7");
    spec.env.insert("GREETING".to_owned(), "hello world".to_owned());
    spec.working_dir = Some(work.path().canonicalize().unwrap());
    let record = run(folder.path(), &spec).await;
    assert_eq!((record.exit_code, record.signal, record.reason.as_str()), (7, None, "Error"));
    assert!(record.started_at > 0 && record.finished_at >= record.started_at);
    let log = log_text(folder.path());
    assert!(log.contains(" stdout F GREETING=hello world\n"), "{log}");
    assert!(log.contains(&format!(" stdout F LIFESIGN_CONTAINER_ID={}\n", spec.id)), "{log}");
    assert!(log.contains(&format!(" stdout F {}\n", work.path().canonicalize().unwrap().display())), "{log}");
    assert!(log.contains(" stderr F oops\n"), "{log}");
    assert!(log.ends_with(" stdout P unfinished\n"), "{log}");
    assert!(!log.contains("CARGO"), "nothing is inherited: {log}");
}

#[tokio::test]
async fn success_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let record = run(folder.path(), &shell("exit 0")).await;
    assert_eq!((record.exit_code, record.reason.as_str()), (0, "Completed"));
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let cases = [
        (vec!["no-such-program"], None, 127, "StartError", "not found in $PATH"),
        (vec!["/no/such/program"], None, 127, "StartError", "no such file"),
        (vec![plain.to_str().unwrap()], None, 126, "ContainerCannotRun", "ermission denied"),
        (vec!["true"], Some("/no/such/folder"), 127, "StartError", "workingDir \"/no/such/folder\""),
    ];
    for (index, (command, working_dir, exit_code, reason, message)) in cases.into_iter().enumerate() {
        let spec = ContainerSpec {
            command: command.into_iter().map(str::to_owned).collect(),
            working_dir: working_dir.map(Into::into),
            ..shell("")
        };
        let record = run(&folder.path().join(index.to_string()), &spec).await;
        assert_eq!((record.exit_code, record.reason.as_str()), (exit_code, reason), "{record:?}");
        assert!(record.message.contains(message), "{record:?}");
    }
}

#[tokio::test]
async fn a_directory_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &shell("exit 0")).await;
    assert!(launch(&shim(), folder.path(), &shell("exit 0")).await.is_err());
}

#[tokio::test]
async fn a_signal_reaches_the_group_and_not_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(
        folder.path(),
        &shell("sh -c 'trap \"echo child; exit 0\" TERM; echo up; while :; do sleep 0.01; done' & wait $!; wait $!; exit 3"),
    )
    .await;
    wait_for_line(folder.path(), "up").await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        procfs::signal(running.shim_pid(), signal).unwrap();
    }
    running.signal(Signal::TERM).unwrap();
    let record = running.wait().await.unwrap();
    assert_eq!((record.exit_code, record.signal), (143, Some(15)));
    assert_eq!(running.wait().await.unwrap(), record, "asked again, the answer is the same");
    running.signal(Signal::TERM).unwrap();
}

/// Starts a grandchild in a session of its own, whose parents are gone.
const ESCAPE: &str = "setsid sh -c 'sleep 1000 & sleep 1000 & echo escaped; wait' & ";

#[tokio::test]
async fn nothing_survives_the_end_of_the_container() {
    let folder = tempfile::tempdir().unwrap();
    let spec = shell(&format!("( {ESCAPE} ) ; until [ -e {}/go ]; do sleep 0.01; done; exit 5", folder.path().display()));
    let running = start(folder.path(), &spec).await;
    wait_for_line(folder.path(), "escaped").await;
    let below = running.processes();
    assert!(below.len() >= 4, "the shell, the escaped one and its two children: {below:?}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(running.wait().await.unwrap().exit_code, 5);
    assert!(below.iter().all(|pid| support::is_gone(*pid)), "{below:?}");
}

#[tokio::test]
async fn kill_all_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), &shell(&format!("trap '' TERM INT HUP; ( {ESCAPE} ); wait; sleep 1000"))).await;
    wait_for_line(folder.path(), "escaped").await;
    let below = running.processes();
    running.signal(Signal::TERM).unwrap();
    let record = running.kill_all().await.unwrap();
    assert_eq!((record.exit_code, record.signal), (137, Some(9)));
    assert!(below.iter().all(|pid| support::is_gone(*pid)), "{below:?}");
    assert!(support::is_gone(running.shim_pid()));
}

#[tokio::test]
async fn a_container_outlives_the_agent_and_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let spec = shell("echo up; until [ -e \"$GO\" ]; do sleep 0.01; done; echo down; exit 9");
    let go = folder.path().join("go");
    let spec = ContainerSpec { env: with(&spec.env, "GO", go.to_str().unwrap()), ..spec };
    let dir = folder.path().join("instance");
    let mut agent = launch_in_another_process(&dir, &spec);
    wait_for_line(&dir, "up").await;
    agent.kill().unwrap();
    agent.wait().unwrap();

    let Some(Instance::Running(running)) = adopt(&dir).await.unwrap() else { panic!("it runs") };
    assert_eq!(running.spec(), &spec);
    assert!(running.is_running());
    std::fs::write(go, "").unwrap();
    let record = running.wait().await.unwrap();
    assert_eq!(record.exit_code, 9);
    assert!(log_text(&dir).ends_with(" stdout F down\n"), "the log went on");
    let Some(Instance::Exited(again)) = adopt(&dir).await.unwrap() else { panic!("it has ended") };
    assert_eq!(again, record);
}

#[tokio::test]
async fn an_end_while_no_agent_looked_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("instance");
    let mut agent = launch_in_another_process(&dir, &shell("echo up; sleep 0.1; exit 4"));
    wait_for_line(&dir, "up").await;
    agent.kill().unwrap();
    agent.wait().unwrap();
    let record = match adopt(&dir).await.unwrap().unwrap() {
        Instance::Running(running) => running.wait().await.unwrap(),
        Instance::Exited(record) => record,
    };
    assert_eq!(record.exit_code, 4);
}

#[tokio::test]
async fn a_killed_shim_takes_its_container_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), &shell(&format!("( {ESCAPE} ); sleep 1000"))).await;
    wait_for_line(folder.path(), "escaped").await;
    let below = running.processes();
    procfs::signal(running.shim_pid(), Signal::KILL).unwrap();
    let record = running.wait().await.unwrap();
    assert_eq!(record.reason, "ContainerStatusUnknown");
    assert!(below.iter().all(|pid| support::is_gone(*pid)), "{below:?}");
    assert_eq!(StateDir::new(folder.path()).exit().unwrap(), Some(record));
}

#[tokio::test]
async fn another_user_is_only_for_root() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ContainerSpec { user: Some(54321), group: Some(54321), ..shell("id -u; id -g; id -G") };
    let record = run(folder.path(), &spec).await;
    if rustix::process::geteuid().is_root() {
        assert_eq!(record.exit_code, 0, "{record:?}");
        let lines: Vec<String> =
            log_text(folder.path()).lines().map(|line| line.split(' ').nth(3).unwrap().to_owned()).collect();
        assert_eq!(lines, ["54321", "54321", "54321"]);
    } else {
        assert_eq!((record.exit_code, record.reason.as_str()), (126, "ContainerCannotRun"));
        assert!(record.message.contains("root"), "{record:?}");
    }
}

#[tokio::test]
async fn logs_rotate_while_the_container_writes() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done");
    spec.log = processes::state::LogLimits { max_bytes: 20_000, max_files: 3 };
    assert_eq!(run(folder.path(), &spec).await.exit_code, 0);
    let sizes: Vec<u64> = support::log_files(folder.path()).iter().map(|path| path.metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| *size <= 20_000), "{sizes:?}");
    assert!(log_text(folder.path()).ends_with(" line 1999\n"));
}

#[tokio::test]
async fn a_range_stays_claimed_while_a_container_lives_in_it() {
    use processes::addresses::{Cidr, Claim};
    let folder = tempfile::tempdir().unwrap();
    let run = std::process::id();
    let range = Cidr::loopback(&format!("127.{}.{}.0/24", 240 + run % 10, run / 10 % 256)).unwrap();
    let spec = ContainerSpec { claim: Some(range.to_string()), ..shell("sleep 1000") };
    let running = start(folder.path(), &spec).await;
    assert!(Claim::of(range, |_| false).is_err());
    assert!(Claim::of(range, |id| id == spec.id).is_ok());
    running.kill_all().await.unwrap();
    assert!(Claim::of(range, |_| false).is_ok());
}

#[tokio::test]
async fn many_containers_start_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|index| {
            let dir = folder.path().join(index.to_string());
            tokio::spawn(async move { run(&dir, &shell(&format!("exit {index}"))).await.exit_code })
        })
        .collect();
    for (index, task) in (0..).zip(tasks) {
        let code = tokio::time::timeout(Duration::from_secs(60), task).await.expect("all end").unwrap();
        assert_eq!(code, index);
    }
}

fn with(env: &BTreeMap<String, String>, name: &str, value: &str) -> BTreeMap<String, String> {
    let mut env = env.clone();
    env.insert(name.to_owned(), value.to_owned());
    env
}

#[tokio::test]
async fn a_shim_inherits_nothing_from_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let spec = shell("sleep 1000");
    let running = start(folder.path(), &spec).await;
    let environment = std::fs::read(format!("/proc/{}/environ", running.shim_pid())).unwrap();
    assert_eq!(String::from_utf8(environment).unwrap(), format!("LIFESIGN_SHIM_OF={}\0", spec.id));
    assert!(std::env::vars().count() > 1, "this test has something that could be inherited");
    running.kill_all().await.unwrap();
}
