//! Exec probes in containers of a container runtime.
//!
//! An attempt ends at our own deadline. Its call is cancelled then, on the side of the runtime, which answers when the command is gone;
//! the next attempt waits for that, so that commands do not pile up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::pod::ExecAction;
use probe::outcome::{self, Discarded, ExecAnswer, ExecEnd, Report};
use processes::lag::Deadline;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// A runtime that has not answered a cancelled call by then never will.
const CALL_MAX: Duration = Duration::from_secs(30);

/// A container of a container runtime.
#[derive(Clone, Debug)]
pub struct RuntimeContainer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Arc<cri::Client>,
    id: String,
    /// As far as the spec of the pod says it.
    env: BTreeMap<String, String>,
}

impl RuntimeContainer {
    /// Returns the container with this ID.
    pub fn new(client: Arc<cri::Client>, id: &str, env: BTreeMap<String, String>) -> RuntimeContainer {
        RuntimeContainer(Arc::new(Inner { client, id: id.to_owned(), env }))
    }

    /// Returns its ID.
    pub fn id(&self) -> &str {
        &self.0.id
    }
}

type Call = JoinHandle<Result<cri::ExecOutput, cri::Error>>;

/// The exec probe of a worker, for one instance of its container.
#[derive(Clone, Debug)]
pub struct RuntimeExec {
    container: RuntimeContainer,
    command: Arc<[String]>,
    /// The call of the last attempt, if that did not wait for it.
    left: Arc<Mutex<Option<Left>>>,
}

/// A call that outlives its attempt; it is dropped with the probe.
#[derive(Debug)]
struct Left(Call);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RuntimeExec {
    /// Prepares the probe of a container instance: `$(NAME)` is what the spec of its pod says.
    pub fn new(action: &ExecAction, container: &RuntimeContainer) -> RuntimeExec {
        let env = &container.0.env;
        let command = outcome::expand(&action.command, |name| env.get(name).map(String::as_str));
        RuntimeExec { container: container.clone(), command: command.into(), left: Arc::default() }
    }

    /// Carries out one attempt; its time counts from when the command of the attempt before has ended.
    pub async fn run(&self, timeout: Duration) -> Report {
        let mut left = self.left.lock().await;
        if let Some(mut before) = left.take() {
            let _ = tokio::time::timeout(CALL_MAX, &mut before.0).await;
        }
        let (container, command) = (self.container.clone(), Arc::clone(&self.command));
        let mut call = Left(tokio::spawn(async move { container.0.client.exec(container.id(), &command, timeout).await }));
        let mut deadline = Deadline::after(timeout);
        tokio::select! {
            biased;
            ended = &mut call.0 => match ended {
                Ok(result) => judged(result, timeout),
                Err(error) => Report::error(Discarded::Runtime, error.to_string()),
            },
            lag = deadline.passed() => {
                *left = Some(call);
                outcome::exec(nothing(ExecEnd::TimedOut { lag }), timeout)
            }
        }
    }
}

fn nothing(end: ExecEnd) -> ExecAnswer {
    ExecAnswer { end, stdout: Vec::new(), stderr: Vec::new() }
}

fn judged(result: Result<cri::ExecOutput, cri::Error>, timeout: Duration) -> Report {
    match result {
        Ok(cri::ExecOutput { stdout, stderr, exit_code }) => {
            outcome::exec(ExecAnswer { end: ExecEnd::Exited(exit_code), stdout, stderr }, timeout)
        }
        Err(cri::Error::Refused { code, message }) => outcome::refused_by_runtime(code, &message, timeout),
        // Names the socket.
        Err(error) => Report::error(Discarded::Runtime, error.to_string()),
    }
}
