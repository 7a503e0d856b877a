//! Steps that break something, through controllers and agent: undone within their deadlines, byte for byte, and told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::parts::{MANIFESTS, MEDIUM, Parts, replace};
use crate::bed::Bed;

const OWNERS: [(&str, &str); 3] = [
    ("kube-controller-manager", "KubeControllerManagerOperator"),
    ("kubelet", "MachineConfigOperator"),
    ("kube-apiserver", "KubeAPIServerOperator"),
];

/// The files of a component.
fn of(parts: &Parts<'_>, component: &str, files: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    let (manifests, own) = (parts.root.join(MANIFESTS), parts.manifest(component));
    let is_own = |path: &PathBuf| if component == "kubelet" { !path.starts_with(&manifests) } else { *path == own };
    files.iter().filter(|(path, _)| is_own(path)).map(|(path, content)| (path.clone(), content.clone())).collect()
}

/// Wants Medium, and waits until the component was taken back three times, its files are as before, and it is told; then lets everything
/// go back to nothing.
fn fails(mut parts: Parts<'_>, component: &str, owner: &str, why: &str) {
    parts.want(MEDIUM);
    parts.apply_failed(owner);
    let event = parts.event("LatencyProfileStepReverted", why);
    parts.event("LatencyProfileRolledBack", owner);
    let wanted = of(&parts, component, &parts.before);
    // Nothing of the failed component is left, whatever the others do.
    parts.until("its files are as before", |_| {
        (of(&parts, component, &super::parts::files(&parts.root)) == wanted).then_some(())
    });
    println!("{component}: reverted three times, files as before; {event}");
    // With deadlines that can be met everything is given back.
    parts.controllers = None;
    parts.start_controllers(&[]);
    parts.uninstall();
}

/// Gives a component a second to prove itself, which is not enough.
fn no_time_for(bed: &Bed, (component, owner): (&str, &str)) {
    let parts = Parts::start(bed, &["--profile-step-deadline", &format!("{component}=1s")]);
    fails(parts, component, owner, "");
}

pub(super) fn controller_manager_has_no_time(bed: &Bed) {
    no_time_for(bed, OWNERS[0]);
}

pub(super) fn others_have_no_time(bed: &Bed) {
    no_time_for(bed, OWNERS[1]);
    no_time_for(bed, OWNERS[2]);
}

/// A file that is other than usual until the end of a test.
struct Edited {
    path: PathBuf,
    before: Vec<u8>,
}

impl Edited {
    fn new(path: PathBuf, edit: impl FnOnce(&str) -> String) -> Edited {
        let before = std::fs::read(&path).unwrap();
        let after = edit(std::str::from_utf8(&before).unwrap());
        assert_ne!(after.as_bytes(), before, "nothing to edit in {}", path.display());
        let mode = std::fs::metadata(&path).unwrap().permissions();
        replace(&path, after.as_bytes());
        std::fs::set_permissions(&path, mode).unwrap();
        Edited { path, before }
    }
}

impl Drop for Edited {
    fn drop(&mut self) {
        let mode = std::fs::metadata(&self.path).unwrap().permissions();
        replace(&self.path, &self.before);
        std::fs::set_permissions(&self.path, mode).unwrap();
    }
}

fn root() -> PathBuf {
    PathBuf::from(std::env::var("LIFESIGN_TEST_NODE_ROOT").unwrap())
}

/// A change that the kubelet does not start with: its supervisor starts none that beats as seldom.
pub(super) fn a_kubelet_that_does_not_start_is_given_its_file_back(bed: &Bed) {
    // The drop-in is JSON, the main file YAML.
    let files = "/var/lib/kubelet/config.yaml /etc/kubernetes/kubelet.conf.d/90-lifesign-latency.conf";
    let refuse = format!("if grep -qs 'nodeLeaseDurationSeconds\"*: 80' {files}; then exit 1; fi\nexec kubelet");
    let unit = root().join("etc/kubernetes/units/kubelet");
    let _edited = Edited::new(unit, |text| text.replace("exec kubelet", &refuse));
    let began = Instant::now();
    let parts = Parts::start(bed, &["--profile-step-deadline", "kubelet=15s"]);
    fails(parts, "kubelet", "MachineConfigOperator", "the kubelet does not run");
    println!("a kubelet that does not start, from nothing to nothing: {} s", began.elapsed().as_secs());
}

/// An API server that does not start with our arguments: everybody is without one until the deadline, and the agent gives back the manifest
/// without it.
pub(super) fn an_api_server_that_does_not_start_is_given_its_manifest_back(bed: &Bed) {
    // A program in front of it that refuses the arguments of a profile.
    let folder = root().join("etc/kubernetes/refusing");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("kube-apiserver");
    let script = "#!/bin/sh\nfor word; do case $word in --default-*=60) exit 1 ;; esac; done\nexec kube-apiserver \"$@\"\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let manifest = root().join(MANIFESTS).join("kube-apiserver.yaml");
    let refusing = |text: &str| text.replace("- \"kube-apiserver\"", "- \"/etc/kubernetes/refusing/kube-apiserver\"");
    let edited = Edited::new(manifest, refusing);
    let is_there = |wanted: bool| {
        let path = format!("/api/v1/namespaces/kube-system/pods/kube-apiserver-{}", bed.node);
        let deadline = Instant::now() + Duration::from_secs(600);
        while bed
            .find(&path)
            .is_none_or(|pod| pod["spec"]["containers"][0]["command"].to_string().contains("refusing") != wanted)
        {
            assert!(Instant::now() < deadline, "the API server is never started again");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    is_there(true);
    // An API server takes half a minute to end.
    let parts = Parts::start(bed, &["--profile-step-deadline", "kube-apiserver=50s"]);
    fails(parts, "kube-apiserver", "KubeAPIServerOperator", "kube-apiserver does not run");
    drop(edited);
    is_there(false);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A manifest that a person edits meanwhile blocks the rollout; with the edit gone it goes on.
pub(super) fn a_foreign_change_blocks_and_is_named(bed: &Bed) {
    let parts = Parts::start(bed, &[]);
    parts.complete(MEDIUM);
    let manifest = parts.manifest("kube-controller-manager");
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
    parts.event("LatencyProfileBlocked", "kube-controller-manager.yaml was changed by somebody else");
    assert_eq!(std::fs::read(&manifest).unwrap(), edited, "it is left alone");
    replace(&manifest, &ours);
    parts.uninstall();
}

/// A control plane that nobody may touch, as on a managed cluster: the rollout stops at what is safe and says so.
pub(super) fn a_control_plane_that_nobody_may_touch(bed: &Bed) {
    bed.install_definitions();
    let mut parts = Parts::new(bed);
    parts.start_agent_for("--profiles=kubelet");
    parts.start_controllers(&[]);
    parts.want(MEDIUM);
    let condition = parts.message("KubeControllerManagerOperator", "Progressing", "ComponentNotAware");
    assert_eq!((&condition["status"], &condition["reason"]), (&"True".into(), &"ComponentNotAware".into()), "{condition}");
    let condition = parts.message("MachineConfigOperator", "Progressing", "HazardousStateAvoided");
    assert_eq!(condition["reason"], "WaitingForOtherOwners", "{condition}");
    parts.uses(["10s 40", "", ""]);
    assert_eq!(super::parts::files(&parts.root), parts.before);
}

/// A flag of the kubelet wins over every file: nothing is changed there, and the condition names it.
pub(super) fn a_flag_that_wins_is_named(bed: &Bed) {
    let flags = root().join("var/lib/kubelet/kubeadm-flags.env");
    let edited = Edited::new(flags, |text| text.replace("ARGS=\"", "ARGS=\"--node-status-update-frequency=10s "));
    bed.run(&["restart", "kubelet"]);
    let parts = Parts::start(bed, &[]);
    parts.want(MEDIUM);
    let condition = parts.message("MachineConfigOperator", "Progressing", "--node-status-update-frequency");
    println!("{}", condition["message"]);
    assert_eq!(condition["reason"], "ComponentNotAware", "{condition}");
    parts.uses(["10s 40", "--node-monitor-grace-period=2m0s", ""]);
    drop(edited);
    bed.run(&["restart", "kubelet"]);
    // Without the flag the rollout goes on by itself.
    parts.complete(MEDIUM);
    parts.uninstall();
}

/// Killed between write and confirmation, the next agent goes on: the rollout gets where it is wanted.
pub(super) fn a_killed_agent_does_not_stop_a_rollout(bed: &Bed) {
    let mut parts = Parts::start(bed, &[]);
    let manifest = parts.manifest("kube-controller-manager");
    parts.want(MEDIUM);
    parts.until("the manifest is another one", |_| (std::fs::read(&manifest).ok()? != parts.before[&manifest]).then_some(()));
    parts.kill_agent();
    parts.start_agent();
    parts.complete(MEDIUM);
    parts.uninstall();
}
