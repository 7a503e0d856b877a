//! The stock scheduler, controller manager, kubelet and kube-proxy on `lifesign apiserver`, in a bed of their own: a Deployment lives its
//! life there, and no component is refused anything that is not listed here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::bed::Bed;
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("components::a_deployment_lives_on_stock_components_and_lifesign_apiserver", deployment)];

/// Whose logs are read.
const COMPONENTS: [&str; 4] = ["kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy"];

/// How clients of Go say in their logs that they were answered with 403, 404, 405, 406 or 415.
const REFUSED: [&str; 8] = [
    "is forbidden",
    "forbidden:",
    "\" not found",
    "could not find the requested resource",
    "unknown format",
    "nsupported media type",
    "does not allow this method",
    "not acceptable",
];

/// What they may be told all the same: whose log, what is in the line, why. docs/compatibility.md says it too.
const EXPECTED: [(&str, &str, &str); 3] = [
    ("kubelet", "node \\\"bed\\\" not found", "looks for its Node before it has registered it"),
    ("kubelet", "nodes \\\"bed\\\" not found", "the same, asked of the API server"),
    (
        "kube-controller-manager",
        "kube-apiserver-legacy-service-account-token-tracking",
        "tokens of that kind are not made here, so nothing tracks them",
    ),
];

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: IMAGE
        imagePullPolicy: Never
        command: [/bin/bed, serve, "8080", "0"]
        env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
"#;

/// A bed whose API server is the program under test; it goes with the test.
struct Components {
    bed: Bed,
}

impl Components {
    fn start(beside: &Bed) -> Components {
        let mut started = Components { bed: beside.another("components") };
        started.bed.run(&["start", &format!("--lifesign={LIFESIGN}")]);
        started.bed.ask_environment();
        started
    }

    /// Runs kubectl, which must succeed.
    fn kubectl(&self, line: &str, stdin: &str) -> String {
        let (good, output) = self.bed.kubectl(&line.split(' ').collect::<Vec<_>>(), stdin);
        assert!(good, "kubectl {line}: {output}\n{}", self.logs());
        output
    }

    fn log(&self, component: &str) -> String {
        let path: PathBuf = self.bed.root.join("var/log").join(format!("{component}.log"));
        String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
    }

    /// The end of every log, for whoever reads why a test failed.
    fn logs(&self) -> String {
        let end = |component: &&str| {
            let log = self.log(component);
            let lines: Vec<&str> = log.lines().collect();
            format!("--- {component}\n{}\n", lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        COMPONENTS.iter().chain(&["apiserver"]).map(end).collect()
    }
}

impl Drop for Components {
    fn drop(&mut self) {
        self.bed.run(&["stop"]);
    }
}

fn deployment(bed: &Bed) {
    let components = Components::start(bed);
    let bed = &components.bed;
    components.kubectl("apply -f -", &WEB.replace("IMAGE", &bed.image));
    components.kubectl("rollout status deployment/web --timeout=90s", "");
    assert_eq!(ready(bed), 3);
    let before = hashes(bed);
    assert_eq!(before.len(), 1, "one template: {before:?}");

    components.kubectl("set env deployment/web ROUND=2", "");
    components.kubectl("rollout status deployment/web --timeout=90s", "");
    bed.until("the old pods are gone", |bed| (hashes(bed).len() == 1 && hashes(bed) != before).then_some(()));

    components.kubectl("scale deployment/web --replicas=5", "");
    components.kubectl("rollout status deployment/web --timeout=90s", "");
    assert_eq!(ready(bed), 5);

    serves(bed);
    streams(&components);

    components.kubectl("delete deployment/web service/web --timeout=60s", "");
    bed.until("the pods are gone", |bed| hashes(bed).is_empty().then_some(()));
    nothing_was_refused(&components);
    nothing_was_counted_as_refused(&components);
    // Specs of the suite of Kubernetes about what Lifesign stores for others. It fails when one does, or is not there.
    let ran = bed.run(&["conformance", "--components"]);
    assert!(ran.contains("Ran "), "{ran}");
}

fn ready(bed: &Bed) -> u64 {
    bed.get("/apis/apps/v1/namespaces/default/deployments/web")["status"]["readyReplicas"].as_u64().unwrap_or(0)
}

/// Returns the templates of the pods that there are.
fn hashes(bed: &Bed) -> Vec<String> {
    let pods = bed.list("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb");
    let hash = |pod: &Value| pod["metadata"]["labels"]["pod-template-hash"].as_str().unwrap().to_owned();
    let mut found: Vec<String> = pods.iter().map(hash).collect();
    found.sort();
    found.dedup();
    found
}

/// The address of the Service leads to its pods: slices of the controller manager, rules of kube-proxy.
fn serves(bed: &Bed) {
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb";
    bed.until("five endpoints are ready", |bed| {
        let slices = bed.list(slices);
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
        (endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == 5).then_some(())
    });
    let service = bed.get("/api/v1/namespaces/default/services/web");
    let address = format!("{}:80", service["spec"]["clusterIP"].as_str().unwrap()).parse().unwrap();
    let answer = bed.until("the Service answers", |_| {
        let mut connection = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        connection.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        Some(answer)
    });
    assert!(answer.ends_with("ok\n"), "{answer}");
}

/// Logs and commands go through the API server to the kubelet.
fn streams(components: &Components) {
    let log = components.kubectl("logs deployment/web", "");
    assert!(log.contains("listening "), "{log}");
    assert_eq!(components.kubectl("exec -i deployment/web -- cat", "a line\n"), "a line\n");
    let (good, output) = components.bed.kubectl(&["exec", "deployment/web", "--", "sh", "-c", "echo out; exit 7"], "");
    assert!(!good && output.starts_with("out\n") && output.contains("exit code 7"), "{output}");
    // The volume of the pod's account, with a token that the kubelet has asked for.
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert_eq!(components.kubectl(&format!("exec deployment/web -- cat {account}/namespace"), ""), "default");
    let token = components.kubectl(&format!("exec deployment/web -- cat {account}/token"), "");
    let own =
        components.bed.call_as(&token, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &serde_json::json!({}));
    assert_eq!(own.json()["status"]["userInfo"]["username"], "system:serviceaccount:default:default");
}

fn nothing_was_refused(components: &Components) {
    let unexpected = |component: &&str| {
        let refused = |line: &&str| REFUSED.iter().any(|text| line.contains(text));
        let expected = |line: &str| EXPECTED.iter().any(|(name, text, _)| name == component && line.contains(text));
        let log = components.log(component);
        assert!(!log.is_empty(), "{component} has no log");
        let lines = log.lines().filter(refused).filter(|line| !expected(line)).map(|line| format!("{component}: {line}\n"));
        lines.collect::<String>()
    };
    let unexpected: String = COMPONENTS.iter().map(unexpected).collect();
    assert!(unexpected.is_empty(), "refused:\n{unexpected}");
}

/// The server's own count of what it refused, of all clients: nothing is forbidden, no body is not understood, and what is not found
/// was asked for by name, as one asks whether something is there.
fn nothing_was_counted_as_refused(components: &Components) {
    let (good, metrics) = components.bed.kubectl(&["get", "--raw", "/metrics"], "");
    assert!(good, "{metrics}");
    let counts = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let refused =
        |line: &&str| ["403", "404", "405", "406", "415"].iter().any(|code| line.contains(&format!("code=\"{code}\"")));
    // Something that is not served has no name in the count.
    let of_something = |line: &str| !line.contains(",resource=\"\"") && !line.contains("{resource=\"\"");
    let by_name =
        |line: &str| ["get", "delete", "update", "patch"].iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")));
    let asks = |line: &&str| line.contains("code=\"404\"") && of_something(line) && by_name(line);
    let (asked, unexpected): (Vec<&str>, Vec<&str>) = counts.filter(refused).partition(asks);
    println!("not found, asked by name:\n{}", asked.join("\n"));
    assert!(unexpected.is_empty(), "refused:\n{}", unexpected.join("\n"));
}
