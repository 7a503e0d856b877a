//! A plane of which a part has died does not go on looking alive.

// Every function here is part of a test, also where it does not carry the attribute.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use testkit::plane::Plane;

const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// Starts `up` with a part that panics a moment after its start; returns how it ended.
fn ended_by(part: &str) -> (Option<i32>, Duration, String) {
    let mut plane = Plane::new(LIFESIGN).whole();
    plane.choose_own_profile();
    let log = std::fs::File::create(plane.folder().join("out")).unwrap();
    let mut command = plane.server_command();
    let mut child = command.env("LIFESIGN_FAULT", part).stdout(std::process::Stdio::null()).stderr(log).spawn().unwrap();
    let read = || std::fs::read_to_string(plane.folder().join("out")).unwrap();
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
            panic!("{part} is dead and the plane goes on:\n{}", read());
        }
        // There is no wait with a deadline in the standard library.
        std::thread::sleep(Duration::from_millis(5));
    };
    let took = died_at.map_or(Duration::ZERO, |at| at.elapsed());
    testkit::plane::end_containers(&plane.data_dir());
    (code, took, read())
}

#[test]
fn a_part_that_dies_is_named_and_ends_the_plane() {
    for part in ["api-server", "agent", "controllers", "service-proxy", "progress", "node-controller", "heartbeat"] {
        let (code, took, log) = ended_by(part);
        assert!(code.is_some_and(|code| code != 0), "{part}: {code:?}\n{log}");
        let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{part}:\n{log}");
        assert!(errors[0].contains(part) && errors[0].contains("panicked: LIFESIGN_FAULT names it"), "{part}: {}", errors[0]);
        // Two seconds on a quiet machine; a busy one is given ten times that.
        assert!(took < Duration::from_secs(20), "{part}: {took:?}");
    }
}
