//! Which pods of a ReplicaSet go first when there are too many.
//!
//! The order of Kubernetes, kept exactly, because people rely on it: a pod that is not running before one that is, the lower
//! `controller.kubernetes.io/pod-deletion-cost` first, then the node with more pods of the same owner, then age. Ages are
//! compared by their power of two, so that among pods of about the same age the uid decides: which of them goes is spread evenly.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use machine::Time;

use crate::pod::PodFacts;

/// A pod that may be deleted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The pod.
    pub pod: &'a PodFacts,
    /// How many pods of the same owner are on its node.
    pub related: usize,
}

/// Returns the pods in the order in which they are deleted. `related`: the active pods of all ReplicaSets of the same owner.
pub fn deletion_order<'a>(
    now: Time,
    pods: impl IntoIterator<Item = &'a PodFacts>,
    related: impl IntoIterator<Item = &'a PodFacts>,
) -> Vec<&'a PodFacts> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.into_iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.node).or_default() += 1;
    }
    let candidate = |pod: &'a PodFacts| Candidate { pod, related: on_node.get(pod.node.as_str()).copied().unwrap_or(0) };
    let mut candidates: Vec<Candidate<'a>> = pods.into_iter().map(candidate).collect();
    candidates.sort_by(|a, b| compare(now, a, b));
    candidates.into_iter().map(|candidate| candidate.pod).collect()
}

/// Compares two pods: the lesser one goes first. A total order, so that the same pods always go in the same order.
fn compare(now: Time, a: &Candidate<'_>, b: &Candidate<'_>) -> Ordering {
    let (x, y) = (a.pod, b.pod);
    let age = |since: Option<Time>| since.map(|since| magnitude(now, since));
    let ready_for = |pod: &PodFacts| if pod.ready { age(pod.ready_since) } else { None };
    (!x.node.is_empty())
        .cmp(&!y.node.is_empty())
        .then(x.phase.cmp(&y.phase))
        .then(x.ready.cmp(&y.ready))
        .then(x.deletion_cost.cmp(&y.deletion_cost))
        .then(b.related.cmp(&a.related))
        .then_with(|| ready_for(x).cmp(&ready_for(y)))
        .then(y.restarts.cmp(&x.restarts))
        .then_with(|| age(x.created_at).cmp(&age(y.created_at)))
        .then_with(|| x.uid.cmp(&y.uid))
        .then_with(|| x.key.cmp(&y.key))
}

/// Returns the power of two of an age, in nanoseconds as Kubernetes has it; -1: it lies ahead.
fn magnitude(now: Time, since: Time) -> i32 {
    match now.since(since).as_nanos() {
        0 => -1,
        nanos => i32::try_from(nanos.ilog2()).expect("a number of 128 bits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Phase;
    use api::Key;

    fn pod(name: &str) -> PodFacts {
        PodFacts {
            key: Key::new("ns", name),
            uid: name.to_owned(),
            node: "n".to_owned(),
            phase: Phase::Running,
            ready: true,
            ready_since: Some(Time::from_secs(100)),
            created_at: Some(Time::from_secs(90)),
            ..PodFacts::default()
        }
    }

    fn names(pods: &[PodFacts]) -> Vec<String> {
        deletion_order(Time::from_secs(10_000), pods, pods).iter().map(|pod| pod.key.name.clone()).collect()
    }

    #[test]
    fn pods_go_in_the_order_of_kubernetes() {
        let pods = [
            pod("z-old"),
            PodFacts { created_at: Some(Time::from_secs(9_999)), ready_since: Some(Time::from_secs(9_999)), ..pod("y-young") },
            PodFacts { deletion_cost: -5, ..pod("x-cheap") },
            PodFacts { ready: false, ready_since: None, ..pod("w-not-ready") },
            PodFacts { phase: Phase::Unknown, ..pod("v-unknown") },
            PodFacts { phase: Phase::Pending, ready: false, ..pod("u-pending") },
            PodFacts { node: String::new(), phase: Phase::Pending, ready: false, ..pod("t-unassigned") },
            PodFacts { deletion_cost: 7, ..pod("s-dear") },
        ];
        assert_eq!(
            names(&pods),
            ["t-unassigned", "u-pending", "v-unknown", "w-not-ready", "x-cheap", "y-young", "z-old", "s-dear"]
        );
    }

    #[test]
    fn a_crowded_node_gives_first_and_restarts_count() {
        let other = |name: &str| PodFacts { node: "m".to_owned(), ..pod(name) };
        assert_eq!(names(&[pod("a"), other("b"), other("c")]), ["b", "c", "a"]);
        assert_eq!(names(&[pod("a"), PodFacts { restarts: (3, 0), ..pod("b") }]), ["b", "a"]);
        assert_eq!(names(&[pod("a"), PodFacts { restarts: (0, 1), ..pod("b") }]), ["b", "a"]);
    }

    #[test]
    fn ages_within_one_power_of_two_are_equal_and_the_uid_decides() {
        let ready = |name: &str, at| PodFacts { ready_since: Some(Time::from_secs(at)), ..pod(name) };
        assert_eq!(names(&[ready("b", 1_000), ready("a", 1_001)]), ["a", "b"]);
        assert_eq!(names(&[ready("a", 1_000), ready("b", 1_001)]), ["a", "b"]);
        assert_eq!(names(&[ready("a", 1_000), ready("b", 9_000)]), ["b", "a"]);
    }
}
