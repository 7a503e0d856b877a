//! The startup and readiness probes: when they ask, whom, and what they heard.
//!
//! Events alone can mislead: a node tells the first failure and then at most one in a while. Where the agent of this project
//! runs, its attempts decide.

use std::time::Duration;

use api::pod::Probe;
use api::{FeatureGates, IntOrString, ProbeType, Timestamp, json};
use probe::timing::{Defaults, Progress, SubSecondProbePolicy, Timing};
use serde_json::Value;

use super::containers::ContainerRef;
use super::{Checked, Owner, Subject};
use crate::answer::{Evidence, Finding, instant};
use crate::chain::Step;
use crate::events;
use crate::node;
use crate::words;

/// The effective times of a probe.
pub(super) struct Plan {
    pub(super) timing: Timing,
    pub(super) period: Duration,
}

pub(super) fn plan(probe: &Probe, type_: ProbeType) -> Plan {
    let (timing, _) = Timing::of(probe, Some(type_), &FeatureGates::default(), &Defaults::CONTAINER);
    let period = timing.period(SubSecondProbePolicy::default(), Progress::default());
    Plan { timing, period }
}

impl Plan {
    /// Returns how long failures take to act.
    pub(super) fn acts_after(&self) -> Duration {
        self.timing.initial_delay + self.period.saturating_mul(self.timing.failure_threshold)
    }

    pub(super) fn say(&self) -> String {
        let delay = if self.timing.initial_delay.is_zero() {
            String::new()
        } else {
            format!(", from {} after the start", words::span(self.timing.initial_delay))
        };
        let successes = if self.timing.success_threshold > 1 {
            format!(", {} successes count", self.timing.success_threshold)
        } else {
            String::new()
        };
        format!(
            "every {}{delay}, timeout {}, {} count{successes}",
            words::span(self.period),
            words::span(self.timing.timeout),
            words::count(self.timing.failure_threshold as usize, "failure")
        )
    }
}

/// Returns what a probe asks.
pub(super) fn target_of(subject: &Subject<'_>, unit: ContainerRef<'_>, probe: &Probe) -> String {
    let ip = &subject.pod.status.pod_ip;
    let host = |own: &str| if own.is_empty() { ip.clone() } else { own.to_owned() };
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => number_of(unit, name).map_or_else(|| format!("({name})"), |number| number.to_string()),
    };
    if let Some(http) = &probe.http_get {
        let scheme = if http.scheme.is_empty() { "http".to_owned() } else { http.scheme.to_lowercase() };
        let path = if http.path.starts_with('/') { http.path.clone() } else { format!("/{}", http.path) };
        return format!("GET {scheme}://{}:{}{path}", host(&http.host), port(&http.port));
    }
    if let Some(tcp) = &probe.tcp_socket {
        return format!("connect to {}:{}", host(&tcp.host), port(&tcp.port));
    }
    if let Some(grpc) = &probe.grpc {
        return format!("gRPC health of {ip}:{}", grpc.port);
    }
    if let Some(exec) = &probe.exec {
        return format!("exec {:?}", exec.command.join(" "));
    }
    "nothing".to_owned()
}

fn number_of(unit: ContainerRef<'_>, name: &str) -> Option<i64> {
    unit.spec.ports.iter().find(|port| port.name == name).map(|port| port.container_port)
}

fn port_of(probe: &Probe) -> Option<IntOrString> {
    let http = probe.http_get.as_ref().map(|http| http.port.clone());
    let tcp = probe.tcp_socket.as_ref().map(|tcp| tcp.port.clone());
    http.or(tcp).or_else(|| probe.grpc.as_ref().map(|grpc| IntOrString::Int(grpc.port)))
}

/// Returns what is wrong with the port of a probe by the declarations of its container.
pub(super) fn undeclared_port(unit: ContainerRef<'_>, probe: &Probe) -> Option<String> {
    let declared: Vec<String> = unit
        .spec
        .ports
        .iter()
        .map(|port| {
            if port.name.is_empty() {
                port.container_port.to_string()
            } else {
                format!("{} ({})", port.container_port, port.name)
            }
        })
        .collect();
    let listed = words::some(&declared, 6);
    match port_of(probe)? {
        IntOrString::String(name) if number_of(unit, &name).is_none() => Some(if declared.is_empty() {
            format!("the probe asks port {name:?}, and {} declares no port: name it there, or use a number", unit.title())
        } else {
            format!("the probe asks port {name:?}, which {} does not declare; it declares {listed}", unit.title())
        }),
        IntOrString::Int(number)
            if !declared.is_empty() && unit.spec.ports.iter().all(|port| port.container_port != number) =>
        {
            Some(format!("the probe asks port {number}, and {} declares {listed}: one of them is wrong", unit.title()))
        }
        _ => None,
    }
}

/// Returns the text of a probe event without its beginning.
pub(super) fn stripped(message: &str) -> String {
    let text = message.trim();
    let text =
        text.split_once(" probe failed: ").or_else(|| text.split_once(" probe errored: ")).map_or(text, |(_, rest)| rest);
    let text = text.split_once("errored and resulted in unknown state: ").map_or(text, |(_, rest)| rest);
    text.trim().to_owned()
}

/// An attempt of the agent.
struct Attempt {
    good: Option<bool>,
    message: String,
    ended: Option<Timestamp>,
}

/// What the agent knows of a probe of a container.
struct Worker {
    attempts: Vec<Attempt>,
    refused: i64,
}

fn worker(subject: &Subject<'_>, unit: ContainerRef<'_>, probe: &str) -> Step<Option<Worker>> {
    let Some(answer) = node::attempts(subject.facts, &subject.pod.spec.node_name)? else { return Ok(None) };
    let meta = &subject.pod.metadata;
    let is_it = |worker: &&Value| {
        json::text(worker, &["uid"]) == meta.uid
            && json::text(worker, &["container"]) == unit.name()
            && json::text(worker, &["probe"]) == probe
    };
    let Some(found) = json::items(answer, &["workers"]).iter().find(is_it) else { return Ok(None) };
    let attempt = |item: &Value| Attempt {
        good: match json::text(item, &["outcome"]).to_lowercase().as_str() {
            "success" | "warning" => Some(true),
            "failure" | "unknown" => Some(false),
            _ => None,
        },
        message: json::text(item, &["message"]).to_owned(),
        ended: Timestamp::parse(json::text(item, &["ended"])).ok(),
    };
    Ok(Some(Worker {
        attempts: json::items(found, &["outcomes"]).iter().map(attempt).collect(),
        refused: json::int(found, &["knocksRefused"]).unwrap_or(0),
    }))
}

/// What was last heard of a probe.
struct Heard {
    message: String,
    evidence: Vec<Evidence>,
    /// The agent said so, attempt by attempt.
    certain: bool,
}

fn heard(subject: &Subject<'_>, unit: ContainerRef<'_>, type_: ProbeType, since: Option<machine::Time>) -> Step<Option<Heard>> {
    let word = type_.name();
    let reported = events::last(&subject.events, |event| {
        event.reason == "Unhealthy" && event.message.starts_with(word) && event.about(unit.name()) && event.since(since)
    });
    let from_events =
        reported.map(|event| Heard { message: stripped(event.message), evidence: vec![event.evidence()], certain: false });
    let Some(worker) = worker(subject, unit, word)? else { return Ok(from_events) };
    let Some(last) = worker.attempts.iter().rev().find(|attempt| attempt.good.is_some()) else {
        if worker.refused > 0 {
            let value = format!("{} times nobody listened", worker.refused);
            let evidence = vec![Evidence { object: "agent".to_owned(), field: format!("{word} probe"), value, at: None }];
            return Ok(Some(Heard { message: "connection refused".to_owned(), evidence, certain: true }));
        }
        return Ok(from_events);
    };
    let bad = worker
        .attempts
        .iter()
        .rev()
        .take_while(|attempt| attempt.good != Some(true))
        .filter(|attempt| attempt.good == Some(false))
        .count();
    let message = if last.message.is_empty() {
        from_events.as_ref().map_or_else(String::new, |heard| heard.message.clone())
    } else {
        last.message.clone()
    };
    let value = if last.good == Some(true) {
        "the last attempt succeeded".to_owned()
    } else {
        format!("the last {} failed, the last one with: {message}", words::count(bad, "attempt"))
    };
    let mut evidence = vec![Evidence { object: "agent".to_owned(), field: format!("{word} probe"), value, at: last.ended }];
    if last.message.is_empty() {
        evidence.extend(from_events.into_iter().flat_map(|heard| heard.evidence));
    }
    Ok(Some(Heard { message, evidence, certain: true }))
}

/// What a failed attempt means: one word, what is wrong, what to do.
fn meaning(message: &str) -> (&'static str, &'static str, &'static str) {
    let lower = message.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if any(&["another process", "; bind $pod_ip"]) {
        (
            "AnsweredByAnother",
            "another process answers on that port",
            "bind the server to $POD_IP: a server on 0.0.0.0 answers for every pod of the node",
        )
    } else if any(&["connection refused"]) {
        (
            "ConnectionRefused",
            "nobody listens on that port",
            "compare the port with what the program listens on; a program that binds 127.0.0.1 does not answer on the pod's address",
        )
    } else if any(&["statuscode:", "status code", "statuscode"]) {
        (
            "ProbeStatus",
            "the program answers that it is not healthy",
            "the program says why: look at its log, and at what it depends on",
        )
    } else if any(&["not_serving", "service unhealthy", "unhealthy (responded"]) {
        (
            "NotServing",
            "the gRPC health service says that it does not serve",
            "the program says why: look at its log, and at what it depends on",
        )
    } else if any(&["unimplemented", "unknown service"]) {
        (
            "NoHealthService",
            "the server has no gRPC health service of that name",
            "register the health service, or correct grpc.service",
        )
    } else if any(&["timed out", "timeout", "deadline exceeded", "no answer within"]) {
        (
            "ProbeTimeout",
            "no answer within the timeout",
            "raise timeoutSeconds if it is only slow; look at its log and CPU limit if it hangs",
        )
    } else if any(&["no route to host", "network is unreachable"]) {
        ("NoRoute", "the node does not reach the address of the pod", "look at the network plugin of the node")
    } else if any(&["tls", "x509", "certificate", "malformed http", "http response to https", "http/0.9"]) {
        (
            "WrongProtocol",
            "both sides speak different protocols",
            "use scheme HTTPS for a TLS port, HTTP for a plain one; httpGet and tcpSocket do not fit gRPC",
        )
    } else if any(&["executable file not found", "no such file or directory", "not found in $path"]) {
        (
            "ProbeCommandNotFound",
            "the command of the probe is not in the image",
            "correct exec.command, or use an image that has it",
        )
    } else if any(&["invalid syntax", "couldn't find port", "no such port", "not declare"]) {
        (
            "ProbePortUnknown",
            "the port of the probe has no number",
            "declare the port by that name in the container, or use a number",
        )
    } else if any(&["eof", "connection reset", "broken pipe"]) {
        (
            "ConnectionBroken",
            "the program closes the connection without an answer",
            "look at its log; the port may speak another protocol",
        )
    } else {
        ("ProbeFailed", "the probe fails", "look at what the probe printed, and at the log of the program")
    }
}

/// Says what is wrong with a probe that has not succeeded.
fn failing(
    subject: &Subject<'_>,
    unit: ContainerRef<'_>,
    type_: ProbeType,
    probe: &Probe,
    started: Option<Timestamp>,
) -> Step<Finding> {
    let plan = plan(probe, type_);
    let word = type_.name().to_lowercase();
    let target = target_of(subject, unit, probe);
    let owner = Owner::of(&subject.pod);
    let field = format!("{word}Probe");
    let heard = heard(subject, unit, type_, instant(started))?;
    let effective =
        |finding: Finding| finding.seen(subject.short(), unit.spec_field(&field), format!("{target} {}", plan.say()));
    let undeclared = undeclared_port(unit, probe);
    let Some(heard) = heard else {
        let first = started.map(|start| start.0 + plan.timing.initial_delay);
        let (cause, what) = match first {
            Some(first) if first > subject.now => (
                "ProbeNotDue",
                format!("the first {word} attempt of {} is due {}", unit.title(), words::ago(subject.now, first)),
            ),
            _ if undeclared.is_some() => (
                "ProbePortUnknown",
                format!("the {word} probe of {} has not succeeded: {}", unit.title(), undeclared.clone().unwrap_or_default()),
            ),
            _ => (
                "ProbeNotSucceeded",
                format!("the {word} probe of {} has not succeeded yet, and no failure was told ({target})", unit.title()),
            ),
        };
        let finding = effective(subject.blindly(Finding::new(cause, subject.short(), what)));
        return Ok(finding
            .act("ask again after the next attempt; the log says what the program does", subject.logs(unit.name(), false)));
    };
    let (mut cause, meaning, advice) = meaning(&heard.message);
    if matches!(port_of(probe), Some(IntOrString::String(name)) if number_of(unit, &name).is_none()) {
        cause = "ProbePortUnknown";
    }
    let detail = if heard.message.is_empty() { meaning.to_owned() } else { format!("{meaning}: {}", heard.message) };
    let what = format!("the {word} probe of {} fails: {detail}", unit.title());
    let mut finding = effective(Finding::new(cause, subject.short(), what).with(heard.evidence));
    if !heard.certain && instant(started).is_some() {
        finding = finding.seen("events", "", "a node tells failures with pauses of up to minutes: later ones may differ");
    }
    if let Some(undeclared) = undeclared {
        finding = finding.act(undeclared, owner.edit());
    }
    finding = finding.act(advice, subject.logs(unit.name(), false));
    if cause == "ProbeTimeout" {
        let seconds = plan.timing.timeout.as_secs().max(1).saturating_mul(3);
        finding = finding.act(
            format!("a timeout of {seconds}s instead of {}", words::span(plan.timing.timeout)),
            owner.patch(serde_json::json!({"containers": [{"name": unit.name(), (field): {"timeoutSeconds": seconds}}]})),
        );
    }
    Ok(finding)
}

/// Returns why a running container has not started yet in the sense of its startup probe.
pub(super) fn not_started(subject: &Subject<'_>, unit: ContainerRef<'_>) -> Step<Option<Finding>> {
    let Some(status) = unit.status else { return Ok(None) };
    let Some(running) = &status.state.running else { return Ok(None) };
    if status.started != Some(false) {
        return Ok(None);
    }
    let Some(probe) = &unit.spec.startup_probe else {
        if unit.spec.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some()) {
            let what = format!("the postStart hook of {} has not ended yet; nothing is probed before", unit.title());
            let finding = Finding::new("PostStartRunning", subject.short(), what)
                .seen_at(subject.short(), unit.field("started"), "false", running.started_at)
                .act("see what it waits for", subject.logs(unit.name(), false));
            return Ok(Some(finding));
        }
        return Ok(None);
    };
    let plan = plan(probe, ProbeType::Startup);
    let mut finding = failing(subject, unit, ProbeType::Startup, probe, running.started_at)?;
    if let Some(start) = running.started_at {
        let limit = start.0 + plan.acts_after();
        let left = if limit > subject.now {
            format!("is killed {} unless it succeeds", words::ago(subject.now, limit))
        } else {
            "is about to be killed".to_owned()
        };
        finding = finding.seen_at(
            subject.short(),
            unit.field("started"),
            format!("false; {} {left}", unit.title()),
            running.started_at,
        );
    }
    Ok(Some(finding))
}

pub(super) fn startup(subject: &Subject<'_>) -> Step<Checked> {
    for unit in subject.lasting() {
        if let Some(finding) = not_started(subject, unit)? {
            return Ok(finding.into());
        }
    }
    let any = subject.lasting().any(|unit| unit.spec.startup_probe.is_some());
    Ok(Checked::Holds(if any { String::new() } else { "no startup probe".to_owned() }))
}

pub(super) fn readiness(subject: &Subject<'_>) -> Step<Checked> {
    for unit in subject.lasting() {
        let Some(status) = unit.status else { continue };
        if status.ready {
            continue;
        }
        let started = status.state.running.as_ref().and_then(|running| running.started_at);
        match &unit.spec.readiness_probe {
            Some(probe) => {
                let finding = failing(subject, unit, ProbeType::Readiness, probe, started)?;
                let at = subject.pod.condition("ContainersReady").and_then(|condition| condition.last_transition_time);
                return Ok(finding.seen_at(subject.short(), unit.field("ready"), "false", at).into());
            }
            None => {
                let what = format!("{} runs and has no readiness probe, but is not ready yet", unit.title());
                let finding = Finding::new("NotReadyYet", subject.short(), what)
                    .seen_at(subject.short(), unit.field("ready"), "false", started)
                    .act(
                        "its node says so within a moment: ask again",
                        subject.kubectl(&format!("get {} -w", subject.short())),
                    );
                return Ok(finding.into());
            }
        }
    }
    let plans: Vec<String> = subject
        .lasting()
        .filter_map(|unit| {
            Some(format!("{}: {}", unit.name(), plan(unit.spec.readiness_probe.as_ref()?, ProbeType::Readiness).say()))
        })
        .collect();
    Ok(Checked::Holds(if plans.is_empty() { "no readiness probe".to_owned() } else { words::some(&plans, 2) }))
}

#[cfg(test)]
mod tests;
