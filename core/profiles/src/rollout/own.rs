//! Nodes with a profile of their own: an annotation on the core Node, where a plane allows it.
//!
//! Such a node takes no part in the rollout of the others: it is told its heartbeat directly, and the node lifecycle
//! controller judges it by the grace of its own profile. No order is needed for that: a node is never judged by less than
//! the duration of its Lease, which is four heartbeats, so that it is safe whichever of the two is seen first. Without the
//! annotation it is one of the fleet again, and is brought to its values like a node that joins.

use std::collections::BTreeMap;
use std::time::Duration;

use api::config_node::{ANNOTATION_NODE_PROFILE, ANNOTATION_UPDATE_FREQUENCY};
use api::write::Verb;
use api::{Node, Write, duration};
use serde_json::json;

use super::observe::{LABEL_CONTROL_PLANE, annotated_interval};
use crate::profile::{Profile, Target};

/// Returns the profile that a worker asks for itself; a name that is no profile asks for nothing.
pub fn profile(node: &Node) -> Option<Profile> {
    if node.metadata.labels.contains_key(LABEL_CONTROL_PLANE) {
        return None;
    }
    match Target::parse(node.metadata.annotations.get(ANNOTATION_NODE_PROFILE)?) {
        Ok(Target::Of(profile)) => Some(profile),
        Ok(Target::Empty) | Err(_) => None,
    }
}

/// Returns the grace that a node is judged by in place of the common one.
pub fn grace(node: &Node, default_grace: Duration) -> Option<Duration> {
    profile(node).map(|profile| profile.values_with(default_grace).node_monitor_grace_period)
}

/// Returns the nodes without a profile of their own, and what the others are to be told.
pub(super) fn set_apart(nodes: &BTreeMap<String, Node>) -> (BTreeMap<String, Node>, Vec<Write>) {
    let (mut fleet, mut writes) = (BTreeMap::new(), Vec::new());
    for (name, node) in nodes {
        let Some(own) = profile(node) else {
            fleet.insert(name.clone(), node.clone());
            continue;
        };
        let interval = own.values().lease_renew_interval();
        if annotated_interval(node) != Some(interval) {
            let patch = json!({"metadata": {"annotations": {ANNOTATION_UPDATE_FREQUENCY: duration::format(interval)}}});
            writes.push(Write::to::<Node>("", name, Verb::Merge(patch)));
        }
    }
    (fleet, writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(annotation: Option<&str>, control_plane: bool) -> Node {
        let mut node = Node::default();
        node.metadata.annotations.extend(annotation.map(|text| (ANNOTATION_NODE_PROFILE.to_owned(), text.to_owned())));
        node.metadata.labels.extend(control_plane.then(|| (LABEL_CONTROL_PLANE.to_owned(), String::new())));
        node
    }

    #[test]
    fn only_a_worker_with_the_name_of_a_profile_has_one_of_its_own() {
        assert_eq!(profile(&node(Some("LowUpdateSlowReaction"), false)), Some(Profile::Low));
        assert_eq!(profile(&node(Some("Default"), false)), Some(Profile::Default));
        for (annotation, control_plane) in [(None, false), (Some(""), false), (Some("low"), false), (Some("Default"), true)] {
            assert_eq!(profile(&node(annotation, control_plane)), None, "{annotation:?}, {control_plane}");
        }
    }

    #[test]
    fn the_grace_is_that_of_the_profile_and_of_the_option() {
        let sixty = Duration::from_secs(60);
        assert_eq!(grace(&node(Some("Default"), false), sixty), Some(sixty));
        assert_eq!(grace(&node(Some("LowUpdateSlowReaction"), false), sixty), Some(Duration::from_secs(300)));
        assert_eq!(grace(&node(None, false), sixty), None);
    }
}
