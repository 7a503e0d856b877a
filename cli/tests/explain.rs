//! `lifesign explain`: the table of a good and of a bad manifest, exit codes, and the page about it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const GOOD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: good}
spec:
  containers:
  - name: app
    image: none
    startupProbe:
      tcpSocket: {port: 8080}
      periodSeconds: 2
      failureThreshold: 30
    readinessProbe:
      tcpSocket: {port: 8080}
      periodSeconds: 5
    livenessProbe:
      tcpSocket: {port: 8080}
      failureThreshold: 6
";

const BAD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec:
  restartPolicy: Never
  containers:
  - name: app
    image: none
    livenessProbe:
      exec: {command: [check]}
      periodSeconds: 2
      periodMilliseconds: -500
      timeoutSeconds: 3
      initialDelaySeconds: 10
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
";

fn lifesign(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
    command.args(arguments).current_dir(folder).env_remove("LIFESIGN_FEATURE_GATES");
    command
}

/// Explains a manifest that is given on standard input.
fn explain(manifest: &str, more: &[&str]) -> Output {
    let mut command = lifesign(&[&["explain", "-f", "-"][..], more].concat(), Path::new("."));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    child.stdin.take().expect("it is piped").write_all(manifest.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it is our child")
}

fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).expect("it is text")
}

fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).expect("it is text")
}

#[test]
fn a_good_manifest() {
    insta::assert_snapshot!(stdout(&explain(GOOD, &[])), @r#"
    nothing found in 1 object

    Pod default/good

      container app
        ready 0s after its start at the earliest, about 10ms after it listens, at most 2s after it
        answers if it listened before (4s if attempts hang)
        killed unless it answers within 58s of its start

        PROBE      HANDLER    DELAY  PERIOD  TIMEOUT  OK/FAIL  WHAT IT DOES
        startup    tcpSocket  0s     2s      1s       1/30     stops it 58s to 59.2s after start if
                                                               never up, restarted within 30s more
        readiness  tcpSocket  0s     5s      1s       1/3      leaves endpoints 10s to 16s after it
                                                               fails, back within 5s of being well (6s
                                                               if it hangs)
        liveness   tcpSocket  0s     10s     1s       1/6      stops it 50s to 1m1s after it fails,
                                                               restarted within 30s more

                   0s        10s       20s       30s       40s       50s       1m0s      1m10s
        startup    S                                                         K
        readiness  R====|====|====|====|====|====|====|====|====|====|====|====|====|====|====|====
        liveness             |         |         |         |         |         |         |

      nothing found

    timelines: the container answers at once
    . delay  ~ not started  : knocks  | attempt  S started  R ready  = stays ready  K killed if silent
    times are those of Lifesign's agent; --kubelet shows those of a stock kubelet beside them
    "#);
}

#[test]
fn a_bad_manifest() {
    insta::assert_snapshot!(stdout(&explain(BAD, &[])), @r#"
    1 error, 1 warning, 1 info in 1 object

    Pod default/bad

      container app
        ready the moment it runs: neither startup nor readiness probe
        killed unless it answers within 14s of its start

        PROBE     HANDLER  DELAY  PERIOD  TIMEOUT  OK/FAIL  WHAT IT DOES
        liveness  exec     10s    2s      3s       1/3      stops it 4s to 12.3s after it fails, not
                                                            started again, gone within 30s more

                   0s        2s        4s        6s        8s        10s       12s       14s
        liveness   ..................................................|         |         K

      error   invalid: spec.containers[0].livenessProbe.periodMilliseconds
              standard input:12
              Forbidden: only allowed on readiness and startup probes
              -> the API server refuses the object

      warning timeout-beyond-period: spec.containers[0].livenessProbe
              standard input:9
              timeout 3s is longer than the period 2s: a target that hangs is asked less often than the
              period says
              -> make the timeout shorter or the period longer

      info    delay-instead-of-startup: spec.containers[0].livenessProbe
              standard input:9
              10s is a guess: a slower start is killed from 14s on, and a hang in the first 10s is not
              seen
              -> use a startupProbe with a short period instead: it ends as soon as the container is up

    timelines: the container answers at once
    . delay  ~ not started  : knocks  | attempt  S started  R ready  = stays ready  K killed if silent
    times are those of Lifesign's agent; --kubelet shows those of a stock kubelet beside them
    skipped, without a pod template: ConfigMap settings
    "#);
}

#[test]
fn objects_that_are_alike_are_shown_once() {
    let pod = |name: &str, port: u16| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: app, image: a, readinessProbe: {{tcpSocket: {{port: {port}}}}}}}]}}}}"
        )
    };
    let all: Vec<String> = (0..7).map(|n| pod(&format!("same-{n}"), 80)).chain([pod("other", 0)]).collect();
    let text = stdout(&explain(&all.join("\n---\n"), &[]));
    assert!(
        text.starts_with("1 error in 8 objects\n\nPod default/same-0, same-1, same-2, same-3, same-4 and 2 more (7 alike)\n"),
        "{text}"
    );
    assert_eq!((text.matches("container app").count(), text.matches("Pod default/other").count()), (2, 1), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours in a file");
}

#[test]
fn strict_is_exit_1_for_warnings_and_errors_only() {
    let code = |manifest: &str, more: &[&str]| explain(manifest, more).status.code();
    assert_eq!((code(GOOD, &[]), code(GOOD, &["--strict"]), code(BAD, &[])), (Some(0), Some(0), Some(0)));
    let refused = explain(BAD, &["--strict"]);
    assert_eq!((refused.status.code(), stderr(&refused).as_str()), (Some(1), "error: found 1 error and 1 warning\n"));
    // The budget is 58 s.
    assert_eq!(code(GOOD, &["--strict", "--listen-after", "58s"]), Some(0));
    assert_eq!(code(GOOD, &["--strict", "--listen-after", "59s"]), Some(1));
}

#[test]
fn what_cannot_be_read_is_exit_2_and_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("broken.yaml"), "a: [").unwrap();
    for name in ["broken.yaml", "missing.yaml"] {
        let out = lifesign(&["explain", "-f", name], folder.path()).output().unwrap();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{name}");
        assert!(stderr(&out).contains(name), "{}", stderr(&out));
    }
    for wrong in [&["--policy", "Sometimes"], &["--feature-gates", "Nope=true"], &["--listen-after", "1370"]] {
        let out = lifesign(&[&["explain", "-f", "-"], &wrong[..]].concat(), folder.path()).output().unwrap();
        assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{wrong:?}");
    }
}

#[test]
fn json_and_yaml_say_the_same() {
    let json: serde_json::Value = serde_json::from_str(&stdout(&explain(GOOD, &["-o", "json"]))).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&stdout(&explain(GOOD, &["-o", "yaml"]))).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["workloads"][0]["containers"][0]["budgetMs"], 58_000);
    assert_eq!(json["workloads"][0]["findings"], serde_json::json!([]));
}

#[test]
fn gates_and_policy_change_the_answer() {
    let fast = GOOD.replace("periodSeconds: 5", "periodSeconds: 1\n      periodMilliseconds: -500");
    let period = |more: &[&str], field: &str| {
        let json: serde_json::Value =
            serde_json::from_str(&stdout(&explain(&fast, &[&["-o", "json"], more].concat()))).unwrap();
        json["workloads"][0]["containers"][0]["probes"][1]["times"][field].as_u64().unwrap()
    };
    assert_eq!((period(&[], "periodMs"), period(&[], "periodAfterSuccessMs")), (500, 1_000));
    assert_eq!(period(&["--feature-gates", "SubSecondProbes=false"], "periodMs"), 1_000);
    assert_eq!(period(&["--policy", "Always"], "periodAfterSuccessMs"), 500);
    assert_eq!(period(&["--policy", "AlwaysWhenWaitingForSuccess"], "periodAfterLossMs"), 500);
}

#[test]
fn names_of_users_never_reach_the_terminal_as_commands() {
    let evil = "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e[31m\"}\nspec: {containers: [{name: \"b\\e[2J\", image: c, livenessProbe: {exec: {command: [\"\\e[31m d\"]}}}]}\n";
    let text = stdout(&explain(evil, &["--patches"]));
    assert!(text.contains("Pod default/a\u{fffd}[31m") && text.contains("container b\u{fffd}[2J"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

/// Puts `lifesign` on the PATH of a command.
fn with_binary(command: &mut Command) -> &mut Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_lifesign")).parent().expect("it is in a folder").to_owned();
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&rest))).expect("no colon in it");
    command.env("PATH", path).env_remove("GITHUB_ACTIONS")
}

#[test]
fn the_hook_and_the_step_of_the_examples_let_good_manifests_pass_and_no_others() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let folder = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"];
        command.args(identity).args(arguments).current_dir(folder.path());
        with_binary(&mut command).output().expect("git runs")
    };
    assert!(git(&["init", "-q"]).status.success());
    std::fs::copy(examples.join("pre-commit"), folder.path().join(".git/hooks/pre-commit")).unwrap();
    std::fs::create_dir(folder.path().join("deploy")).unwrap();
    let file = folder.path().join("deploy/a pod.yaml");
    let commit = |manifest: &str| {
        std::fs::write(&file, manifest).unwrap();
        assert!(git(&["add", "."]).status.success());
        git(&["commit", "-q", "-m", "x"])
    };
    let good = commit(GOOD);
    assert!(good.status.success(), "{}", stderr(&good));
    let bad = commit(BAD);
    assert!(!bad.status.success() && stderr(&bad).contains("found 1 error and 1 warning"), "{}", stderr(&bad));
    // What is not staged does not count.
    assert!(git(&["reset", "-q", "--hard"]).status.success());
    std::fs::write(&file, BAD).unwrap();
    let other = git(&["commit", "-q", "--allow-empty", "-m", "y"]);
    assert!(other.status.success(), "{}", stderr(&other));

    let mut step = Command::new(examples.join("ci-explain"));
    let failed = with_binary(step.arg("deploy").current_dir(folder.path())).output().unwrap();
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    let sarif: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("explain.sarif")).unwrap()).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!((&place["artifactLocation"]["uri"], &place["region"]["startLine"]), (&"deploy/a pod.yaml".into(), &12.into()));
}

/// The page shows manifests, then commands, each followed by what it says.
#[test]
fn the_page_shows_what_the_command_says() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/explain.md");
    let text = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blocks: Vec<&str> = text.split("```").skip(1).step_by(2).collect();
    let manifests: Vec<&str> = blocks.iter().filter_map(|block| block.strip_prefix("yaml\n")).collect();
    for (name, manifest) in ["web.yaml", "fixed.yaml"].into_iter().zip(&manifests) {
        std::fs::write(folder.path().join(name), manifest).unwrap();
    }
    let mut shown = 0;
    for (index, command) in blocks.iter().enumerate().filter_map(|(index, block)| Some((index, block.strip_prefix("sh\n")?))) {
        let arguments: Vec<&str> = command.trim().strip_prefix("lifesign ").unwrap().split(' ').collect();
        let out = lifesign(&arguments, folder.path()).output().unwrap();
        assert_eq!(blocks[index + 1].trim_start_matches('\n'), stdout(&out), "{command}");
        shown += 1;
    }
    assert_eq!((shown, manifests.len()), (3, 2), "the page lost its example");
}
