//! Commands that somebody talks to, with and without a terminal.

use processes::interactive::{End, Session, Wanted};
use processes::procfs;

use crate::support::{self, Started, shell, start, until};

const PIPES: Wanted = Wanted { stdin: true, terminal: false };
const TERMINAL: Wanted = Wanted { stdin: true, terminal: true };

async fn converse(container: &Started, script: &str, wanted: Wanted) -> Session {
    let command = ["sh", "-c", script].map(str::to_owned);
    container.converse(&command, wanted, &support::shim()).await.unwrap()
}

/// Reads until a text has come, or the end.
async fn read_until(end: &End, text: &str) -> String {
    let (mut all, mut buffer) = (String::new(), [0; 4096]);
    while !all.contains(text) {
        match end.read(&mut buffer).await.unwrap() {
            0 => break,
            length => all.push_str(&String::from_utf8_lossy(&buffer[..length])),
        }
    }
    all
}

#[tokio::test]
async fn what_is_written_comes_back_and_the_end_of_input_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let container = start(dir.path(), &shell("sleep 1000")).await;
    let mut session = converse(&container, "cat; echo done $LIFESIGN_CONTAINER_ID; echo bad >&2; exit 7", PIPES).await;
    let stdin = session.stdin.take().unwrap();
    let large = "0123456789".repeat(50_000);
    let (_, read) = tokio::join!(
        async move {
            stdin.write_all(large.as_bytes()).await.unwrap();
            drop(stdin);
        },
        read_until(&session.stdout, "\n"),
    );
    assert_eq!(read.len(), 500_000 + format!("done {}\n", container.id()).len());
    assert_eq!(read_until(session.stderr.as_ref().unwrap(), "\n").await, "bad\n");
    assert_eq!(session.wait().await.unwrap(), 7);
}

#[tokio::test]
async fn a_terminal_has_a_size_and_belongs_to_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let container = start(dir.path(), &shell("sleep 1000")).await;
    let script =
        "read go; stty size; echo to-the-terminal >/dev/tty; trap 'stty size; exit 130' INT WINCH; echo trapped; read never";
    let mut session = converse(&container, script, TERMINAL).await;
    assert!(session.stderr.is_none());
    session.stdout.resize(132, 43);
    session.stdin.as_ref().unwrap().write_all(b"go\n").await.unwrap();
    let shown = read_until(&session.stdout, "trapped").await;
    assert!(shown.contains("43 132") && shown.contains("to-the-terminal"), "{shown:?}");
    // A new size is a signal to the command; so would be ^C.
    session.stdout.resize(80, 24);
    let shown = read_until(&session.stdout, "24 80").await;
    assert!(shown.contains("24 80"), "{shown:?}");
    assert_eq!(session.wait().await.unwrap(), 130);
}

#[tokio::test]
async fn an_interrupt_typed_at_the_terminal_reaches_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let container = start(dir.path(), &shell("sleep 1000")).await;
    let mut session = converse(&container, "echo begins; exec sleep 1000", TERMINAL).await;
    // One process: a shell that forks just now would take an interrupt for one that its child has handled.
    read_until(&session.stdout, "begins").await;
    session.stdin.as_ref().unwrap().write_all(b"\x03").await.unwrap();
    let ended = tokio::time::timeout(support::PATIENCE, session.wait()).await.expect("it ends");
    assert_eq!(ended.unwrap(), 130);
    assert!(container.is_running(), "the container does not hear it");
}

/// As `nohup` and `&` start a program.
#[test]
fn the_same_where_signals_are_ignored() {
    let test = "interactive::an_interrupt_typed_at_the_terminal_reaches_the_command";
    let script = r#"trap '' HUP INT QUIT TERM; exec "$0" --exact "$1""#;
    let again = std::env::current_exe().unwrap();
    let done = std::process::Command::new("sh").args(["-c", script]).arg(again).arg(test).output().unwrap();
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && output.contains("1 passed"), "{output}");
}

#[tokio::test]
async fn what_cannot_run_is_an_error_with_a_terminal_too() {
    let dir = tempfile::tempdir().unwrap();
    let container = start(dir.path(), &shell("sleep 1000")).await;
    for wanted in [PIPES, TERMINAL] {
        let refused = container.converse(&["no-such-program".to_owned()], wanted, &support::shim()).await;
        assert!(refused.is_err());
    }
}

#[tokio::test]
async fn all_of_a_command_dies_with_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let container = start(dir.path(), &shell("exec sleep 1000")).await;
    // It has one process, whenever one looks.
    let before = container.processes();
    for wanted in [PIPES, TERMINAL] {
        let session = converse(&container, "sleep 1000 & sleep 1000 & echo $$ begins; wait", wanted).await;
        let shown = read_until(&session.stdout, "begins").await;
        let leader: i32 = shown.split_whitespace().next().unwrap().parse().unwrap();
        assert!(procfs::stat(leader).is_some());
        drop(session);
        until("all of it is gone", || container.processes() == before).await;
    }
}
