//! What a person reads in the first minutes: the lines of `up`, the words of events, the answers of commands.

use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::kubectl;
use testkit::plane::Plane;

use crate::{Up, script, server, until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Starts a plane whose output is what a person sees: nothing asks for logs.
fn quiet(arguments: &[&str]) -> Plane {
    let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
    plane.choose_own_profile();
    plane.set_environment("LIFESIGN_LOG", "");
    plane.set_arguments(arguments.iter().copied());
    plane.start().expect("the plane comes up");
    plane
}

fn run(plane: &Plane, arguments: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_lifesign"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .output()
        .expect("the binary runs");
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Waits until there is an event about an object that says something.
fn event(up: &Up, object: &str, words: &str) -> Value {
    let path = format!("{EVENTS}?watch=true&fieldSelector=involvedObject.name%3D{object}");
    let good = |_: &str, event: &Value| event["message"].as_str().is_some_and(|message| message.contains(words));
    up.patiently(up.follow(&path, good)).unwrap_or_else(|| panic!("no event of {object} says {words:?}\n{:#}", up.get(EVENTS)))
}

#[test]
fn a_file_with_a_namespace_and_its_pod_comes_up_with_one_line_for_each_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let mut pod = server("web", &["--listen-after", "300ms"]);
    pod["metadata"]["namespace"] = json!("shop");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    std::fs::write(&file, format!("{namespace}\n---\n{pod}\n")).unwrap();
    let mut plane = quiet(&["-f", file.to_str().unwrap()]);
    until("the pod is ready", || plane.log().contains("pod/web in shop is ready after "));
    let before = plane.log();
    plane.stop();
    let log = plane.log();
    let lines: Vec<&str> = log.lines().collect();
    for expected in ["namespace/shop created", "pod/web created", "pod/web in shop started after "] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(expected)).count(), 1, "{expected}\n{log}");
    }
    assert!(before.contains(&format!("kubeconfig {}", plane.kubeconfig().display())), "{before}");
    assert!(before.contains("kubectl --kubeconfig "), "one command to paste: {before}");
    assert_eq!(lines.iter().collect::<std::collections::BTreeSet<_>>().len(), lines.len(), "nothing twice: {log}");
    assert!(!log.contains("INFO") && !log.contains("Disruption"), "{log}");
    assert!(log.contains("stopping: 1 pod ends within its grace") && log.contains("stopped; all objects are kept"), "{log}");
}

#[test]
fn a_second_signal_says_what_goes_on_running() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod.yaml");
    let mut pod = script("stubborn", "trap '' TERM; while :; do sleep 1; done");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(60);
    std::fs::write(&file, pod.to_string()).unwrap();
    let mut plane = quiet(&["-f", file.to_str().unwrap()]);
    until("the pod is ready", || plane.log().contains("pod/stubborn is ready"));
    plane.signal(Signal::INT);
    until("the first signal was seen", || plane.log().contains("stopping: 1 pod"));
    plane.signal(Signal::INT);
    assert_eq!(plane.wait().code(), Some(130));
    assert!(plane.log().contains("pod/stubborn may go on running: the next `lifesign up` takes"), "{}", plane.log());
}

#[test]
fn v_and_rust_log_show_logs() {
    for (arguments, environment) in [(&["-v"][..], ""), (&[][..], "info")] {
        let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
        plane.choose_own_profile();
        plane.set_environment("LIFESIGN_LOG", "");
        plane.set_environment("RUST_LOG", environment);
        plane.set_arguments(arguments.iter().copied());
        plane.start().expect("the plane comes up");
        until("something is logged", || plane.log().contains("INFO"));
        assert!(!plane.log().contains('\u{1b}'), "a file has no colours");
    }
}

#[test]
fn probe_events_name_what_was_asked_and_node_events_are_found() {
    let up = Up::start();
    let mut wrong = server("wrong", &[]);
    wrong["spec"]["containers"][0]["readinessProbe"]["httpGet"] = json!({"path": "/healthz", "port": 8099});
    up.create_pod(&wrong);
    let mut local = server("local", &[]);
    local["spec"]["containers"][0]["command"] = json!(["lifesign", "serve", "--address", "127.0.0.1", "--port", "0"]);
    local["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
    up.create_pod(&local);
    let mut command = script("command", "sleep 60");
    command["spec"]["containers"][0]["readinessProbe"] = json!({"exec": {"command": ["test", "-f", "/nowhere/$(POD_NAME)"]}});
    up.create_pod(&command);
    let message = event(&up, "wrong", "Readiness probe failed")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("GET http://127.")
            && message.contains(":8099/healthz: connection refused; does the server bind $POD_IP?"),
        "{message}"
    );
    event(&up, "local", ":8080: connection refused; does the server bind $POD_IP?");
    event(&up, "command", "exec test -f /nowhere/$(POD_NAME): command terminated with exit code 1");
    let node = up.get("/api/v1/nodes")["items"][0].clone();
    let name = node["metadata"]["name"].as_str().unwrap();
    assert_eq!(event(&up, name, "registered")["involvedObject"]["uid"], node["metadata"]["uid"]);
    let all = up.get(EVENTS).to_string();
    assert!(!all.contains("FullDisruption"), "a plane that starts is not disrupted: {all}");
    if kubectl::is_installed() {
        let out =
            Command::new("kubectl").args(["describe", "node", "--kubeconfig"]).arg(up.plane.kubeconfig()).output().unwrap();
        assert!(String::from_utf8_lossy(&out.stdout).contains("RegisteredNode"), "describe shows the events of a node");
    }
}

#[test]
fn profile_commands_confirm_and_a_plane_that_is_away_is_named() {
    let mut up = Up::start_in(&[], &[("LIFESIGN_TEST", "profiles")]);
    for (arguments, words) in [
        (&["profile", "set", "MediumUpdateAverageReaction"][..], "asked for MediumUpdateAverageReaction"),
        (&["profile", "pause"], "paused: no further step begins (MediumUpdateAverageReaction is asked for)"),
        (&["profile", "resume"], "resumed: MediumUpdateAverageReaction is asked for"),
        (&["profile", "retry"], "tried again: MediumUpdateAverageReaction is asked for"),
    ] {
        let (code, text) = run(&up.plane, arguments);
        assert!(code == Some(0) && text.contains(words), "{arguments:?}: {text}");
    }
    let url = up.plane.url().to_owned();
    up.plane.stop();
    let (code, text) = run(&up.plane, &["profile", "get"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&url) && text.contains("refused") && text.contains("`lifesign up` starts one"), "{text}");
}

#[test]
fn a_field_that_a_gate_drops_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pod.yaml");
    std::fs::write(&file, server("web", &[]).to_string()).unwrap();
    let plane = quiet(&["--feature-gates", "SubSecondProbes=false", "-f", file.to_str().unwrap()]);
    let warning = "warning: pod/web: spec.containers[0].readinessProbe.periodMilliseconds: dropped, because the feature gate \
                   SubSecondProbes is off";
    until("it is warned", || plane.log().contains(warning));
}

#[test]
fn what_markers_say_names_pod_container_and_marker() {
    let up = Up::start();
    up.create_pod(&script("game", "sleep 60"));
    let labels = json!({"metadata": {"labels": {"app": "game"}}});
    assert_eq!(up.call("PATCH", &format!("{PODS}/game"), &labels).0, 200);
    let markers = "/apis/apps.kruise.io/v1alpha1/namespaces/default/podprobemarkers";
    let marker = |name: &str, app: &str, container: &str| {
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"app": app}},
            "probes": [{"name": "Idle", "containerName": container, "podConditionType": "game.io/idle",
                "probe": {"exec": {"command": ["echo", "idle"]}, "periodSeconds": 1, "initialDelayMilliseconds": 0}}]}})
    };
    for object in [marker("good", "game", "main"), marker("typo", "game", "mian"), marker("nobody", "gmae", "main")] {
        assert_eq!(up.call("POST", markers, &object).0, 201);
    }
    event(&up, "game", "good#Idle on container main: idle");
    event(&up, "typo", "pod game has no container \"mian\", only main (1 pod)");
    event(&up, "nobody", "no pod of namespace default");
    up.wait_for(markers, "nobody", "counted", |marker| marker["status"]["matchedPods"] == 0);
}
