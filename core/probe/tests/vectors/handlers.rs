//! exec, TCP and gRPC probes, port resolution, agent lag and command expansion.

use std::collections::BTreeMap;
use std::time::Duration;

use api::IntOrString;
use api::pod::ContainerPort;
use probe::outcome::{self, Cause, ExecAnswer, ExecEnd, GrpcAnswer, Outcome, Report, TargetOutput, Tries};
use serde::Deserialize;
use serde_json::{Value, json};
use testkit::{Verdict, same};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "note", default)]
    _note: String,
    op: Op,
    given: Value,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Op {
    Exec,
    Tcp,
    Grpc,
    Port,
    Lag,
    Expand,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Expect {
    outcome: Option<String>,
    output_bytes: Option<usize>,
    kill_group: Option<bool>,
    #[serde(default)]
    contains: Vec<String>,
    immediate: Option<bool>,
    port: Option<u16>,
    command: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Exec {
    exit_code: Option<i32>,
    signal: Option<i32>,
    spawn_error: Option<String>,
    runtime_error: bool,
    container_gone: bool,
    timed_out: bool,
    stdout_bytes: usize,
    stderr_bytes: usize,
    timeout_ms: u64,
    lag_ms: u64,
}

impl Default for Exec {
    fn default() -> Exec {
        Exec {
            exit_code: None,
            signal: None,
            spawn_error: None,
            runtime_error: false,
            container_gone: false,
            timed_out: false,
            stdout_bytes: 0,
            stderr_bytes: 0,
            timeout_ms: 1_000,
            lag_ms: 0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct Network {
    connect: String,
    /// Connected counts, whatever the peer does next: the executor does not even look.
    #[serde(rename = "peerCloses")]
    _peer_closes: bool,
    code: Option<String>,
    status: Option<String>,
    service: String,
    timed_out: bool,
    timeout_ms: u64,
    lag_ms: u64,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            connect: "ok".to_owned(),
            _peer_closes: false,
            code: None,
            status: None,
            service: String::new(),
            timed_out: false,
            timeout_ms: 1_000,
            lag_ms: 0,
        }
    }
}

impl Network {
    fn cause(&self) -> Option<Cause> {
        match self.connect.as_str() {
            _ if self.timed_out => Some(Cause::TimedOut { lag: Duration::from_millis(self.lag_ms) }),
            "ok" => None,
            "dns" => Some(Cause::NameNotFound),
            errno => Some(Cause::Errno(errno.to_owned().into())),
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Port {
    port: IntOrString,
    container_ports: Vec<ContainerPort>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Lag {
    timeout_ms: u64,
    lag_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expand {
    command: Vec<String>,
    env: BTreeMap<String, String>,
}

fn read<Given: for<'de> Deserialize<'de>>(given: Value) -> Result<Given, String> {
    serde_json::from_value(given).map_err(|error| format!("given: {error}"))
}

pub(crate) fn check(case: Case) -> Verdict {
    let expect = case.expect;
    match case.op {
        Op::Exec => exec(read(case.given)?, &expect),
        Op::Tcp => {
            let given: Network = read(case.given)?;
            let cause = given.cause();
            judge(&outcome::tcp(cause.as_ref().map_or(Ok(()), Err), given.timeout()), &expect)
        }
        Op::Grpc => grpc(&read(case.given)?, &expect),
        Op::Port => {
            let given: Port = read(case.given)?;
            match outcome::resolve_port(&given.port, &given.container_ports) {
                Ok(port) => same(&json!([expect.port, expect.outcome]), &json!([port, null])),
                Err(report) if expect.port.is_none() => judge(&report, &expect),
                Err(report) => Err(format!("no port: {}", report.message)),
            }
        }
        Op::Lag => {
            let given: Lag = read(case.given)?;
            let millis = Duration::from_millis;
            judge(&outcome::timed_out(millis(given.timeout_ms), millis(given.lag_ms)), &expect)
        }
        Op::Expand => {
            let given: Expand = read(case.given)?;
            let command = outcome::expand(&given.command, |name| given.env.get(name).map(String::as_str));
            same(&json!(expect.command), &json!(command))
        }
    }
}

fn exec(given: Exec, expect: &Expect) -> Verdict {
    let ends = [
        given.exit_code.map(ExecEnd::Exited),
        given.signal.map(ExecEnd::Signaled),
        given.spawn_error.map(|errno| ExecEnd::SpawnFailed(errno.into())),
        given.runtime_error.then_some(ExecEnd::RuntimeUnreachable),
        given.container_gone.then_some(ExecEnd::ContainerGone),
        given.timed_out.then_some(ExecEnd::TimedOut { lag: Duration::from_millis(given.lag_ms) }),
    ];
    let end = ends.into_iter().flatten().next().ok_or("the command does not end")?;
    if let Some(kill) = expect.kill_group {
        // The end that says so by its contract; that processes keep it is a test of theirs.
        same(&json!({"killGroup": kill}), &json!({"killGroup": matches!(end, ExecEnd::TimedOut { .. })}))?;
    }
    let (stdout, stderr) = (vec![b'o'; given.stdout_bytes], vec![b'e'; given.stderr_bytes]);
    judge(&outcome::exec(ExecAnswer { end, stdout, stderr }, Duration::from_millis(given.timeout_ms)), expect)
}

fn grpc(given: &Network, expect: &Expect) -> Verdict {
    let cause = given.cause();
    let answer = match &cause {
        Some(cause) => Err(cause),
        None => Ok(GrpcAnswer {
            code: given.code.as_deref().ok_or("no code")?.into(),
            status: given.status.as_deref().unwrap_or_default().into(),
            detail: "".into(),
        }),
    };
    judge(&outcome::grpc(answer, &given.service, given.timeout()), expect)
}

/// Returns how many bytes of what the target said are kept; of a failed command they are its message.
pub(crate) fn output_bytes(report: &Report) -> usize {
    match &report.output {
        TargetOutput::Nothing | TargetOutput::Grpc(_) => 0,
        TargetOutput::Command { stdout, stderr } if stdout.is_empty() && stderr.is_empty() => 0,
        TargetOutput::Command { .. } if report.outcome == Outcome::Failure => report.message.len(),
        TargetOutput::Command { stdout, stderr } => stdout.len() + stderr.len(),
        TargetOutput::Http { body, .. } => body.len(),
    }
}

/// Compares what is expected of a report; only what the case names.
fn judge(report: &Report, expect: &Expect) -> Verdict {
    if let Some(outcome) = &expect.outcome {
        same(&json!({"outcome": outcome}), &json!({"outcome": format!("{:?}", report.outcome).to_lowercase()}))?;
    }
    if let Some(bytes) = expect.output_bytes {
        same(&json!({"outputBytes": bytes}), &json!({"outputBytes": output_bytes(report)}))?;
    }
    if expect.immediate == Some(true) && (Tries::default().again(report) || report.message.contains("timed out")) {
        return Err(format!("does not end at once: {report:?}"));
    }
    match expect.contains.iter().find(|part| !report.message.contains(part.as_str())) {
        Some(part) => Err(format!("{:?} does not contain {part:?}", report.message)),
        None => Ok(()),
    }
}
