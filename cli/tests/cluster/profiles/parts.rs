//! The parts of Lifesign that profiles need on a cluster, and what can be seen of the cluster's own: files, values in use, answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::LIFESIGN;
use crate::bed::Bed;

pub(super) const CLUSTER: &str = "/apis/config.openshift.io/v1/nodes/cluster";
pub(super) const MEDIUM: &str = "MediumUpdateAverageReaction";
pub(super) const LOW: &str = "LowUpdateSlowReaction";
pub(super) const MANIFESTS: &str = "etc/kubernetes/manifests";
/// A stage restarts three components, and waits for two heartbeats, at most a minute each.
const PATIENCE: Duration = Duration::from_secs(600);

/// A process of ours that is started again when it ends: what a kubelet does for it on a cluster.
pub(super) struct Supervised {
    stop: Arc<AtomicBool>,
    /// Which process it is now.
    pid: Arc<AtomicI32>,
    thread: Option<std::thread::JoinHandle<()>>,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Supervised {
    fn start(program: &str, arguments: Vec<String>) -> Supervised {
        let folder = tempfile::tempdir().unwrap();
        let (log, stop) = (folder.path().join("log"), Arc::new(AtomicBool::new(false)));
        let pid = Arc::<AtomicI32>::default();
        let (program, path, asked, now) = (program.to_owned(), log.clone(), Arc::clone(&stop), Arc::clone(&pid));
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                let log = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
                let mut command = Command::new(&program);
                command.args(&arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
                let mut child = command.spawn().unwrap();
                now.store(child.id().cast_signed(), Ordering::Relaxed);
                while !asked.load(Ordering::Relaxed) && child.try_wait().unwrap().is_none() {
                    std::thread::sleep(Duration::from_millis(100));
                }
                end(&mut child);
            }
        });
        Supervised { stop, pid, thread: Some(thread), log, _folder: folder }
    }

    /// Ends the process without a chance to say anything; it is started again.
    pub(super) fn hit(&self) {
        if let Some(pid) = Pid::from_raw(self.pid.load(Ordering::Relaxed)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    pub(super) fn log(&self) -> String {
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

/// Controllers beside the cluster, an agent in its node.
pub(super) struct Parts<'a> {
    pub(super) bed: &'a Bed,
    pub(super) root: PathBuf,
    pub(super) controllers: Option<Supervised>,
    pub(super) agent: Option<Supervised>,
    /// What the files were before.
    pub(super) before: BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Parts<'a> {
    /// Starts controllers, with further arguments, and an agent.
    pub(super) fn start(bed: &'a Bed, arguments: &[&str]) -> Parts<'a> {
        let mut parts = Parts::agent_alone(bed);
        parts.start_controllers(arguments);
        parts
    }

    /// Starts an agent; whoever hands out steps is the test.
    pub(super) fn agent_alone(bed: &'a Bed) -> Parts<'a> {
        bed.install_definitions();
        let mut parts = Parts::new(bed);
        parts.start_agent();
        parts
    }

    /// Starts nothing: that is installed.
    pub(super) fn new(bed: &'a Bed) -> Parts<'a> {
        let root = bed.root.clone();
        let before = files(&root);
        Parts { bed, root, controllers: None, agent: None, before }
    }

    pub(super) fn start_controllers(&mut self, arguments: &[&str]) {
        let own = [
            "controllers",
            "--latency-profiles=apply",
            "--marker-controller=false",
            "--leader-elect-resource-name",
            "lifesign-profiles",
        ];
        let kubeconfig = ["--kubeconfig", self.bed.kubeconfig().to_str().unwrap()];
        let all = [&own[..], &kubeconfig, arguments].concat();
        self.controllers = Some(Supervised::start(LIFESIGN, all.into_iter().map(str::to_owned).collect()));
    }

    pub(super) fn start_agent(&mut self) {
        self.start_agent_for("--profiles=control-plane");
    }

    /// Starts an agent that may change only these files.
    pub(super) fn start_agent_for(&mut self, files: &str) {
        let agent = ["exec", LIFESIGN, "agent", "--cluster", files, "--kubeconfig", "/etc/kubernetes/admin.conf"];
        let node = ["--node-name", self.bed.node.as_str()];
        let arguments = agent.iter().chain(&node).map(|word| (*word).to_owned()).collect();
        self.agent = Some(Supervised::start(&std::env::var("LIFESIGN_TEST_BED").unwrap(), arguments));
    }

    /// Ends the agent without a chance to say anything; who supervises it starts it again.
    pub(super) fn hit_agent(&self) {
        self.bed.run(&["exec", "sh", "-c", "kill -9 $(pgrep -f '^[^ ]*lifesign agent --cluster --profiles') || true"]);
    }

    /// Ends the agent for good.
    pub(super) fn kill_agent(&mut self) {
        if let Some(agent) = &self.agent {
            agent.stop.store(true, Ordering::Relaxed);
        }
        self.hit_agent();
        self.agent = None;
    }

    pub(super) fn manifest(&self, component: &str) -> PathBuf {
        self.root.join(MANIFESTS).join(format!("{component}.yaml"))
    }

    pub(super) fn want(&self, profile: &str) {
        let body = json!({"spec": {"workerLatencyProfile": profile}});
        self.until("the profile is asked for", |bed| {
            let asked = bed.try_ask("PATCH", CLUSTER, &body).ok()?;
            (asked.code == 200).then_some(())
        });
    }

    /// Waits until a question has an answer; the API server may be away.
    pub(super) fn until<T>(&self, what: &str, mut ask: impl FnMut(&Bed) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask(self.bed) {
                return answer;
            }
            if Instant::now() > deadline {
                panic!("never: {what}\n{:#}", self.bed.find(CLUSTER).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns whether a profile is in force, as the conditions say.
    pub(super) fn in_force(&self, profile: &str) -> bool {
        let (applied, reason) = if profile.is_empty() { ("Default", "ProfileEmpty") } else { (profile, "ProfileUpdated") };
        let Some(cluster) = self.bed.find(CLUSTER) else { return false };
        let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array().cloned().unwrap_or_default();
        let complete = |one: &&Value| one["type"] == "Complete" && one["status"] == "True" && one["reason"] == reason;
        cluster["metadata"]["annotations"]["lifesign.dev/applied-profile"] == applied
            && conditions.iter().filter(complete).count() == 3
    }

    pub(super) fn complete(&self, profile: &str) {
        self.want(profile);
        let began = Instant::now();
        self.until(&format!("{profile:?} is in force"), |_| self.in_force(profile).then_some(()));
        println!("{profile:?} in force after {} s", began.elapsed().as_secs());
    }

    /// Wants nothing, and waits until every file is as it was.
    pub(super) fn uninstall(&self) {
        self.complete("");
        self.all_as_before();
    }

    /// Waits until every file is as it was, and the agent has proven that.
    pub(super) fn all_as_before(&self) {
        self.until("every file is as it was", |_| (files(&self.root) == self.before).then_some(()));
        self.until("no step is under way", |bed| {
            let step = Parts::applied_step(bed)?;
            let changed = step["components"].as_object()?.values().any(|state| state["changed"] == true);
            (step["result"] != "running" && !changed).then_some(())
        });
    }

    /// Waits until the message of an owner says something; returns all of it.
    pub(super) fn message(&self, owner: &str, type_: &str, words: &str) -> Value {
        self.until(&format!("{owner} says {words:?}"), |_| {
            let condition = self.condition(owner, type_)?;
            condition["message"].as_str()?.contains(words).then_some(condition)
        })
    }

    /// Waits until the components use this. A controller manager that loses its API server ends and is started again.
    pub(super) fn uses(&self, wanted: [&str; 3]) {
        self.until(&format!("{wanted:?} are in use"), |bed| (in_use(bed)? == wanted).then_some(()));
    }

    /// Returns the components of the steps that the agent has applied, in order.
    pub(super) fn steps_over(&self) -> Vec<String> {
        let log = self.agent.as_ref().map(Supervised::log).unwrap_or_default();
        let over = log.lines().filter(|line| line.contains("step over") && line.contains("applied"));
        let component = |line: &str| {
            line.split("component=").nth(1)?.split_whitespace().next().map(|name| name.trim_matches('"').to_owned())
        };
        over.filter_map(component).collect()
    }

    pub(super) fn condition(&self, owner: &str, type_: &str) -> Option<Value> {
        let cluster = self.bed.find(CLUSTER)?;
        let conditions = cluster["status"]["workerLatencyProfileStatus"]["conditions"].as_array()?;
        conditions.iter().find(|one| one["owner"] == owner && one["type"] == type_).cloned()
    }

    /// Waits until an owner has given up because a step was taken back again and again.
    pub(super) fn apply_failed(&self, owner: &str) {
        self.until(&format!("{owner} has failed"), |_| {
            let degraded = self.condition(owner, "Degraded")?;
            (degraded["status"] == "True" && degraded["reason"] == "ApplyFailed").then_some(())
        });
    }

    /// Waits until an event about this object `cluster`, and not one of an earlier test, says something; returns all of it.
    pub(super) fn event(&self, reason: &str, words: &str) -> String {
        self.until(&format!("an event {reason} that says {words:?}"), |bed| {
            let uid = bed.find(CLUSTER)?["metadata"]["uid"].as_str()?.to_owned();
            let path = format!("/api/v1/events?fieldSelector=involvedObject.uid%3D{uid}%2Creason%3D{reason}");
            let events = bed.find(&path)?["items"].as_array()?.clone();
            let mut messages = events.iter().rev().filter_map(|event| event["message"].as_str());
            messages.find(|message| message.contains(words)).map(str::to_owned)
        })
    }

    /// Returns what the agent of the node says.
    fn applied_step(bed: &Bed) -> Option<Value> {
        let node = bed.find(&format!("/api/v1/nodes/{}", bed.node))?;
        serde_json::from_str(node["metadata"]["annotations"]["lifesign.dev/applied-step"].as_str()?).ok()
    }

    /// Hands out a step as the controllers do, when the agent says that it can change the component; returns its ID.
    pub(super) fn hand(&self, component: &str, values: Option<&Value>, deadline: u64) -> String {
        self.until(&format!("{component} can be changed"), |bed| {
            (Parts::applied_step(bed)?["components"][component]["able"] == true).then_some(())
        });
        self.hand_at_once(component, values, deadline)
    }

    /// Hands out a step whatever the agent says.
    pub(super) fn hand_at_once(&self, component: &str, values: Option<&Value>, deadline: u64) -> String {
        let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let id = format!("test-{}", since.as_micros());
        let step = json!({"id": id, "component": component, "values": values, "deadlineSeconds": deadline, "generation": "1",
            "attempt": 1});
        let patch = json!({"metadata": {"annotations": {"lifesign.dev/apply-step": step.to_string()}}});
        let path = format!("/api/v1/nodes/{}", self.bed.node);
        self.until("the step is handed out", |bed| {
            (bed.try_ask("PATCH", &path, &patch).is_ok_and(|answer| answer.code == 200)).then_some(())
        });
        id
    }

    /// Waits until the agent has answered a step; returns how it ended, and why.
    pub(super) fn answer(&self, id: &str) -> (String, String) {
        let answer = self.until("the step is over", |bed| {
            Parts::applied_step(bed).filter(|answer| answer["id"] == id && answer["result"] != "running")
        });
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        (text("result"), text("message"))
    }
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        self.kill_agent();
        self.controllers = None;
        // The next test begins without a profile.
        let _ = self.bed.try_ask("DELETE", CLUSTER, &Value::Null);
        let none = json!({"metadata": {"annotations": {"lifesign.dev/apply-step": null, "lifesign.dev/applied-step": null}}});
        let _ = self.bed.try_ask("PATCH", &format!("/api/v1/nodes/{}", self.bed.node), &none);
    }
}

/// Returns every file that a profile may be in.
pub(super) fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in [MANIFESTS, "etc/kubernetes/kubelet.conf.d"] {
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
    let config = bed.find(&format!("/api/v1/nodes/{}/proxy/configz", bed.node))?["kubeletconfig"].clone();
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

/// Replaces a file as an editor would: the kubelet must not read half of it.
pub(super) fn replace(path: &Path, content: &[u8]) {
    let aside = path.with_file_name(".edited");
    std::fs::write(&aside, content).unwrap();
    std::fs::rename(aside, path).unwrap();
}
