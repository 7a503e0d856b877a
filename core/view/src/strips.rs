//! Strips: the attempts of a probe, one after the other, each with its outcome and how long it took.

use std::collections::VecDeque;
use std::time::Duration;

use machine::Time;
use serde::Serialize;
use serde::ser::{SerializeTuple, Serializer};

use crate::board::Limits;
use crate::pods::cut;
use crate::report::ReportedWorker;

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AttemptResult {
    /// It is well.
    Success,
    /// It is well, but somebody should look.
    Warning,
    /// It is not.
    Failure,
    /// It could not be found out.
    Unknown,
}

/// One attempt of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// When it began.
    pub began: Time,
    /// How long it took.
    pub took: Duration,
    /// What came of it.
    pub outcome: AttemptResult,
    /// Why it failed; empty if it did not.
    pub message: Box<str>,
}

impl Attempt {
    pub(crate) fn ended(&self) -> Time {
        self.began + self.took
    }
}

/// Travels as `[began, took, outcome, message]`, in microseconds: there are many of them.
impl Serialize for Attempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(4)?;
        tuple.serialize_element(&self.began.as_micros())?;
        tuple.serialize_element(&u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX))?;
        tuple.serialize_element(&self.outcome)?;
        tuple.serialize_element(&self.message)?;
        tuple.end()
    }
}

/// The attempts of one probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StripRow {
    /// Uid of the pod, container, probe.
    pub key: String,
    /// How often it is asked now, in milliseconds.
    pub period_ms: u64,
    /// What was published: `Success`, `Failure`; empty: nothing yet.
    pub result: String,
    /// Nobody listens yet, and it is looked every few milliseconds.
    pub knocking: bool,
    /// The attempts, oldest first; in a delta those that are new.
    pub attempts: Vec<Attempt>,
}

/// Where a strip belongs: uid, container, probe.
pub(crate) type StripKey = (String, String, String);

pub(crate) fn text(key: &StripKey) -> String {
    format!("{}/{}/{}", key.0, key.1, key.2)
}

/// What is kept of a probe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strip {
    head: (u64, String, bool),
    /// The revision of the last change of anything but attempts.
    head_revision: u64,
    attempts: VecDeque<(u64, Attempt)>,
}

impl Strip {
    /// Takes what an agent says; returns whether it is new.
    pub(crate) fn see(&mut self, revision: u64, worker: &ReportedWorker, limits: &Limits) -> bool {
        let head = (worker.period_ms, worker.result.clone(), worker.knocking);
        let mut changed = self.head_revision == 0 || self.head != head;
        if changed {
            (self.head, self.head_revision) = (head, revision);
        }
        let last = self.attempts.back().map(|(_, attempt)| attempt.ended());
        for attempt in worker.attempts.iter().filter(|attempt| last.is_none_or(|last| attempt.ended() > last)) {
            let attempt = Attempt { message: cut(&attempt.message).into(), ..attempt.clone() };
            self.attempts.push_back((revision, attempt));
            changed = true;
        }
        while self.attempts.len() > limits.attempts {
            self.attempts.pop_front();
        }
        changed
    }

    /// Lets go of attempts that are too old; those who show them do the same.
    pub(crate) fn forget(&mut self, before: Time) {
        while self.attempts.front().is_some_and(|(_, attempt)| attempt.ended() < before) {
            self.attempts.pop_front();
        }
    }

    /// Returns what changed after a revision; `None`: nothing did.
    pub(crate) fn since(&self, key: &StripKey, since: Option<u64>) -> Option<StripRow> {
        let after = since.unwrap_or(0);
        let new = self.attempts.iter().filter(|(revision, _)| since.is_none() || *revision > after);
        let attempts: Vec<Attempt> = new.map(|(_, attempt)| attempt.clone()).collect();
        let is_new = since.is_none() || self.head_revision > after || !attempts.is_empty();
        let (period_ms, result, knocking) = self.head.clone();
        is_new.then(|| StripRow { key: text(key), period_ms, result, knocking, attempts })
    }

    pub(crate) fn len(&self) -> usize {
        self.attempts.len()
    }
}
