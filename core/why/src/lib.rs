//! Why a pod, a Service, a node or a workload is not healthy: the first broken link between the object and its health.
//!
//! [`examine`] is a pure function of what is known. As long as something is missing it says what must be asked
//! ([`Examined::Ask`]), so whoever asks needs to know nothing of the chain, and asks nothing that the answer does not need.
//! With everything there it returns an [`Answer`]: the links in order, the first broken one with evidence and what to do, and
//! the rest as not reached.
//!
//! Invariants: the same facts give the same answer; at most one link is broken, and none before it is; nothing is written.

pub mod answer;
mod chain;
mod claim;
mod events;
mod exists;
pub mod facts;
mod node;
mod pod;
mod service;
pub mod target;
mod text;
mod words;
mod workload;

pub use answer::{Action, Answer, Evidence, Finding, Link, State, Verdict};
pub use facts::{Facts, Query, Reply, Resource};
pub use target::{Kind, Target, TargetError};
pub use text::render;

use chain::Stop;
use machine::Time;

/// What came of an examination.
#[derive(Clone, Debug, PartialEq)]
pub enum Examined {
    /// This must be known first: put the replies into the facts and examine again.
    Ask(Vec<Query>),
    /// The answer.
    Answer(Box<Answer>),
}

/// Examines a target by what is known at this instant.
pub fn examine(now: Time, target: &Target, facts: &Facts) -> Examined {
    let outcome = match target.kind {
        Kind::Pod => pod::examine(now, target, facts),
        Kind::Service => service::examine(now, target, facts),
        Kind::Node => node::examine(now, target, facts),
        Kind::Workload(resource) => workload::examine(now, target, resource, facts),
    };
    match outcome {
        Ok(answer) => Examined::Answer(Box::new(answer)),
        Err(Stop::Ask) => Examined::Ask(facts.take_missing()),
        Err(Stop::CannotTell(finding)) => Examined::Answer(Box::new(Answer::cannot_tell(target, finding))),
    }
}
