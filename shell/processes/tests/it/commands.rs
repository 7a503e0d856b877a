//! Commands in a container: output, timeouts, and what they leave behind.

use std::time::{Duration, Instant};

use processes::exec::{Ended, ExecError, ExecResult, OUTPUT_MAX};
use processes::procfs;
use processes::state::ContainerSpec;

use crate::support::{self, shell, start, until};

const LONG: Duration = Duration::from_secs(60);

async fn exec(spec: &ContainerSpec, command: &[String], timeout: Duration) -> ExecResult {
    processes::exec::exec(spec, command, timeout, || true).await
}

fn sh(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn output_is_kept_apart_and_capped() {
    let spec = shell("");
    let output = exec(&spec, &sh("echo out; echo err >&2; exit 3"), LONG).await.unwrap();
    assert_eq!((output.ended, &output.stdout[..], &output.stderr[..]), (Ended::Exit(3), &b"out\n"[..], &b"err\n"[..]));
    assert_eq!(output.combined(), b"out\nerr\n");

    let script = "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done; echo e >&2";
    let output = exec(&spec, &sh(script), LONG).await.unwrap();
    assert_eq!((output.ended, output.stdout.len(), output.stderr.len()), (Ended::Exit(0), OUTPUT_MAX, 2));
    assert_eq!(output.combined().len(), OUTPUT_MAX);
}

#[tokio::test]
async fn a_command_has_the_environment_of_its_container() {
    let work = tempfile::tempdir().unwrap();
    let work = work.path().canonicalize().unwrap();
    let mut spec = ContainerSpec { working_dir: Some(work.clone()), ..shell("") };
    spec.env.insert("COLOR".to_owned(), "green".to_owned());
    let output = exec(&spec, &sh("echo $COLOR $LIFESIGN_CONTAINER_ID $CARGO; pwd; cat"), LONG).await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("green {}\n{}\n", spec.id, work.display()));
}

#[tokio::test]
async fn death_by_signal_is_told() {
    let output = exec(&shell(""), &sh("kill -9 $$"), LONG).await.unwrap();
    assert_eq!(output.ended, Ended::Signal(9));
}

#[tokio::test]
async fn what_cannot_run_has_its_errno() {
    let spec = shell("");
    for (command, errno) in [("no-such-command", 2), ("/no/such/command", 2), ("/etc/passwd", 13)] {
        let Err(ExecError::Spawn(error)) = exec(&spec, &[command.to_owned()], LONG).await else { panic!("{command} ran") };
        assert_eq!(error.raw_os_error(), Some(errno), "{command}");
    }
    assert!(exec(&spec, &[], LONG).await.is_err());
}

/// Returns the marked processes of a spec's instance.
fn marked(spec: &ContainerSpec) -> usize {
    procfs::of_instance(None, &spec.id).len()
}

#[tokio::test]
async fn a_timeout_kills_all_that_the_command_started() {
    let spec = shell("");
    let script = "trap '' TERM; echo begun; sleep 1000 & setsid sleep 1000 & yes >&2";
    let before = Instant::now();
    let output = exec(&spec, &sh(script), Duration::from_secs(2)).await.unwrap();
    assert!(matches!(output.ended, Ended::TimedOut { .. }), "{:?}", output.ended);
    assert!(before.elapsed() >= Duration::from_secs(2));
    assert_eq!(output.stdout, b"begun\n");
    assert_eq!(marked(&spec), 0, "dead before the result is there");
}

/// Starts a process that is below nobody and in a session of its own, and goes on when it is.
const DAEMON: &str = "mkfifo $DIR/f; (setsid sh -c 'echo > $DIR/f; exec sleep 1000' &) & read x < $DIR/f; wait $!;";

#[tokio::test]
async fn a_timeout_also_kills_what_has_left_session_and_parent() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell("");
    spec.env.insert("DIR".to_owned(), dir.path().to_str().unwrap().to_owned());
    let script = format!("{DAEMON} echo begun; sleep 1000");
    let output = exec(&spec, &sh(&script), Duration::from_secs(2)).await.unwrap();
    assert_eq!((matches!(output.ended, Ended::TimedOut { .. }), &output.stdout[..]), (true, &b"begun\n"[..]));
    assert_eq!(marked(&spec), 0, "dead before the result is there");
}

#[tokio::test]
async fn a_dropped_command_is_killed_with_what_has_left_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell("");
    spec.env.insert("DIR".to_owned(), dir.path().to_str().unwrap().to_owned());
    let command = sh(&format!("{DAEMON} sleep 1000 & sleep 1000"));
    {
        let running = exec(&spec, &command, LONG);
        tokio::pin!(running);
        tokio::select! {
            output = &mut running => panic!("{output:?}"),
            () = until("the command", || marked(&spec) >= 3 && dir.path().join("f").exists()) => {}
        }
    }
    until("the end of the command", || marked(&spec) == 0).await;
}

#[tokio::test]
async fn a_background_process_does_not_hold_up_the_result_and_dies_with_the_container() {
    let folder = tempfile::tempdir().unwrap();
    let spec = shell("sleep 1000");
    let running = start(folder.path(), &spec).await;
    let output = running.exec(&sh("setsid sleep 1000 & echo $!; exit 0"), LONG).await.unwrap();
    assert_eq!(output.ended, Ended::Exit(0));
    let left: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(running.processes().contains(&left));
    running.kill_all().await.unwrap();
    assert!(support::is_gone(left));
}

#[tokio::test]
async fn a_command_that_comes_too_late_for_its_container_is_killed() {
    let spec = shell("");
    let result = processes::exec::exec(&spec, &sh("sleep 1000"), LONG, || false).await;
    assert!(matches!(result, Err(ExecError::ContainerGone)), "{result:?}");
    assert_eq!(marked(&spec), 0);
}
