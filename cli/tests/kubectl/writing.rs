//! `create`, `apply`, `edit`, `patch`, `label`, `annotate`, `scale`, `diff`, `replace`.

use crate::{Kubectl, On};

pub(crate) fn create_sends_protobuf_and_is_understood(on: On) {
    let kubectl = Kubectl::start(on);
    let shop = kubectl.apart("namespaces", "shop");
    kubectl.run(&format!("create namespace {shop}"));
    kubectl.run(&format!("create configmap settings -n {shop} --from-literal=a=1"));
    kubectl.run(&format!("create secret generic password -n {shop} --from-literal=word=hidden"));
    kubectl.run(&format!(
        "create secret docker-registry pull -n {shop} --docker-server=r --docker-username=u --docker-password=p"
    ));
    kubectl.run(&format!("create serviceaccount robot -n {shop}"));
    kubectl.run(&format!("create deployment web -n {shop} --image=web:1 --replicas=2 --port=8080"));
    kubectl.run(&format!("create service clusterip web -n {shop} --tcp=80:8080"));
    kubectl.run(&format!("create service loadbalancer door -n {shop} --tcp=443:8443"));
    let get = |what: &str, path: &str| kubectl.run(&format!("get {what} -n {shop} -o jsonpath={path}"));
    assert_eq!(get("configmap settings", "{.data.a}"), "1");
    assert_eq!(get("secret password", "{.data.word}"), "aGlkZGVu");
    assert_eq!(get("secret pull", "{.type}"), "kubernetes.io/dockerconfigjson");
    assert_eq!(get("deployment web", "{.spec.replicas}{.spec.template.spec.containers[0].ports[0].containerPort}"), "28080");
    assert_eq!(get("deployment web", "{.spec.strategy.rollingUpdate.maxSurge}"), "25%");
    assert_eq!(get("service web", "{.spec.ports[0].targetPort}"), "8080");
    let address = get("service web", "{.spec.clusterIP}");
    assert!(address.parse::<std::net::IpAddr>().is_ok(), "{address}");
    assert!(kubectl.plane().is_none() || address.starts_with("127.96."), "{address}");
    let again = kubectl.refused(&format!("create namespace {shop}"));
    assert!(again.contains("AlreadyExists") || again.contains("already exists"), "{again}");
    let bad = kubectl.refused("create namespace Shop_1");
    assert!(bad.contains("metadata.name: Invalid value: \"Shop_1\""), "{bad}");
}

pub(crate) fn apply_creates_changes_and_prunes(on: On) {
    let kubectl = Kubectl::start(on);
    let manifest = |data: &str, env: &str| {
        format!(
            "
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {data}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, labels: {{app: web}}}}
spec:
  paused: true
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
      - name: app
        image: web:1
        env: {env}
"
        )
    };
    let first = manifest("{a: '1', b: '2'}", "[{name: A, value: '1'}, {name: B, value: '2'}]");
    assert_eq!(kubectl.apply(&first), "configmap/settings created\ndeployment.apps/web created\n");
    assert_eq!(kubectl.apply(&first), "configmap/settings unchanged\ndeployment.apps/web unchanged\n");
    kubectl.run("scale deployment web --replicas=4");
    let second = manifest("{a: '1', c: '3'}", "[{name: B, value: '3'}, {name: C, value: '4'}]");
    let differences = kubectl.try_run_with("diff -f -", &second);
    assert!(!differences.good && differences.stdout.contains("-  b: \"2\"") && differences.stdout.contains("+  c: \"3\""));
    assert_eq!(kubectl.apply(&second), "configmap/settings configured\ndeployment.apps/web configured\n");
    assert_eq!(kubectl.run("get configmap settings -o jsonpath={.data}"), r#"{"a":"1","c":"3"}"#);
    let env = kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].env}");
    assert_eq!(env, r#"[{"name":"B","value":"3"},{"name":"C","value":"4"}]"#);
    assert_eq!(kubectl.run("get deployment web -o jsonpath={.spec.replicas}"), "4", "what others own stays");
    assert_eq!(kubectl.try_run_with("diff -f -", &second).stdout, "");
    assert!(kubectl.run_with("apply --dry-run=server -f -", &first).contains("configured (server dry run)"));
    assert_eq!(kubectl.run("get configmap settings -o jsonpath={.data}"), r#"{"a":"1","c":"3"}"#);
}

pub(crate) fn apply_of_a_typo_is_refused(on: On) {
    let kubectl = Kubectl::start(on);
    let output =
        kubectl.try_run_with("apply -f -", "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, dato: {a: '1'}}");
    assert!(!output.good && output.stderr.contains(r#"unknown field "dato""#), "{}", output.stderr);
}

pub(crate) fn bad_probes_are_refused_with_their_field_and_limit() {
    let kubectl = Kubectl::start(On::Plane);
    let cases = [
        (
            "readinessProbe",
            "{tcpSocket: {port: 80}, periodSeconds: 1, periodMilliseconds: -850}",
            &["periodMilliseconds", "150ms", "200ms"],
        ),
        (
            "startupProbe",
            "{exec: {command: [x]}, periodSeconds: 1, periodMilliseconds: -600}",
            &["periodMilliseconds", "400ms", "500ms"],
        ),
        ("livenessProbe", "{tcpSocket: {port: 80}, periodMilliseconds: 0}", &["periodMilliseconds", "Forbidden", "liveness"]),
        ("readinessProbe", "{tcpSocket: {port: 80}, periodMilliseconds: 1000}", &["periodMilliseconds", "-999", "999"]),
        (
            "readinessProbe",
            "{tcpSocket: {port: 80}, initialDelayMilliseconds: -1}",
            &["initialDelayMilliseconds", "Invalid value", "0"],
        ),
    ];
    for (kind, probe, words) in cases {
        let pod = format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: hasty}}\nspec:\n  containers:\n  - name: app\n    image: none\n    {kind}: {probe}\n"
        );
        let output = kubectl.try_run_with("apply -f -", &pod);
        let field = format!("spec.containers[0].{kind}.{}", words[0]);
        let good = output.stderr.contains(&field) && words.iter().all(|word| output.stderr.contains(word));
        assert!(!output.good && good, "{probe}: {}", output.stderr);
    }
    assert_eq!(kubectl.run("get pods -o name"), "", "nothing was stored");
}

pub(crate) fn apply_prunes_what_left_the_manifest(on: On) {
    let kubectl = Kubectl::start(on);
    let one = |name: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: mine}}}}\n");
    kubectl.apply(&format!("{}{}", one("kept"), one("left")));
    let prune = "apply --prune -l set=mine --prune-allowlist=core/v1/ConfigMap -f -";
    assert_eq!(kubectl.run_with(prune, &one("kept")), "configmap/kept unchanged\nconfigmap/left pruned\n");
    assert_eq!(kubectl.run("get configmaps -l set=mine -o name"), "configmap/kept\n");
}

pub(crate) fn the_three_kinds_of_patch_work(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.paused_deployment("web", "web:1", 1);
    kubectl.run(
        r#"patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"},{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}'"#,
    );
    kubectl.run(r#"patch deployment web --type=merge -p '{"metadata":{"labels":{"tier":"front","app":null}}}'"#);
    kubectl.run(r#"patch deployment web --type=json -p '[{"op":"replace","path":"/spec/replicas","value":3}]'"#);
    let names = kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[*].name}");
    assert_eq!(names, "side web");
    assert_eq!(kubectl.run("get deployment web -o jsonpath={.metadata.labels}"), r#"{"tier":"front"}"#);
    assert_eq!(kubectl.run("get deployment web -o jsonpath={.spec.replicas}"), "3");
    let bad = kubectl.refused(r#"patch deployment web --type=json -p '[{"op":"test","path":"/spec/replicas","value":9}]'"#);
    assert!(bad.contains("error") || bad.contains("invalid"), "{bad}");
}

pub(crate) fn edit_label_annotate_scale_and_replace_change_objects(on: On) {
    let kubectl = Kubectl::start(on);
    kubectl.paused_deployment("web", "web:1", 1);
    let edited = kubectl.command("edit deployment web").env("KUBE_EDITOR", "sed -i s/web:1/web:2/").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&edited.stdout), "deployment.apps/web edited\n");
    kubectl.run("label deployment web tier=front");
    kubectl.run("annotate deployment web note='two words'");
    kubectl.run("scale deployment web --replicas=5 --current-replicas=1");
    kubectl.run("set env deployment/web MODE=fast");
    let get = |path: &str| kubectl.run(&format!("get deployment web -o jsonpath={path}"));
    assert_eq!(get("{.spec.template.spec.containers[0].image}"), "web:2");
    assert_eq!(get("{.metadata.labels.tier}{.metadata.annotations.note}"), "fronttwo words");
    assert_eq!(get("{.spec.replicas}"), "5");
    assert_eq!(get("{.spec.template.spec.containers[0].env[0].value}"), "fast");
    assert_eq!(get("{.metadata.generation}"), "5", "image, annotation, replicas and environment count; labels do not");
    let refused = kubectl.refused("label deployment web tier=back");
    assert!(refused.contains("already has a value (front)"), "{refused}");
    kubectl.run("label deployment web tier-");
    assert_eq!(get("{.metadata.labels.tier}"), "");
    let current = kubectl.run("get deployment web -o yaml");
    kubectl.run("scale deployment web --replicas=2");
    let stale = kubectl.try_run_with("replace -f -", &current);
    assert!(!stale.good && stale.stderr.contains("the object has been modified"), "{}", stale.stderr);
}

pub(crate) fn apply_of_a_kind_that_is_not_served_says_so(on: On) {
    let kubectl = Kubectl::start(on);
    let manifest = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n";
    let output = kubectl.try_run_with("apply -f -", manifest);
    assert!(
        !output.good && output.stderr.contains("no matches for kind \"Gadget\" in version \"example.com/v1\""),
        "{}",
        output.stderr
    );
    assert!(!output.stderr.contains("openapi"), "{}", output.stderr);
}
