//! The state of a rollout in words, and the objects worth looking at.

use std::collections::{BTreeMap, BTreeSet};

use api::config_node::RelatedObject;
use api::duration;

use crate::hazard::Advisory;
use crate::plan::{BlockReason, Blocked, InstanceKind, Observed, Plan, Request, Stage};
use crate::profile::Owner;
use crate::status::Instances;

/// How many names a message or a list shows at most.
const SHOWN: usize = 10;

/// What else there is to say.
#[derive(Clone, Copy, Debug)]
pub struct Remarks<'a> {
    /// The number of running pods that still carry tolerations of another profile.
    pub old_defaults: usize,
    /// Why instances cannot be changed.
    pub obstacles: &'a BTreeMap<(InstanceKind, String), String>,
    /// What to know about the values in use.
    pub advisories: &'a BTreeSet<Advisory>,
}

/// Returns the message of each owner: how many of how many, which value, what is waited for.
pub fn messages(
    request: &Request,
    observed: &Observed,
    plan: &Plan,
    instances: &BTreeMap<Owner, Instances>,
    remarks: &Remarks<'_>,
) -> BTreeMap<Owner, String> {
    let stage = Stage::new(plan.stage, request);
    let values = stage.values;
    let mut messages = BTreeMap::new();
    for owner in Owner::ALL {
        let Instances { total, updated, failed, .. } = instances.get(&owner).copied().unwrap_or_default();
        let mut text = match owner {
            Owner::KubeApiServer => format!(
                "{updated}/{total} API servers at {}s/{}s",
                values.default_not_ready_toleration_seconds, values.default_unreachable_toleration_seconds
            ),
            Owner::KubeControllerManager => {
                format!("{updated}/{total} controller managers at {}", duration::format(values.node_monitor_grace_period))
            }
            Owner::MachineConfig => {
                format!("{updated}/{total} nodes at {}", duration::format(values.lease_renew_interval()))
            }
        };
        let left_alone = stage.left_alone(owner, observed);
        if left_alone > 0 {
            text.push_str(&format!(" or left alone ({left_alone})"));
        }
        if failed > 0 {
            text.push_str(&format!("; {failed} reverted three times"));
        }
        push_list(&mut text, "waiting for", &settling(owner, observed));
        let blocked = plan.blocked.iter().filter(|blocked| blocked.kind.owner() == owner);
        let blocked: Vec<String> = blocked.map(|blocked| describe(blocked, remarks)).collect();
        push_list(&mut text, "blocked:", &blocked);
        match owner {
            Owner::MachineConfig => push_list(&mut text, "offline, changed when they return:", &plan.deferred),
            // New defaults reach only new pods; whoever waits for a quicker eviction must know.
            Owner::KubeApiServer => {
                text.push_str(&format!("; {} pods still carry old default tolerations", remarks.old_defaults))
            }
            Owner::KubeControllerManager => {}
        }
        for advisory in remarks.advisories.iter().filter(|advisory| advisory.owner() == owner) {
            text.push_str(&format!("; {}: {}", advisory.name(), advisory.text()));
        }
        messages.insert(owner, text);
    }
    messages
}

/// Returns `n3 (ComponentNotAware: why)`.
fn describe(blocked: &Blocked, remarks: &Remarks<'_>) -> String {
    let why = remarks.obstacles.get(&(blocked.kind, blocked.name.clone()));
    let why = why.filter(|why| blocked.reason == BlockReason::ComponentNotAware && !why.is_empty());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{} ({}{why})", blocked.name, blocked.reason.name())
}

/// Returns `n4 (settling 35s)` for everything of an owner that settles.
fn settling(owner: Owner, observed: &Observed) -> Vec<String> {
    let mut names: Vec<_> = match owner {
        Owner::KubeApiServer => observed.kas.iter().map(|kas| (&kas.name, kas.settling)).collect(),
        Owner::KubeControllerManager => observed.kcm.iter().map(|kcm| (&kcm.name, kcm.settling)).collect(),
        Owner::MachineConfig => {
            observed.nodes.iter().filter(|node| !node.deferred()).map(|node| (&node.name, node.settling)).collect()
        }
    };
    names.sort();
    let spans = names.into_iter().filter_map(|(name, settling)| Some((name, settling?)));
    spans.map(|(name, span)| format!("{name} (settling {}s)", span.as_secs())).collect()
}

/// Appends `; what a, b, c (12 in total)`.
fn push_list(text: &mut String, what: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    text.push_str(&format!("; {what} {}", names[..names.len().min(SHOWN)].join(", ")));
    if names.len() > SHOWN {
        text.push_str(&format!(" ({} in total)", names.len()));
    }
}

/// Returns the core Nodes that are being changed or are blocked, at most ten, by name.
pub fn related_nodes(plan: &Plan) -> Vec<RelatedObject> {
    let changing = plan.next.iter().filter(|step| step.kind() == InstanceKind::Node).map(|step| step.name());
    let blocked = plan.blocked.iter().filter(|blocked| blocked.kind == InstanceKind::Node).map(|blocked| blocked.name.as_str());
    let waited = plan.wait_nodes.iter().map(String::as_str);
    let mut names: Vec<&str> = changing.chain(blocked).chain(waited).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .take(SHOWN)
        .map(|name| RelatedObject { resource: "nodes".to_owned(), name: name.to_owned(), ..RelatedObject::default() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ApiServer, ControllerManager, WorkerNode, plan};
    use crate::profile::{Profile, Target};
    use crate::status;
    use std::time::Duration;

    fn cluster() -> Observed {
        let seconds = Duration::from_secs;
        let mut observed = Observed {
            kcm: vec![ControllerManager::new("kcm-0", seconds(120))],
            kas: vec![ApiServer::new("kas-0", 300, 300)],
            nodes: (0..5).map(|index| WorkerNode::new(format!("n{index}"), seconds(20))).collect(),
        };
        observed.nodes[4].settling = Some(seconds(35));
        observed.nodes[3].aware = false;
        observed.nodes[3].heartbeat = seconds(10);
        observed.nodes[0].not_ready_for = Some(seconds(700));
        observed
    }

    #[test]
    fn messages_name_the_instance_and_the_number() {
        let (request, observed) = (Request::new(Target::Of(Profile::Medium), Profile::Default), cluster());
        let plan = plan(&request, &observed);
        let instances = status::instances(&request, &observed, &plan);
        let obstacles = BTreeMap::from([((InstanceKind::Node, "n3".to_owned()), "its agent is old".to_owned())]);
        let remarks = Remarks { old_defaults: 17, obstacles: &obstacles, advisories: &[Advisory::RecoveryRace].into() };
        let messages = messages(&request, &observed, &plan, &instances, &remarks);
        assert_eq!(
            messages[&Owner::MachineConfig],
            format!(
                "2/4 nodes at 20s; waiting for n4 (settling 35s); blocked: n3 (ComponentNotAware: its agent is old); \
                 offline, changed when they return: n0; RecoveryRace: {}",
                Advisory::RecoveryRace.text()
            )
        );
        assert_eq!(messages[&Owner::KubeControllerManager], "1/1 controller managers at 2m0s");
        assert_eq!(
            messages[&Owner::KubeApiServer],
            "0/1 API servers at 60s/60s; blocked: kas-0 (WaitingForOtherOwners); 17 pods still carry old default tolerations"
        );
        let related: Vec<String> = related_nodes(&plan).into_iter().map(|object| object.name).collect();
        assert_eq!(related, ["n3", "n4"]);
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let mut text = String::new();
        push_list(&mut text, "offline:", &(0..12).map(|index| format!("n{index}")).collect::<Vec<_>>());
        assert_eq!(text, "; offline: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 (12 in total)");
    }
}
