//! Pod conditions from container statuses and readiness gates.
//!
//! The agent owns Initialized, Ready, ContainersReady, PodScheduled and PodReadyToStartContainers; conditions of others are
//! handed through untouched. A time of transition changes only with the status.

use api::Timestamp;
use api::meta::Condition;
use api::pod::{ContainerStatus, PodSpec};
use machine::Time;

/// `True` of the API.
const TRUE: &str = "True";
/// `False` of the API.
const FALSE: &str = "False";

/// What the conditions of a pod are computed from.
#[derive(Clone, Copy, Debug)]
pub struct ConditionFacts<'a> {
    /// What the pod is to be.
    pub spec: &'a PodSpec,
    /// What is known of its containers, init containers included; `None`: nothing was reported yet.
    pub statuses: Option<&'a [ContainerStatus]>,
    /// The phase of the pod.
    pub phase: &'a str,
    /// Whether it has its sandbox and an address.
    pub has_sandbox: bool,
    /// The generation of the pod that all this is about.
    pub generation: Option<i64>,
}

/// Status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConditionState {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl ConditionState {
    fn yes() -> ConditionState {
        ConditionState { status: TRUE, reason: "", message: String::new() }
    }

    fn no(reason: &'static str, message: String) -> ConditionState {
        ConditionState { status: FALSE, reason, message }
    }
}

/// Returns all conditions of the pod: those of the agent computed anew, those of others as they are.
pub fn pod_conditions(now: Time, facts: &ConditionFacts<'_>, current: &[Condition]) -> Vec<Condition> {
    let containers_ready = containers_ready(facts);
    let sandbox =
        if facts.has_sandbox { ConditionState::yes() } else { ConditionState { status: FALSE, ..ConditionState::yes() } };
    let owned = [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized(facts, current)),
        ("Ready", ready(facts, &containers_ready, current)),
        ("ContainersReady", containers_ready),
        ("PodScheduled", ConditionState::yes()),
    ];
    let mut conditions = current.to_vec();
    for (type_, ConditionState { status, reason, message }) in owned {
        let at = conditions.iter().position(|condition| condition.type_ == type_);
        let at = at.unwrap_or_else(|| {
            conditions.push(Condition { type_: type_.to_owned(), ..Condition::default() });
            conditions.len() - 1
        });
        let condition = &mut conditions[at];
        if condition.status != status || condition.last_transition_time.is_none() {
            condition.last_transition_time = Some(Timestamp(now.floor_second()));
        }
        condition.status = status.to_owned();
        condition.reason = reason.to_owned();
        condition.message = message;
        condition.observed_generation = facts.generation;
    }
    conditions
}

impl<'a> ConditionFacts<'a> {
    fn status(&self, name: &str) -> Option<&'a ContainerStatus> {
        self.statuses?.iter().find(|status| status.name == name)
    }

    /// Returns the names of containers that are unknown, and of those that are known but not `good`.
    fn lacking<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        good: impl Fn(&ContainerStatus) -> bool,
    ) -> (Vec<&'n str>, Vec<&'n str>) {
        let (mut unknown, mut bad) = (Vec::new(), Vec::new());
        for name in names {
            match self.status(name) {
                None => unknown.push(name),
                Some(status) if !good(status) => bad.push(name),
                Some(_) => {}
            }
        }
        (unknown, bad)
    }
}

/// Returns the message that names containers, unknown ones first; empty if there are none.
fn names(unknown: &[&str], bad: &[&str], bad_words: &str) -> String {
    let list = |words: &str, names: &[&str]| (!names.is_empty()).then(|| format!("{words}: [{}]", names.join(" ")));
    let parts = [list("containers with unknown status", unknown), list(bad_words, bad)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn containers_ready(facts: &ConditionFacts<'_>) -> ConditionState {
    if facts.statuses.is_none() {
        return ConditionState::no("UnknownContainerStatuses", String::new());
    }
    let sidecars = facts.spec.init_containers.iter().filter(|container| container.is_sidecar());
    let counted = sidecars.chain(&facts.spec.containers).map(|container| container.name.as_str());
    let (unknown, unready) = facts.lacking(counted, |status| status.ready);
    match facts.phase {
        "Succeeded" if unknown.is_empty() => ConditionState::no("PodCompleted", String::new()),
        "Failed" => ConditionState::no("PodFailed", String::new()),
        _ if unknown.is_empty() && unready.is_empty() => ConditionState::yes(),
        _ => ConditionState::no("ContainersNotReady", names(&unknown, &unready, "containers with unready status")),
    }
}

fn ready(facts: &ConditionFacts<'_>, containers_ready: &ConditionState, current: &[Condition]) -> ConditionState {
    if containers_ready.status != TRUE {
        return containers_ready.clone();
    }
    let lacking: Vec<String> = facts
        .spec
        .readiness_gates
        .iter()
        .filter_map(|gate| {
            let type_ = &gate.condition_type;
            match current.iter().find(|condition| condition.type_ == *type_).map(|condition| condition.status.as_str()) {
                Some(TRUE) => None,
                Some(other) => Some(format!("the status of pod readiness gate {type_:?} is not \"True\", but {other}")),
                None => Some(format!("corresponding condition of pod readiness gate {type_:?} does not exist.")),
            }
        })
        .collect();
    if lacking.is_empty() { ConditionState::yes() } else { ConditionState::no("ReadinessGatesNotReady", lacking.join(", ")) }
}

fn initialized(facts: &ConditionFacts<'_>, current: &[Condition]) -> ConditionState {
    let init = &facts.spec.init_containers;
    if facts.statuses.is_none() && !init.is_empty() {
        return ConditionState::no("UnknownContainerStatuses", String::new());
    }
    let complete = |status: &ContainerStatus| {
        let sidecar = init.iter().any(|container| container.name == status.name && container.is_sidecar());
        if sidecar { status.started == Some(true) } else { status.ready }
    };
    let (unknown, incomplete) = facts.lacking(init.iter().map(|container| container.name.as_str()), complete);
    if facts.phase == "Succeeded" && unknown.is_empty() {
        return ConditionState { reason: "PodCompleted", ..ConditionState::yes() };
    }
    let ran = |status: &ContainerStatus| status.state.running.is_some() || status.state.terminated.is_some();
    let any_ran = facts.spec.containers.iter().any(|container| facts.status(&container.name).is_some_and(ran));
    let already = current.iter().any(|condition| condition.type_ == "Initialized" && condition.status == TRUE);
    if any_ran || already || (unknown.is_empty() && incomplete.is_empty()) {
        return ConditionState::yes();
    }
    ConditionState::no("ContainersNotInitialized", names(&unknown, &incomplete, "containers with incomplete status"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::pod::Container;

    fn spec() -> PodSpec {
        PodSpec { containers: vec![Container { name: "app".to_owned(), ..Container::default() }], ..PodSpec::default() }
    }

    fn conditions(now: i64, ready: bool, current: &[Condition]) -> Vec<Condition> {
        let spec = spec();
        let status = ContainerStatus { name: "app".to_owned(), ready, ..ContainerStatus::default() };
        let facts =
            ConditionFacts { spec: &spec, statuses: Some(&[status]), phase: "Running", has_sandbox: true, generation: Some(4) };
        pod_conditions(Time::from_millis(now), &facts, current)
    }

    #[test]
    fn a_transition_is_a_change_of_status() {
        let of = |conditions: &[Condition]| {
            conditions.iter().find(|condition| condition.type_ == "Ready").unwrap().last_transition_time.unwrap().0.as_secs()
        };
        let first = conditions(10_700, false, &[]);
        let same = conditions(20_000, false, &first);
        let changed = conditions(30_000, true, &same);
        assert_eq!((of(&first), of(&same), of(&changed)), (10, 10, 30));
        assert_eq!(conditions(40_000, true, &changed), changed);
    }

    #[test]
    fn conditions_of_others_are_kept_where_they_are() {
        let other = Condition { type_: "example.com/lb".to_owned(), status: "Unknown".to_owned(), ..Condition::default() };
        let all = conditions(0, true, std::slice::from_ref(&other));
        assert_eq!(all[0], other);
        assert!(all[1..].iter().all(|condition| condition.observed_generation == Some(4)));
        assert_eq!(all.len(), 6);
    }
}
