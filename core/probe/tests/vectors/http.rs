//! HTTP probes: the request, the exchange, the message.

use std::collections::BTreeMap;
use std::time::Duration;

use api::pod::{Container, ContainerPort, HttpGetAction, Probe};
use api::{IntOrString, ProbeType};
use machine::{Machine, Time};
use probe::http::{self, Exchange, ExchangeStep, HttpAnswer, Request, Target};
use probe::outcome::{Cause, OUTPUT_BYTES_MAX};
use probe::{ContainerProber, Effect, Input, NodePolicy, Report, Restarts};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub(crate) enum Case {
    Request(Box<OpCase<Asked, Sent>>),
    Response(OpCase<Script, Judged>),
    Message(OpCase<Failed, Text>),
}

pub(crate) type OpCase<Given, Expect> = testkit::Case<Given, Expect>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Asked {
    http_get: HttpGetAction,
    container_ports: Vec<ContainerPort>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Sent {
    url: Option<String>,
    host: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    prefixes: BTreeMap<String, String>,
    #[serde(default)]
    absent: Vec<String>,
    tls_verify: Option<bool>,
    outcome: Option<String>,
    #[serde(default)]
    contains: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Script {
    url: String,
    timeout_ms: u64,
    exchanges: Vec<Exchanged>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[derive(Default)]
struct Exchanged {
    status: u16,
    location: Option<String>,
    body_bytes: usize,
    after_ms: u64,
    body_after_ms: u64,
    interim: Vec<u16>,
    abort: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Judged {
    outcome: String,
    requests: Vec<String>,
    output_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Failed {
    host_field: String,
    host_network: bool,
    status: u16,
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    #[serde(default)]
    contains: Vec<String>,
    #[serde(default)]
    excludes: Vec<String>,
}

pub(crate) fn check(case: Case) -> Verdict {
    match case {
        Case::Request(case) => request(&case.given, case.expect),
        Case::Response(case) => response(&case.given, case.expect),
        Case::Message(case) => message(&case.given, &case.expect),
    }
}

fn outcome_name(report: &Report) -> String {
    format!("{:?}", report.outcome).to_lowercase()
}

fn request(given: &Asked, expect: Sent) -> Verdict {
    let target = Target { pod_ip: given.pod_ip.as_deref(), ports: &given.container_ports, version: "1.36" };
    let request = match Request::new(&given.http_get, &target) {
        Ok(request) => request,
        Err(report) => {
            same(&json!({"outcome": expect.outcome}), &json!({"outcome": outcome_name(&report)}))?;
            return match expect.contains.iter().find(|part| !report.message.contains(part.as_str())) {
                Some(part) => Err(format!("{:?} does not contain {part:?}", report.message)),
                None => Ok(()),
            };
        }
    };
    let values = |name: &str| -> Vec<&str> {
        request.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    };
    let (mut want, mut got) = (BTreeMap::new(), BTreeMap::new());
    let mut compare = |key: String, wanted: Value, gotten: Value| {
        want.insert(key.clone(), wanted);
        got.insert(key, gotten);
    };
    compare("outcome".to_owned(), json!(expect.outcome), Value::Null);
    if let Some(url) = expect.url {
        compare("url".to_owned(), json!(normal(&url)), json!(normal(&request.url.to_string())));
    }
    if let Some(host) = expect.host {
        compare("host".to_owned(), json!(host), json!(request.host));
    }
    for (name, wanted) in expect.headers {
        compare(name.clone(), json!(wanted), json!(values(&name)));
    }
    for (name, prefix) in expect.prefixes {
        let starts = !values(&name).is_empty() && values(&name).iter().all(|value| value.starts_with(&prefix));
        compare(name, json!(true), json!(starts));
    }
    for name in expect.absent {
        compare(name.clone(), json!([]), json!(values(&name)));
    }
    if let Some(verify) = expect.tls_verify {
        compare("tlsVerify".to_owned(), json!(verify), json!(request.tls().map(|tls| tls.verify)));
    }
    same(&json!(want), &json!(got))
}

/// Lower-cases the host and adds the default port.
fn normal(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = if scheme == "https" { 443 } else { 80 };
    let host = authority.to_lowercase();
    let with_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    if with_port { format!("{scheme}://{host}{target}") } else { format!("{scheme}://{host}:{port}{target}") }
}

/// Returns a request to a URL as a case writes it.
fn request_to(url: &str) -> Result<Request, String> {
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let with_port = authority.rsplit_once(':').filter(|_| !authority.ends_with(']'));
    let (host, port) = with_port.unwrap_or((authority, if scheme == "https" { "443" } else { "80" }));
    let action = HttpGetAction {
        path: path.to_owned(),
        port: IntOrString::Int(port.parse().map_err(|_| format!("bad port in {url}"))?),
        host: host.to_owned(),
        scheme: scheme.to_uppercase(),
        ..HttpGetAction::default()
    };
    Request::new(&action, &Target { pod_ip: None, ports: &[], version: "1.36" }).map_err(|report| report.message)
}

fn response(given: &Script, expect: Judged) -> Verdict {
    let mut exchange = Exchange::new(request_to(&given.url)?, true, Duration::from_millis(given.timeout_ms));
    let (mut requests, mut clock, mut next) = (Vec::new(), 0, 0);
    let timed_out = || HttpAnswer::Failed(Cause::TimedOut { lag: Duration::ZERO });
    let report = 'attempt: loop {
        let script = given.exchanges.get(next).or(given.exchanges.last()).ok_or("no exchanges")?.clone();
        next += 1;
        let errno = script.abort.as_deref().filter(|abort| abort.starts_with('E'));
        if errno.is_none() {
            requests.push(normal(&exchange.request().url.to_string()));
        }
        clock += script.after_ms;
        let mut answers = Vec::new();
        match script.abort.as_deref() {
            _ if clock >= given.timeout_ms => answers.push(timed_out()),
            Some("refused") => answers.push(HttpAnswer::Failed(Cause::Errno("ECONNREFUSED".into()))),
            Some("headers") => answers.push(HttpAnswer::Failed(Cause::Protocol("closed before the headers".to_owned()))),
            Some("tls") => answers.push(HttpAnswer::Failed(Cause::Protocol("TLS handshake failed".to_owned()))),
            Some(errno) if errno != "body" => answers.push(HttpAnswer::Failed(Cause::Errno(errno.to_owned().into()))),
            _ => {
                answers.extend(script.interim.iter().map(|status| HttpAnswer::Head { status: *status, location: None }));
                answers.push(HttpAnswer::Head { status: script.status, location: script.location.clone() });
            }
        }
        for answer in answers {
            let step = match exchange.take(answer) {
                ExchangeStep::Read { max } => exchange.take(body(&script, max, &mut clock, given.timeout_ms)),
                step => step,
            };
            match step {
                ExchangeStep::Done(report) => break 'attempt report,
                ExchangeStep::Send => break,
                ExchangeStep::Wait => {}
                ExchangeStep::Read { .. } => return Err("asks for the body twice".to_owned()),
            }
        }
    };
    let expected: Vec<String> = expect.requests.iter().map(|url| normal(url)).collect();
    same(&json!([expect.outcome, expected]), &json!([outcome_name(&report), requests]))?;
    match expect.output_bytes {
        Some(bytes) => same(&json!(bytes), &json!(crate::handlers::output_bytes(&report))),
        None => Ok(()),
    }
}

/// Reads a body as an executor does: at most `max` bytes, and not beyond the timeout.
fn body(script: &Exchanged, max: usize, clock: &mut u64, timeout_ms: u64) -> HttpAnswer {
    let arrived = vec![b'x'; script.body_bytes.min(max)];
    if arrived.len() == max {
        return HttpAnswer::Body { bytes: arrived, whole: true };
    }
    *clock += script.body_after_ms;
    if *clock >= timeout_ms {
        // What the status line has not decided is a timeout; an executor that has bytes of an error shows them.
        let lag = Duration::ZERO;
        return if max < OUTPUT_BYTES_MAX {
            HttpAnswer::Body { bytes: arrived, whole: false }
        } else {
            HttpAnswer::Failed(Cause::TimedOut { lag })
        };
    }
    HttpAnswer::Body { bytes: arrived, whole: script.abort.is_none() }
}

/// Lets a readiness probe fail with the answer, and looks at the event.
fn message(given: &Failed, expect: &Text) -> Verdict {
    let action = HttpGetAction { port: IntOrString::Int(80), host: given.host_field.clone(), ..HttpGetAction::default() };
    let request = Request::new(&action, &Target { pod_ip: Some("10.1.2.3"), ports: &[], version: "1.36" })
        .map_err(|report| report.message)?;
    let mut exchange = Exchange::new(request, http::shows_body(&action, given.host_network), Duration::from_secs(1));
    let mut step = exchange.take(HttpAnswer::Head { status: given.status, location: None });
    if let ExchangeStep::Read { max } = step {
        let bytes = given.body.as_bytes()[..given.body.len().min(max)].to_vec();
        step = exchange.take(HttpAnswer::Body { bytes, whole: true });
    }
    let ExchangeStep::Done(report) = step else { return Err(format!("does not end: {step:?}")) };
    let container =
        Container { readiness_probe: Some(Probe { http_get: Some(action), ..Probe::default() }), ..Container::default() };
    let mut prober = ContainerProber::new(&container, Restarts::default(), 30, &NodePolicy::default(), None);
    let mut effects = Vec::new();
    prober.step(Time::ZERO, Some(Input::Running { id: "c".into(), started_at: Time::ZERO }), &mut effects);
    prober.step(Time::ZERO, Some(Input::Finished { probe: ProbeType::Readiness, attempt: 1, report }), &mut effects);
    let text = effects.iter().find_map(|effect| match effect {
        Effect::Event { event, .. } => Some(event.message.as_str()),
        _ => None,
    });
    let text = text.ok_or("no event")?;
    let missing = expect.contains.iter().find(|part| !text.contains(part.as_str()));
    let leaked = expect.excludes.iter().find(|part| text.contains(part.as_str()));
    match (missing, leaked) {
        (None, None) => Ok(()),
        (missing, leaked) => Err(format!("{text:?}: missing {missing:?}, leaked {leaked:?}")),
    }
}
