//! The annotations by which a Deployment keeps its history on its ReplicaSets.

use std::collections::BTreeMap;

use super::draft::Size;

/// The number of a template in the history of a Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that the template had before it was rolled back to.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The size of the Deployment when the ReplicaSet was scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The same with the surge.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// What a ReplicaSet does not take over from its Deployment.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];
/// How long the history of revisions may get, in letters; Kubernetes.
const HISTORY_MAX: usize = 2000;

pub(super) type Annotations = BTreeMap<String, String>;

/// Takes over the annotations of the Deployment.
pub(super) fn carry_over(deployment: &Annotations, set: &mut Annotations) {
    let taken = deployment.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    set.extend(taken.map(|(name, value)| (name.clone(), value.clone())));
}

/// Returns the revision of a ReplicaSet; 0: it has none.
pub(super) fn revision(annotations: &Annotations) -> i64 {
    annotations.get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Gives a ReplicaSet its revision, never a lower one than it has; the one that it had goes into its history.
pub(super) fn set_revision(annotations: &mut Annotations, new: i64) {
    let before = annotations.get(REVISION).cloned();
    // Whoever wrote something else into it meant something by it.
    if before.as_deref().is_some_and(|text| !text.is_empty() && text.parse::<i64>().is_err()) {
        return;
    }
    if revision(annotations) >= new {
        return;
    }
    annotations.insert(REVISION.to_owned(), new.to_string());
    let Some(before) = before else { return };
    let history = annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
    let mut revisions: Vec<&str> = history.split(',').filter(|text| !text.is_empty()).collect();
    revisions.push(&before);
    while revisions.len() > 1 && revisions.iter().map(|text| text.len() + 1).sum::<usize>() > HISTORY_MAX + 1 {
        revisions.remove(0);
    }
    annotations.insert(REVISION_HISTORY.to_owned(), revisions.join(","));
}

/// Notes for which size of the Deployment a ReplicaSet was scaled.
pub(super) fn set_sizes(annotations: &mut Annotations, size: &Size) {
    annotations.insert(DESIRED_REPLICAS.to_owned(), size.replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), (size.replicas + size.max_surge).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_comes_back_keeps_its_history_in_bounds() {
        let mut annotations = Annotations::new();
        set_revision(&mut annotations, 1);
        assert!(!annotations.contains_key(REVISION_HISTORY));
        set_revision(&mut annotations, 1);
        set_revision(&mut annotations, 3);
        set_revision(&mut annotations, 2);
        assert_eq!((annotations[REVISION].as_str(), annotations[REVISION_HISTORY].as_str()), ("3", "1"));
        for revision in 4..2000 {
            set_revision(&mut annotations, revision);
        }
        let history = &annotations[REVISION_HISTORY];
        assert!(history.len() <= HISTORY_MAX && history.ends_with(",1998") && !history.starts_with("1,"), "{history}");
    }
}
