//! `lifesign why` on a plane: situations made for real, each with its first broken link. The reader is a viewer: it may not write.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{Up, script, server, until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// What a run of the command said.
struct WhyOutput {
    code: i32,
    out: String,
    err: String,
}

impl WhyOutput {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

fn why(kubeconfig: &Path, arguments: &[&str]) -> WhyOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
    command.arg("why").args(arguments).arg("--kubeconfig").arg(kubeconfig).env_remove("KUBECONFIG");
    let out = command.output().expect("lifesign runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    WhyOutput { code: out.status.code().unwrap_or(-1), out: text(&out.stdout), err: text(&out.stderr) }
}

/// Returns the credentials of a viewer.
fn viewer(up: &Up, folder: &Path) -> PathBuf {
    let out = Command::new(env!("CARGO_BIN_EXE_lifesign"))
        .args(["kubeconfig", "--role", "viewer", "--data-dir"])
        .arg(up.plane.data_dir())
        .output()
        .expect("lifesign runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let path = folder.join("viewer");
    std::fs::write(&path, out.stdout).expect("a file");
    path
}

/// A pod with something of its spec changed.
fn with(mut pod: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut pod["spec"]);
    pod
}

fn container(spec: &mut Value) -> &mut Value {
    &mut spec["containers"][0]
}

/// Every situation: what is asked, the broken link, the cause, a part of the first line.
type Expected = (&'static str, &'static str, &'static str, &'static str);

/// Makes pods, each in another trouble; returns what must be said of them.
fn pods(up: &Up) -> Vec<Expected> {
    let probe = || json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let sleeper = |name: &str| script(name, "sleep 1000");
    let all: Vec<(Value, &str, &str, &str)> = vec![
        (
            with(sleeper("large"), |spec| container(spec)["resources"] = json!({"requests": {"cpu": "640"}})),
            "scheduled",
            "Insufficient",
            "no node has 640 of cpu free",
        ),
        (
            with(sleeper("picky"), |spec| spec["nodeSelector"] = json!({"disktype": "ssd"})),
            "scheduled",
            "NodeSelector",
            "wants disktype=ssd",
        ),
        (with(sleeper("foreign"), |spec| spec["schedulerName"] = json!("fancy")), "scheduled", "NoScheduler", "\"fancy\""),
        (
            with(sleeper("gated"), |spec| spec["schedulingGates"] = json!([{"name": "example.com/queue"}])),
            "scheduled",
            "SchedulingGated",
            "example.com/queue",
        ),
        (
            with(sleeper("no-map"), |spec| container(spec)["envFrom"] = json!([{"configMapRef": {"name": "nowhere"}}])),
            "configuration",
            "MissingConfigMap",
            "nowhere",
        ),
        (
            with(sleeper("no-key"), |spec| {
                container(spec)["env"] =
                    json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "port"}}}])
            }),
            "configuration",
            "MissingKey",
            "no key port",
        ),
        (
            with(sleeper("no-program"), |spec| container(spec)["command"] = json!(["no-such-program"])),
            "image",
            "CannotStart",
            "no-such-program",
        ),
        (script("crash", "exit 3"), "running", "ExitCode", "exit code 3"),
        (script("brief", "exit 0"), "running", "Completed", "exit code 0"),
        (script("segv", "kill -SEGV $$$$"), "running", "Signal", "SIGSEGV"),
        (with(script("failed", "exit 7"), |spec| spec["restartPolicy"] = json!("Never")), "running", "ExitCode", "exit code 7"),
        (
            with(sleeper("init-fails"), |spec| {
                spec["initContainers"] = json!([{"name": "migrate", "image": "none", "command": ["sh", "-c", "exit 1"]}])
            }),
            "init",
            "InitFailed",
            "migrate (1 of 1)",
        ),
        (
            with(sleeper("init-runs"), |spec| {
                spec["initContainers"] = json!([{"name": "wait", "image": "none", "command": ["sleep", "1000"]}])
            }),
            "init",
            "InitRunning",
            "wait (1 of 1) runs",
        ),
        (
            with(sleeper("silent"), |spec| container(spec)["readinessProbe"] = probe()),
            "readiness",
            "ConnectionRefused",
            "nobody listens",
        ),
        (server("sick", &["--status", "503"]), "readiness", "ProbeStatus", "503"),
        (
            with(sleeper("slow"), |spec| {
                container(spec)["startupProbe"] = probe();
                container(spec)["startupProbe"]["failureThreshold"] = json!(600);
            }),
            "startup",
            "ConnectionRefused",
            "startup probe of container main",
        ),
        (
            with(sleeper("checked"), |spec| {
                container(spec)["readinessProbe"] = json!({"exec": {"command": ["false"]}, "periodSeconds": 1})
            }),
            "readiness",
            "ProbeFailed",
            "the readiness probe of container main fails",
        ),
        (
            with(sleeper("half"), |spec| spec["readinessGates"] = json!([{"conditionType": "example.com/lb"}])),
            "gates",
            "GateMissing",
            "example.com/lb",
        ),
        (
            with(server("killed", &["--status", "500"]), |spec| {
                spec["containers"][0]["livenessProbe"] = probe();
                spec["containers"][0]["livenessProbe"]["failureThreshold"] = json!(1);
            }),
            "running",
            "KilledByLivenessProbe",
            "liveness probe failed",
        ),
    ];
    all.into_iter()
        .map(|(pod, link, cause, part)| {
            up.create_pod(&pod);
            let name: &'static str =
                Box::leak(format!("pod/{}", pod["metadata"]["name"].as_str().expect("a name")).into_boxed_str());
            (name, link, cause, part)
        })
        .collect()
}

fn services(up: &Up) -> Vec<Expected> {
    let service = |name: &str, spec: Value| {
        let (code, answer) = up.call("POST", SERVICES, &json!({"metadata": {"name": name}, "spec": spec}));
        assert_eq!(code, 201, "{answer}");
    };
    let port = json!([{"port": 80, "targetPort": 8080}]);
    service("web", json!({"selector": {"app": "web"}, "ports": port}));
    service("slip", json!({"selector": {"app": "wbe"}, "ports": port}));
    service("named", json!({"selector": {"app": "ported"}, "ports": [{"port": 80, "targetPort": "http"}]}));
    service("bare", json!({"ports": port}));
    service("down", json!({"selector": {"app": "sick"}, "ports": port}));
    service("away", json!({"type": "ExternalName", "externalName": "192.0.2.1"}));
    vec![
        ("svc/slip", "pods", "SelectorMismatch", "wants app=wbe, the pod has app=web"),
        ("svc/named", "port", "PortName", "\"http\""),
        ("svc/bare", "selector", "NoSelector", "no selector"),
        ("svc/down", "pods", "ProbeStatus", "pod/sick: readiness"),
        ("svc/away", "selector", "ExternalNameIsAddress", "192.0.2.1"),
        ("deploy/none", "replicas", "ScaledToZero", "scaled to 0"),
    ]
}

#[test]
fn every_situation_has_its_first_broken_link() {
    let up = Up::start();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = viewer(&up, folder.path());
    let (code, answer) = up.call(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        &json!({"metadata": {"name": "settings"}, "data": {"host": "a"}}),
    );
    assert_eq!(code, 201, "{answer}");
    let empty = json!({"metadata": {"name": "none"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "none"}}, "template": {"metadata": {"labels": {"app": "none"}}, "spec": {"containers": [{"name": "a", "image": "none"}]}}}});
    let (code, answer) = up.call("POST", "/apis/apps/v1/namespaces/default/deployments", &empty);
    assert_eq!(code, 201, "{answer}");
    let mut held = script("held", "sleep 1000");
    held["metadata"]["finalizers"] = json!(["example.com/cleanup"]);
    up.create_pod(&held);
    up.create_pod(&server("web", &[]));
    up.create_pod(&server("ported", &[]));
    let mut expected = pods(&up);
    expected.extend(services(&up));
    up.wait_ready("web");
    up.wait_ready("ported");
    // A finalizer holds it when its container has stopped.
    up.wait_for(PODS, "held", "running", |pod| pod["status"]["phase"] == "Running");
    assert_eq!(up.call("DELETE", &format!("{PODS}/held"), &Value::Null).0, 200);
    expected.push(("pod/held", "exists", "Finalizers", "example.com/cleanup"));
    for (object, link, cause, part) in expected {
        let ask = || why(&kubeconfig, &[object, "-o", "json"]);
        let good = |described: &WhyOutput| {
            let answer = described.json();
            described.code == 1
                && answer["broken"] == link
                && answer["finding"]["cause"] == cause
                && answer["headline"].as_str().is_some_and(|line| line.contains(part))
        };
        let last = std::cell::RefCell::new(String::new());
        until(&format!("{object}: {link}, {cause}, {part}"), || {
            let described = ask();
            let done = good(&described);
            if !done && *last.borrow() != described.out {
                eprintln!("{object}: exit {} {}", described.code, described.out);
                *last.borrow_mut() = described.out;
            }
            done
        });
        let text = why(&kubeconfig, &[object]);
        assert!(text.out.lines().count() <= 40, "{}", text.out);
        assert!(text.out.contains("BROKEN") && text.out.contains("what to do:"), "{}", text.out);
    }
    healthy_ones(&up, &kubeconfig);
    strangers(&kubeconfig, folder.path());
    cordoned(&up, &kubeconfig);
}

/// What is well is said in one line, with its times, from few requests.
fn healthy_ones(up: &Up, kubeconfig: &Path) {
    let mut done = script("done", "exit 0");
    done["spec"]["restartPolicy"] = json!("Never");
    up.create_pod(&done);
    up.wait_for(PODS, "done", "done", |pod| pod["status"]["phase"] == "Succeeded");
    // Node heartbeats are in whole seconds of another process: all that is needed is that they are told.
    for (object, part, requests) in
        [("pod/web", "is ready since", 6), ("svc/web", "1 usable endpoint", 3), ("pod/done", "completed", 2)]
    {
        let described = why(kubeconfig, &[object]);
        assert_eq!((described.code, described.out.lines().count()), (0, 1), "{}{}", described.out, described.err);
        assert!(described.out.contains(part), "{}", described.out);
        assert_eq!(why(kubeconfig, &[object, "-o", "json"]).json()["requests"], requests, "{object}");
    }
    // The kind may be a word of its own, and a pod is what is meant by a name.
    assert_eq!(why(kubeconfig, &["pod", "web"]).code, 0);
    assert_eq!(why(kubeconfig, &["web"]).code, 0);
    // Several files, of which those that are not there do not count.
    let list = std::env::join_paths([Path::new("no-such-kubeconfig"), kubeconfig]).expect("paths without a separator");
    assert_eq!(why(Path::new(&list), &["web"]).code, 0);
}

/// What is not there, may not be asked, or cannot be reached.
fn strangers(kubeconfig: &Path, folder: &Path) {
    let missing = why(kubeconfig, &["pod/nobody"]);
    assert_eq!(missing.code, 1);
    assert!(missing.out.contains("there is no pod/nobody in namespace default"), "{}", missing.out);
    let elsewhere = why(kubeconfig, &["pod/web", "-n", "kube-system"]);
    assert_eq!(elsewhere.code, 1);
    assert!(
        elsewhere.out.contains("but in default") && elsewhere.out.contains("lifesign why pod/web -n default"),
        "{}",
        elsewhere.out
    );
    let unknown = why(kubeconfig, &["ingress/web"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("unknown kind \"ingress\"") && unknown.err.contains("svc/NAME"), "{}", unknown.err);
    // The namespace of the context counts.
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let moved = folder.join("moved");
    let changed = text.replace("    namespace: default", "    namespace: kube-system");
    assert_ne!(changed, text, "a context names its namespace");
    std::fs::write(&moved, changed).expect("a file");
    let there = why(&moved, &["pod/web"]);
    assert!(there.code == 1 && there.out.contains("not in namespace kube-system"), "{}{}", there.out, there.err);
    // A port that nobody listens on: it was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let server = text.lines().find(|line| line.contains("server:")).expect("a server");
    let silent = folder.join("silent");
    std::fs::write(&silent, text.replace(server, &format!("    server: https://{free}"))).expect("a file");
    let gone = why(&silent, &["pod/web"]);
    assert_eq!(gone.code, 2, "{}{}", gone.out, gone.err);
    assert!(
        gone.out.contains("cannot tell") && gone.out.contains(&free.to_string()) && gone.out.contains("refused"),
        "{}",
        gone.out
    );
    assert_eq!(gone.out.matches("cannot be reached").count(), 1, "{}", gone.out);
}

fn cordoned(up: &Up, kubeconfig: &Path) {
    let nodes = up.get("/api/v1/nodes");
    let name = nodes["items"][0]["metadata"]["name"].as_str().expect("a node").to_owned();
    let object = format!("node/{name}");
    let well = why(kubeconfig, &[&object]);
    assert_eq!((well.code, well.out.lines().count()), (0, 1), "{}", well.out);
    assert!(well.out.contains("is Ready since") && well.out.contains("heartbeat"), "{}", well.out);
    let (code, answer) = up.call("PATCH", &format!("/api/v1/nodes/{name}"), &json!({"spec": {"unschedulable": true}}));
    assert_eq!(code, 200, "{answer}");
    let described = why(kubeconfig, &[&object, "-o", "json"]);
    assert_eq!((described.code, described.json()["finding"]["cause"].as_str()), (1, Some("Cordoned")), "{}", described.out);
}
