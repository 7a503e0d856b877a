//! The chain of links while it is walked.

use crate::answer::{Answer, Finding, Link, State, Verdict};
use crate::target::Target;

/// Why an examination stops before its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// Something must be asked first.
    Ask,
    /// It cannot be known.
    CannotTell(Finding),
}

/// A step of an examination.
pub(crate) type Step<T> = Result<T, Stop>;

/// The links walked so far.
pub(crate) struct Chain {
    names: &'static [&'static str],
    links: Vec<Link>,
}

impl Chain {
    pub(crate) fn new(names: &'static [&'static str]) -> Chain {
        Chain { names, links: Vec::new() }
    }

    fn push(&mut self, state: State, note: String) {
        let name = self.names[self.links.len()];
        self.links.push(Link { name, state, note });
    }

    /// The next link holds.
    pub(crate) fn ok(&mut self, note: impl Into<String>) {
        self.push(State::Ok, note.into());
    }

    /// The next link cannot be looked at.
    pub(crate) fn unknown(&mut self, note: impl Into<String>) {
        self.push(State::Unknown, note.into());
    }

    /// Returns the name of the next link.
    pub(crate) fn next(&self) -> &'static str {
        self.names[self.links.len()]
    }

    /// The next link is broken: nothing after it is looked at.
    pub(crate) fn broken(mut self, target: &Target, headline: String, finding: Finding) -> Answer {
        let broken = self.next();
        self.push(State::Broken, finding.what.clone());
        while self.links.len() < self.names.len() {
            self.push(State::NotReached, String::new());
        }
        self.answer(target, Verdict::Found, headline, Some(broken), Some(finding))
    }

    /// Every link holds. A link of the chain that was not looked at is one that this target does not have.
    pub(crate) fn healthy(self, target: &Target, headline: String) -> Answer {
        self.answer(target, Verdict::Healthy, headline, None, None)
    }

    fn answer(
        self,
        target: &Target,
        verdict: Verdict,
        headline: String,
        broken: Option<&'static str>,
        finding: Option<Finding>,
    ) -> Answer {
        let links = self.links;
        Answer { target: target.short(), namespace: target.namespace.clone(), verdict, headline, broken, finding, links }
    }
}
