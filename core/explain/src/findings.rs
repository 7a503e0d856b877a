//! What is wrong with probes or will surprise. Each finding has an id that never changes.

use std::collections::BTreeMap;

use api::field::{self, Path};
use api::{Gate, HandlerKind, ProbeType, duration, json};
use serde_json::Value;

use crate::given::Given;
use crate::report::{Finding, Severity};
use crate::workloads::{Read, Subject};
use crate::{Options, Origin, Times, name};
use probe::timing::SubSecondProbePolicy;

/// A startup budget below this is worth a word when it comes from an offset; as the admission warning.
const STARTUP_BUDGET_MS_MIN: u64 = 10_000;

/// Formats milliseconds.
pub(super) fn span(ms: u64) -> String {
    duration::format(std::time::Duration::from_millis(ms))
}

/// The findings about one object.
pub(super) struct Findings {
    pub(super) all: Vec<Finding>,
    origin: Origin,
}

impl Default for Findings {
    fn default() -> Findings {
        Findings::new(Origin::BuiltIn)
    }
}

impl Findings {
    pub(super) fn new(origin: Origin) -> Findings {
        Findings { all: Vec::new(), origin }
    }

    /// Returns where the template comes from.
    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns what follows from what the API does not accept.
    pub(super) fn refused(&self) -> &'static str {
        match self.origin {
            Origin::BuiltIn => "the API server refuses the object",
            Origin::Custom => "the API server refuses the pods that are made from it",
        }
    }

    pub(super) fn add(
        &mut self,
        severity: Severity,
        id: &'static str,
        path: impl ToString,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let (path, text, advice) = (path.to_string(), text.into(), advice.into());
        self.all.push(Finding { severity, id, path, place: None, text, advice, patch: None });
    }

    /// A rule of the API that is broken.
    pub(super) fn invalid(&mut self, error: &field::Error) {
        self.add(Severity::Error, "invalid", &error.path, error.message(), self.refused());
    }

    /// Millisecond fields whose gate is off.
    pub(super) fn ignored_fields(&mut self, paths: &[String]) {
        for path in paths {
            let gate = if path.ends_with("timeoutMilliseconds") { Gate::SubSecondProbeTimeouts } else { Gate::SubSecondProbes };
            let text = format!("dropped, because the gate {} is off", gate.name());
            let advice = format!("remove it, or switch the gate on with --feature-gates={}=true everywhere", gate.name());
            self.add(Severity::Warning, "field-ignored", path, text, advice);
        }
    }

    /// Millisecond fields in a Deployment.
    pub(super) fn lost_by_undo(&mut self, paths: &[String]) {
        let Some(first) = paths.first() else { return };
        let more = match paths.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let text =
            format!("kubectl rollout undo loses this field{more}: kubectl reads the old template with types that lack it");
        let advice = "roll back by applying the old manifest";
        self.add(Severity::Info, "lost-by-undo", first, text, advice);
    }
}

/// Judges one container.
pub(super) fn container(subject: &Subject<'_>, options: &Options, found: &mut Findings) {
    for read in &subject.probes {
        undeclared_port(subject.value, subject.name, read.value, &read.path, found);
        timeout(&read.times, &read.path, options, found);
        exec(HandlerKind::of(read.value), &read.times, &read.path, options, found);
        delay(read, subject, found);
    }
    if let (Some(liveness), Some(readiness)) = (subject.probe(ProbeType::Liveness), subject.probe(ProbeType::Readiness)) {
        stricter(liveness, readiness, found);
    }
    if let Some(liveness) = subject.probe(ProbeType::Liveness).filter(|read| read.times.failure_threshold == 1) {
        let text = "one failed attempt kills the container: a pause of the application or of the node is enough";
        let path = liveness.path.child("failureThreshold");
        found.add(Severity::Warning, "liveness-threshold-one", path, text, "use 3 or more");
    }
    budget(subject, options, found);
}

/// Finds a port name that the container does not declare.
pub(super) fn undeclared_port(container: &Value, name: &str, probe: &Value, path: &Path, found: &mut Findings) {
    let Some(handler) = HandlerKind::of(probe) else { return };
    let Some(port) = json::at(probe, &[handler.field(), "port"]).and_then(Value::as_str) else { return };
    let declared = json::items(container, &["ports"]).iter().any(|declared| json::text(declared, &["name"]) == port);
    // A text that is a number is used as the number.
    if !declared && port.parse::<u16>().is_err() {
        let text = format!("container {name:?} declares no port named {port:?}, so every attempt fails");
        let advice = "declare the port in the container, or use its number";
        found.add(Severity::Error, "undeclared-port", path.child(handler.field()).child("port"), text, advice);
    }
}

/// Finds a timeout that is longer than the period.
pub(super) fn timeout(times: &Times, path: &Path, options: &Options, found: &mut Findings) {
    // One second is the shortest timeout there is without the gate, so nobody can do better.
    let shortest = times.timeout_ms <= 1_000 && !options.node.gates.enabled(Gate::SubSecondProbeTimeouts);
    if times.timeout_ms <= times.period_ms || shortest {
        return;
    }
    let text = format!(
        "timeout {} is longer than the period {}: a target that hangs is asked less often than the period says",
        span(times.timeout_ms),
        span(times.period_ms)
    );
    let advice = "make the timeout shorter or the period longer";
    found.add(Severity::Warning, "timeout-beyond-period", path, text, advice);
}

/// Finds a command that is run more often than every second.
pub(super) fn exec(handler: Option<HandlerKind>, times: &Times, path: &Path, options: &Options, found: &mut Findings) {
    if handler != Some(HandlerKind::Exec) || times.period_ms >= 1_000 {
        return;
    }
    let (severity, until) = match options.node.policy {
        SubSecondProbePolicy::Always => (Severity::Warning, "for ever"),
        SubSecondProbePolicy::OnlyTheFirstTime => (Severity::Info, "until the first success"),
        SubSecondProbePolicy::AlwaysWhenWaitingForSuccess => (Severity::Info, "while it waits for success"),
    };
    let text = format!("a process is started every {} {until}", span(times.period_ms));
    found.add(severity, "exec-sub-second", path, text, "an httpGet, tcpSocket or grpc probe costs a fraction of it");
}

/// Finds a fixed delay that guesses what a startup probe would measure.
fn delay(read: &Read<'_>, subject: &Subject<'_>, found: &mut Findings) {
    if read.times.delay_ms == 0 || read.type_ == ProbeType::Startup || subject.probe(ProbeType::Startup).is_some() {
        return;
    }
    let delay = span(read.times.delay_ms);
    let text = match read.type_ {
        ProbeType::Readiness => format!("a container that is up earlier still gets no traffic for {delay}"),
        _ => format!(
            "{delay} is a guess: a slower start is killed from {} on, and a hang in the first {delay} is not seen",
            span(read.times.never_up().from_ms)
        ),
    };
    let advice = "use a startupProbe with a short period instead: it ends as soon as the container is up";
    found.add(Severity::Info, "delay-instead-of-startup", &read.path, text, advice);
}

/// Finds a liveness probe that acts no later than the readiness probe.
fn stricter(liveness: &Read<'_>, readiness: &Read<'_>, found: &mut Findings) {
    let (kill, remove) = (liveness.times.failing(), readiness.times.failing());
    if kill.to_ms > remove.to_ms {
        return;
    }
    let same = handler(liveness.value) == handler(readiness.value);
    let text = format!(
        "liveness gives up within {}, readiness within {}: {}",
        span(kill.to_ms),
        span(remove.to_ms),
        if same {
            "the container is killed before or while it leaves the endpoints"
        } else {
            "what makes both fail may kill it before it leaves the endpoints"
        }
    );
    let severity = if same { Severity::Warning } else { Severity::Info };
    let advice = "give liveness a larger failureThreshold or periodSeconds than readiness";
    found.add(severity, "liveness-not-weaker", &liveness.path, text, advice);
}

/// Returns how a probe asks, and whom.
fn handler(probe: &Value) -> Option<(HandlerKind, &Value)> {
    let handler = HandlerKind::of(probe)?;
    Some((handler, probe.get(handler.field())?))
}

/// Finds a container that is killed before it can be up.
fn budget(subject: &Subject<'_>, options: &Options, found: &mut Findings) {
    let Some(read) = subject.probe(ProbeType::Startup).or(subject.probe(ProbeType::Liveness)) else { return };
    let budget = read.times.never_up().from_ms;
    let (startup, advice) = match read.type_ {
        ProbeType::Startup => (true, "raise failureThreshold of the startupProbe"),
        _ => (false, "add a startupProbe whose budget is long enough"),
    };
    if let Some(listens) = options.listens_ms().filter(|listens| *listens > budget) {
        let id = if startup { "startup-budget-short" } else { "liveness-before-listening" };
        let text = format!("the container listens after {}, but is killed {} after its start", span(listens), span(budget));
        found.add(Severity::Error, id, &read.path, text, advice);
    }
    // An offset that makes the period longer takes nothing away from the budget.
    let offset = read.probe.period_milliseconds.filter(|_| options.node.gates.enabled(Gate::SubSecondProbes));
    let total = read.times.delay_ms.saturating_add(read.times.period_ms.saturating_mul(read.times.failure_threshold.into()));
    if startup && offset.is_some_and(|offset| offset <= 0) && total < STARTUP_BUDGET_MS_MIN {
        let text =
            format!("a container that is not up within {} is killed: the short period makes the budget short", span(budget));
        found.add(Severity::Warning, "startup-budget-small", &read.path, text, advice);
    }
}

/// Finds containers behind a Service that are ready without being asked.
pub(super) fn services(
    object: &Value,
    spec: &Value,
    labels: &BTreeMap<String, String>,
    subjects: &[Subject<'_>],
    given: &Given<'_>,
    found: &mut Findings,
) {
    let waits = |service: &&Value| json::boolean(service, &["spec", "publishNotReadyAddresses"]) != Some(true);
    if !json::items(spec, &["readinessGates"]).is_empty() {
        return;
    }
    for subject in subjects.iter().filter(|subject| subject.probe(ProbeType::Readiness).is_none()) {
        let asked_elsewhere = subjects.iter().any(|other| other.probe(ProbeType::Readiness).is_some());
        let Some(service) =
            given.services_of(object, labels).filter(waits).find(|service| match serves(subject.value, service) {
                Some(serves) => serves,
                // Who serves is not declared: it matters only if no container is asked at all.
                None => !asked_elsewhere,
            })
        else {
            continue;
        };
        let (when, then) = match subject.probe(ProbeType::Startup) {
            Some(_) => ("once it is started", ""),
            None => ("the moment it runs, before it listens", ", also during every rollout"),
        };
        let text = format!(
            "Service {:?} sends traffic to container {:?} {when}, and goes on when it stops answering{then}",
            name(service),
            subject.name
        );
        let advice = "add a readinessProbe";
        found.add(Severity::Warning, "no-readiness-probe", subject.path.child("readinessProbe"), text, advice);
    }
}

/// Returns whether a container declares a port that a Service sends traffic to; `None` if it declares no ports.
fn serves(container: &Value, service: &Value) -> Option<bool> {
    let declared = json::items(container, &["ports"]);
    if declared.is_empty() {
        return None;
    }
    Some(json::items(service, &["spec", "ports"]).iter().any(|port| {
        let target = json::get(port, "targetPort").or_else(|| json::get(port, "port"));
        declared.iter().any(|declared| {
            let fields = [json::get(declared, "name"), json::get(declared, "containerPort")];
            target.is_some() && fields.contains(&target)
        })
    }))
}
