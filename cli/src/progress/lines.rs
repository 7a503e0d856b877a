//! Which changes are worth a line, and its words. Nothing is told twice.
//!
//! A probe that fails while a container starts is normal, so it is told only if the pod is not ready a while later. What follows from
//! a stop is not told at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::pod::ContainerStatus;
use api::{ObjectReference, Pod};
use machine::Time;

/// So long a pod may take to become ready before it is told why it does not.
const PATIENCE: Duration = Duration::from_secs(3);
/// Lines that are remembered so as not to be told twice.
const REMEMBERED: usize = 4_096;

/// What is known of a pod.
struct KnownPod {
    name: String,
    state: String,
    since: Time,
    runs: bool,
    ready: bool,
    /// What is told if the pod is not ready at that time.
    held: Option<(Time, String)>,
}

/// The lines of a plane.
#[derive(Default)]
pub(super) struct Lines {
    pods: BTreeMap<String, KnownPod>,
    printed: BTreeSet<(String, String)>,
    stopping: bool,
}

impl Lines {
    /// Takes a pod; returns the line of a change.
    pub(super) fn pod(&mut self, now: Time, pod: &Pod) -> Option<String> {
        let key = pod.metadata.key();
        let known = self.pods.entry(key).or_insert_with(|| KnownPod {
            name: name_of("pod", &pod.metadata.namespace, &pod.metadata.name),
            state: String::new(),
            since: now,
            runs: false,
            ready: false,
            held: None,
        });
        known.runs = pod.status.phase == "Running";
        known.ready = pod.condition_true("Ready");
        if known.ready {
            known.held = None;
        }
        let (state, timed) = state(pod, known)?;
        if known.state == state || self.stopping {
            return None;
        }
        known.state.clone_from(&state);
        let after = if timed { format!(" after {}", span(now.since(known.since))) } else { String::new() };
        Some(format!("{} {state}{after}", known.name))
    }

    /// Takes the end of a pod; returns its line.
    pub(super) fn gone(&mut self, pod: &Pod) -> Option<String> {
        let known = self.pods.remove(&pod.metadata.key())?;
        (!self.stopping).then(|| format!("{} is gone", known.name))
    }

    /// Takes a warning; returns its line, unless it is told later or not at all.
    pub(super) fn warning(&mut self, now: Time, object: &ObjectReference, reason: &str, message: &str) -> Option<String> {
        let name = name_of(&object.kind.to_lowercase(), &object.namespace, &object.name);
        let of_pod = object.kind == "Pod";
        // The state of the pod says the same.
        if self.stopping || (of_pod && matches!(reason, "BackOff" | "Failed" | "FailedCreatePodSandBox")) {
            return None;
        }
        if of_pod && reason == "Unhealthy" {
            let known = self.pods.get_mut(&format!("{}/{}", object.namespace, object.name))?;
            let at = known.held.take().map_or(now + PATIENCE, |(at, _)| at);
            known.held = Some((at, format!("{name} is not ready: {message}")));
            return None;
        }
        self.once(name.clone(), format!("{name}: {message}"))
    }

    /// Returns the lines whose time has come.
    pub(super) fn due(&mut self, now: Time) -> Vec<String> {
        let mut lines = Vec::new();
        for known in self.pods.values_mut() {
            if let Some((_, line)) = known.held.take_if(|(at, _)| *at <= now) {
                lines.push((known.name.clone(), line));
            }
        }
        let stopping = self.stopping;
        lines.into_iter().filter(|_| !stopping).filter_map(|(name, line)| self.once(name, line)).collect()
    }

    /// Returns when to ask for [`due`](Lines::due).
    pub(super) fn deadline(&self) -> Option<Time> {
        self.pods.values().filter_map(|known| known.held.as_ref().map(|(at, _)| *at)).min()
    }

    /// What follows from a stop is not told.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Returns the names of the pods that run.
    pub(super) fn running(&self) -> impl Iterator<Item = &str> {
        self.pods.values().filter(|known| known.runs).map(|known| known.name.as_str())
    }

    fn once(&mut self, name: String, line: String) -> Option<String> {
        if self.printed.len() >= REMEMBERED {
            self.printed.clear();
        }
        self.printed.insert((name, line.clone())).then_some(line)
    }
}

/// Returns what a person calls an object; the namespace default goes without saying.
fn name_of(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" | "default" => format!("{kind}/{name}"),
        namespace => format!("{kind}/{name} in {namespace}"),
    }
}

/// Returns what a person wants to know of a pod, and whether it matters how long it took; `None`: nothing new.
fn state(pod: &Pod, known: &KnownPod) -> Option<(String, bool)> {
    if pod.metadata.deleting() {
        return Some(("stops".to_owned(), false));
    }
    if let Some(waiting) = waiting(pod) {
        return Some((waiting, false));
    }
    let fresh = known.state.is_empty() || known.state == "started";
    match pod.status.phase.as_str() {
        "Running" if pod.condition_true("Ready") && fresh => Some(("is ready".to_owned(), true)),
        "Running" if pod.condition_true("Ready") => Some(("is ready".to_owned(), false)),
        "Running" if fresh => Some(("started".to_owned(), true)),
        "Running" if known.state == "is ready" => Some(("is not ready any more".to_owned(), false)),
        // Between two starts of a container there is nothing that was not told yet.
        "Running" | "Pending" | "" => None,
        "Succeeded" => Some(("has succeeded".to_owned(), true)),
        "Failed" => Some((failed(pod), true)),
        phase => Some((format!("is {}", phase.to_lowercase()), false)),
    }
}

/// Returns why a container waits, if that is not the usual course of things.
fn waiting(pod: &Pod) -> Option<String> {
    let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    for status in statuses {
        let Some(waiting) = &status.state.waiting else { continue };
        let name = &status.name;
        match waiting.reason.as_str() {
            "" | "ContainerCreating" | "PodInitializing" => {}
            "CrashLoopBackOff" => return Some(format!("container {name} ended{}", ended(pod, status))),
            reason if waiting.message.is_empty() => return Some(format!("container {name} waits: {reason}")),
            reason => return Some(format!("container {name} waits: {} ({reason})", waiting.message)),
        }
    }
    None
}

/// Returns how a container ended that is started again and again, and where its words are.
fn ended(pod: &Pod, status: &ContainerStatus) -> String {
    let again = match status.restart_count {
        0 => String::new(),
        1 => ", once restarted".to_owned(),
        count => format!(", {count} times restarted"),
    };
    let Some(ended) = &status.last_state.terminated else { return again };
    let how = match (ended.message.trim(), ended.signal) {
        ("", Some(signal)) => format!(" by signal {signal}"),
        ("", None) => format!(" with exit code {}", ended.exit_code),
        // It says all that there is.
        (message, _) => return format!(": {message}{again}"),
    };
    let namespace = match pod.metadata.namespace.as_str() {
        "default" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!("{how}{again}; its output: kubectl logs {}{namespace} -p", pod.metadata.name)
}

fn failed(pod: &Pod) -> String {
    let ended = pod.status.container_statuses.iter().find_map(|status| {
        let ended = status.state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
        Some(format!(": container {} ended with exit code {} {}", status.name, ended.exit_code, ended.message.trim()))
    });
    format!("has failed{}", ended.unwrap_or_default()).trim_end().to_owned()
}

fn span(span: Duration) -> String {
    if span < Duration::from_secs(10) { format!("{:.2} s", span.as_secs_f64()) } else { format!("{:.0} s", span.as_secs_f64()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "status": status})).unwrap()
    }

    fn at(millis: i64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn ready(ready: &str) -> Pod {
        pod(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}))
    }

    #[test]
    fn a_pod_that_starts_and_stops_has_a_line_for_each_change() {
        let mut lines = Lines::default();
        let printed: Vec<String> = [
            (0, pod(json!({}))),
            (10, pod(json!({"phase": "Pending"}))),
            (130, ready("False")),
            (140, ready("False")),
            (1450, ready("True")),
            (2000, ready("False")),
            (3000, ready("True")),
        ]
        .into_iter()
        .filter_map(|(now, pod)| lines.pod(at(now), &pod))
        .collect();
        assert_eq!(
            printed,
            [
                "pod/web started after 0.13 s",
                "pod/web is ready after 1.45 s",
                "pod/web is not ready any more",
                "pod/web is ready"
            ]
        );
        assert_eq!(lines.gone(&ready("True")).as_deref(), Some("pod/web is gone"));
    }

    #[test]
    fn what_failed_at_the_start_is_told_only_of_a_pod_that_does_not_become_ready() {
        let object =
            ObjectReference { kind: "Pod".into(), namespace: "default".into(), name: "web".into(), ..Default::default() };
        let mut lines = Lines::default();
        lines.pod(at(0), &ready("False"));
        assert_eq!(lines.warning(at(100), &object, "Unhealthy", "connection refused"), None);
        assert_eq!(lines.deadline(), Some(at(3_100)));
        assert_eq!(lines.warning(at(200), &object, "Unhealthy", "status 503"), None);
        assert_eq!(lines.due(at(3_100)), ["pod/web is not ready: status 503"]);
        assert_eq!(lines.warning(at(4_000), &object, "Unhealthy", "status 503"), None);
        assert!(lines.due(at(9_000)).is_empty(), "it was told");
        lines.warning(at(9_000), &object, "Unhealthy", "another");
        lines.pod(at(9_100), &ready("True"));
        assert_eq!((lines.deadline(), lines.due(at(20_000)).len()), (None, 0));
    }

    #[test]
    fn a_container_that_does_not_start_says_why() {
        let line = |terminated: Value| {
            let waiting = json!({"reason": "CrashLoopBackOff", "message": "back-off 20s"});
            let container = json!({"name": "app", "restartCount": 2, "state": {"waiting": waiting},
                "lastState": {"terminated": terminated}});
            Lines::default().pod(at(0), &pod(json!({"phase": "Running", "containerStatuses": [container]}))).unwrap()
        };
        assert_eq!(
            line(json!({"exitCode": 127, "message": "nginx: not found"})),
            "pod/web container app ended: nginx: not found, 2 times restarted"
        );
        assert_eq!(
            line(json!({"exitCode": 3})),
            "pod/web container app ended with exit code 3, 2 times restarted; its output: kubectl logs web -p"
        );
    }

    #[test]
    fn a_plane_that_stops_tells_nothing_of_its_pods_but_knows_who_runs() {
        let mut lines = Lines::default();
        lines.pod(at(0), &ready("True"));
        lines.stop();
        assert_eq!(lines.pod(at(1), &ready("False")), None);
        assert_eq!(lines.running().collect::<Vec<_>>(), ["pod/web"]);
    }
}
