//! Latency profiles on a real kubelet, controller manager and API server: what is in use changes in the order of the plan, the node stays
//! Ready, a step that does not prove itself is undone byte for byte, and uninstalling leaves the files as they were.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::{LIFESIGN, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("profiles::a_token_of_an_agent_is_worth_one_annotation_of_its_node", rights),
    ("profiles::medium_and_back_leaves_the_node_ready_and_the_files_as_they_were", medium_and_back),
    ("profiles::a_step_that_does_not_prove_itself_is_undone", reverts),
    ("profiles::an_agent_that_is_killed_in_the_middle_is_finished_by_the_next", killed_in_the_middle),
    ("profiles::what_somebody_else_has_changed_is_left_alone_and_named", foreign_change),
];

const CLUSTER: &str = "/apis/config.openshift.io/v1/nodes/cluster";
/// A stage restarts three components, and waits for two heartbeats.
const PATIENCE: Duration = Duration::from_secs(420);

/// A process of ours that is started again when it ends: what a kubelet does for it on a cluster.
struct Supervised {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Supervised {
    fn start(program: &str, arguments: Vec<String>) -> Supervised {
        let folder = tempfile::tempdir().unwrap();
        let (log, stop) = (folder.path().join("log"), Arc::new(AtomicBool::new(false)));
        let (program, path, asked) = (program.to_owned(), log.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                let log = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
                let mut command = Command::new(&program);
                command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
                let mut child = command.spawn().unwrap();
                while !asked.load(Ordering::Relaxed) && child.try_wait().unwrap().is_none() {
                    std::thread::sleep(Duration::from_millis(100));
                }
                end(&mut child);
            }
        });
        Supervised { stop, thread: Some(thread), log, _folder: folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        if std::thread::panicking() {
            eprintln!("it said:\n{}", self.log());
        }
    }
}

/// The parts of Lifesign that profiles need: controllers beside the cluster, an agent in its node.
struct Parts<'a> {
    bed: &'a Bed,
    root: PathBuf,
    _controllers: Supervised,
    agent: Option<Supervised>,
    /// What the files were before.
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Parts<'a> {
    fn start(bed: &'a Bed, arguments: &[&str]) -> Parts<'a> {
        bed.install_definitions();
        let root = bed.root.clone();
        let before = files(&root);
        let own = [
            "controllers",
            "--latency-profiles=apply",
            "--marker-controller=false",
            "--leader-elect-resource-name",
            "lifesign-profiles",
        ];
        let kubeconfig = ["--kubeconfig", bed.kubeconfig().to_str().unwrap()];
        let all = [&own[..], &kubeconfig, arguments].concat();
        let controllers = Supervised::start(LIFESIGN, all.into_iter().map(str::to_owned).collect());
        let mut parts = Parts { bed, root, _controllers: controllers, agent: None, before };
        parts.start_agent();
        parts
    }

    fn start_agent(&mut self) {
        let agent =
            ["exec", LIFESIGN, "agent", "--cluster", "--profiles=control-plane", "--kubeconfig", "/etc/kubernetes/admin.conf"];
        let node = ["--node-name", self.bed.node.as_str()];
        let arguments = agent.iter().chain(&node).map(|word| (*word).to_owned()).collect();
        self.agent = Some(Supervised::start(&std::env::var("LIFESIGN_TEST_BED").unwrap(), arguments));
    }

    /// Ends the agent without a chance to say anything.
    fn kill_agent(&mut self) {
        if let Some(agent) = &self.agent {
            agent.stop.store(true, Ordering::Relaxed);
        }
        self.bed.run(&["exec", "sh", "-c", "kill -9 $(pgrep -f '^[^ ]*lifesign agent --cluster --profiles') || true"]);
        self.agent = None;
    }

    fn want(&self, profile: &str) {
        let body = json!({"spec": {"workerLatencyProfile": profile}}).to_string();
        self.until("the profile is asked for", |bed| {
            let (made, _) = bed.kubectl(&["patch", "nodes.config.openshift.io", "cluster", "--type=merge", "-p", &body], "");
            made.then_some(())
        });
    }

    /// Waits until a question has an answer; the API server may be away.
    fn until<T>(&self, what: &str, mut ask: impl FnMut(&Bed) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask(self.bed) {
                return answer;
            }
            if Instant::now() > deadline {
                let agent = self.agent.as_ref().map(Supervised::log).unwrap_or_default();
                panic!("never: {what}\n{:#}\nagent:\n{agent}", get(self.bed, CLUSTER).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn complete(&self, profile: &str, reason: &str) {
        self.want(profile);
        self.until(&format!("{profile:?} is in force"), |bed| {
            let cluster = get(bed, CLUSTER)?;
            let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array()?.clone();
            let complete = |one: &&Value| one["type"] == "Complete" && one["status"] == "True" && one["reason"] == reason;
            let applied = cluster["metadata"]["annotations"]["lifesign.dev/applied-profile"].as_str().unwrap_or_default();
            let same = applied == if profile.is_empty() { "Default" } else { profile };
            (same && conditions.iter().filter(complete).count() == 3).then_some(())
        });
    }

    /// Wants nothing, and waits until every file is as it was.
    fn uninstall(&self) {
        self.complete("", "ProfileEmpty");
        self.until("every file is as it was", |_| (files(&self.root) == self.before).then_some(()));
    }

    /// Waits until the components use this. A controller manager that loses its API server ends and is started again.
    fn uses(&self, wanted: [&str; 3]) {
        self.until(&format!("{wanted:?} are in use"), |bed| (in_use(bed)? == wanted).then_some(()));
    }

    /// Returns the components of the steps that the agent has applied, in order.
    fn steps_over(&self) -> Vec<String> {
        let log = self.agent.as_ref().map(Supervised::log).unwrap_or_default();
        let over = log.lines().filter(|line| line.contains("step over") && line.contains("applied"));
        let component = |line: &str| {
            line.split("component=").nth(1)?.split_whitespace().next().map(|name| name.trim_matches('"').to_owned())
        };
        over.filter_map(component).collect()
    }

    fn condition(&self, owner: &str, type_: &str) -> Option<Value> {
        let cluster = get(self.bed, CLUSTER)?;
        let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array()?;
        conditions.iter().find(|one| one["owner"] == owner && one["type"] == type_).cloned()
    }
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        self.kill_agent();
        // The next test begins without a profile.
        let (_, _) = self.bed.kubectl(&["delete", "--ignore-not-found", "nodes.config.openshift.io", "cluster"], "");
        let annotations = ["lifesign.dev/apply-step-", "lifesign.dev/applied-step-"];
        self.bed.kubectl(&["annotate", "node", &self.bed.node, annotations[0], annotations[1]], "");
    }
}

fn get(bed: &Bed, path: &str) -> Option<Value> {
    let (good, text) = bed.kubectl(&["get", "--raw", path, "--request-timeout=5s"], "");
    if good { serde_json::from_str(&text).ok() } else { None }
}

/// Returns every file that a profile may be in.
fn files(root: &std::path::Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["etc/kubernetes/manifests", "etc/kubernetes/kubelet.conf.d"] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().filter_map(Result::ok) {
            files.insert(entry.path(), std::fs::read(entry.path()).unwrap_or_default());
        }
    }
    let main = root.join("var/lib/kubelet/config.yaml");
    files.insert(main.clone(), std::fs::read(main).unwrap());
    files
}

/// Returns what the three components really use: update frequency and Lease of the kubelet, arguments of the processes.
fn in_use(bed: &Bed) -> Option<Vec<String>> {
    let config = get(bed, &format!("/api/v1/nodes/{}/proxy/configz", bed.node))?["kubeletconfig"].clone();
    let kubelet = format!("{} {}", config["nodeStatusUpdateFrequency"].as_str()?, config["nodeLeaseDurationSeconds"]);
    let mut used = vec![kubelet];
    for (program, arguments) in
        [("kube-controller-manager", "node-monitor-grace-period"), ("kube-apiserver", "default-[a-z-]*-toleration-seconds")]
    {
        let script =
            format!("tr '\\0' '\\n' </proc/$(pgrep -o -f '^{program} ')/cmdline | grep -o -e '--{arguments}=.*' || true");
        used.push(bed.run(&["exec", "sh", "-c", &script]).split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Some(used)
}

/// Returns since when the node is Ready: any moment in which it was not would show here.
fn ready_since(bed: &Bed) -> Option<Value> {
    let node = get(bed, &format!("/api/v1/nodes/{}", bed.node))?;
    let ready = node["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == "Ready")?.clone();
    (ready["status"] == "True").then(|| ready["lastTransitionTime"].clone())
}

/// Returns the instance of a pod and how often it was started.
fn instance(bed: &Bed, namespace: &str) -> Option<(Value, Value, Value)> {
    let pod = get(bed, &format!("/api/v1/namespaces/{namespace}/pods/old"))?;
    let status = pod["status"]["containerStatuses"][0].clone();
    status["ready"]
        .as_bool()?
        .then(|| (pod["metadata"]["uid"].clone(), status["containerID"].clone(), status["restartCount"].clone()))
}

fn pod(bed: &Bed, namespace: &str, name: &str) -> Value {
    let pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
        "containers": [{"name": "app", "image": bed.image, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}]}});
    bed.send("POST", &format!("/api/v1/namespaces/{namespace}/pods"), &pod)
}

fn kubeadm(bed: &Bed) -> Option<String> {
    let map = get(bed, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config")?;
    Some(map["data"]["ClusterConfiguration"].as_str()?.to_owned())
}

fn medium_and_back(bed: &Bed) {
    let parts = Parts::start(bed, &[]);
    let namespace = bed.namespace("profiles");
    pod(bed, &namespace.name, "old");
    let old = parts.until("a pod runs", |bed| instance(bed, &namespace.name));
    let since = parts.until("the node is Ready", ready_since);
    let began = Instant::now();
    parts.complete("MediumUpdateAverageReaction", "ProfileUpdated");
    println!("Default -> Medium in {:?}", began.elapsed());
    let tolerations = "--default-not-ready-toleration-seconds=60 --default-unreachable-toleration-seconds=60";
    parts.uses(["20s 80", "--node-monitor-grace-period=2m0s", tolerations]);
    // The agent outlives the API server, so that it has seen everything; controllers may have changed meanwhile.
    let over = ["kube-controller-manager", "kubelet", "kube-apiserver"];
    assert_eq!(parts.steps_over(), over, "patience up, nodes, patience down");
    let new = pod(bed, &namespace.name, "new");
    assert_eq!(new["spec"]["tolerations"][0]["tolerationSeconds"], 60, "{new:#}");
    parts.until("kubeadm knows it", |bed| kubeadm(bed)?.contains("node-monitor-grace-period").then_some(()));
    let began = Instant::now();
    parts.complete("Default", "ProfileUpdated");
    println!("Medium -> Default in {:?}", began.elapsed());
    let tolerations = "--default-not-ready-toleration-seconds=300 --default-unreachable-toleration-seconds=300";
    parts.uses(["10s 40", "--node-monitor-grace-period=40s", tolerations]);
    parts.uninstall();
    parts.uses(["10s 40", "", ""]);
    parts.until("kubeadm has forgotten it", |bed| (!kubeadm(bed)?.contains("node-monitor-grace-period")).then_some(()));
    assert_eq!(parts.until("the node is Ready", ready_since), since, "the node was not Ready in between");
    assert_eq!(parts.until("the pod runs", |bed| instance(bed, &namespace.name)), old, "the pod was disturbed");
}

/// Each component in turn gets a second to prove itself, which is not enough: the file is as before, and the event says so.
fn reverts(bed: &Bed) {
    for (component, owner) in [
        ("kube-controller-manager", "KubeControllerManagerOperator"),
        ("kubelet", "MachineConfigOperator"),
        ("kube-apiserver", "KubeAPIServerOperator"),
    ] {
        let deadline = format!("{component}=1s");
        let parts = Parts::start(bed, &["--profile-step-deadline", &deadline]);
        parts.want("MediumUpdateAverageReaction");
        parts.until(&format!("{component} has failed"), |_| {
            let degraded = parts.condition(owner, "Degraded")?;
            (degraded["status"] == "True" && degraded["reason"] == "ApplyFailed").then_some(())
        });
        let (_, events) = bed.kubectl(&["get", "events", "-A", "-o", "jsonpath={.items[*].reason}"], "");
        assert!(events.contains("LatencyProfileStepReverted") && events.contains("LatencyProfileRolledBack"), "{events}");
        // Nothing of the failed component is left, whatever the others do.
        let manifests = parts.root.join("etc/kubernetes/manifests");
        let of = |path: &PathBuf| match component {
            "kubelet" => !path.starts_with(&manifests),
            _ => *path == manifests.join(format!("{component}.yaml")),
        };
        let only =
            |files: BTreeMap<PathBuf, Vec<u8>>| files.into_iter().filter(|(path, _)| of(path)).collect::<BTreeMap<_, _>>();
        parts.until("its files are as before", |_| (only(files(&parts.root)) == only(parts.before.clone())).then_some(()));
        println!("{component}: reverted three times, files as before");
        let before = parts.before.clone();
        drop(parts);
        let mut parts = Parts::start(bed, &[]);
        parts.before = before;
        parts.uninstall();
    }
}

/// Killed between write and confirmation, the next agent finishes or undoes the step: nothing is left half done.
fn killed_in_the_middle(bed: &Bed) {
    let mut parts = Parts::start(bed, &[]);
    let manifest = parts.root.join("etc/kubernetes/manifests/kube-controller-manager.yaml");
    parts.want("MediumUpdateAverageReaction");
    parts.until("the manifest is another one", |_| (std::fs::read(&manifest).ok()? != parts.before[&manifest]).then_some(()));
    parts.kill_agent();
    let record = parts.root.join("overlay/var/lib/upper/lifesign/profiles/kube-controller-manager.json");
    println!("killed; a record is there: {}", record.exists());
    parts.start_agent();
    parts.complete("MediumUpdateAverageReaction", "ProfileUpdated");
    parts.uninstall();
}

/// A manifest that a person edits meanwhile blocks the step; with the edit gone the rollout goes on.
fn foreign_change(bed: &Bed) {
    let parts = Parts::start(bed, &[]);
    parts.complete("MediumUpdateAverageReaction", "ProfileUpdated");
    let manifest = parts.root.join("etc/kubernetes/manifests/kube-controller-manager.yaml");
    let ours = std::fs::read(&manifest).unwrap();
    let edited = [ours.as_slice(), b"# edited\n"].concat();
    replace(&manifest, &edited);
    parts.want("");
    let message = parts.until("the edit is named", |_| {
        let condition = parts.condition("KubeControllerManagerOperator", "Progressing")?;
        let message = condition["message"].as_str()?.to_owned();
        message.contains("changed by somebody else").then_some(message)
    });
    assert!(message.contains("kube-controller-manager.yaml") && message.contains("ComponentNotAware"), "{message}");
    assert_eq!(std::fs::read(&manifest).unwrap(), edited, "it is left alone");
    replace(&manifest, &ours);
    parts.uninstall();
}

/// Replaces a manifest as an editor would: the kubelet must not read half of it.
fn replace(path: &std::path::Path, content: &[u8]) {
    let aside = path.with_file_name(".edited");
    std::fs::write(&aside, content).unwrap();
    std::fs::rename(aside, path).unwrap();
}

/// Returns a token of an account for a node, as the kubelet gets one for a pod there.
fn token(bed: &Bed, account: &str, node: Option<&str>) -> String {
    let mut arguments = vec!["create", "token", account, "-n", "lifesign-system"];
    if let Some(node) = node {
        arguments.extend(["--bound-object-kind=Node", "--bound-object-name", node]);
    }
    let (good, text) = bed.kubectl(&arguments, "");
    assert!(good, "{text}");
    text.trim().to_owned()
}

/// What `lifesign install --features profiles` gives to its accounts, without anything that runs.
fn install_accounts(bed: &Bed) -> String {
    let output = Command::new(LIFESIGN).args(["install", "--features", "profiles"]).output().unwrap();
    let kinds = [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    let is_right =
        |document: &&str| document.lines().any(|line| line.strip_prefix("kind: ").is_some_and(|kind| kinds.contains(&kind)));
    let text = String::from_utf8(output.stdout).unwrap();
    let rights: Vec<&str> = text.split("\n---\n").filter(is_right).collect();
    let manifests = rights.join("\n---\n");
    let (good, answer) = bed.kubectl(&["apply", "--validate=strict", "-f", "-"], &manifests);
    assert!(good, "{answer}");
    manifests
}

/// A node without a kubelet. It goes with the test, also a failed one: it would hold up every rollout.
struct OtherNode<'a>(&'a Bed);

impl OtherNode<'_> {
    fn make(bed: &Bed) -> OtherNode<'_> {
        bed.send("POST", "/api/v1/nodes", &json!({"metadata": {"name": "elsewhere"}}));
        OtherNode(bed)
    }
}

impl Drop for OtherNode<'_> {
    fn drop(&mut self) {
        self.0.ask("DELETE", "/api/v1/nodes/elsewhere", &Value::Null);
    }
}

/// The token of an agent changes `applied-step` of its own Node and nothing else; the controllers change `apply-step` and nothing else.
fn rights(bed: &Bed) {
    bed.install_definitions();
    let manifests = install_accounts(bed);
    let _elsewhere = OtherNode::make(bed);
    let annotation = |name: &str| json!({"metadata": {"annotations": {name: "tried"}}});
    let own = format!("/api/v1/nodes/{}", bed.node);
    let (applied, apply) = (annotation("lifesign.dev/applied-step"), annotation("lifesign.dev/apply-step"));
    for account in ["lifesign-profiles-worker", "lifesign-profiles-control-plane"] {
        let agent = token(bed, account, Some(&bed.node));
        let code = |path: &str, patch: &Value| bed.patch_as(&agent, path, patch).code;
        // A policy is in force a moment after it was made.
        let mut tried = 0;
        bed.until("the policy is in force", |_| {
            tried += 1;
            // Another value each time: what changes nothing is never refused.
            let patch = json!({"metadata": {"annotations": {"example.com/x": tried.to_string()}}});
            (code(&own, &patch) == 403).then_some(())
        });
        assert_eq!(code(&own, &applied), 200, "its answer");
        for (path, patch) in [
            ("/api/v1/nodes/elsewhere", &applied),
            (own.as_str(), &apply),
            (&own, &json!({"metadata": {"labels": {"a": "b"}}})),
            (&own, &json!({"metadata": {"annotations": {"lifesign.dev/applied-step": "x", "example.com/x": "y"}}})),
            (&own, &json!({"metadata": {"finalizers": ["example.com/x"]}})),
            (&own, &json!({"spec": {"unschedulable": true}})),
            (&own, &json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})),
            (&format!("{own}/status"), &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})),
            (
                &format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", bed.node),
                &json!({"spec": {"leaseDurationSeconds": 1}}),
            ),
            (CLUSTER, &json!({"spec": {"workerLatencyProfile": "LowUpdateSlowReaction"}})),
            ("/api/v1/namespaces/kube-system/configmaps/kubeadm-config", &json!({"data": {"a": "b"}})),
        ] {
            assert_eq!(code(path, patch), 403, "{account}: {path} {patch}");
        }
        let unbound = token(bed, account, None);
        assert_eq!(bed.patch_as(&unbound, &own, &applied).code, 403, "a token that names no node");
        assert_eq!(bed.call_as(&agent, "GET", "/api/v1/namespaces/kube-system/secrets", &Value::Null).code, 403);
    }
    let controllers = token(bed, "lifesign-controllers", None);
    assert_eq!(bed.patch_as(&controllers, &own, &apply).code, 200);
    let other = json!({"metadata": {"annotations": {"lifesign.dev/applied-step": "another"}}});
    assert_eq!(bed.patch_as(&controllers, &own, &other).code, 403);
    assert_eq!(bed.patch_as(&controllers, &own, &json!({"spec": {"unschedulable": true}})).code, 403);
    let tried = ["lifesign.dev/apply-step-", "lifesign.dev/applied-step-", "example.com/x-"];
    bed.kubectl(&["annotate", "node", &bed.node, tried[0], tried[1], tried[2]], "");
    let (good, text) = bed.kubectl(&["delete", "--ignore-not-found", "--wait=false", "-f", "-"], &manifests);
    assert!(good, "{text}");
}
