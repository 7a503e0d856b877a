//! Tolerations: what admission adds, what a pod tolerates and for how long, how running pods follow a change of profile.

use api::Pod;
use api::node::Taint;
use api::pod::Toleration;
use serde_json::Value;

pub use api::tolerations::{Defaults, missing, tolerates};

/// Appends to a pod what admission adds; `operation` is the verb of the admission request, `subresource` empty for the pod.
pub fn admit(pod: &mut Value, operation: &str, subresource: &str, defaults: &Defaults) {
    if !matches!(operation, "CREATE" | "UPDATE") || !subresource.is_empty() {
        return;
    }
    api::tolerations::admit(pod, defaults);
}

/// How long a NoExecute taint is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationTime {
    /// Not at all.
    NotTolerated,
    /// For so many seconds, not negative.
    Seconds(i64),
    /// For ever.
    Forever,
}

/// Returns how long a taint is tolerated: the first toleration that matches decides, in list order.
pub fn toleration_time(tolerations: &[Toleration], taint: &Taint) -> TolerationTime {
    match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
        None => TolerationTime::NotTolerated,
        Some(Toleration { toleration_seconds: None, .. }) => TolerationTime::Forever,
        Some(Toleration { toleration_seconds: Some(seconds), .. }) => TolerationTime::Seconds((*seconds).max(0)),
    }
}

/// Returns the tolerations of a running pod moved from the defaults of one profile to those of another.
///
/// Only what is exactly an old default is rewritten, each of the two on its own. `None`: nothing changes.
pub fn retolerate(tolerations: &[Toleration], from: &Defaults, to: &Defaults) -> Option<Vec<Toleration>> {
    let moved: Vec<Toleration> = tolerations
        .iter()
        .map(|toleration| {
            let old = from.tolerations().iter().position(|default| toleration == default);
            old.map_or_else(|| toleration.clone(), |place| to.tolerations()[place].clone())
        })
        .collect();
    (moved != tolerations).then_some(moved)
}

/// Returns the tolerations of a pod moved from the defaults of any of the old profiles to those of another.
///
/// `None`: nothing changes, or the pod is on its way out already.
pub fn retolerate_pod(pod: &Pod, old: &[Defaults], to: &Defaults) -> Option<Vec<Toleration>> {
    if pod.metadata.deleting() || matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
        return None;
    }
    // What has been moved once is a default of the new profile, and stays: it may be an old default, too.
    let moved: Vec<Toleration> = pod
        .spec
        .tolerations
        .iter()
        .map(|toleration| {
            let one = std::slice::from_ref(toleration);
            let found = old.iter().find_map(|from| retolerate(one, from, to));
            found.map_or_else(|| toleration.clone(), |mut moved| moved.remove(0))
        })
        .collect();
    (moved != pod.spec.tolerations).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DEFAULTS: Defaults = Defaults { not_ready_seconds: 300, unreachable_seconds: 60 };

    #[test]
    fn admission_keeps_what_it_does_not_know() {
        let mut pod =
            json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Equal", "future": 1}]}});
        admit(&mut pod, "CREATE", "", &DEFAULTS);
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([
                {"key": "node.kubernetes.io/not-ready", "operator": "Equal", "future": 1},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
            ])
        );
        let before = pod.clone();
        admit(&mut pod, "UPDATE", "", &DEFAULTS);
        assert_eq!(pod, before, "nothing is added twice");
    }

    const OLD: [Defaults; 2] = [
        Defaults { not_ready_seconds: 300, unreachable_seconds: 300 },
        Defaults { not_ready_seconds: 60, unreachable_seconds: 60 },
    ];

    fn running(tolerations: &Value) -> Pod {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"tolerations": tolerations}, "status": {"phase": "Running"}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn seconds(moved: Option<Vec<Toleration>>) -> Option<Vec<Option<i64>>> {
        moved.map(|list| list.into_iter().map(|toleration| toleration.toleration_seconds).collect())
    }

    #[test]
    fn a_running_pod_gets_the_new_defaults_for_old_ones_and_keeps_its_own() {
        let to = Defaults { not_ready_seconds: 60, unreachable_seconds: 60 };
        let default = |key: &str, seconds: i64| {
            json!({
                "key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": seconds,
            })
        };
        let old = running(&json!([default("not-ready", 300), default("unreachable", 300)]));
        assert_eq!(seconds(retolerate_pod(&old, &OLD, &to)), Some(vec![Some(60), Some(60)]));
        let half = running(&json!([default("not-ready", 17), default("unreachable", 300)]));
        assert_eq!(seconds(retolerate_pod(&half, &OLD, &to)), Some(vec![Some(17), Some(60)]), "each on its own");
        let new = running(&json!([default("not-ready", 60), default("unreachable", 60)]));
        assert_eq!(retolerate_pod(&new, &OLD, &to), None);
        let mut valued = default("unreachable", 300);
        valued["operator"] = json!("Equal");
        assert_eq!(retolerate_pod(&running(&json!([valued, {"operator": "Exists"}])), &OLD, &to), None);
    }

    #[test]
    fn defaults_of_two_old_profiles_are_moved_once() {
        // Were the first moved again by the second, 300 would come back as what it was.
        let swapped = Defaults { not_ready_seconds: 60, unreachable_seconds: 300 };
        let list = json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ]);
        let moved = retolerate_pod(&running(&list), &OLD, &swapped);
        assert_eq!(seconds(moved), Some(vec![Some(60), Some(300)]));
    }

    #[test]
    fn pods_that_are_over_or_on_their_way_out_are_left_alone() {
        let list = json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ]);
        let mut pod = running(&list);
        assert_eq!(seconds(retolerate_pod(&pod, &OLD, &OLD[1])), Some(vec![Some(60)]));
        pod.metadata.deletion_timestamp = Some(api::Timestamp::parse("2026-01-01T00:00:00Z").expect("a time"));
        assert_eq!(retolerate_pod(&pod, &OLD, &OLD[1]), None);
        for phase in ["Succeeded", "Failed"] {
            let mut pod = running(&list);
            pod.status.phase = phase.to_owned();
            assert_eq!(retolerate_pod(&pod, &OLD, &OLD[1]), None, "{phase}");
        }
    }

    #[test]
    fn subresources_and_other_verbs_are_left_alone() {
        for (operation, subresource) in [("CREATE", "binding"), ("UPDATE", "status"), ("DELETE", ""), ("CONNECT", "")] {
            let mut pod = json!({"spec": {}});
            admit(&mut pod, operation, subresource, &DEFAULTS);
            assert_eq!(pod, json!({"spec": {}}), "{operation} {subresource}");
        }
    }
}
