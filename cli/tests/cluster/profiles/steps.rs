//! Single steps, handed out by the test as the controllers do: each component takes one back that does not prove itself, an agent that was
//! killed in the middle is finished by the next, and what somebody else has changed is left alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::parts::{Parts, files, replace};
use crate::bed::Bed;

/// Longer than any step of the bed takes.
const LONG_ENOUGH: u64 = 120;
/// From the end of a deadline to the file as it was: one look, and what a busy machine takes.
const SLACK: Duration = Duration::from_secs(15);

fn grace() -> Value {
    json!({"nodeMonitorGracePeriod": "2m0s"})
}

/// Each component in turn gets a second to prove itself, which is not enough: the file is as before, byte for byte.
pub(super) fn one_revert_for_each_component(bed: &Bed) {
    let parts = Parts::agent_alone(bed);
    let kubelet =
        json!({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "5m0s", "nodeLeaseDurationSeconds": 80});
    let tolerations = json!({"defaultNotReadyTolerationSeconds": 60, "defaultUnreachableTolerationSeconds": 60});
    for (component, values) in [("kube-controller-manager", grace()), ("kubelet", kubelet), ("kube-apiserver", tolerations)] {
        let step = parts.hand(component, Some(&values), 1);
        parts.until("a file is another one", |_| (files(&parts.root) != parts.before).then_some(()));
        let written = Instant::now();
        parts.until("every file is as it was", |_| (files(&parts.root) == parts.before).then_some(()));
        let elapsed = written.elapsed();
        assert!(elapsed <= Duration::from_secs(1) + SLACK, "{component}: undone only after {elapsed:?}");
        println!("{component}: undone {} ms after it was written", elapsed.as_millis());
        let (result, message) = parts.answer(&step);
        println!("{component}: {result}: {message}");
        assert_eq!(result, "reverted", "{message}");
        assert!(message.contains(component) || message.contains("Lease"), "it says why: {message}");
        assert_eq!(files(&parts.root), parts.before, "{component}");
    }
    // Nothing of it is in use, and the next agent finds nothing to do.
    parts.uses(["10s 40", "", ""]);
}

/// Waits until a manifest is written.
fn is_written(parts: &Parts<'_>, manifest: &PathBuf) {
    parts.until("the manifest is another one", |_| (std::fs::read(manifest).ok()? != parts.before[manifest]).then_some(()));
}

/// Killed between write and confirmation, the next agent confirms in time or takes back after the deadline; without waiting for anybody.
pub(super) fn killed_in_the_middle(bed: &Bed) {
    let mut parts = Parts::agent_alone(bed);
    let manifest = parts.manifest("kube-controller-manager");
    let step = parts.hand("kube-controller-manager", Some(&grace()), 1);
    is_written(&parts, &manifest);
    parts.kill_agent();
    // The agent is dead: nobody takes the change back until its deadline is over.
    parts.uses(["10s 40", "--node-monitor-grace-period=2m0s", ""]);
    parts.start_agent();
    let (result, message) = parts.answer(&step);
    println!("killed, started after the deadline: {result}: {message}");
    assert_eq!(result, "reverted");
    assert_eq!(files(&parts.root), parts.before);
    parts.uses(["10s 40", "", ""]);
    let step = parts.hand("kube-controller-manager", Some(&grace()), LONG_ENOUGH);
    is_written(&parts, &manifest);
    parts.kill_agent();
    // The kubelet does its part without it: nothing is restarted any more when the next agent looks.
    parts.uses(["10s 40", "--node-monitor-grace-period=2m0s", ""]);
    let began = Instant::now();
    parts.start_agent();
    let (result, message) = parts.answer(&step);
    println!("killed, started before the deadline: {result} after {} s: {message}", began.elapsed().as_secs());
    assert_eq!(result, "applied");
    foreign_change(&parts);
    let step = parts.hand("kube-controller-manager", None, LONG_ENOUGH);
    assert_eq!(parts.answer(&step).0, "applied");
    assert_eq!(files(&parts.root), parts.before, "taken back byte for byte");
}

/// An edit between write and deadline is left alone and named, although the step does not prove itself.
pub(super) fn edited_before_the_deadline(bed: &Bed) {
    let parts = Parts::agent_alone(bed);
    let manifest = parts.manifest("kube-controller-manager");
    // Shorter than a static pod has to be well.
    let step = parts.hand("kube-controller-manager", Some(&grace()), 2);
    is_written(&parts, &manifest);
    let edited = [std::fs::read(&manifest).unwrap().as_slice(), b"# edited\n"].concat();
    replace(&manifest, &edited);
    let (result, message) = parts.answer(&step);
    println!("edited before the deadline: {result}: {message}");
    assert_eq!(result, "refused");
    assert!(message.contains("kube-controller-manager.yaml was changed by somebody else"), "{message}");
    assert_eq!(std::fs::read(&manifest).unwrap(), edited, "it is left alone");
    // With nothing of ours in it, it may be changed again.
    replace(&manifest, &parts.before[&manifest]);
    let step = parts.hand("kube-controller-manager", Some(&grace()), LONG_ENOUGH);
    assert_eq!(parts.answer(&step).0, "applied");
    let step = parts.hand("kube-controller-manager", None, LONG_ENOUGH);
    assert_eq!(parts.answer(&step).0, "applied");
    assert_eq!(files(&parts.root), parts.before);
}

/// A file that somebody has edited since our last change is left alone and named.
fn foreign_change(parts: &Parts<'_>) {
    let manifest = parts.manifest("kube-controller-manager");
    let ours = std::fs::read(&manifest).unwrap();
    let edited = [ours.as_slice(), b"# edited\n"].concat();
    replace(&manifest, &edited);
    // It says so by itself, too, with its next look; whoever asks before that is refused.
    let step = parts.hand_at_once("kube-controller-manager", Some(&json!({"nodeMonitorGracePeriod": "40s"})), LONG_ENOUGH);
    let (result, message) = parts.answer(&step);
    println!("edited by somebody else: {result}: {message}");
    assert_eq!(result, "refused");
    assert!(message.contains("kube-controller-manager.yaml was changed by somebody else"), "{message}");
    assert_eq!(std::fs::read(&manifest).unwrap(), edited, "it is left alone");
    replace(&manifest, &ours);
}
