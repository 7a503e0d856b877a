//! The chain of a node: from its existence to the pods that it takes.

use std::time::Duration;

use api::meta::Condition;
use api::tolerations::tolerates;
use api::{Lease, Node, Pod, json};
use machine::Time;
use serde_json::Value;

use crate::answer::{Answer, Evidence, Finding};
use crate::chain::{Chain, Step, Stop};
use crate::events::{self, Event};
use crate::exists;
use crate::facts::{Facts, Query, Resource};
use crate::target::Target;
use crate::words;

const LINKS: &[&str] = &["exists", "heartbeat", "ready", "network", "pressure", "schedulable"];
/// Where nodes renew their Leases; Kubernetes.
const LEASES: &str = "kube-node-lease";
/// What the runtime of a node of this project calls itself.
const OWN_RUNTIME: &str = "lifesign://";
/// How long the node monitor waits for a heartbeat unless told otherwise; Kubernetes.
const GRACE: Duration = Duration::from_secs(50);

/// Whether a node lives.
pub(crate) enum Life {
    Lives(String),
    Unknown(String),
    Broken(Box<Finding>),
}

/// A node, and what its Lease says.
struct Seen<'a> {
    now: Time,
    node: Node,
    raw: &'a Value,
    lease: Option<Lease>,
}

fn queries(name: &str) -> [Query; 2] {
    [Query::get(Resource::Nodes, "", name), Query::get(Resource::Leases, LEASES, name)]
}

impl<'a> Seen<'a> {
    fn read(now: Time, facts: &'a Facts, raw: &'a Value) -> Step<Seen<'a>> {
        let name = json::text(raw, &["metadata", "name"]);
        let node: Node = serde_json::from_value(raw.clone()).map_err(|error| {
            Stop::CannotTell(Finding::new("Unreadable", format!("node/{name}"), format!("the node cannot be read: {error}")))
        })?;
        let [_, lease] = queries(name);
        let lease = facts.object(&lease)?.ok().flatten().and_then(|lease| serde_json::from_value(lease.clone()).ok());
        Ok(Seen { now, node, raw, lease })
    }

    fn short(&self) -> String {
        format!("node/{}", self.node.metadata.name)
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.node.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    fn seen(&self, condition: &Condition) -> Evidence {
        let why = [condition.reason.as_str(), condition.message.as_str()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(": ");
        Evidence {
            object: self.short(),
            field: format!("status.conditions[{}]", condition.type_),
            value: format!("{} {why}", condition.status).trim_end().to_owned(),
            at: condition.last_transition_time,
        }
    }

    /// Returns when the node last renewed its Lease, and how long one lasts.
    fn renewed(&self) -> Option<(Time, Duration)> {
        let spec = &self.lease.as_ref()?.spec;
        Some((spec.renew_time?.0, spec.duration()?))
    }

    fn lease_evidence(&self) -> Option<Evidence> {
        let spec = &self.lease.as_ref()?.spec;
        let duration = spec.duration().map_or_else(String::new, |duration| {
            format!("lease of {}, renewed every {}", words::span(duration), words::span(api::lease::interval_of(duration)))
        });
        Some(Evidence {
            object: format!("lease/{LEASES}/{}", self.node.metadata.name),
            field: "spec.renewTime".to_owned(),
            value: duration,
            at: spec.renew_time,
        })
    }

    fn is_own(&self) -> bool {
        json::text(self.raw, &["status", "nodeInfo", "containerRuntimeVersion"]).starts_with(OWN_RUNTIME)
    }

    /// Returns what keeps the node silent: who should run on it, and how to see.
    fn look(&self) -> (String, String) {
        if self.is_own() {
            return (
                "is `lifesign agent` (or `lifesign up`) running there, and does it reach the API server".to_owned(),
                "ps -C lifesign -o pid,args".to_owned(),
            );
        }
        let name = &self.node.metadata.name;
        (
            "is the machine up, does its kubelet run, and does it reach the API server".to_owned(),
            format!("ssh {name} 'systemctl status kubelet; journalctl -u kubelet -n 50'"),
        )
    }

    /// Returns that the node does not beat any more.
    fn silent(&self) -> Option<Finding> {
        let ready = self.condition("Ready");
        let unknown = ready.filter(|ready| ready.status == "Unknown");
        let expired = self.renewed().filter(|(at, duration)| self.now.since(*at) > *duration);
        let name = &self.node.metadata.name;
        let (what, cause) = match (unknown, expired) {
            (Some(ready), _) => {
                let last = self.renewed().map(|(at, _)| at).or(ready.last_heartbeat_time.map(|at| at.0));
                let since = last.map_or_else(String::new, |at| format!(" for {}", words::span(self.now.since(at))));
                (format!("node {name} has sent no heartbeat{since}, and counts as lost: {}", ready.message), "NodeLost")
            }
            (None, Some((at, duration))) => {
                let rest = (at + GRACE).since(self.now);
                let soon = if rest.is_zero() {
                    "it is about to be marked as lost".to_owned()
                } else {
                    format!("without one it is marked as lost within {}", words::span(rest))
                };
                (
                    format!(
                        "node {name} has not renewed its Lease for {} (it lasts {}); {soon}",
                        words::span(self.now.since(at)),
                        words::span(duration)
                    ),
                    "HeartbeatLate",
                )
            }
            (None, None) => return None,
        };
        let (say, command) = self.look();
        let finding =
            Finding::new(cause, self.short(), what).with(self.lease_evidence()).with(ready.map(|ready| self.seen(ready)));
        let taints: Vec<String> = self
            .node
            .spec
            .taints
            .iter()
            .filter(|taint| taint.effect == "NoExecute")
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect();
        let finding = if taints.is_empty() {
            finding
        } else {
            finding.seen_at(
                self.short(),
                "spec.taints",
                words::some(&taints, 3),
                self.node.spec.taints.iter().find_map(|taint| taint.time_added),
            )
        };
        Some(finding.act(say, command))
    }

    /// Returns that the node says itself that it is not ready.
    fn not_ready(&self) -> Option<Finding> {
        let ready = self.condition("Ready");
        let Some(ready) = ready else {
            let what = format!("node {} has no condition Ready: its kubelet has never reported", self.node.metadata.name);
            let (say, command) = self.look();
            return Some(
                Finding::new("NeverReported", self.short(), what)
                    .seen_at(self.short(), "status.conditions", "no Ready", self.node.metadata.creation_timestamp)
                    .act(say, command),
            );
        };
        if ready.status == "True" {
            return None;
        }
        let message = ready.message.as_str();
        let (cause, advice) =
            if message.contains("cni") || message.contains("NetworkPluginNotReady") || message.contains("network plugin") {
                ("NoNetworkPlugin", "install or repair the network plugin: its pod on this node, and /etc/cni/net.d")
            } else if message.contains("container runtime is down")
                || message.contains("runtime") && message.contains("not ready")
            {
                ("RuntimeDown", "repair the container runtime (containerd, CRI-O) of the node")
            } else if message.contains("PLEG") {
                ("PlegUnhealthy", "the container runtime answers too slowly: too many containers, or a slow disk")
            } else if message.contains("disk") || message.contains("ephemeral") {
                ("NotReady", "make room on the disk of the node")
            } else if message.contains("shutting down") {
                ("NodeShutdown", "the machine shuts down")
            } else {
                ("NotReady", "repair what the message names")
            };
        let what = format!("node {} says that it is not ready: {message}", self.node.metadata.name);
        let (_, command) = self.look();
        Some(Finding::new(cause, self.short(), what).with([self.seen(ready)]).act(advice, command))
    }

    fn alive(&self) -> String {
        match self.renewed() {
            Some((at, duration)) => format!("heartbeat {}, lease {}", words::ago(self.now, at), words::span(duration)),
            None => "no Lease to be seen".to_owned(),
        }
    }
}

/// Looks at the node of a pod.
pub(crate) fn for_pod(now: Time, facts: &Facts, name: &str, pod: &Pod) -> Step<Life> {
    if name.is_empty() {
        return Ok(Life::Unknown("it has no node".to_owned()));
    }
    facts.want(queries(name));
    let raw = match facts.object(&queries(name)[0])? {
        Ok(Some(raw)) => raw,
        Err(refused) => return Ok(Life::Unknown(refused.say())),
        Ok(None) => {
            let what = format!("there is no node {name}: it was removed, or spec.nodeName is wrong");
            return Ok(Life::Broken(Box::new(
                Finding::new("NodeMissing", format!("node/{name}"), what)
                    .seen(format!("pod/{}", pod.metadata.name), "spec.nodeName", name)
                    .seen(format!("node/{name}"), "", "not found")
                    .act(
                        "pods of a node that is gone are removed after a while; delete this one to have it made again",
                        format!(
                            "kubectl -n {} delete pod {} --grace-period=0 --force",
                            pod.metadata.namespace, pod.metadata.name
                        ),
                    ),
            )));
        }
    };
    let seen = Seen::read(now, facts, raw)?;
    let Some(finding) = seen.silent().or_else(|| seen.not_ready()) else { return Ok(Life::Lives(seen.alive())) };
    Ok(Life::Broken(Box::new(
        until_eviction(finding, &seen.node, pod, now).act("more about the node", format!("lifesign why node/{name}")),
    )))
}

/// Adds when the pod is evicted from a node with a taint that it tolerates only for a while.
fn until_eviction(finding: Finding, node: &Node, pod: &Pod, now: Time) -> Finding {
    let taint = node.spec.taints.iter().find(|taint| taint.effect == "NoExecute" && taint.time_added.is_some());
    let Some((taint, added)) = taint.and_then(|taint| Some((taint, taint.time_added?))) else { return finding };
    let seconds = pod
        .spec
        .tolerations
        .iter()
        .filter(|own| tolerates(own, taint))
        .map(|own| own.toleration_seconds)
        .min_by_key(|seconds| seconds.unwrap_or(i64::MAX));
    let Some(Some(seconds)) = seconds else { return finding };
    let at = added.0 + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    finding.seen_at(
        format!("pod/{}", pod.metadata.name),
        "spec.tolerations",
        format!("tolerates {} for {seconds}s: is evicted {}", taint.key, words::ago(now, at)),
        None,
    )
}

/// Returns what the agent of this project knows of its probes; `None`: the node has none, or it cannot be asked.
pub(crate) fn attempts<'a>(facts: &'a Facts, name: &str) -> Step<Option<&'a Value>> {
    if name.is_empty() {
        return Ok(None);
    }
    let Ok(Some(raw)) = facts.object(&queries(name)[0])? else { return Ok(None) };
    let own = json::text(raw, &["status", "nodeInfo", "containerRuntimeVersion"]).starts_with(OWN_RUNTIME);
    let port =
        json::int(raw, &["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).filter(|port| (1..=65_535).contains(port));
    let address =
        json::items(raw, &["status", "addresses"]).iter().find(|address| json::text(address, &["type"]) == "InternalIP");
    let (true, Some(port), Some(address)) = (own, port, address) else { return Ok(None) };
    let address = format!("{}:{port}", json::text(address, &["address"]));
    Ok(facts.object(&Query::Attempts { node: name.to_owned(), address })?.ok().flatten())
}

/// Examines a node.
pub(crate) fn examine(now: Time, target: &Target, facts: &Facts) -> Step<Answer> {
    let events = Query::events("", "Node", &target.name);
    facts.want(queries(&target.name));
    facts.want([events.clone()]);
    let mut chain = Chain::new(LINKS);
    let raw = match exists::find(target, facts)? {
        Ok(raw) => raw,
        Err(finding) => return Ok(chain.broken(target, finding.what.clone(), finding)),
    };
    let seen = Seen::read(now, facts, raw)?;
    let reported = facts.list(&events)?.map(|listed| listed.items).unwrap_or_default();
    // Some writers give the name of the node for its uid, so both count.
    let reported = events::read(reported, "");
    let broken = |chain: Chain, finding: Finding| {
        let event = events::last(&reported, |event| event.warning || event.reason == "NodeNotReady").map(Event::evidence);
        let state = if seen.node.ready() == Some("True") { "is Ready" } else { "is not Ready" };
        let headline = format!("{} {state}: {}", target.short(), finding.what);
        Ok(chain.broken(target, headline, finding.with(event)))
    };
    if let Some(deleted) = seen.node.metadata.deletion_timestamp {
        let what =
            format!("node {} is being deleted; finalizers: {}", target.name, words::some(&seen.node.metadata.finalizers, 4));
        let finding = Finding::new("Terminating", target.short(), what)
            .seen_at(target.short(), "metadata.deletionTimestamp", "set", Some(deleted))
            .act("look at the controller that owns the finalizer", format!("kubectl get node {} -o yaml", target.name));
        return broken(chain, finding);
    }
    chain.ok(format!("created {}", words::when(now, seen.node.metadata.creation_timestamp)));
    if let Some(finding) = seen.silent() {
        let finding = with_profile(finding, facts)?;
        return broken(chain, finding);
    }
    chain.ok(seen.alive());
    if let Some(finding) = seen.not_ready() {
        return broken(chain, finding);
    }
    chain.ok(format!("since {}", words::when(now, seen.condition("Ready").and_then(|ready| ready.last_transition_time))));
    for (types, cause, advice) in [
        (
            &["NetworkUnavailable"][..],
            "NetworkUnavailable",
            "the network plugin or cloud has not set up a route for this node: look at its pods",
        ),
        (
            &["MemoryPressure", "DiskPressure", "PIDPressure"],
            "Pressure",
            "free what is short: pods are evicted, and new ones are kept away",
        ),
    ] {
        if let Some(condition) =
            types.iter().filter_map(|type_| seen.condition(type_)).find(|condition| condition.status == "True")
        {
            let what = format!("node {} has {}: {}", target.name, condition.type_, condition.message);
            let cause = match condition.type_.as_str() {
                "MemoryPressure" => "MemoryPressure",
                "DiskPressure" => "DiskPressure",
                "PIDPressure" => "PIDPressure",
                _ => cause,
            };
            let command = format!("kubectl get pods -A --field-selector spec.nodeName={}", target.name);
            return broken(chain, Finding::new(cause, target.short(), what).with([seen.seen(condition)]).act(advice, command));
        }
        chain.ok(String::new());
    }
    match unschedulable(&seen) {
        Some(finding) => broken(chain, finding),
        None => {
            let taints: Vec<String> =
                seen.node.spec.taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
            let shown = if taints.is_empty() { "no taints".to_owned() } else { format!("taints {}", words::some(&taints, 4)) };
            chain.ok(shown.clone());
            let since = seen.condition("Ready").and_then(|ready| ready.last_transition_time);
            let version = json::text(raw, &["status", "nodeInfo", "kubeletVersion"]);
            Ok(chain.healthy(
                target,
                format!(
                    "{} is Ready since {}: {}; {shown}; takes pods; {version}",
                    target.short(),
                    words::when(now, since),
                    seen.alive()
                ),
            ))
        }
    }
}

/// Returns what keeps all new pods away from a node.
fn unschedulable(seen: &Seen<'_>) -> Option<Finding> {
    let name = &seen.node.metadata.name;
    if seen.node.spec.unschedulable {
        let what = format!("node {name} is cordoned: pods that run there go on, new ones are kept away");
        return Some(
            Finding::new("Cordoned", seen.short(), what)
                .seen_at(
                    seen.short(),
                    "spec.unschedulable",
                    "true",
                    seen.node.spec.taints.iter().find_map(|taint| taint.time_added),
                )
                .act("when its maintenance is done", format!("kubectl uncordon {name}")),
        );
    }
    let system = [
        "node.kubernetes.io/",
        "node.cloudprovider.kubernetes.io/",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
    ];
    let taint = seen
        .node
        .spec
        .taints
        .iter()
        .find(|taint| taint.effect != "PreferNoSchedule" && system.iter().any(|prefix| taint.key.starts_with(prefix)))?;
    let (cause, why) = match taint.key.as_str() {
        "node.cloudprovider.kubernetes.io/uninitialized" => {
            ("Uninitialized", "the cloud controller manager has not initialized it")
        }
        key if key.contains("ClusterAutoscaler") || key.starts_with("karpenter") => {
            ("BeingRemoved", "an autoscaler is about to remove it")
        }
        _ => ("HealthTaint", "the taint should have gone with its cause: the node lifecycle controller may not run"),
    };
    let what = format!("node {name} has taint {}:{}: {why}", taint.key, taint.effect);
    let command = format!("kubectl taint nodes {name} {}:{}-", taint.key, taint.effect);
    Some(
        Finding::new(cause, seen.short(), what)
            .seen_at(seen.short(), "spec.taints", format!("{}={}:{}", taint.key, taint.value, taint.effect), taint.time_added)
            .act("look at the controller that should take it away; by hand only if you know better", command),
    )
}

/// Adds the latency profile, which says how long the plane waits for heartbeats.
fn with_profile(finding: Finding, facts: &Facts) -> Step<Finding> {
    let Ok(Some(cluster)) = facts.object(&Query::get(Resource::ConfigNodes, "", "cluster"))? else { return Ok(finding) };
    let profile = json::text(cluster, &["spec", "workerLatencyProfile"]);
    let grace = json::object(cluster, &["metadata", "annotations"])
        .and_then(|all| all.get("lifesign.dev/node-monitor-grace-period"))
        .and_then(Value::as_str);
    let grace = grace.map_or_else(String::new, |grace| format!(", a node is lost after {grace} of silence"));
    let profile = if profile.is_empty() { "Default" } else { profile };
    Ok(finding.seen("nodes.config.openshift.io/cluster", "spec.workerLatencyProfile", format!("{profile}{grace}")))
}
