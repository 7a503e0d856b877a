//! The row of a pod: its state in one word, taken from the container that matters most.

use api::Timestamp;
use api::json::{at, boolean, int, items, text};
use machine::Time;
use serde_json::{Value, json};

use super::kinds::{created, or_none};
use super::{Row, since};

/// `status.reason` of a pod whose node does not answer.
const NODE_LOST: &str = "NodeLost";

pub(super) fn row(pod: &Value, now: Time) -> Row {
    let phase = text(pod, &["status", "phase"]);
    let summary = Summary::of(pod);
    let restarts = match summary.restarted_at {
        Some(then) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, since(now, then)),
        _ => summary.restarts.to_string(),
    };
    let cells = vec![
        text(pod, &["metadata", "name"]).into(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.word.into(),
        restarts.into(),
        created(pod, now),
        or_none(address(pod)),
        or_none(text(pod, &["spec", "nodeName"])),
        or_none(text(pod, &["status", "nominatedNodeName"])),
        readiness_gates(pod),
    ];
    Row { cells, conditions: completed(phase).into_iter().collect() }
}

/// Returns the condition of the row of a finished pod, by which clients leave it out.
fn completed(phase: &str) -> Option<Value> {
    let message = match phase {
        "Succeeded" => "The pod ended with success.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": phase, "message": message}))
}

fn address(pod: &Value) -> &str {
    match items(pod, &["status", "podIPs"]).first() {
        Some(first) => text(first, &["ip"]),
        None => text(pod, &["status", "podIP"]),
    }
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = items(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return or_none("");
    }
    let passed = gates.iter().filter(|gate| condition_is_true(pod, text(gate, &["conditionType"]))).count();
    format!("{passed}/{}", gates.len()).into()
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    let condition = items(pod, &["status", "conditions"]).iter().find(|condition| text(condition, &["type"]) == kind);
    condition.is_some_and(|condition| text(condition, &["status"]) == "True")
}

/// What the cells of a pod say about its containers.
struct Summary {
    /// The state in one word.
    word: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    /// When a container was last started again, as far as is known.
    restarted_at: Option<Time>,
}

/// Restarts of some containers.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last_at: Option<Time>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(int(status, &["restartCount"]).unwrap_or(0));
        let finished = text(status, &["lastState", "terminated", "finishedAt"]);
        self.last_at = self.last_at.max(Timestamp::parse(finished).ok().map(|stamp| stamp.0));
    }
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let sidecars: Vec<&str> = items(pod, &["spec", "initContainers"])
            .iter()
            .filter(|container| text(container, &["restartPolicy"]) == "Always")
            .map(|container| text(container, &["name"]))
            .collect();
        let mut word = own_word(pod).to_owned();
        let init = Init::of(pod, &sidecars);
        let (mut ready, mut restarts) = (init.ready, init.restarts);
        if let Some(blocked) = &init.blocked {
            word = blocked.clone();
        }
        if init.blocked.is_none() || condition_is_true(pod, "Initialized") {
            // Once the pod is initialized, only what still runs counts.
            restarts = init.sidecar_restarts;
            let mut running = false;
            for status in items(pod, &["status", "containerStatuses"]).iter().rev() {
                restarts.add(status);
                if let Some(state) = container_word(status) {
                    word = state;
                } else if boolean(status, &["ready"]) == Some(true) && at(status, &["state", "running"]).is_some() {
                    running = true;
                    ready += 1;
                }
            }
            if word == "Completed" && running {
                word = if condition_is_true(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
            }
        }
        if at(pod, &["metadata", "deletionTimestamp"]).is_some() {
            let finished = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
            if text(pod, &["status", "reason"]) == NODE_LOST {
                word = "Unknown".to_owned();
            } else if !finished {
                word = "Terminating".to_owned();
            }
        }
        let containers = items(pod, &["spec", "containers"]).len() + sidecars.len();
        Summary { word, ready, containers, restarts: restarts.count, restarted_at: restarts.last_at }
    }
}

/// Returns the word that the pod as a whole gives: phase, reason, or that it is held back from scheduling.
fn own_word(pod: &Value) -> &str {
    let gated = items(pod, &["status", "conditions"])
        .iter()
        .any(|condition| text(condition, &["type"]) == "PodScheduled" && text(condition, &["reason"]) == "SchedulingGated");
    match text(pod, &["status", "reason"]) {
        _ if gated => "SchedulingGated",
        "" => text(pod, &["status", "phase"]),
        reason => reason,
    }
}

/// What the init containers say.
#[derive(Default)]
struct Init {
    /// The word of the first one that is not done, if there is one.
    blocked: Option<String>,
    /// Sidecars that are ready.
    ready: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
}

impl Init {
    fn of(pod: &Value, sidecars: &[&str]) -> Init {
        let total = items(pod, &["spec", "initContainers"]).len();
        let mut init = Init::default();
        for (place, status) in items(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            let sidecar = sidecars.contains(&text(status, &["name"]));
            init.restarts.add(status);
            if sidecar {
                init.sidecar_restarts.add(status);
            }
            if at(status, &["state", "terminated"]).is_some_and(|ended| int(ended, &["exitCode"]).unwrap_or(0) == 0) {
                continue;
            }
            if sidecar && boolean(status, &["started"]) == Some(true) {
                init.ready += usize::from(boolean(status, &["ready"]) == Some(true));
                continue;
            }
            let word = container_word(status).filter(|word| word != "PodInitializing");
            init.blocked = Some(match word {
                Some(word) => format!("Init:{word}"),
                None => format!("Init:{place}/{total}"),
            });
            break;
        }
        init
    }
}

/// Returns why a container does not run: the reason of its state, or the signal or exit code that ended it.
fn container_word(status: &Value) -> Option<String> {
    let waiting = text(status, &["state", "waiting", "reason"]);
    if !waiting.is_empty() {
        return Some(waiting.to_owned());
    }
    let ended = at(status, &["state", "terminated"])?;
    Some(match (text(ended, &["reason"]), int(ended, &["signal"]).unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", int(ended, &["exitCode"]).unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}
