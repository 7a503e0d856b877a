//! `lifesign install` on a real cluster, from nothing to nothing: what is installed works, may do what it must and no more, and
//! goes without a trace.

use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bed::{Bed, Namespace};
use crate::{LIFESIGN, Test, installed, latency, worked};

pub(crate) const TESTS: &[(&str, Test)] = &[("installation::from_nothing_to_nothing", from_nothing_to_nothing)];

pub(crate) const NAMESPACE: &str = "lifesign-system";
/// What is installed: the static program and nothing else, as in releases.
const IMAGE: &str = "lifesign.local/lifesign:installation";
/// What the pods of tests run: the program beside a shell.
pub(crate) const POD_IMAGE: &str = "lifesign.local/lifesign:pods";
const CONTROLLERS: &str = "app.kubernetes.io/component=controllers";
const ASKS: &str = r#"{"app": {"readinessProbe": {"periodMilliseconds": -800}}}"#;

/// One installation serves all steps: it takes longer than any of them.
fn from_nothing_to_nothing(bed: &Bed) {
    import_images(bed);
    let check = lifesign(bed, &["--check"]);
    assert!(check.0, "a cluster without Lifesign is fit: {}", check.1);
    install(bed);
    let namespace = bed.namespace("installed");
    certificates_are_made_and_trusted(bed);
    pods_that_do_not_ask_never_reach_the_webhook(bed, &namespace);
    a_pod_that_asks_is_moved_and_frozen(bed, &namespace);
    a_probe_that_fails_tells_its_story(bed, &namespace);
    latency::pods_are_ready_soon_after_they_listen(bed, &namespace);
    bad_annotations_are_refused_with_the_field(bed, &namespace);
    bad_markers_are_refused_with_the_field(bed, &namespace);
    installed::restarts_lose_no_ready(bed, &namespace);
    worked::roles_follow_the_primary(bed, &namespace);
    worked::idle_servers_go_first(bed, &namespace);
    rights_are_the_golden_ones(bed);
    an_agent_writes_for_its_node_only(bed, &namespace);
    controllers_change_marks_and_conditions_only(bed, &namespace);
    installing_again_keeps_the_certificates(bed);
    without_the_webhook_the_kubelet_probes(bed, &namespace);
    removal_leaves_nothing_and_disturbs_no_pod(bed, &namespace);
}

/// Gives the node what is installed, and what the pods of tests run.
pub(crate) fn import_images(bed: &Bed) {
    bed.run(&["image", IMAGE, &static_program()]);
    bed.run(&["import", POD_IMAGE, LIFESIGN]);
}

/// Returns where the program is that images of releases have, but not optimised; it is built if it is not there.
pub(crate) fn static_program() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/static");
    let output = Command::new(script).arg("--debug").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs `lifesign install` against the cluster; returns whether it succeeded, and what it printed.
pub(crate) fn lifesign(bed: &Bed, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(LIFESIGN);
    command.args(["install", "--image", IMAGE]).args(arguments).env("KUBECONFIG", bed.kubeconfig());
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn apply(bed: &Bed) {
    let (good, manifests) = lifesign(bed, &[]);
    assert!(good, "{manifests}");
    let (good, output) = bed.kubectl(&["apply", "--validate=strict", "-f", "-"], &manifests);
    assert!(good, "{output}");
    let status = ["rollout", "status", "-n", NAMESPACE, "deployment/lifesign-controllers", "--timeout=90s"];
    let (good, output) = bed.kubectl(&status, "");
    let (_, pods) = bed.kubectl(&["describe", "pods", "-n", NAMESPACE], "");
    assert!(good, "{output}{pods}");
}

fn install(bed: &Bed) {
    apply(bed);
    // A replica is Ready when it has a certificate; the Service must have both before anything relies on it.
    bed.until("two endpoints of the webhook", |bed| {
        let slices = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices?labelSelector=kubernetes.io/service-name%3Dlifesign-webhook"
        );
        let ready = |slice: &Value| slice["endpoints"].as_array().map_or(0, |all| {
            all.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
        });
        (bed.list(&slices).iter().map(ready).sum::<usize>() == 2).then_some(())
    });
}

fn secret(bed: &Bed) -> Value {
    bed.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/lifesign-webhook"))["data"].clone()
}

/// Returns what both configurations trust, webhook by webhook.
fn trusted(bed: &Bed) -> Vec<Value> {
    let of = |kind: &str| bed.get(&format!("/apis/admissionregistration.k8s.io/v1/{kind}/lifesign"));
    let configurations = [of("mutatingwebhookconfigurations"), of("validatingwebhookconfigurations")];
    let webhooks = configurations.iter().flat_map(|found| found["webhooks"].as_array().unwrap());
    webhooks.map(|webhook| webhook["clientConfig"]["caBundle"].clone()).collect()
}

fn certificates_are_made_and_trusted(bed: &Bed) {
    let secret = secret(bed);
    let authority = STANDARD.decode(secret["ca.crt"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(authority).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    bed.until("configurations that trust the authority", |bed| {
        let trusted = trusted(bed);
        (trusted.len() == 2 && trusted.iter().all(|bundle| *bundle == secret["ca.crt"])).then_some(())
    });
}

/// Returns how many reviews of pods all replicas have answered.
fn reviews(bed: &Bed) -> u64 {
    let pods = bed.list(&format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={}", CONTROLLERS.replace('=', "%3D")));
    let count = |pod: &Value| {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}:8080/proxy/metrics");
        let (good, text) = bed.kubectl(&["get", "--raw", &path], "");
        assert!(good, "{text}");
        let lines = text.lines().filter(|line| line.starts_with("lifesign_admission_reviews_total{resource=\"pods\""));
        let counts: Vec<u64> = lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(counts.len(), 4, "{text}");
        counts.iter().sum::<u64>()
    };
    pods.iter().map(count).sum()
}

/// Returns a pod whose one container listens on a port; `annotations` are its own.
fn server(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": POD_IMAGE, "imagePullPolicy": "Never",
            "command": ["lifesign", "serve", "--address", "0.0.0.0", "--port", "8080"],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}]}})
}

fn ready(bed: &Bed, namespace: &Namespace<'_>, name: &str) -> Value {
    bed.until(&format!("{name} is ready"), |bed| {
        let pod = bed.get(&format!("/api/v1/namespaces/{}/pods/{name}", namespace.name));
        is_ready(&pod).then_some(pod)
    })
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

fn pods_that_do_not_ask_never_reach_the_webhook(bed: &Bed, namespace: &Namespace<'_>) {
    assert_eq!(reviews(bed), 0);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "silent"}, "spec": {
        "replicas": 50, "selector": {"matchLabels": {"app": "silent"}},
        "template": {"metadata": {"labels": {"app": "silent"}, "annotations": {"example.com/a": "b"}}, "spec": {
            "schedulerName": "nobody", "automountServiceAccountToken": false,
            "containers": [{"name": "app", "image": bed.image, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}]}}}});
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", namespace.name);
    bed.send("POST", &path, &deployment);
    // Webhooks are asked when a pod is made; whether it runs is nothing to them.
    bed.until("50 pods", |bed| (bed.get(&format!("{path}/silent"))["status"]["replicas"] == 50).then_some(()));
    assert_eq!(reviews(bed), 0, "none of 50 pods waited for the webhook");
    bed.send("DELETE", &format!("{path}/silent"), &json!({"propagationPolicy": "Background"}));
}

fn a_pod_that_asks_is_moved_and_frozen(bed: &Bed, namespace: &Namespace<'_>) {
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    let pod = bed.send("POST", &pods, &server("moved", json!({"lifesign.dev/probes": ASKS})));
    assert!(pod["spec"]["containers"][0].get("readinessProbe").is_none(), "{pod}");
    assert_eq!(pod["spec"]["readinessGates"], json!([{"conditionType": "lifesign.dev/ready"}]));
    let moved: Value =
        serde_json::from_str(pod["metadata"]["annotations"]["lifesign.dev/moved-probes"].as_str().unwrap()).unwrap();
    assert_eq!((&moved["app"]["periodMilliseconds"], &moved["app"]["tcpSocket"]["port"]), (&json!(-800), &json!(8080)));
    assert_eq!(reviews(bed), 1);
    for annotation in ["lifesign.dev/probes", "lifesign.dev/moved-probes"] {
        for value in [json!("{}"), Value::Null] {
            let answer = bed.ask("PATCH", &format!("{pods}/moved"), &json!({"metadata": {"annotations": {annotation: value}}}));
            assert_eq!(answer.code, 422, "{}", answer.json());
            let message = answer.json()["message"].to_string();
            assert!(message.contains(&format!("metadata.annotations[{annotation}]: Forbidden")), "{message}");
        }
    }
    bed.send("PATCH", &format!("{pods}/moved"), &json!({"metadata": {"annotations": {"example.com/other": "x"}}}));
    bed.send("DELETE", &format!("{pods}/moved"), &Value::Null);
}

/// `kubectl describe pod`, and what the agent of the node serves there.
fn a_probe_that_fails_tells_its_story(bed: &Bed, namespace: &Namespace<'_>) {
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    let mut pod = server("silent", json!({"lifesign.dev/probes": ASKS}));
    pod["spec"]["containers"][0]["command"] = json!(["sleep", "3600"]);
    bed.send("POST", &pods, &pod);
    let (ip, text) = bed.until("an event with the address", |bed| {
        let ip = bed.get(&format!("{pods}/silent"))["status"]["podIP"].as_str()?.to_owned();
        let (_, text) = bed.kubectl(&["describe", "pod", "-n", &namespace.name, "silent"], "");
        let story = format!("Readiness probe failed: tcp {ip}:8080: connection refused");
        (text.contains("Unhealthy") && text.contains(&story)).then_some((ip, text))
    });
    assert!(text.contains("lifesign.dev/ready"), "the gate is shown: {text}");
    let agent = |path: &str| bed.run(&["exec", "busybox", "wget", "-qO-", &format!("http://127.0.0.1:10270{path}")]);
    let metrics = agent("/metrics");
    assert!(metrics.contains("lifesign_probe_knocks_total"), "{metrics}");
    let probes: Value = serde_json::from_str(&agent("/debug/probes")).unwrap();
    assert!(probes.to_string().contains("silent") && probes.to_string().contains("connection refused"), "{ip}: {probes:#}");
    bed.send("DELETE", &format!("{pods}/silent"), &json!({"gracePeriodSeconds": 0}));
}

fn bad_annotations_are_refused_with_the_field(bed: &Bed, namespace: &Namespace<'_>) {
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    let mut elsewhere = server("bad", json!({"lifesign.dev/probes": ASKS}));
    elsewhere["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 8080, "host": "example.com"}});
    let answer = bed.ask("POST", &pods, &elsewhere);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(answer.code, 422, "{message}");
    assert!(message.contains("metadata.annotations[lifesign.dev/probes][app].readinessProbe"), "{message}");
    assert!(message.contains("host"), "{message}");
    for (annotation, field) in [
        (
            r#"{"app": {"readinessProbe": {"periodMilliseconds": -801}}}"#,
            "[app].readinessProbe.periodMilliseconds: Invalid value: -801",
        ),
        (r#"{"other": {"readinessProbe": {}}}"#, "[other]: Not found"),
        (r#"{"app": {"livenessProbe": {}}}"#, "[app].livenessProbe: Forbidden"),
        (r#"{"app": {"startupProbe": {}}}"#, "[app].startupProbe: Forbidden"),
        (r#"{"app": {"readinessProbe": {"periodSeconds": 2}}}"#, "[app].readinessProbe.periodSeconds"),
        ("fast", ": Invalid value: \"fast\""),
    ] {
        let answer = bed.ask("POST", &pods, &server("bad", json!({"lifesign.dev/probes": annotation})));
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(answer.code, 422, "{message}");
        assert!(message.contains(&format!("metadata.annotations[lifesign.dev/probes]{field}")), "{message}");
    }
}

fn bad_markers_are_refused_with_the_field(bed: &Bed, namespace: &Namespace<'_>) {
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers", namespace.name);
    let marker = |port: i64| {
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "m"}, "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "probes": [{"name": "p", "containerName": "c", "podConditionType": "example.com/p",
                "probe": {"httpGet": {"port": port}, "periodSeconds": 1, "periodMilliseconds": -900}}]}})
    };
    let answer = bed.ask("POST", &markers, &marker(80));
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(answer.code, 422, "{message}");
    assert!(message.contains("spec.probes[0].probe.periodMilliseconds"), "{message}");
}

fn rights_are_the_golden_ones(bed: &Bed) {
    for account in ["controllers", "agent"] {
        rights_are_golden(bed, account);
    }
}

/// Checks that an account of ours may do exactly what is written down.
pub(crate) fn rights_are_golden(bed: &Bed, account: &str) {
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:lifesign-{account}");
    let (good, output) = bed.kubectl(&["auth", "can-i", "--list", "-n", NAMESPACE, &user], "");
    assert!(good, "{output}");
    // The width of the columns and the order of the lines say nothing.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = output.lines().skip(1).map(words).collect();
    lines.sort();
    lines.dedup();
    let path = format!("{}/tests/cluster/golden/{account}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = lines.join("\n") + "\n";
    if std::env::var_os("LIFESIGN_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "rights of {account}: {path}");
}

/// Returns a token of a service account, bound to a pod if one is named.
fn token(bed: &Bed, account: &str, pod: Option<&Value>) -> String {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let mut spec = json!({"expirationSeconds": 600});
    if let Some(pod) = pod {
        spec["boundObjectRef"] =
            json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]});
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    bed.send("POST", &path, &request)["status"]["token"].as_str().unwrap().to_owned()
}

/// A conditions patch.
fn condition(type_: &str) -> Value {
    json!({"status": {"conditions": [{"type": type_, "status": "True", "reason": "Tried"}]}})
}

fn refused(bed: &Bed, token: &str, path: &str, patch: &Value, why: &str) {
    let answer = bed.patch_as(token, path, patch);
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(answer.code == 403 && message.contains(why), "{path} {patch}: {} {message}", answer.code);
}

fn an_agent_writes_for_its_node_only(bed: &Bed, namespace: &Namespace<'_>) {
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    bed.send("POST", &pods, &server("here", json!({})));
    ready(bed, namespace, "here");
    // Nobody runs this one: its node has no kubelet.
    let mut elsewhere = server("elsewhere", json!({}));
    elsewhere["spec"]["nodeName"] = "elsewhere".into();
    bed.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": "elsewhere"}}));
    bed.send("POST", &pods, &elsewhere);
    let agents = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Dagent");
    let agent = bed.until("an agent on the node", |bed| {
        bed.list(&agents).into_iter().find(|pod| pod["spec"]["nodeName"] == bed.node.as_str())
    });
    let own = token(bed, "lifesign-agent", Some(&agent));
    let status = |name: &str| format!("{pods}/{name}/status");
    let ours = condition("lifesign.dev/ready");
    assert_eq!(bed.patch_as(&own, &status("here"), &ours).code, 200);
    refused(bed, &own, &status("elsewhere"), &ours, "of another node");
    refused(bed, &own, &status("here"), &condition("Ready"), "only the condition lifesign.dev/ready");
    refused(bed, &own, &status("here"), &condition("example.com/x"), "only the condition lifesign.dev/ready");
    refused(bed, &own, &status("here"), &json!({"status": {"phase": "Failed"}}), "nothing but conditions");
    refused(bed, &own, &status("here"), &json!({"metadata": {"labels": {"a": "b"}}}), "may not change the metadata");
    refused(bed, &own, &format!("{pods}/here"), &json!({"metadata": {"labels": {"a": "b"}}}), "cannot patch resource");
    // A token that names no node is good for nothing.
    refused(bed, &token(bed, "lifesign-agent", None), &status("here"), &ours, "of another node");
    let lease = |node: &str| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("lifesign-agent-{node}")}, "spec": {"holderIdentity": "x"}});
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        bed.call_as(&own, "POST", &path, &lease).code
    };
    assert_eq!(lease("elsewhere"), 403);
    assert!([201, 409].contains(&lease(&bed.node)), "its own, which the agent may have made already");
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    bed.send("POST", &leases, &json!({"metadata": {"name": "lifesign-agent-elsewhere"}}));
    let renewed = json!({"spec": {"holderIdentity": "x"}});
    refused(bed, &own, &format!("{leases}/lifesign-agent-elsewhere"), &renewed, "only what belongs to its node");
    bed.send("DELETE", &format!("{leases}/lifesign-agent-elsewhere"), &Value::Null);
    let removal = json!({"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}});
    refused(bed, &own, &status("here"), &removal, "only the condition lifesign.dev/ready");
    let probes = "/apis/apps.kruise.io/v1alpha1/nodepodprobes";
    let of = |name: &str| json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {"name": name}});
    bed.send("POST", probes, &of("elsewhere"));
    let written = json!({"status": {"observedGeneration": 1}});
    refused(bed, &own, &format!("{probes}/elsewhere/status"), &written, "only what belongs to its node");
    bed.send("DELETE", &format!("{pods}/elsewhere"), &json!({"gracePeriodSeconds": 0}));
    bed.send("DELETE", "/api/v1/nodes/elsewhere", &Value::Null);
}

fn controllers_change_marks_and_conditions_only(bed: &Bed, namespace: &Namespace<'_>) {
    let own = token(bed, "lifesign-controllers", None);
    let pod = format!("/api/v1/namespaces/{}/pods/here", namespace.name);
    let status = format!("{pod}/status");
    let marks = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    assert_eq!(bed.patch_as(&own, &pod, &marks).code, 200);
    assert_eq!(bed.patch_as(&own, &status, &condition("example.com/x")).code, 200);
    refused(bed, &own, &pod, &json!({"metadata": {"finalizers": ["example.com/x"]}}), "only labels and annotations");
    refused(bed, &own, &pod, &json!({"spec": {"activeDeadlineSeconds": 5}}), "may not change the spec");
    refused(bed, &own, &status, &json!({"status": {"phase": "Failed"}}), "only the conditions");
    refused(bed, &own, &status, &json!({"metadata": {"labels": {"a": "c"}}}), "none of them together with its status");
}

fn installing_again_keeps_the_certificates(bed: &Bed) {
    let before = (secret(bed), trusted(bed));
    apply(bed);
    assert_eq!((secret(bed), trusted(bed)), before);
    let (good, manifests) = lifesign(bed, &[]);
    assert!(good, "{manifests}");
    let server_side = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"];
    let (good, output) = bed.kubectl(&server_side, &manifests);
    assert!(good, "{output}");
    assert_eq!((secret(bed), trusted(bed)), before, "server-side apply keeps them too");
}

fn without_the_webhook_the_kubelet_probes(bed: &Bed, namespace: &Namespace<'_>) {
    let scale = |replicas: &str| {
        let (good, output) = bed.kubectl(&["scale", "-n", NAMESPACE, "deployment/lifesign-controllers", replicas], "");
        assert!(good, "{output}");
    };
    scale("--replicas=0");
    let gone = ["wait", "--for=delete", "pod", "-n", NAMESPACE, "-l", CONTROLLERS, "--timeout=60s"];
    let (good, output) = bed.kubectl(&gone, "");
    assert!(good, "{output}");
    let pods = format!("/api/v1/namespaces/{}/pods", namespace.name);
    let pod = bed.send("POST", &pods, &server("slow", json!({"lifesign.dev/probes": ASKS})));
    assert!(pod["spec"]["containers"][0]["readinessProbe"].is_object(), "it keeps its probe");
    ready(bed, namespace, "slow");
    scale("--replicas=2");
    install(bed);
    bed.until("an event on the pod that was not moved", |bed| {
        let events = bed.list(&format!("/api/v1/namespaces/{}/events", namespace.name));
        let recorded = |event: &Value| event["reason"] == "ProbeNotMoved" && event["involvedObject"]["name"] == "slow";
        events.iter().any(recorded).then_some(())
    });
}

fn removal_leaves_nothing_and_disturbs_no_pod(bed: &Bed, namespace: &Namespace<'_>) {
    let markers = format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/podprobemarkers", namespace.name);
    let marker = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "idle"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "probes": [{"name": "p", "containerName": "c", "podConditionType": "example.com/p", "probe": {"exec": {"command": ["true"]}}}]}});
    // The Service has endpoints before kube-proxy has its rules.
    bed.until("a webhook that answers", |bed| (bed.ask("POST", &markers, &marker).code == 201).then_some(()));
    bed.until("the finalizer of the marker", |bed| {
        let marker = bed.get(&format!("{markers}/idle"));
        marker["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
    });
    let moved = bed.send(
        "POST",
        &format!("/api/v1/namespaces/{}/pods", namespace.name),
        &server("kept", json!({"lifesign.dev/probes": ASKS})),
    );
    assert!(moved["spec"]["readinessGates"].is_array());
    ready(bed, namespace, "kept");
    let (good, plan) = lifesign(bed, &["--delete-plan"]);
    assert!(good, "{plan}");
    assert!(
        plan.contains(&format!("kubectl delete pod -n {} kept", namespace.name)),
        "pods with a moved probe are listed: {plan}"
    );
    let mut command = Command::new("sh");
    command.args(["-ec", &plan]).env("KUBECONFIG", bed.kubeconfig()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{plan}\n{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    for path in [
        format!("/api/v1/namespaces/{NAMESPACE}"),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podprobemarkers.apps.kruise.io".to_owned(),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepodprobes.apps.kruise.io".to_owned(),
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/lifesign".to_owned(),
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/lifesign".to_owned(),
    ] {
        assert_eq!(bed.ask("GET", &path, &Value::Null).code, 404, "{path} is left");
    }
    for list in [
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ] {
        let left = bed.list(&format!("{list}?labelSelector=app.kubernetes.io/name%3Dlifesign"));
        assert_eq!(left, Vec::<Value>::new(), "{list}");
    }
    for name in ["here", "slow", "kept"] {
        let pod = bed.get(&format!("/api/v1/namespaces/{}/pods/{name}", namespace.name));
        assert!(is_ready(&pod), "{name} is not ready any more: {pod}");
    }
}
