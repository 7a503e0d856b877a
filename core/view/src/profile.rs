//! The worker latency profile: what is wanted, what is applied, how far each owner is.

use api::ConfigNode;
use api::config_node::{ANNOTATION_APPLIED_PROFILE, ANNOTATION_ROLLED_BACK_GENERATION, OWNERS, OwnedCondition, PROFILES};
use serde::Serialize;

use crate::pods::cut;

/// The latency profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileRow {
    /// Always `cluster`.
    pub key: String,
    /// What the user wants; `Default` where nothing is said.
    pub wanted: String,
    /// What is applied; empty: nothing yet.
    pub applied: String,
    /// Whether the user has paused the rollout.
    pub paused: bool,
    /// Whether a rollout failed and everything goes back.
    pub rolled_back: bool,
    /// Who has a part in it.
    pub owners: Vec<OwnerRow>,
}

/// How far an owner is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerRow {
    /// Its name.
    pub owner: String,
    /// Where it stands: `Complete`, `Progressing`, `Degraded` or empty.
    pub state: String,
    /// Why, as one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl ProfileRow {
    pub(crate) fn of(cluster: &ConfigNode) -> ProfileRow {
        let annotation = |name: &str| cluster.metadata.annotations.get(name).cloned();
        let wanted = cluster.spec.worker_latency_profile.as_str();
        let conditions = &cluster.status.worker_latency_profile_status.conditions;
        ProfileRow {
            key: cluster.metadata.name.clone(),
            wanted: if wanted.is_empty() { PROFILES[0] } else { wanted }.to_owned(),
            applied: annotation(ANNOTATION_APPLIED_PROFILE).unwrap_or_default(),
            paused: cluster.paused(),
            rolled_back: annotation(ANNOTATION_ROLLED_BACK_GENERATION).is_some(),
            owners: OWNERS.iter().filter_map(|owner| owner_row(owner, conditions)).collect(),
        }
    }
}

fn owner_row(owner: &str, conditions: &[OwnedCondition]) -> Option<OwnerRow> {
    let mut own = conditions.iter().filter(|condition| condition.owner == owner).peekable();
    own.peek()?;
    let own: Vec<&OwnedCondition> = own.collect();
    let on = |type_: &str| own.iter().find(|condition| condition.type_ == type_ && condition.status == "True");
    // The one that matters most: a failure, then that it goes on, then that it is done.
    let chosen = on("Degraded").or_else(|| on("Progressing")).or_else(|| on("Complete"));
    Some(OwnerRow {
        owner: owner.to_owned(),
        state: chosen.map_or_else(String::new, |condition| condition.type_.clone()),
        reason: chosen.unwrap_or(&own[0]).reason.clone(),
        message: cut(&chosen.unwrap_or(&own[0]).message),
    })
}
