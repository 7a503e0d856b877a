//! A process of which a part has died does not go on looking alive.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::plane::Plane;

const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// In this time a process has ended after a part of it died, on a quiet machine.
const GOAL: Duration = Duration::from_secs(2);

/// How a process ended.
struct End {
    code: Option<i32>,
    took: Duration,
    log: String,
}

/// Starts a process with a part that panics a moment after its start, and waits for its end; its log is in the folder of `plane`.
fn ended_by(part: &str, mut command: Command, plane: &Plane) -> End {
    let path = plane.folder().join("out");
    let log = std::fs::File::create(&path).unwrap();
    let mut child = command.env("LIFESIGN_FAULT", part).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let read = || std::fs::read_to_string(&path).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut died_at = None;
    let code = loop {
        if died_at.is_none() && read().contains("LIFESIGN_FAULT") {
            died_at = Some(Instant::now());
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("{part} is dead and the process goes on:\n{}", read());
        }
        // There is no wait with a deadline in the standard library.
        std::thread::sleep(Duration::from_millis(5));
    };
    End { code, took: died_at.map_or(Duration::ZERO, |at| at.elapsed()), log: read() }
}

impl End {
    fn names(&self, part: &str) {
        let End { code, took, log } = self;
        assert!(code.is_some_and(|code| code != 0), "{part}: {code:?}\n{log}");
        let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{part}:\n{log}");
        assert!(errors[0].contains(part) && errors[0].contains("panicked: LIFESIGN_FAULT names it"), "{part}: {}", errors[0]);
        println!("{part}: the process ended {took:.2?} after it died");
        // A busy machine is given ten times as long.
        assert!(*took < GOAL * 10, "{part}: {took:?}");
    }
}

#[test]
fn a_part_that_dies_is_named_and_ends_the_plane() {
    for part in ["api-server", "agent", "controllers", "service-proxy", "progress", "page", "node-controller", "heartbeat"] {
        let mut plane = Plane::new(LIFESIGN).whole();
        plane.choose_own_profile();
        let end = ended_by(part, plane.server_command(), &plane);
        testkit::plane::end_containers(&plane.data_dir());
        end.names(part);
    }
}

#[test]
fn a_part_that_dies_is_named_and_ends_the_controllers() {
    let plane = Plane::started(LIFESIGN);
    for part in ["endpoint-slice-controller", "pod-probe-marker-controller", "metrics"] {
        let mut command = Command::new(LIFESIGN);
        command.args(["controllers", "--metrics-addr", "127.0.0.1:0", "--kubeconfig"]).arg(plane.kubeconfig());
        ended_by(part, command, &plane).names(part);
    }
}
