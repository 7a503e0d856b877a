use super::*;

#[test]
fn an_errno_of_the_node_is_retried_twice_and_then_discarded() {
    let report = unanswered(&Cause::Errno("EMFILE".into()), Duration::from_secs(1));
    let mut tries = Tries::default();
    assert!(tries.again(&report) && tries.again(&report) && !tries.again(&report));
    assert_eq!(report.outcome, Outcome::Error);
    assert!(!Tries::default().again(&timed_out(Duration::from_secs(1), Duration::from_secs(1))));
    assert!(!Tries::default().again(&Report::failure("no")));
}

#[test]
fn eagain_is_the_nodes_fault_only_when_a_process_is_made() {
    assert_eq!(unanswered(&Cause::Errno("EAGAIN".into()), Duration::from_secs(1)).outcome, Outcome::Failure);
}

#[test]
fn a_marker_shows_what_the_target_said() {
    let run = |code, stdout: &str, stderr: &str| {
        let answer = ExecAnswer { end: ExecEnd::Exited(code), stdout: stdout.into(), stderr: stderr.into() };
        exec(answer, Duration::from_secs(1)).marker_message()
    };
    assert_eq!(run(0, "idle", "noise"), "idle");
    assert_eq!(run(1, "busy", "players: 7"), "players: 7");
    assert_eq!(run(1, "busy", ""), "busy");
    assert_eq!(timed_out(Duration::from_millis(250), Duration::ZERO).marker_message(), "timed out after 250ms");
    let hung = ExecAnswer { end: ExecEnd::TimedOut { lag: Duration::ZERO }, stdout: b"x".into(), stderr: vec![] };
    assert_eq!(exec(hung, Duration::from_secs(2)).marker_message(), "command timed out after 2000ms");
    assert_eq!(tcp(Ok(()), Duration::from_secs(1)).marker_message(), "");
}

#[test]
fn expansion_leaves_what_it_does_not_know() {
    let env = |name: &str| (name == "A").then_some("1");
    let expand = |text: &str| expand(&[text.to_owned()], env).remove(0);
    for (text, expanded) in [
        ("$(A)$(A)", "11"),
        ("$$$(A)", "$1"),
        ("$$(A)", "$(A)"),
        ("$(B)", "$(B)"),
        ("$(A", "$(A"),
        ("a$", "a$"),
        ("$()", "$()"),
        ("ä$(A)ö", "ä1ö"),
        ("$A", "$A"),
    ] {
        assert_eq!(expand(text), expanded, "{text}");
    }
}

#[test]
fn a_name_wins_over_a_number() {
    let named = api::pod::ContainerPort { name: "80".to_owned(), container_port: 8080, ..Default::default() };
    assert_eq!(resolve_port(&api::IntOrString::String("80".to_owned()), &[named]), Ok(8080));
    assert!(resolve_port(&api::IntOrString::String(String::new()), &[Default::default()]).is_err());
}

#[test]
fn a_runtime_that_refuses_a_command_says_in_words_whose_fault_it_is() {
    let judged = |code: u32, message: &str| refused_by_runtime(code, message, Duration::from_secs(1)).outcome;
    assert_eq!(judged(2, "exec failed: exec: \"x\": executable file not found in $PATH: unknown"), Outcome::Failure);
    assert_eq!(judged(2, "exec: \"/x\": permission denied: unknown"), Outcome::Failure);
    assert_eq!(judged(4, "failed to exec in container: timeout 1s exceeded"), Outcome::Failure, "it ran, and for too long");
    assert_eq!(judged(5, "an error occurred when try to find container \"x\": not found"), Outcome::Error);
    assert_eq!(judged(2, "container is in CONTAINER_EXITED state"), Outcome::Error);
    assert_eq!(judged(2, "cannot exec in a stopped state"), Outcome::Error);
    assert_eq!(judged(14, "the runtime is shutting down"), Outcome::Error);
}
