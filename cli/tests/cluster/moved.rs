//! `lifesign agent --cluster` on a real cluster: moved readiness probes and marker probes of pods that a real kubelet runs.
//!
//! The tests write gate and annotation themselves, as the webhook would. Figures are printed; what is asserted is order, counts, or ten
//! times a figure.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::{Bed, Running};
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("moved::restarts_of_everything_lose_no_ready", restarts_of_everything_lose_no_ready),
    ("moved::a_container_that_is_started_again_is_not_ready_unprobed", a_container_that_is_started_again_is_not_ready_unprobed),
    ("moved::marker_probes_mark_real_pods", marker_probes_mark_real_pods),
    ("moved::the_condition_of_a_pod_that_ends_is_left_alone", the_condition_of_a_pod_that_ends_is_left_alone),
];

const IMAGE: &str = "lifesign.local/lifesign:test";
pub(crate) const CONDITION: &str = "lifesign.dev/ready";

/// Starts an agent on the machine, beside the node.
fn agent(bed: &Bed, namespace: &str) -> Running {
    let cri = std::env::var("LIFESIGN_TEST_CRI").expect("LIFESIGN_TEST_CRI: eval \"$(testbed/run env)\"");
    let arguments = ["agent", "--cluster", "--node-name", &bed.node, "--namespace", namespace, "--cri", &cri, "--kubeconfig"];
    let mut arguments: Vec<&str> = arguments.to_vec();
    let kubeconfig = bed.kubeconfig().to_str().unwrap();
    arguments.push(kubeconfig);
    let agent = Running::start(&arguments);
    agent.says(bed, "the container runtime answers");
    agent
}

/// Returns a pod that listens late and has its readiness probe from the kubelet or from the agent.
fn pod(name: &str, app: &str, listen_after: &str, moved: bool) -> Value {
    let probe = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "app", "image": IMAGE, "imagePullPolicy": "Never", "command": ["lifesign"],
                "args": ["serve", "--address", "0.0.0.0", "--listen-after", listen_after], "ports": [{"containerPort": 8080}],
            }],
        },
    });
    if moved {
        pod["metadata"]["annotations"] = json!({"lifesign.dev/moved-probes": json!({"app": probe}).to_string()});
        pod["spec"]["readinessGates"] = json!([{"conditionType": CONDITION}]);
    } else {
        pod["spec"]["containers"][0]["readinessProbe"] = probe;
    }
    pod
}

pub(crate) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

pub(crate) fn condition<'a>(pod: &'a Value, type_: &str) -> &'a Value {
    let all = pod["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|one| one["type"] == type_)).unwrap_or(&Value::Null)
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

pub(crate) fn micros_now() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_micros()
}

fn restarts_of_everything_lose_no_ready(bed: &Bed) {
    bed.run(&["import", IMAGE, LIFESIGN]);
    let namespace = bed.namespace("restarts");
    let mut running = agent(bed, &namespace.name);
    let names: Vec<String> = (0..8).map(|number| format!("steady-{number}")).collect();
    for name in &names {
        bed.send("POST", &pods(&namespace.name), &pod(name, "steady", "0s", true));
    }
    let since = |bed: &Bed| -> Option<Vec<Value>> {
        let all: Vec<Value> = names.iter().map(|name| bed.get(&format!("{}/{name}", pods(&namespace.name)))).collect();
        all.iter().all(is_ready).then(|| all.iter().map(|pod| condition(pod, "Ready")["lastTransitionTime"].clone()).collect())
    };
    let before = bed.until("every pod ready", since);
    let same = |what: &str| {
        // Long enough for several attempts, lists and statuses.
        std::thread::sleep(Duration::from_secs(4));
        let after = bed.until("every pod ready", since);
        assert_eq!(before, after, "{what}: a pod was not ready in between");
        println!("{what}: {} pods stayed ready", names.len());
    };
    drop(running);
    running = agent(bed, &namespace.name);
    same("agent killed and started again");
    bed.run(&["restart", "containerd"]);
    same("containerd restarted");
    bed.run(&["restart", "kubelet"]);
    same("kubelet restarted");
    bed.run(&["exec", "sh", "-c", "kill -9 $(pidof kube-apiserver)"]);
    bed.until("the API server is back", |bed| bed.healthy().then_some(()));
    same("kube-apiserver killed");
    assert!(running.stop(), "a clean stop");
    same("agent stopped");
}

/// Watches a pod until it is ready with another container than before; returns the longest time in which it was shown as ready although
/// the condition judged another container than the one that ran.
fn longest_unprobed(bed: &Bed, path: &str, before: &str) -> Duration {
    let (mut longest, mut since) = (Duration::ZERO, None);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let pod = bed.get(path);
        let status = &pod["status"]["containerStatuses"][0];
        let id = status["containerID"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
        let runs = !status["state"]["running"].is_null();
        let judged = condition(&pod, CONDITION)["message"].as_str().is_some_and(|message| message.contains(&id));
        if is_ready(&pod) && runs && !judged {
            longest = longest.max(since.get_or_insert_with(Instant::now).elapsed());
        } else {
            since = None;
        }
        let settled = runs && id != before && (is_ready(&pod) == judged) && status["restartCount"].as_i64() > Some(0);
        if settled && (judged || condition(&pod, CONDITION)["reason"] != "ProbesSucceeded") {
            return longest;
        }
        assert!(Instant::now() < deadline, "never settled: {pod:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_container_that_is_started_again_is_not_ready_unprobed(bed: &Bed) {
    bed.run(&["import", IMAGE, LIFESIGN]);
    bed.install_definitions();
    let namespace = bed.namespace("again");
    let controllers = Running::controllers(bed.kubeconfig(), &["--namespace", &namespace.name]);
    let running = agent(bed, &namespace.name);
    let path = format!("{}/again", pods(&namespace.name));
    bed.send("POST", &pods(&namespace.name), &pod("again", "again", "500ms", true));
    let ready = |bed: &Bed| {
        let pod = bed.get(&path);
        let id = pod["status"]["containerStatuses"][0]["containerID"].as_str()?.rsplit('/').next()?.to_owned();
        is_ready(&pod).then_some(id)
    };
    let kill = |bed: &Bed| {
        let (_, output) = bed.kubectl(&["-n", &namespace.name, "exec", "again", "--", "sh", "-c", "kill 1"], "");
        println!("{}", output.trim());
    };
    let first = bed.until("ready", ready);
    kill(bed);
    let with_agent = longest_unprobed(bed, &path, &first);
    let second = bed.until("ready again", |bed| ready(bed).filter(|id| *id != first));
    // kill -9: nobody is shown_pod.
    drop(running);
    kill(bed);
    let without = longest_unprobed(bed, &path, &second);
    println!(
        "ready without a probe of that instance: agent up {} ms, agent dead {} ms",
        with_agent.as_millis(),
        without.as_millis()
    );
    assert!(with_agent < Duration::from_secs(10) && without < Duration::from_secs(30), "{with_agent:?} {without:?}");
    let pod = bed.get(&path);
    assert_eq!(condition(&pod, CONDITION)["reason"], "InstanceChanged", "{pod:#}");
    assert!(controllers.stop());
}

/// The condition of a pod that is being deleted turns False while its container still runs. When a stock kubelet takes that over into Ready is its own
/// affair, differs from run to run, and is printed: docs/cluster.md, limits.
fn the_condition_of_a_pod_that_ends_is_left_alone(bed: &Bed) {
    bed.run(&["import", IMAGE, LIFESIGN]);
    let namespace = bed.namespace("ends");
    let running = agent(bed, &namespace.name);
    let mut ends = pod("ends", "ends", "0s", true);
    ends["spec"]["terminationGracePeriodSeconds"] = 10.into();
    // Long enough to look, whatever the signal says.
    ends["spec"]["containers"][0]["args"].as_array_mut().unwrap().extend([json!("--drain"), json!("8s")]);
    let path = format!("{}/ends", pods(&namespace.name));
    bed.send("POST", &pods(&namespace.name), &ends);
    bed.until("ready", |bed| is_ready(&bed.get(&path)).then_some(()));
    // The condition is the test's from now on.
    assert!(running.stop());
    bed.send("DELETE", &path, &Value::Null);
    let deleted = Instant::now();
    let not_ready = json!({"status": {"conditions": [{"type": CONDITION, "status": "False", "reason": "Tried"}]}});
    let (good, output) = bed.kubectl(
        &[
            "patch",
            "pod",
            "ends",
            "-n",
            &namespace.name,
            "--subresource=status",
            "--type=strategic",
            "-p",
            &not_ready.to_string(),
        ],
        "",
    );
    assert!(good, "{output}");
    let (mut followed, mut looks) = (None, 0);
    while let Some(pod) = bed.find(&path) {
        assert_eq!(condition(&pod, CONDITION)["status"], "False", "nobody else writes it");
        looks += 1;
        if !is_ready(&pod) {
            followed.get_or_insert(deleted.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let gone = deleted.elapsed();
    println!("gate False right after the deletion: Ready followed after {followed:?}, gone after {gone:?}, {looks} looks");
    assert!(looks > 20, "the pod was there long enough to look: {looks}");
}

fn marker_probes_mark_real_pods(bed: &Bed) {
    bed.run(&["import", IMAGE, LIFESIGN]);
    bed.install_definitions();
    let namespace = bed.namespace("marks");
    let controllers = Running::controllers(bed.kubeconfig(), &["--namespace", &namespace.name]);
    let _agent = agent(bed, &namespace.name);
    let idle = json!({"name": "idle", "containerName": "app", "podConditionType": "game.example.com/idle",
        "probe": {"exec": {"command": ["sh", "-c", "test ! -e /busy && echo no players"]}, "initialDelayMilliseconds": 0},
        "markerPolicy": [
            {"state": "Succeeded", "labels": {"idle": "true"}, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}},
            {"state": "Failed", "labels": {"idle": "false"}, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "10"}}]});
    let serves = json!({"name": "serves", "containerName": "app", "probe": {"httpGet": {"port": 8080}, "initialDelayMilliseconds": 0},
        "markerPolicy": [{"state": "Succeeded", "labels": {"serves": "yes"}}]});
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "game"},
        "spec": {"selector": {"matchLabels": {"app": "game"}}, "probes": [idle, serves]}});
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers", namespace.name);
    bed.send("POST", &markers, &marker);
    let mut template = pod("x", "game", "0s", false);
    template["metadata"].as_object_mut().unwrap().remove("name");
    let deployment = json!({"metadata": {"name": "game"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "game"}},
        "template": template}});
    let deployments = format!("/apis/apps/v1/namespaces/{}/deployments", namespace.name);
    bed.send("POST", &deployments, &deployment);
    let label = |pod: &Value, key: &str| pod["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
    let all = |bed: &Bed| bed.list(&format!("{}?labelSelector=app%3Dgame", pods(&namespace.name)));
    let names = bed.until("all idle, all serving", |bed| {
        let pods = all(bed);
        let good = pods.iter().all(|pod| label(pod, "idle") == "true" && label(pod, "serves") == "yes");
        (pods.len() == 3 && good)
            .then(|| pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    });
    for busy in &names[..2] {
        let (good, output) = bed.kubectl(&["-n", &namespace.name, "exec", busy, "--", "sh", "-c", ": > /busy"], "");
        assert!(good, "{output}");
    }
    bed.until("two are busy", |bed| (all(bed).iter().filter(|pod| label(pod, "idle") == "false").count() == 2).then_some(()));
    // The real ReplicaSet controller takes the idle one.
    bed.send("PATCH", &format!("{deployments}/game"), &json!({"spec": {"replicas": 2}}));
    bed.until("one is gone", |bed| {
        let alive = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let left: Vec<String> =
            all(bed).iter().filter(alive).map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        (left.len() == 2).then(|| assert!(names[..2].iter().all(|name| left.contains(name)), "{left:?} of {names:?}"))
    });
    bed.send("DELETE", &format!("{markers}/game"), &Value::Null);
    bed.until("the marker is gone", |bed| (bed.ask("GET", &format!("{markers}/game"), &Value::Null).code == 404).then_some(()));
    assert!(controllers.stop());
}
