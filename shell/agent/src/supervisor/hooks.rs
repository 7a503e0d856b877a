//! Hooks of containers: commands, requests, waits.

use std::sync::Arc;
use std::time::Duration;

use api::pod::{ContainerPort, LifecycleHandler};
use pods::{Hook, HookResult, Input};
use probe::http::Target;
use processes::container::Running;
use processes::exec::Ended;

use super::containers::AgentContext;
use crate::executors::HttpProbe;

/// The version of Kubernetes that requests name.
pub(super) const VERSION: &str = "1.36";
/// A hook without a limit gets this one: longer than anybody waits.
const COMMAND_LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// A request that a hook makes, where the grace does not end it before.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a command's output that an event shows.
const SHOWN: usize = 256;

/// A hook to carry out.
pub(super) struct Order {
    pub(super) pod: u64,
    pub(super) container: Arc<str>,
    pub(super) running: Arc<Running>,
    pub(super) hook: Hook,
    pub(super) handler: LifecycleHandler,
    pub(super) timeout: Option<Duration>,
    pub(super) ports: Vec<ContainerPort>,
    pub(super) ip: String,
}

/// Carries out a hook.
pub(super) async fn run(context: Arc<AgentContext>, order: Order) {
    let result = carry_out(&order).await;
    let (container, id) = (order.container, Arc::from(order.running.id()));
    context.fact(order.pod, Input::HookFinished { container, id, hook: order.hook, result }).await;
}

async fn carry_out(order: &Order) -> HookResult {
    let handler = &order.handler;
    if let Some(action) = &handler.exec {
        let env = &order.running.spec().env;
        let command = probe::outcome::expand(&action.command, |name| env.get(name).map(String::as_str));
        return command_result(&command, order.running.exec(&command, order.timeout.unwrap_or(COMMAND_LIMIT)).await);
    }
    if let Some(action) = &handler.http_get {
        let target = Target { pod_ip: Some(&order.ip), ports: &order.ports, version: VERSION };
        let timeout = order.timeout.unwrap_or(REQUEST_LIMIT);
        let report = HttpProbe::new(action, &target, false).run(timeout).await;
        return if report.outcome.succeeded() == Some(true) { Ok(()) } else { Err(report.message) };
    }
    if let Some(action) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err("the hook has no handler that can be carried out; use exec, httpGet or sleep".to_owned())
}

fn command_result(command: &[String], result: processes::exec::ExecResult) -> HookResult {
    let command = command.join(" ");
    let output = match result {
        Ok(output) => output,
        Err(error) => return Err(format!("command {command:?}: {}", runtime::chain(&error))),
    };
    let shown = output.combined();
    let shown = String::from_utf8_lossy(&shown[..shown.len().min(SHOWN)]).replace(|c: char| c.is_control(), " ");
    let how = match output.ended {
        Ended::Exit(0) => return Ok(()),
        Ended::Exit(code) => format!("exited with {code}"),
        Ended::Signal(signal) => format!("was ended by signal {signal}"),
        Ended::TimedOut { .. } => "did not end in time".to_owned(),
    };
    Err(format!("command {command:?} {how}: {}", shown.trim()).trim_end_matches([':', ' ']).to_owned())
}
