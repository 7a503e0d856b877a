//! What is said about a target.

use api::Timestamp;
use machine::Time;
use serde::Serialize;

use crate::target::Target;

/// How it stands with the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Every link holds.
    Healthy,
    /// A link is broken.
    Found,
    /// It is not known, and why is said.
    CannotTell,
}

/// How it stands with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It holds.
    Ok,
    /// It is the first that does not.
    Broken,
    /// It could not be looked at.
    Unknown,
    /// It comes after the broken one.
    NotReached,
}

/// A link of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Its name.
    pub name: &'static str,
    /// How it stands with it.
    pub state: State,
    /// What is worth knowing of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Where something was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The object: `pod/web`, `event/Unhealthy`, `node/n1`.
    pub object: String,
    /// The field, or what else of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What stands there.
    pub value: String,
    /// Since when, or when last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What can be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// In words.
    pub say: String,
    /// A command, if one does it or shows more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// What is wrong with the broken link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// One word for programs.
    pub cause: &'static str,
    /// The object that is the matter.
    pub object: String,
    /// What is wrong, in one sentence.
    pub what: String,
    /// Where that is seen.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub actions: Vec<Action>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What was asked about, for example `pod/web`.
    pub target: String,
    /// Where it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// How it stands with it.
    pub verdict: Verdict,
    /// The answer in one line.
    pub headline: String,
    /// The first broken link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<&'static str>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
    /// The links in order.
    pub links: Vec<Link>,
}

impl Finding {
    /// Returns a finding without evidence.
    pub fn new(cause: &'static str, object: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { cause, object: object.into(), what: what.into(), evidence: Vec::new(), actions: Vec::new() }
    }

    /// Adds evidence.
    pub fn seen(mut self, object: impl Into<String>, field: impl Into<String>, value: impl Into<String>) -> Finding {
        self.evidence.push(Evidence { object: object.into(), field: field.into(), value: value.into(), at: None });
        self
    }

    /// Adds evidence with its instant.
    pub fn seen_at(
        self,
        object: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<String>,
        at: Option<Timestamp>,
    ) -> Finding {
        let mut finding = self.seen(object, field, value);
        finding.evidence.last_mut().expect("one was pushed just now").at = at;
        finding
    }

    /// Adds evidence if there is any.
    pub fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Finding {
        self.evidence.extend(evidence);
        self
    }

    /// Adds what to do.
    pub fn act(mut self, say: impl Into<String>, command: impl Into<String>) -> Finding {
        self.actions.push(Action { say: say.into(), command: command.into() });
        self
    }
}

impl Answer {
    /// Returns the answer that it cannot be known, and why.
    pub fn cannot_tell(target: &Target, finding: Finding) -> Answer {
        Answer {
            target: target.short(),
            namespace: target.namespace.clone(),
            verdict: Verdict::CannotTell,
            headline: format!("{}: cannot tell: {}", target.short(), finding.what),
            broken: None,
            finding: Some(finding),
            links: Vec::new(),
        }
    }

    /// Returns the exit code of a command that gives this answer.
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Healthy => 0,
            Verdict::Found => 1,
            Verdict::CannotTell => 2,
        }
    }
}

/// Returns the instant of a timestamp.
pub(crate) fn instant(at: Option<Timestamp>) -> Option<Time> {
    at.map(|at| at.0)
}
