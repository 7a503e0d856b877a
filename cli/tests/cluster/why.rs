//! `lifesign why` on a real cluster, where nothing of ours is installed: what a stock kubelet and stock controllers leave in objects and
//! events is enough for the first broken link.

use std::process::Command;

use serde_json::{Value, json};

use crate::bed::{Bed, Namespace};
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("why::every_situation_has_its_first_broken_link", every_situation_has_its_first_broken_link)];

/// Every situation: what is asked, the broken link, the cause, a part of the first line.
type Expected = (String, &'static str, &'static str, &'static str);

/// Returns a pod of one container that runs a script.
fn pod(bed: &Bed, name: &str, run: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": bed.image, "imagePullPolicy": "Never", "command": ["sh", "-c", run]}]}});
    change(&mut pod["spec"]);
    pod
}

fn pods(bed: &Bed) -> Vec<(Value, &'static str, &'static str, &'static str)> {
    let probe = || json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let sleeps = |name: &str, change: fn(&mut Value, Value)| pod(bed, name, "sleep 1000", |spec| change(spec, probe()));
    let sick = "while :; do printf 'HTTP/1.1 503 Busy\\r\\nContent-Length: 0\\r\\n\\r\\n' | nc -l -p 8080; done";
    vec![
        (
            sleeps("large", |spec, _| spec["containers"][0]["resources"] = json!({"requests": {"cpu": "640"}})),
            "scheduled",
            "Insufficient",
            "no node has 640 of cpu free",
        ),
        (
            sleeps("picky", |spec, _| spec["nodeSelector"] = json!({"disktype": "ssd"})),
            "scheduled",
            "NodeSelector",
            "wants disktype=ssd",
        ),
        (
            sleeps("gated", |spec, _| spec["schedulingGates"] = json!([{"name": "example.com/queue"}])),
            "scheduled",
            "SchedulingGated",
            "example.com/queue",
        ),
        (
            sleeps("no-map", |spec, _| spec["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "nowhere"}}])),
            "configuration",
            "MissingConfigMap",
            "nowhere",
        ),
        (
            sleeps("no-image", |spec, _| spec["containers"][0]["image"] = json!("lifesign.local/nowhere:1")),
            "image",
            "ErrImageNeverPull",
            "lifesign.local/nowhere:1",
        ),
        (
            sleeps("no-program", |spec, _| spec["containers"][0]["command"] = json!(["no-such-program"])),
            "image",
            "CannotStart",
            "no-such-program",
        ),
        (pod(bed, "crash", "exit 3", |_| {}), "running", "ExitCode", "exit code 3"),
        (
            sleeps("init-fails", |spec, _| {
                let image = spec["containers"][0]["image"].clone();
                spec["initContainers"] = json!([{"name": "migrate", "image": image, "imagePullPolicy": "Never",
                    "command": ["sh", "-c", "exit 1"]}]);
            }),
            "init",
            "InitFailed",
            "migrate (1 of 1)",
        ),
        (
            sleeps("silent", |spec, probe| spec["containers"][0]["readinessProbe"] = probe),
            "readiness",
            "ConnectionRefused",
            "nobody listens",
        ),
        (pod(bed, "sick", sick, |spec| spec["containers"][0]["readinessProbe"] = probe()), "readiness", "ProbeStatus", "503"),
        (
            sleeps("half", |spec, _| spec["readinessGates"] = json!([{"conditionType": "example.com/lb"}])),
            "gates",
            "GateMissing",
            "example.com/lb",
        ),
        (
            sleeps("killed", |spec, probe| {
                spec["containers"][0]["livenessProbe"] = probe;
                spec["containers"][0]["livenessProbe"]["failureThreshold"] = json!(1);
            }),
            "running",
            "KilledByLivenessProbe",
            "liveness probe failed",
        ),
    ]
}

fn services(bed: &Bed, namespace: &Namespace<'_>) -> Vec<Expected> {
    bed.send("POST", &format!("/api/v1/namespaces/{}/pods", namespace.name), &pod(bed, "web", "sleep 1000", |_| {}));
    for (name, selector) in [("slip", "wbe"), ("down", "sick")] {
        let spec = json!({"selector": {"app": selector}, "ports": [{"port": 80, "targetPort": 8080}]});
        let path = format!("/api/v1/namespaces/{}/services", namespace.name);
        bed.send("POST", &path, &json!({"metadata": {"name": name}, "spec": spec}));
    }
    vec![
        ("svc/slip".to_owned(), "pods", "SelectorMismatch", "wants app=wbe, the pod has app=web"),
        ("svc/down".to_owned(), "pods", "ProbeStatus", "pod/sick: readiness"),
    ]
}

fn why(bed: &Bed, namespace: &str, what: &str) -> (i32, Value, String) {
    let mut command = Command::new(LIFESIGN);
    command.args(["why", what, "-n", namespace, "-o", "json", "--kubeconfig"]).arg(bed.kubeconfig());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
    (output.status.code().unwrap_or(-1), serde_json::from_slice(&output.stdout).unwrap_or_default(), text)
}

fn every_situation_has_its_first_broken_link(bed: &Bed) {
    let namespace = bed.namespace("why");
    let mut expected = Vec::new();
    for (pod, link, cause, part) in pods(bed) {
        bed.send("POST", &format!("/api/v1/namespaces/{}/pods", namespace.name), &pod);
        expected.push((format!("pod/{}", pod["metadata"]["name"].as_str().unwrap()), link, cause, part));
    }
    expected.extend(services(bed, &namespace));
    for (what, link, cause, part) in &expected {
        let mut last = String::new();
        let found = |bed: &Bed| {
            let (code, answer, text) = why(bed, &namespace.name, what);
            last = text;
            let line = answer["headline"].as_str().unwrap_or_default();
            (code == 1 && answer["broken"] == *link && answer["finding"]["cause"] == *cause && line.contains(part))
                .then_some(())
        };
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bed.until(what, found)));
        assert!(waited.is_ok(), "{what}: wanted {link} {cause} {part:?}, the answer was\n{last}");
    }
    bed.send("POST", &format!("/api/v1/namespaces/{}/pods", namespace.name), &pod(bed, "fine", "sleep 1000", |_| {}));
    bed.until("a pod without a probe is well", |bed| (why(bed, &namespace.name, "pod/fine").0 == 0).then_some(()));
}
