//! `lifesign profile`: the commands that ask nobody, and those about a running plane.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::{Up, script};

fn profile(arguments: &[&str]) -> Output {
    profile_command(arguments).output().expect("the command runs")
}

fn profile_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
    command.arg("profile").args(arguments).env_remove("KUBECONFIG").env_remove("LIFESIGN_DATA_DIR");
    command
}

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn read(output: &Output) -> Value {
    serde_json::from_str(&text(output)).expect("JSON")
}

#[test]
fn a_plan_shows_every_step_its_state_and_what_is_avoided() {
    let plan = text(&profile(&["plan", "--from", "Default", "--to", "LowUpdateSlowReaction", "--nodes", "2"]));
    insta::assert_snapshot!(plan, @r"
    Default -> MediumUpdateAverageReaction -> LowUpdateSlowReaction

    #   STEP                             SLOWEST   GRACE   TOLERATIONS   CHANCES   CLASS
        as it is                             10s     40s     300s/300s         4   Safe
    1   kcm lifesign grace=120               10s    2m0s     300s/300s        12   Safe
    2   node node-1 heartbeat=20             20s    2m0s     300s/300s         6   Safe
    3   node node-2 heartbeat=20             20s    2m0s     300s/300s         6   Safe
    4   kas lifesign tolerations=60/60       20s    2m0s       60s/60s         6   Safe
    5   kcm lifesign grace=300               20s    5m0s       60s/60s        15   Safe
    6   node node-1 heartbeat=60            1m0s    5m0s       60s/60s         5   Safe
    7   node node-2 heartbeat=60            1m0s    5m0s       60s/60s         5   Safe

    avoided (heartbeat/grace/toleration)
      10/40/60     safe, not needed
      10/120/60    safe, not needed
      20/40/300    Elevated: 2 chances before a living node is taken for dead
      20/40/60     Elevated: 2 chances before a living node is taken for dead
      60/120/60    Elevated: 2 chances before a living node is taken for dead
    ");
    let plan = read(&profile(&["plan", "--from", "LowUpdateSlowReaction", "--to", "Default", "-o", "json"]));
    assert_eq!(plan["path"], json!(["MediumUpdateAverageReaction", "Default"]));
    let steps = plan["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["after"]["class"] == "Safe"), "{plan:#}");
    let refused = profile(&["plan", "--from", "default", "--to", "Default"]);
    assert_eq!(refused.status.code(), Some(2), "names are case sensitive");
}

#[test]
fn a_simulation_is_the_same_each_time_and_draws_a_picture() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("a.svg");
    let arguments = ["simulate", "--nodes", "40", "--days", "0.5", "--seed", "7", "-o", "json"];
    let plotted = profile(&[&arguments[..], &["--plot", picture.to_str().expect("a path")]].concat());
    let again = profile(&arguments);
    assert_eq!(text(&plotted), text(&again), "byte for byte");
    let runs = read(&again);
    let names: Vec<&str> = runs.as_array().expect("runs").iter().filter_map(|run| run["profile"].as_str()).collect();
    assert_eq!(names[..4], ["Default", "MediumUpdateAverageReaction", "LowUpdateSlowReaction", "10/120/300"]);
    assert!(names.contains(&"! 60/40/60"), "{names:?}");
    let other = profile(&["simulate", "--nodes", "40", "--days", "0.5", "--seed", "8", "-o", "json"]);
    assert_ne!(text(&other), text(&again), "another seed is another world");
    assert!(std::fs::read_to_string(&picture).expect("a picture").starts_with("<svg "));
    let scenario = folder.path().join("scenario.yaml");
    std::fs::write(&scenario, "nodes: 30\ndays: 0.2\ntransition: {from: Default, to: LowUpdateSlowReaction}\n")
        .expect("a file");
    let run = read(&profile(&["simulate", "-f", scenario.to_str().expect("a path"), "-o", "json"]));
    assert!(run["states"].as_array().is_some_and(|states| states.len() > 3), "{run:#}");
    std::fs::write(&scenario, "node: 30\n").expect("a file");
    let refused = profile(&["simulate", "-f", scenario.to_str().expect("a path")]);
    assert_eq!(refused.status.code(), Some(2), "unknown keys are refused");
}

#[test]
fn long_outages_ask_for_a_slow_profile() {
    let patient = read(&profile(&["recommend", "--loss", "1%", "--latency", "50ms", "--outage", "1x200s", "-o", "json"]));
    assert_eq!(patient["recommendation"]["profile"], "LowUpdateSlowReaction", "{patient:#}");
    let quick = text(&profile(&["recommend", "--loss", "0.001"]));
    assert!(quick.contains("recommended: Default"), "{quick}");
}

#[test]
fn a_profile_is_set_watched_and_looked_at_through_the_command() {
    let up = Up::start_in(&[], &[("LIFESIGN_CLOCK_SPEED", "10")]);
    let kubeconfig = up.plane.kubeconfig();
    let there = ["--kubeconfig", kubeconfig.to_str().expect("a path")];
    let on_plane = |arguments: &[&str]| profile(&[arguments, &there].concat());
    // It watches while the rest goes on.
    let measuring = profile_command(&[&["recommend", "--for", "8s", "-o", "json"], &there[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    text(&on_plane(&["pause"]));
    text(&on_plane(&["set", "MediumUpdateAverageReaction"]));
    let late = on_plane(&["set", "MediumUpdateAverageReaction", "--wait", "--timeout", "1s"]);
    assert_eq!(late.status.code(), Some(1), "a paused rollout does not finish");
    let planned = text(&on_plane(&["plan"]));
    assert!(
        planned.starts_with("Default -> MediumUpdateAverageReaction\n") && planned.contains("kcm lifesign grace=120"),
        "{planned}"
    );
    text(&on_plane(&["resume"]));
    let waited = on_plane(&["set", "MediumUpdateAverageReaction", "--wait"]);
    text(&waited);
    let stderr = String::from_utf8_lossy(&waited.stderr).into_owned();
    assert!(stderr.contains("MachineConfigOperator: ProfileUpdated: 1/1 nodes at 20s"), "{stderr}");
    let summary = read(&on_plane(&["get", "-o", "json"]));
    assert_eq!(summary["applied"], "MediumUpdateAverageReaction");
    assert_eq!(summary["nodeMonitorGracePeriod"], "2m0s");
    let status = text(&on_plane(&["status"]));
    assert!(
        status.contains("KubeControllerManagerOperator   Complete   ProfileUpdated   1/1 controller managers at 2m0s"),
        "{status}"
    );
    text(&on_plane(&["retry"]));
    text(&on_plane(&["set", "", "--wait"]));
    assert_eq!(read(&on_plane(&["get", "-o", "json"]))["applied"], "Default");
    let measured = read(&measuring.wait_with_output().expect("the command ends"));
    assert_eq!(measured["predictions"].as_array().map(Vec::len), Some(3), "{measured:#}");
    let refused = on_plane(&["set", "Fast"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn running_pods_follow_when_asked_and_uninstalling_leaves_nothing_behind() {
    let up = Up::start_in(&[], &[("LIFESIGN_CLOCK_SPEED", "10")]);
    let kubeconfig = up.plane.kubeconfig();
    let there = ["--kubeconfig", kubeconfig.to_str().expect("a path")];
    let on_plane = |arguments: &[&str]| profile(&[arguments, &there].concat());
    let seconds = |name: &str| -> Vec<i64> {
        let pod = up.get(&format!("/api/v1/namespaces/default/pods/{name}"));
        let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        tolerations.iter().map(|toleration| toleration["tolerationSeconds"].as_i64().expect("seconds")).collect()
    };
    up.create_pod(&script("plain", "sleep 1000"));
    let mut choosy = script("choosy", "sleep 1000");
    choosy["spec"]["tolerations"] =
        json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 17}]);
    up.create_pod(&choosy);
    text(&on_plane(&["set", "MediumUpdateAverageReaction", "--wait"]));
    insta::assert_snapshot!(text(&on_plane(&["retolerate"])), @r"
    NAMESPACE   POD      TOLERATION                       FROM    TO
    default     choosy   node.kubernetes.io/unreachable   300s   60s
    default     plain    node.kubernetes.io/not-ready     300s   60s
    default     plain    node.kubernetes.io/unreachable   300s   60s
    ");
    assert_eq!([seconds("plain"), seconds("choosy")], [[300, 300], [17, 300]], "only told");
    assert_eq!(read(&on_plane(&["retolerate", "--from", "LowUpdateSlowReaction", "-o", "json"])), json!([]));
    let changed = on_plane(&["retolerate", "--yes"]);
    text(&changed);
    assert!(String::from_utf8_lossy(&changed.stderr).contains("2 of 2 pods changed"), "{changed:?}");
    assert_eq!([seconds("plain"), seconds("choosy")], [[60, 60], [17, 60]]);
    let again = text(&on_plane(&["retolerate", "--yes"]));
    assert_eq!(again, "no running pod carries the defaults of another profile\n");

    text(&on_plane(&["pause"]));
    text(&on_plane(&["uninstall"]));
    let cluster = up.get("/apis/config.openshift.io/v1/nodes/cluster");
    let left: Vec<&String> =
        cluster["metadata"]["annotations"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    assert_eq!(left, ["lifesign.dev/applied-profile"], "which says Default, as on a new plane");
    assert_eq!(cluster["spec"], json!({}));
    let node = up.get("/api/v1/nodes")["items"][0].clone();
    assert!(node["metadata"]["annotations"]["lifesign.dev/node-status-update-frequency"].is_null(), "{node:#}");
    text(&on_plane(&["retolerate", "--yes"]));
    assert_eq!([seconds("plain"), seconds("choosy")], [[300, 300], [17, 300]], "and back");
}
