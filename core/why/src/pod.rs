//! The chain of a pod: from its existence to the traffic that it gets.

mod configuration;
mod containers;
mod ended;
mod exits;
mod gates;
mod image;
mod init;
mod owner;
mod probes;
mod restarts;
mod scheduled;
mod scheduling;
mod terminating;
mod traffic;

use api::{Pod, Timestamp};
use machine::Time;
use serde_json::Value;

use crate::answer::{Answer, Finding};
use crate::chain::{Chain, Step, Stop};
use crate::events::{self, Event};
use crate::exists;
use crate::facts::{Facts, Query};
use crate::node;
use crate::target::Target;
use crate::words;

pub(crate) use owner::Owner;

/// The links, in the order in which a pod passes them.
const LINKS: &[&str] = &[
    "exists",
    "scheduled",
    "node",
    "configuration",
    "image",
    "init",
    "running",
    "startup",
    "readiness",
    "gates",
    "service",
    "port",
    "slice",
    "endpoints",
];

/// What a look at a link said.
pub(crate) enum Checked {
    /// It holds; what is worth knowing.
    Holds(String),
    /// It cannot be looked at.
    Unknown(String),
    /// It does not hold.
    Broken(Box<Finding>),
    /// The pod has ended well: there is nothing after this.
    Done(String),
}

impl From<Finding> for Checked {
    fn from(finding: Finding) -> Checked {
        Checked::Broken(Box::new(finding))
    }
}

type Check = fn(&Subject<'_>) -> Step<Checked>;

/// The checks of the links up to the readiness of the pod, in the order of [`LINKS`].
const OWN: [Check; 10] = [
    terminating::check,
    scheduled::check,
    on_node,
    configuration::check,
    image::check,
    init::check,
    restarts::check,
    probes::startup,
    probes::readiness,
    gates::check,
];

/// The checks of what leads traffic to the pod.
const TRAFFIC: [Check; 4] = [traffic::service, traffic::port, traffic::slice, traffic::endpoints];

/// A pod and what is known of it.
pub(crate) struct Subject<'a> {
    pub(crate) now: Time,
    pub(crate) facts: &'a Facts,
    pub(crate) pod: Pod,
    pub(crate) raw: &'a Value,
    pub(crate) events: Vec<Event<'a>>,
    /// Why there are no events, if they could not be read.
    pub(crate) blind: Option<String>,
}

impl<'a> Subject<'a> {
    pub(crate) fn read(now: Time, facts: &'a Facts, raw: &'a Value) -> Step<Subject<'a>> {
        let unreadable = |error: serde_json::Error| {
            let name = api::json::text(raw, &["metadata", "name"]);
            Stop::CannotTell(Finding::new("Unreadable", format!("pod/{name}"), format!("the pod cannot be read: {error}")))
        };
        let pod: Pod = serde_json::from_value(raw.clone()).map_err(unreadable)?;
        let query = Query::events(&pod.metadata.namespace, "Pod", &pod.metadata.name);
        let (events, blind) = match facts.list(&query)? {
            Ok(listed) => (events::read(listed.items, &pod.metadata.uid), None),
            Err(refused) => (Vec::new(), Some(refused.say())),
        };
        Ok(Subject { now, facts, pod, raw, events, blind })
    }

    /// Returns `pod/NAME`.
    pub(crate) fn short(&self) -> String {
        format!("pod/{}", self.pod.metadata.name)
    }

    pub(crate) fn created(&self) -> Option<Time> {
        self.pod.metadata.creation_timestamp.map(|at| at.0)
    }

    /// Returns a kubectl command in the namespace of the pod.
    pub(crate) fn kubectl(&self, rest: &str) -> String {
        format!("kubectl -n {} {rest}", self.pod.metadata.namespace)
    }

    pub(crate) fn logs(&self, container: &str, previous: bool) -> String {
        let previous = if previous { " --previous" } else { "" };
        self.kubectl(&format!("logs {} -c {container}{previous} --tail=50", self.pod.metadata.name))
    }

    fn condition_since(&self, type_: &str) -> Option<Timestamp> {
        self.pod.condition(type_).filter(|condition| condition.status == "True")?.last_transition_time
    }

    /// Returns how long after its creation the pod got a condition.
    fn after_creation(&self, type_: &str) -> Option<String> {
        let (at, created) = (self.condition_since(type_)?, self.created()?);
        Some(format!("+{}", words::span(at.0.since(created))))
    }

    /// Adds that events could not be read, where their absence may mislead.
    fn blindly(&self, finding: Finding) -> Finding {
        match &self.blind {
            Some(why) => finding.seen("events", "", why.clone()),
            None => finding,
        }
    }

    /// Walks the links up to the readiness of the pod; returns what is wrong, or how it ended well.
    fn walk(&self, chain: &mut Chain, checks: &[Check]) -> Step<Result<Option<String>, Finding>> {
        for check in checks {
            match check(self)? {
                Checked::Holds(note) => chain.ok(note),
                Checked::Unknown(note) => chain.unknown(note),
                Checked::Broken(finding) => return Ok(Err(*finding)),
                Checked::Done(how) => {
                    chain.ok(how.clone());
                    return Ok(Ok(Some(how)));
                }
            }
        }
        Ok(Ok(None))
    }
}

/// Examines a pod.
pub(crate) fn examine(now: Time, target: &Target, facts: &Facts) -> Step<Answer> {
    facts.want([exists::query(target), Query::events(&target.namespace, "Pod", &target.name)]);
    let mut chain = Chain::new(LINKS);
    let raw = match exists::find(target, facts)? {
        Ok(raw) => raw,
        Err(finding) => return Ok(chain.broken(target, finding.what.clone(), finding)),
    };
    let subject = Subject::read(now, facts, raw)?;
    let headline = |finding: &Finding| format!("{} {}: {}", target.short(), subject.state(), finding.what);
    match subject.walk(&mut chain, &OWN)? {
        Err(finding) => return Ok(chain.broken(target, headline(&finding), finding)),
        Ok(Some(how)) => return Ok(chain.healthy(target, format!("{}: {how}", target.short()))),
        Ok(None) => {}
    }
    let services = match subject.walk(&mut chain, &TRAFFIC)? {
        Err(finding) => return Ok(chain.broken(target, headline(&finding), finding)),
        Ok(_) => traffic::names(&subject)?,
    };
    Ok(chain.healthy(target, subject.healthy_line(&services)))
}

/// Returns the first broken link of a pod itself and what is wrong, if anything is; traffic is not looked at.
pub(crate) fn first_broken(now: Time, facts: &Facts, raw: &Value) -> Step<Option<(&'static str, Finding)>> {
    let subject = Subject::read(now, facts, raw)?;
    let mut chain = Chain::new(LINKS);
    Ok(subject.walk(&mut chain, &OWN)?.err().map(|finding| (chain.next(), finding)))
}

impl Subject<'_> {
    /// Returns how the pod is, in a word or two.
    fn state(&self) -> &'static str {
        if self.pod.metadata.deleting() {
            "is being deleted"
        } else if self.pod.status.phase == "Failed" {
            "has failed"
        } else if self.pod.condition_true("Ready") {
            "is ready"
        } else {
            "is not ready"
        }
    }

    fn healthy_line(&self, services: &str) -> String {
        let since = self.pod.condition("Ready").and_then(|ready| ready.last_transition_time);
        let steps: Vec<String> = [
            ("scheduled", "PodScheduled"),
            ("initialized", "Initialized"),
            ("containers ready", "ContainersReady"),
            ("ready", "Ready"),
        ]
        .into_iter()
        .filter_map(|(word, type_)| Some(format!("{word} {}", self.after_creation(type_)?)))
        .collect();
        let created = self.pod.metadata.creation_timestamp.map_or_else(String::new, |at| format!("created {at}, "));
        let restarts = restarts::summary(self).map_or_else(String::new, |text| format!("; {text}"));
        format!(
            "{} is ready since {}: {created}{}; on {}; {services}{restarts}",
            self.short(),
            words::when(self.now, since),
            steps.join(", "),
            self.pod.spec.node_name,
        )
    }
}

/// The node of the pod: is it there, and does it live. A pod that has ended no longer needs it.
fn on_node(subject: &Subject<'_>) -> Step<Checked> {
    if let Some(finding) = ended::refused_by_node(subject) {
        return Ok(finding.into());
    }
    if subject.pod.terminal() {
        return Ok(Checked::Holds("the pod has ended".to_owned()));
    }
    let name = &subject.pod.spec.node_name;
    match node::for_pod(subject.now, subject.facts, name, &subject.pod)? {
        node::Life::Lives(note) => Ok(Checked::Holds(note)),
        node::Life::Unknown(why) => Ok(Checked::Unknown(why)),
        node::Life::Broken(finding) => Ok(Checked::Broken(finding)),
    }
}
