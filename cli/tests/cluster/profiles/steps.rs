//! Single steps, handed out by the test as the controllers do: each component takes one back that does not prove itself, an agent that was
//! killed in the middle is finished by the next, and what somebody else has changed is left alone.

use serde_json::{Value, json};

use super::parts::{Parts, files, replace};
use crate::bed::Bed;

/// Longer than any step of the bed takes.
const LONG_ENOUGH: u64 = 120;

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
        let (result, message) = parts.answer(&step);
        println!("{component}: {result}: {message}");
        assert_eq!(result, "reverted", "{message}");
        assert!(message.contains(component) || message.contains("Lease"), "it says why: {message}");
        assert_eq!(files(&parts.root), parts.before, "{component}");
    }
    // Nothing of it is in use, and the next agent finds nothing to do.
    parts.uses(["10s 40", "", ""]);
}

/// Killed between write and confirmation, the next agent confirms in time or takes back after the deadline; without waiting for anybody.
pub(super) fn killed_in_the_middle(bed: &Bed) {
    let mut parts = Parts::agent_alone(bed);
    let manifest = parts.manifest("kube-controller-manager");
    let is_written = |parts: &Parts<'_>| {
        parts.until("the manifest is another one", |_| {
            (std::fs::read(&manifest).ok()? != parts.before[&manifest]).then_some(())
        });
    };
    let step = parts.hand("kube-controller-manager", Some(&grace()), 1);
    is_written(&parts);
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
    is_written(&parts);
    parts.kill_agent();
    parts.start_agent();
    let (result, message) = parts.answer(&step);
    println!("killed, started before the deadline: {result}: {message}");
    assert_eq!(result, "applied");
    foreign_change(&parts);
    let step = parts.hand("kube-controller-manager", None, LONG_ENOUGH);
    assert_eq!(parts.answer(&step).0, "applied");
    assert_eq!(files(&parts.root), parts.before, "taken back byte for byte");
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
