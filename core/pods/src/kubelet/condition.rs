//! The condition `lifesign.dev/ready`: what it says, and the request that says it.

use api::meta::Condition;
use api::moved::{CONTAINERS_NOT_READY, Judgement, PROBES_SUCCEEDED, condition_write};
use api::{Pod, Timestamp, Write};
use machine::Time;

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadyCondition {
    pub(super) status: String,
    reason: String,
    message: String,
}

impl ReadyCondition {
    /// Returns what a stored condition says.
    pub(super) fn of(condition: &Condition) -> ReadyCondition {
        ReadyCondition {
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }

    /// Returns what is to be said of the containers; `unreadable`: why it is not even known what to probe.
    pub(super) fn judged(judgement: &Judgement, unreadable: Option<&str>) -> ReadyCondition {
        let condition = |status: &str, reason: &str, message: String| ReadyCondition {
            status: status.into(),
            reason: reason.into(),
            message,
        };
        match unreadable {
            Some(why) => condition("False", CONTAINERS_NOT_READY, why.to_owned()),
            None if judgement.is_ready() => condition("True", PROBES_SUCCEEDED, judgement.message()),
            None => condition("False", CONTAINERS_NOT_READY, judgement.message()),
        }
    }

    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Returns the request that says it; `changes`: the status is another one; `again`: it must be noticed although it may not be.
    pub(super) fn write(&self, pod: &Pod, now: Time, changes: bool, again: bool) -> Write {
        let at = |wanted: bool| wanted.then_some(Timestamp(now));
        condition_write(&pod.metadata, &self.status, &self.reason, &self.message, at(changes), at(again))
    }
}
