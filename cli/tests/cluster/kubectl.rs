//! kubectl says the same of `lifesign apiserver` as of kube-apiserver: command by command, on both, in the same order.
//!
//! Nothing runs here: objects that only controllers or a node bring to life are not compared.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::client::{Client, Protocol};
use testkit::plane::Plane;

use crate::bed::Bed;
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("kubectl::says_the_same_of_both_servers", says_the_same_of_both_servers),
    ("kubectl::anonymous_requests_are_refused", anonymous_requests_are_refused),
];
/// Other tests make kinds of their own.
pub(crate) const ALONE: &[(&str, Test)] = &[("kubectl::resources_are_those_of_kubernetes", resources_are_those_of_kubernetes)];

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: idle, labels: {app: idle}}
spec:
  schedulerName: nobody
  containers:
  - {name: app, image: 'idle:1', ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: {port: http}, periodSeconds: 1}}
";
const CHANGED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: idle, labels: {app: idle, tier: front}}
spec:
  schedulerName: nobody
  containers:
  - {name: app, image: 'idle:2', ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: {port: http}, periodSeconds: 1}}
";
const IMMUTABLE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: idle}
spec: {schedulerName: nobody, containers: [{name: app, image: 'idle:1', command: [other]}]}
";
const TYPO: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: typo}, dato: {a: '1'}}";
const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: by-hand, labels: {kubernetes.io/service-name: nobody}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}, {addresses: [10.1.0.4]}]
";
const BAD_SERVICE: &str =
    "{apiVersion: v1, kind: Service, metadata: {name: bad}, spec: {ports: [{port: 70000}, {port: 80}], type: Door}}";

const EXTERNAL: &str = "
apiVersion: v1
kind: Service
metadata: {name: external}
spec: {externalIPs: [192.0.2.1], ports: [{port: 80}], selector: {app: idle}}
";
const HOST_NETWORK: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: host}
spec:
  selector: {matchLabels: {app: host}}
  template:
    metadata: {labels: {app: host}}
    spec: {hostNetwork: true, containers: [{name: app, image: 'idle:1', ports: [{containerPort: 8080}]}]}
";
const OTHER_HOST_PORT: &str = "
apiVersion: v1
kind: Pod
metadata: {name: host}
spec: {hostNetwork: true, containers: [{name: app, image: 'idle:1', ports: [{containerPort: 8080, hostPort: 8081}]}]}
";

const RUNTIME_CLASS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: classy}
spec: {runtimeClassName: nobody, containers: [{name: app, image: 'idle:1'}]}
";
const IP_ADDRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: IPAddress
metadata: {name: '2001:db8::1'}
spec: {parentRef: {resource: services, namespace: default, name: nobody}}
";
const LEASE: &str = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: held}, spec: {holderIdentity: me}}";

/// What is run, a text on stdin, and how the answers differ, if they do: `docs/compatibility.md` has these.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("create configmap settings --from-literal=a=1 --from-literal=b=2", "", ""),
    ("create configmap settings --from-literal=a=1", "", ""),
    ("create configmap Bad_Name", "", "the message has no example and no regular expression"),
    ("create secret generic password --from-literal=word=hidden", "", ""),
    ("create secret docker-registry pull --docker-server=r --docker-username=u --docker-password=p", "", ""),
    ("create serviceaccount robot", "", ""),
    ("create service clusterip web --tcp=80:8080", "", ""),
    ("create service nodeport door --tcp=443:8443", "", ""),
    ("create service externalname away --external-name=example.org", "", ""),
    ("create deployment none --image=web:1 --replicas=0 --port=8080", "", ""),
    ("create configmap dry --dry-run=server", "", ""),
    ("get configmap dry", "", ""),
    ("apply -f -", POD, ""),
    ("apply -f -", POD, ""),
    ("diff -f -", CHANGED, ""),
    ("apply --dry-run=server -f -", CHANGED, ""),
    ("apply -f -", CHANGED, ""),
    ("apply -f -", IMMUTABLE, "the message names the fields that changed instead of printing Go structures"),
    ("apply -f -", TYPO, "the message does not name the kind"),
    ("apply --validate=warn -f -", TYPO, ""),
    ("apply -f -", SLICE, ""),
    ("apply -f -", BAD_SERVICE, "errors come in another order, and no targetPort is derived from a port that is refused"),
    ("apply --dry-run=server -o yaml -f -", EXTERNAL, ""),
    ("apply --dry-run=server -o yaml -f -", HOST_NETWORK, ""),
    ("apply --dry-run=server -f -", OTHER_HOST_PORT, ""),
    ("apply --dry-run=server -f -", RUNTIME_CLASS, "a RuntimeClass that is not there is not missed"),
    ("apply --dry-run=server -f -", IP_ADDRESS, "an IPAddress of version 6 is refused"),
    ("get servicecidr kubernetes", "", "there is no ServiceCIDR"),
    ("create -f -", LEASE, ""),
    ("get lease held -o yaml", "", ""),
    ("get lease held -o yaml --show-managed-fields", "", "a Lease has no entries of updates in managedFields"),
    ("get pods", "", ""),
    ("get pods -o wide", "", ""),
    ("get pods --show-labels", "", ""),
    ("get pods -L app,tier", "", ""),
    ("get pods -l app=other", "", ""),
    ("get pods -l 'app in (idle,other),tier'", "", ""),
    ("get pods --field-selector status.phase=Pending -o name", "", ""),
    ("get pods --field-selector spec.nothing=x", "", ""),
    ("get pod idle -o jsonpath={.spec.containers[0].readinessProbe}", "", ""),
    ("get pod idle -o jsonpath={.spec.tolerations}", "", ""),
    ("get pods -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image", "", ""),
    ("get pod idle -o yaml", "", "no volume with a token is added to pods"),
    ("get pod nobody", "", ""),
    ("get nonsense", "", ""),
    ("get configmap settings -o yaml", "", ""),
    ("get configmap settings -o json", "", ""),
    ("get secret password", "", ""),
    ("get secret pull -o jsonpath={.type}", "", ""),
    ("get serviceaccount robot", "", ""),
    ("get services", "", ""),
    ("get service web -o yaml", "", ""),
    ("get endpointslice by-hand", "", ""),
    ("get endpointslice by-hand -o yaml", "", ""),
    ("get deployment none", "", ""),
    ("describe configmap settings", "", ""),
    ("describe secret password", "", ""),
    ("describe service away", "", ""),
    ("describe endpointslice by-hand", "", ""),
    ("label configmap settings tier=front", "", ""),
    ("label configmap settings tier=back", "", ""),
    ("label configmap settings tier=back --overwrite", "", ""),
    ("label configmap settings 'bad key=x'", "", "the message has no example and no regular expression"),
    ("annotate configmap settings note='two words'", "", ""),
    ("annotate configmap settings note-", "", ""),
    ("patch configmap settings -p '{\"data\":{\"c\":\"3\",\"a\":null}}'", "", ""),
    ("patch configmap settings --type=merge -p '{\"data\":{\"d\":\"4\"}}'", "", ""),
    ("patch configmap settings --type=json -p '[{\"op\":\"replace\",\"path\":\"/data/d\",\"value\":\"5\"}]'", "", ""),
    (
        "patch configmap settings --type=json -p '[{\"op\":\"test\",\"path\":\"/data/d\",\"value\":\"9\"}]'",
        "",
        "the message says which operation failed",
    ),
    (
        "patch configmap settings --type=json -p '[{\"op\":\"remove\",\"path\":\"/data/none\"}]'",
        "",
        "the message says which operation failed",
    ),
    ("patch pod idle -p '{\"spec\":{\"containers\":[{\"name\":\"app\",\"image\":\"idle:3\"}]}}'", "", ""),
    ("patch service web -p '{\"spec\":{\"ports\":[{\"port\":80,\"targetPort\":9090}]}}'", "", ""),
    ("get configmap settings -o jsonpath={.data}{.metadata.labels}", "", ""),
    ("set image deployment/none web=web:2", "", ""),
    ("set env deployment/none MODE=fast", "", ""),
    ("scale deployment none --replicas=0 --current-replicas=1", "", ""),
    ("replace -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, resourceVersion: '1'}, data: {}}", ""),
    ("replace -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {z: '1'}}", ""),
    ("replace -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: nobody}, data: {z: '1'}}", ""),
    ("wait pod/idle --for=jsonpath={.status.phase}=Pending --timeout=20s", "", ""),
    ("wait pod/nobody --for=condition=Ready --timeout=1s", "", ""),
    ("auth can-i create pods", "", ""),
    ("auth can-i create nonsense", "", ""),
    ("create token robot --duration=1m", "", ""),
    ("create token nobody", "", ""),
    ("delete pod idle", "", ""),
    ("delete pod idle --ignore-not-found", "", ""),
    ("delete configmap,secret settings nobody", "", ""),
    ("delete services -l app=web", "", ""),
    ("delete deployment none --cascade=orphan", "", ""),
    ("delete endpointslice by-hand --dry-run=server", "", ""),
    ("get --raw /livez", "", ""),
    ("get --raw /nothing", "", ""),
    ("get --raw /healthz", "", ""),
    ("get --raw /openapi/v2", "", "made of version 3, with texts of our own"),
    ("get --raw /healthz/etcd", "", "checks have other names"),
    ("get --raw /openid/v1/jwks", "", "keys of tokens are not published"),
    ("explain pod.spec.nothing", "", ""),
];

struct Server<'a> {
    kubeconfig: &'a Path,
    namespace: &'a str,
    folder: PathBuf,
}

impl Server<'_> {
    fn says(&self, line: &str, stdin: &str) -> String {
        let mut command = Command::new("kubectl");
        command.args(words(line)).args(["-n", self.namespace]).env("KUBECONFIG", self.kubeconfig).env("HOME", &self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| stable(&String::from_utf8_lossy(bytes));
        format!("exit {}\n{}{}", output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }
}

fn says_the_same_of_both_servers(bed: &Bed) {
    let plane = Plane::started(LIFESIGN);
    let namespace = bed.namespace("kubectl");
    let folder = tempfile::tempdir().unwrap();
    let server = |kubeconfig, name: &str| {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        Server { kubeconfig, namespace: &namespace.name, folder }
    };
    let kubeconfig = plane.kubeconfig();
    let (ours, theirs) = (server(&kubeconfig, "ours"), server(bed.kubeconfig(), "theirs"));
    ours.says(&format!("create namespace {}", namespace.name), "");
    bed.until("the service account", |_| ours.says("get serviceaccount default", "").starts_with("exit 0").then_some(()));
    let mut wrong = Vec::new();
    for (line, stdin, difference) in COMMANDS {
        let (expected, output) = (theirs.says(line, stdin), ours.says(line, stdin));
        let known = !difference.is_empty();
        if known == (expected == output) {
            let heading = if known { "no longer differs" } else { "differs" };
            wrong.push(format!("kubectl {line} {heading}\n--- kube-apiserver\n{expected}--- lifesign\n{output}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), COMMANDS.len(), wrong.join("\n"));
}

/// What both serve has the same names, scope and kind; what only Kubernetes serves is listed for people.
fn resources_are_those_of_kubernetes(bed: &Bed) {
    let plane = Plane::started(LIFESIGN);
    let list = |kubeconfig: &Path| -> BTreeMap<String, String> {
        let output =
            Command::new("kubectl").args(["api-resources", "--no-headers"]).env("KUBECONFIG", kubeconfig).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Name, perhaps short names, group and version, scope, kind.
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let group = words[words.len() - 3].rsplit_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
            (format!("{}{group}", words[0]), words[1..].join(" "))
        };
        text.lines().map(row).collect()
    };
    let (ours, theirs) = (list(&plane.kubeconfig()), list(bed.kubeconfig()));
    assert!(ours.len() > 10 && theirs.len() > 50, "{ours:?} {theirs:?}");
    let document = include_str!("../../../docs/compatibility.md");
    for (name, facts) in &theirs {
        match ours.get(name) {
            Some(found) => assert_eq!(found, facts, "{name}"),
            None => {
                assert!(document.contains(&format!("`{name}`")), "docs/compatibility.md does not say that {name} is missing")
            }
        }
    }
    let own = ["nodepodprobes.apps.kruise.io", "nodes.config.openshift.io", "podprobemarkers.apps.kruise.io"];
    let extra: Vec<&String> = ours.keys().filter(|name| !theirs.contains_key(*name) && !own.contains(&name.as_str())).collect();
    assert!(extra.is_empty(), "kinds that Kubernetes does not have: {extra:?}");
}

/// Nobody is let in without credentials; the codes differ, and `docs/compatibility.md` says so.
fn anonymous_requests_are_refused(bed: &Bed) {
    let plane = Plane::started(LIFESIGN);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (kubeconfig, wanted) in [(plane.kubeconfig(), 401), (bed.kubeconfig().to_owned(), 403)] {
        let client = Client::without_certificate(&kubeconfig, Protocol::Http1).unwrap();
        let code = |path: &str| runtime.block_on(client.call("GET", path, &Value::Null)).unwrap().code;
        for path in ["/api", "/api/v1/pods", "/metrics", "/openapi/v3"] {
            assert_eq!(code(path), wanted, "{path}");
        }
        for path in ["/version", "/livez", "/readyz", "/healthz"] {
            assert_eq!(code(path), 200, "{path}");
        }
    }
}

/// Hides what differs from run to run: times, versions, addresses, identities, and the widths of columns.
fn stable(text: &str) -> String {
    let mut out = String::new();
    // Heads of differences have names of files and times in them.
    for line in text.lines().filter(|line| !["diff -u", "--- /", "+++ /"].iter().any(|head| line.starts_with(head))) {
        let words: Vec<String> = line.split_whitespace().map(hidden).collect();
        // Indentation means something in YAML.
        out.push_str(&" ".repeat(line.len() - line.trim_start().len()));
        out.push_str(&words.join(" "));
        out.push('\n');
    }
    out
}

fn hidden(word: &str) -> String {
    let bare = word.trim_matches(['"', ',', '[', ']']);
    let is_address = bare.split('.').count() == 4 && bare.split('.').all(|part| part.parse::<u8>().is_ok());
    let is_age = bare.len() > 1
        && bare.ends_with(['s', 'm'])
        && bare.starts_with(|c: char| c.is_ascii_digit())
        && !bare.contains(['.', '/', '=']);
    let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
    let is_time = bare.len() >= 20 && bare.contains('T') && bare.ends_with('Z') && bare.starts_with("20");
    let is_number = bare.len() > 1 && bare.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = bare.ends_with("/TCP") && bare.contains(':');
    let kinds = [
        (is_address, "ADDRESS"),
        (is_age, "AGE"),
        (is_uid, "UID"),
        (is_time, "TIME"),
        (is_number, "NUMBER"),
        (is_port, "PORTS"),
    ];
    match kinds.iter().find(|(is, _)| *is) {
        Some((_, name)) => word.replace(bare, name),
        None => word.to_owned(),
    }
}

/// Splits a command line at blanks, but not between single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("there is always one").push(c),
        }
    }
    words
}
