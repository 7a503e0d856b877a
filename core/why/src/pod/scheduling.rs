//! What the scheduler says, and what the nodes say to it.

use std::collections::BTreeMap;

use api::node::Taint;
use api::pod::Toleration;
use api::tolerations::{NOT_READY, UNREACHABLE, tolerates};
use api::{Node, json};
use serde_json::{Value, json};

use super::{Owner, Subject};
use crate::answer::Finding;
use crate::chain::Step;
use crate::facts::{Query, Resource};
use crate::words;

/// More nodes than this are not read: their labels and taints repeat.
const NODES_MAX: u32 = 200;

/// Why no node fits, as the scheduler says it.
pub(super) struct Reasons {
    message: String,
    /// The reasons, each with how many nodes it is true of.
    list: Vec<(String, u64)>,
}

/// Kinds of reasons, in the order in which the scheduler filters: a node that failed later was nearer to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Filter {
    NoNodes,
    NotReady,
    Unschedulable,
    Taint,
    NodeAffinity,
    Ports,
    Resources,
    Volumes,
    Spread,
    PodAffinity,
    Other,
}

fn filter(reason: &str) -> Filter {
    let any = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if any(&["Insufficient", "Too many pods"]) {
        Filter::Resources
    } else if any(&["untolerated taint", "taint"]) {
        Filter::Taint
    } else if any(&["unschedulable"]) {
        Filter::Unschedulable
    } else if any(&["not ready"]) {
        Filter::NotReady
    } else if any(&["topology spread"]) {
        Filter::Spread
    } else if any(&["pod affinity", "anti-affinity", "pod's affinity"]) {
        Filter::PodAffinity
    } else if any(&["node affinity/selector", "node affinity", "node selector", "requested node name"])
        && !any(&["volume node affinity"])
    {
        Filter::NodeAffinity
    } else if any(&["free ports"]) {
        Filter::Ports
    } else if any(&["volume", "PersistentVolume", "persistentvolume"]) {
        Filter::Volumes
    } else if any(&["no nodes available"]) {
        Filter::NoNodes
    } else {
        Filter::Other
    }
}

impl Reasons {
    pub(super) fn of(message: &str) -> Reasons {
        // What preemption says, and that a claim is missing, follow in sentences of their own.
        let first = message.split(". preemption:").next().unwrap_or(message);
        let first = first.split(" preemption:").next().unwrap_or(first);
        let listed = first.split_once("nodes are available: ").map_or(first, |(_, rest)| rest);
        let listed = listed.split(". ").next().unwrap_or(listed);
        let list = listed
            .trim_end_matches(['.', ' '])
            .split(", ")
            .filter(|part| !part.is_empty())
            .map(|part| match part.split_once(' ') {
                Some((number, rest)) if number.parse::<u64>().is_ok() => {
                    (rest.trim_end_matches('.').to_owned(), number.parse().unwrap_or(1))
                }
                _ => (part.to_owned(), 0),
            })
            .collect();
        Reasons { message: message.to_owned(), list }
    }

    pub(super) fn mentions_claims(&self) -> bool {
        let lower = self.message.to_lowercase();
        lower.contains("persistentvolumeclaim") || lower.contains("persistent volumes to bind")
    }

    /// Returns the reason of the nodes that were nearest to fit.
    fn main(&self) -> Option<(Filter, &str)> {
        self.list.iter().map(|(reason, _)| (filter(reason), reason.as_str())).max_by_key(|(filter, _)| *filter)
    }

    fn names<'a>(&'a self, start: &str) -> Vec<&'a str> {
        self.list.iter().filter_map(|(reason, _)| reason.strip_prefix(start)).collect()
    }
}

/// Says why no node fits.
pub(super) fn explain(subject: &Subject<'_>, reasons: &Reasons) -> Step<Finding> {
    let main = reasons.main();
    let plain = |cause, what: String| Finding::new(cause, subject.short(), what);
    let all: Vec<String> = reasons
        .list
        .iter()
        .map(|(reason, nodes)| if *nodes > 0 { format!("{reason} ({nodes})") } else { reason.clone() })
        .collect();
    let everything = words::some(&all, 6);
    let needs_nodes = matches!(
        main,
        Some((Filter::Taint | Filter::NodeAffinity | Filter::Resources | Filter::Unschedulable | Filter::NotReady, _))
    );
    let nodes = if needs_nodes { read_nodes(subject)? } else { Vec::new() };
    Ok(match main {
        Some((Filter::Resources, _)) => resources(subject, reasons, &nodes),
        Some((Filter::NodeAffinity, _)) => affinity(subject, &nodes, &everything),
        Some((Filter::Taint, reason)) => taints(subject, reason, &nodes, &everything),
        Some((Filter::Unschedulable, _)) => {
            let cordoned: Vec<&str> =
                nodes.iter().filter(|node| node.spec.unschedulable).map(|node| node.metadata.name.as_str()).collect();
            let name = cordoned.first().copied().unwrap_or("NODE");
            plain("Cordoned", format!("no node takes pods: {everything}"))
                .seen(
                    "nodes",
                    "spec.unschedulable",
                    if cordoned.is_empty() { "true".to_owned() } else { format!("true on {}", words::some(&cordoned, 5)) },
                )
                .act("let the node take pods again, when its maintenance is done", format!("kubectl uncordon {name}"))
        }
        Some((Filter::NotReady, _)) => {
            let sick: Vec<&str> =
                nodes.iter().filter(|node| node.ready() != Some("True")).map(|node| node.metadata.name.as_str()).collect();
            let name = sick.first().copied().unwrap_or("NODE");
            plain("NodesNotReady", format!("no node is ready: {everything}"))
                .seen("nodes", "condition Ready", format!("not True on {}", words::some(&sick, 5)))
                .act("why the node is not ready", format!("lifesign why node/{name}"))
        }
        Some((Filter::NoNodes, _)) => {
            plain("NoNodes", "the cluster has no node that pods could go to".to_owned()).act("add a node", "kubectl get nodes")
        }
        Some((Filter::Ports, _)) => {
            plain("PortTaken", format!("a hostPort that it wants is taken on every node: {everything}"))
                .act("give up hostPort, or take another one", Owner::of(&subject.pod).edit())
        }
        Some((Filter::Spread, _)) => {
            plain("TopologySpread", format!("its topologySpreadConstraints leave no node: {everything}"))
                .seen(
                    subject.short(),
                    "spec.topologySpreadConstraints",
                    json::at(subject.raw, &["spec", "topologySpreadConstraints"]).map_or_else(String::new, Value::to_string),
                )
                .act(
                    "add nodes in the topology domain that has fewest pods, or use whenUnsatisfiable: ScheduleAnyway",
                    Owner::of(&subject.pod).edit(),
                )
        }
        Some((Filter::PodAffinity, reason)) => {
            plain("PodAffinity", format!("its pod affinity rules leave no node: {everything}"))
                .seen(
                    subject.short(),
                    "spec.affinity",
                    json::at(subject.raw, &["spec", "affinity"]).map_or_else(|| reason.to_owned(), Value::to_string),
                )
                .act(
                    "add nodes (anti-affinity: one for each replica), or make the rule preferred instead of required",
                    Owner::of(&subject.pod).edit(),
                )
        }
        Some((Filter::Volumes, _)) => plain("VolumeConflict", format!("its volumes leave no node: {everything}")).act(
            "the volume must be reachable from a node that fits otherwise: look at its zone and node affinity",
            "kubectl get pv -o wide",
        ),
        Some((Filter::Other, _)) | None => {
            let what = if reasons.message.is_empty() {
                "no node fits".to_owned()
            } else {
                format!("no node fits: {}", reasons.message)
            };
            plain("Unschedulable", what)
                .act("what the scheduler says", subject.kubectl(&format!("describe {}", subject.short())))
        }
    })
}

fn read_nodes(subject: &Subject<'_>) -> Step<Vec<Node>> {
    let query = Query::list(Resource::Nodes, "", "", "", NODES_MAX);
    let Ok(listed) = subject.facts.list(&query)? else { return Ok(Vec::new()) };
    Ok(listed.items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect())
}

fn resources(subject: &Subject<'_>, reasons: &Reasons, nodes: &[Node]) -> Finding {
    let requested = pods::pod_requests(&subject.pod);
    let owner = Owner::of(&subject.pod);
    let short = reasons.names("Insufficient ");
    let Some(name) = short.first() else {
        let what = "every node that fits has as many pods as it may have".to_owned();
        return Finding::new("TooManyPods", subject.short(), what)
            .act("add a node, or raise maxPods of the kubelets", "kubectl get nodes");
    };
    let wanted = requested.get(*name).map_or_else(|| "some".to_owned(), ToString::to_string);
    let largest = nodes
        .iter()
        .filter_map(|node| Some((node.status.allocatable.get(*name)?, &node.metadata.name)))
        .max_by_key(|(amount, _)| **amount);
    let too_large = largest.is_some_and(|(amount, _)| requested.get(*name).is_some_and(|wanted| wanted > amount));
    let size = match (largest, too_large) {
        (Some((amount, node)), true) => format!("; no node is that large: {node} has {amount}"),
        (Some((amount, node)), false) => {
            format!("; that much would fit ({node} has {amount}), but other pods have requested it")
        }
        (None, _) => String::new(),
    };
    let what = format!("no node has {wanted} of {name} free, which it requests{size}");
    let mut finding = Finding::new("Insufficient", subject.short(), what);
    for name in &short {
        if let Some(wanted) = requested.get(*name) {
            finding = finding.seen(subject.short(), format!("requests of all containers, {name}"), wanted.to_string());
        }
    }
    if let Some((amount, node)) = largest {
        finding = finding.seen(format!("node/{node}"), format!("status.allocatable.{name}"), amount.to_string());
    }
    let container = subject.pod.spec.containers.first().map_or("", |container| container.name.as_str());
    let set = if owner.short.starts_with("pod/") {
        owner.edit()
    } else {
        subject.kubectl(&format!("set resources {} -c {container} --requests={name}=AMOUNT", owner.short))
    };
    let finding = finding.act("request less", set);
    if too_large {
        finding.act("or add a larger node", "")
    } else {
        finding.act(
            "or make room: add a node, or end pods; this shows who requests what",
            "kubectl describe nodes | grep -A8 'Allocated resources'",
        )
    }
}

fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn taints(subject: &Subject<'_>, reason: &str, nodes: &[Node], everything: &str) -> Finding {
    let own = &subject.pod.spec.tolerations;
    let mut found: BTreeMap<(String, String, String), Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let hard = node.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule" && !tolerated(own, taint));
        for taint in hard {
            found.entry((taint.key.clone(), taint.value.clone(), taint.effect.clone())).or_default().push(&node.metadata.name);
        }
    }
    // The taint of a control plane is as a rule meant.
    let system = |key: &str| key.starts_with("node-role.kubernetes.io/");
    let chosen = found.iter().min_by_key(|((key, ..), _)| system(key));
    let Some(((key, value, effect), names)) = chosen else {
        return Finding::new("UntoleratedTaint", subject.short(), format!("no node takes it: {reason}")).act(
            "tolerate the taint, or take it from the node",
            "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
        );
    };
    let shown = if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") };
    let mut finding =
        Finding::new("UntoleratedTaint", subject.short(), format!("it does not tolerate taint {shown}: {everything}"));
    for ((key, value, effect), names) in found.iter().take(4) {
        let shown = if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") };
        finding = finding.seen(format!("node/{}", words::some(names, 3)), "spec.taints", shown);
    }
    let first = names.first().copied().unwrap_or_default();
    if let Some(health) =
        ["not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable", "unschedulable"]
            .iter()
            .find(|name| key == &format!("node.kubernetes.io/{name}"))
    {
        return match *health {
            "unschedulable" => finding.act("let the node take pods again", format!("kubectl uncordon {first}")),
            _ => finding.act("the taint says that the node is not well: find out why", format!("lifesign why node/{first}")),
        };
    }
    let operator = if value.is_empty() {
        json!({"key": key, "operator": "Exists", "effect": effect})
    } else {
        json!({"key": key, "operator": "Equal", "value": value, "effect": effect})
    };
    let owner = Owner::of(&subject.pod);
    let is_pod = owner.short.starts_with("pod/");
    // Admission adds these two to every pod; a template does not have them.
    let kept = own
        .iter()
        .filter(|own| is_pod || !(own.toleration_seconds.is_some() && [NOT_READY, UNREACHABLE].contains(&own.key.as_str())));
    let mut list: Vec<Value> = kept.filter_map(|own| serde_json::to_value(own).ok()).collect();
    list.push(operator);
    finding
        .act(format!("tolerate it, if pods of {} belong there", owner.short), owner.patch_tolerations(Value::Array(list)))
        .act("or take the taint from the node", format!("kubectl taint nodes {first} {key}:{effect}-"))
}

fn affinity(subject: &Subject<'_>, nodes: &[Node], everything: &str) -> Finding {
    let owner = Owner::of(&subject.pod);
    let mut finding = Finding::new("NodeSelector", subject.short(), String::new());
    for (key, value) in &subject.pod.spec.node_selector {
        if nodes.is_empty() || nodes.iter().any(|node| node.metadata.labels.get(key) == Some(value)) {
            continue;
        }
        let values: Vec<&str> = nodes.iter().filter_map(|node| node.metadata.labels.get(key)).map(String::as_str).collect();
        let mut others = values.clone();
        others.sort_unstable();
        others.dedup();
        let have = if others.is_empty() {
            format!("no node has label {key}")
        } else {
            format!("nodes have {key} = {}", words::some(&others, 4))
        };
        let node = nodes.first().map_or("NODE", |node| node.metadata.name.as_str());
        finding.what = format!("its nodeSelector wants {key}={value}, and no node has that label");
        return finding
            .seen(subject.short(), "spec.nodeSelector", format!("{key}={value}"))
            .seen("nodes", "metadata.labels", have)
            .act("label the node that is meant", format!("kubectl label node {node} {key}={value}"))
            .act(format!("or correct {}", owner.path("spec.nodeSelector")), owner.edit());
    }
    let terms = json::items(
        subject.raw,
        &["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"],
    );
    for term in terms {
        for expression in json::items(term, &["matchExpressions"]) {
            if nodes.is_empty() || nodes.iter().any(|node| matches(expression, node)) {
                continue;
            }
            let key = json::text(expression, &["key"]);
            let values: Vec<&str> = json::items(expression, &["values"]).iter().filter_map(Value::as_str).collect();
            let mut others: Vec<&str> =
                nodes.iter().filter_map(|node| node.metadata.labels.get(key)).map(String::as_str).collect();
            others.sort_unstable();
            others.dedup();
            finding.cause = "NodeAffinity";
            finding.what = format!(
                "its node affinity wants {key} {} {}, and no node is like that",
                json::text(expression, &["operator"]),
                words::some(&values, 4)
            );
            return finding
                .seen(subject.short(), "spec.affinity.nodeAffinity", expression.to_string())
                .seen(
                    "nodes",
                    format!("label {key}"),
                    if others.is_empty() { "on no node".to_owned() } else { words::some(&others, 5) },
                )
                .act("label the node that is meant, or correct the rule", owner.edit());
        }
    }
    let wanted = words::selector(&subject.pod.spec.node_selector);
    finding.what = format!("no node fits its nodeSelector and node affinity together: {everything}");
    let finding = if wanted.is_empty() { finding } else { finding.seen(subject.short(), "spec.nodeSelector", wanted) };
    let finding = match json::at(subject.raw, &["spec", "affinity", "nodeAffinity"]) {
        Some(rule) => finding.seen(subject.short(), "spec.affinity.nodeAffinity", rule.to_string()),
        None => finding,
    };
    finding.act("compare with the labels of the nodes", "kubectl get nodes --show-labels").act("correct the rule", owner.edit())
}

/// Returns whether a node is as an expression of node affinity wants it.
fn matches(expression: &Value, node: &Node) -> bool {
    let own = node.metadata.labels.get(json::text(expression, &["key"])).map(String::as_str);
    let values: Vec<&str> = json::items(expression, &["values"]).iter().filter_map(Value::as_str).collect();
    let numbers = || Some((own?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match json::text(expression, &["operator"]) {
        "In" => own.is_some_and(|own| values.contains(&own)),
        "NotIn" => own.is_none_or(|own| !values.contains(&own)),
        "Exists" => own.is_some(),
        "DoesNotExist" => own.is_none(),
        "Gt" => numbers().is_some_and(|(own, wanted)| own > wanted),
        "Lt" => numbers().is_some_and(|(own, wanted)| own < wanted),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
