//! Which node a pod goes to: the first Ready one that fits.
//!
//! A node fits if its labels match, its taints are tolerated, and what the pod requests is free. There is no score: this is for
//! planes of one or a few nodes.

use std::collections::{BTreeMap, BTreeSet};

use api::Quantity;
use api::node::{Node, Taint};
use api::pod::{Amounts, Container, Pod};
use api::tolerations::tolerates;

/// The taint that an unschedulable node has in effect; Kubernetes.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// To this node.
    Bind(String),
    /// Nowhere; why, for the event `FailedScheduling` and the condition `PodScheduled`.
    Unschedulable(String),
}

/// What the pods of a node take of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What they request.
    pub requested: Amounts,
    /// How many they are.
    pub pods: i64,
}

impl Usage {
    /// Returns what a pod takes; one that has finished takes nothing.
    pub fn of(pod: &Pod) -> Usage {
        if pod.terminal() { Usage::default() } else { Usage { requested: pod_requests(pod), pods: 1 } }
    }

    /// Adds what a pod takes.
    pub fn add(&mut self, takes: &Usage) {
        add(&mut self.requested, &takes.requested);
        self.pods += takes.pods;
    }

    /// Takes away what a pod took.
    pub fn remove(&mut self, takes: &Usage) {
        for (name, amount) in &takes.requested {
            if let Some(sum) = self.requested.get_mut(name) {
                *sum = *sum - *amount;
            }
        }
        self.requested.retain(|_, sum| !sum.is_zero());
        self.pods -= takes.pods;
    }

    /// Returns whether nothing is taken.
    pub fn is_nothing(&self) -> bool {
        self.pods == 0 && self.requested.is_empty()
    }
}

/// Chooses the node of a pod, the first in the given order that fits.
pub fn schedule<'a>(pod: &Pod, nodes: impl IntoIterator<Item = &'a Node>, usage: &BTreeMap<String, Usage>) -> Decision {
    let requests = pod_requests(pod);
    let nothing = Usage::default();
    let (mut count, mut reasons) = (0, BTreeMap::<String, u32>::new());
    for node in nodes {
        let against = objections(pod, &requests, node, usage.get(&node.metadata.name).unwrap_or(&nothing));
        if against.is_empty() {
            return Decision::Bind(node.metadata.name.clone());
        }
        count += 1;
        for reason in against {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    if count == 0 {
        return Decision::Unschedulable("no nodes available to schedule pods".to_owned());
    }
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    Decision::Unschedulable(format!("0/{count} nodes are available: {}.", reasons.join(", ")))
}

/// Returns everything that keeps a pod from a node.
fn objections(pod: &Pod, requests: &Amounts, node: &Node, usage: &Usage) -> BTreeSet<String> {
    let mut against = BTreeSet::new();
    if node.metadata.deleting() || node.ready() != Some("True") {
        against.insert("node(s) were not ready".to_owned());
    }
    let cordon = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    if node.spec.unschedulable && !tolerated(pod, &cordon) {
        against.insert("node(s) were unschedulable".to_owned());
    }
    let untolerated = node.spec.taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    if let Some(taint) = untolerated.filter(|taint| taint.key != UNSCHEDULABLE).find(|taint| !tolerated(pod, taint)) {
        against.insert(format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value));
    }
    if pod.spec.node_selector.iter().any(|(key, value)| node.metadata.labels.get(key) != Some(value)) {
        against.insert("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let allocatable = |name: &str| node.status.allocatable.get(name).copied();
    if allocatable("pods").is_some_and(|pods| usage.pods >= pods.whole()) {
        against.insert("Too many pods".to_owned());
    }
    for (name, wanted) in requests.iter().filter(|(_, wanted)| !wanted.is_zero()) {
        let used = usage.requested.get(name).copied().unwrap_or_default();
        if used + *wanted > allocatable(name).unwrap_or_default() {
            against.insert(format!("Insufficient {name}"));
        }
    }
    against
}

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Returns what a pod requests: what it takes while it runs, or at the worst moment of its initialization.
pub fn pod_requests(pod: &Pod) -> Amounts {
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in &pod.spec.init_containers {
        let own = container_requests(container);
        if container.is_sidecar() {
            add(&mut sidecars, &own);
            raise(&mut most, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &own);
            raise(&mut most, &beside);
        }
    }
    for container in &pod.spec.containers {
        add(&mut sidecars, &container_requests(container));
    }
    raise(&mut most, &sidecars);
    add(&mut most, &pod.spec.overhead);
    most
}

/// Returns what a container requests; a limit counts where nothing is requested.
fn container_requests(container: &Container) -> Amounts {
    let mut requests = container.resources.limits.clone();
    requests.extend(container.resources.requests.iter().map(|(name, amount)| (name.clone(), *amount)));
    requests
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let entry = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *entry = *entry + *amount;
    }
}

fn raise(most: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let entry = most.entry(name.clone()).or_insert(Quantity::ZERO);
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns what pods take together, by the node that they are assigned to.
    fn by_node<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> BTreeMap<String, Usage> {
        let mut usage: BTreeMap<String, Usage> = BTreeMap::new();
        for pod in pods.into_iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            usage.entry(pod.spec.node_name.clone()).or_default().add(&Usage::of(pod));
        }
        usage
    }

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "d"}, "spec": spec})).unwrap()
    }

    fn node(name: &str, more: serde_json::Value) -> Node {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"disk": "ssd"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "memory": "1Gi", "pods": 2}},
        });
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        serde_json::from_value(node).unwrap()
    }

    fn cpu(amount: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": amount}}})
    }

    #[test]
    fn the_first_node_that_fits_is_chosen() {
        let away = node("a", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
        let cordoned = node("b", json!({"spec": {"unschedulable": true}}));
        let tainted = node("c", json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}));
        let soft = node("d", json!({"spec": {"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}}));
        let all = [away, cordoned, tainted, soft];
        let plain = pod(json!({"containers": [cpu("1")]}));
        assert_eq!(schedule(&plain, &all, &BTreeMap::new()), Decision::Bind("d".to_owned()));
        let tolerates = pod(json!({"tolerations": [{"key": "gpu", "operator": "Exists"}], "containers": [cpu("1")]}));
        assert_eq!(schedule(&tolerates, &all, &BTreeMap::new()), Decision::Bind("c".to_owned()));
        let everywhere = pod(json!({"tolerations": [{"operator": "Exists"}]}));
        assert_eq!(schedule(&everywhere, &all, &BTreeMap::new()), Decision::Bind("b".to_owned()));
    }

    #[test]
    fn every_objection_is_told_with_its_count() {
        let all = [node("a", json!({})), node("b", json!({"spec": {"unschedulable": true}}))];
        let wants = pod(json!({"nodeSelector": {"disk": "tape"}, "containers": [cpu("3")]}));
        let Decision::Unschedulable(text) = schedule(&wants, &all, &BTreeMap::new()) else { panic!("nothing fits") };
        let expected = "0/2 nodes are available: 2 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector, \
                        1 node(s) were unschedulable.";
        assert_eq!(text, expected);
        let nowhere = schedule(&wants, &[], &BTreeMap::new());
        assert_eq!(nowhere, Decision::Unschedulable("no nodes available to schedule pods".to_owned()));
    }

    #[test]
    fn what_is_taken_is_not_free() {
        let all = [node("a", json!({}))];
        let half = pod(json!({"nodeName": "a", "containers": [cpu("1500m")]}));
        let usage = by_node([&half]);
        assert_eq!(schedule(&pod(json!({"containers": [cpu("500m")]})), &all, &usage), Decision::Bind("a".to_owned()));
        assert!(matches!(schedule(&half, &all, &usage), Decision::Unschedulable(_)));
        let mut done = half.clone();
        done.status.phase = "Succeeded".to_owned();
        assert_eq!(schedule(&half, &all, &by_node([&done])), Decision::Bind("a".to_owned()));
        let small = pod(json!({"nodeName": "a", "containers": [{"name": "c"}]}));
        let full = by_node([&small, &small]);
        assert!(matches!(schedule(&small, &all, &full), Decision::Unschedulable(text) if text.contains("Too many pods")));
    }

    #[test]
    fn a_pod_requests_its_worst_moment() {
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}});
        let heavy = pod(json!({"initContainers": [sidecar, cpu("2")], "containers": [cpu("500m"), cpu("500m")]}));
        assert_eq!(pod_requests(&heavy)["cpu"], Quantity::parse("2100m").unwrap());
        let light =
            pod(json!({"initContainers": [cpu("100m"), sidecar], "containers": [cpu("1")], "overhead": {"cpu": "50m"}}));
        assert_eq!(pod_requests(&light)["cpu"], Quantity::parse("1150m").unwrap());
        let limited = pod(json!({"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]}));
        assert_eq!(pod_requests(&limited)["memory"].to_string(), "1Gi");
    }
}
