//! A container runtime for tests: a unix socket that answers the calls of `runtime.v1` from what a test says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cri::wire::{Message, fields, unframe};
use http::{HeaderMap, Request, Response};
use tokio::net::UnixListener;
use tokio::task::AbortHandle;

/// A container of the runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    pub(crate) pod_uid: String,
    pub(crate) name: String,
    pub(crate) running: bool,
    /// Seconds since the epoch.
    pub(crate) started_at: i64,
    pub(crate) exit_code: i32,
    pub(crate) ip: String,
}

/// How a command ends: after how long, with which output and exit code; `dies_in`: after its call was cancelled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Command {
    pub(crate) takes: Duration,
    pub(crate) dies_in: Duration,
    pub(crate) stdout: Vec<u8>,
    pub(crate) exit_code: i32,
}

#[derive(Default)]
struct State {
    containers: BTreeMap<String, Made>,
    commands: BTreeMap<String, Command>,
    /// Containers that the runtime does not tell more of than that they are there.
    refused: Vec<String>,
    calls: Vec<String>,
    under_way: usize,
}

/// The runtime; it ends with the value.
pub(crate) struct Runtime {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    serving: Option<AbortHandle>,
}

impl Runtime {
    pub(crate) fn start(socket: &Path) -> Runtime {
        let mut runtime = Runtime { socket: socket.to_owned(), state: Arc::default(), serving: None };
        runtime.come_back();
        runtime
    }

    /// Makes or changes a container.
    pub(crate) fn set(&self, id: &str, made: Made) {
        self.state.lock().unwrap().containers.insert(id.to_owned(), made);
    }

    /// Refuses to tell more of a container than that it is there, or no longer does.
    pub(crate) fn refuse(&self, id: &str, refused: bool) {
        let mut state = self.state.lock().unwrap();
        state.refused.retain(|known| known != id);
        if refused {
            state.refused.push(id.to_owned());
        }
    }

    /// Says how a command ends, by its first word; others succeed.
    pub(crate) fn command(&self, word: &str, command: Command) {
        self.state.lock().unwrap().commands.insert(word.to_owned(), command);
    }

    /// Returns the calls so far, as `Method argument`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.state.lock().unwrap().calls.clone()
    }

    /// Returns how many commands run.
    pub(crate) fn under_way(&self) -> usize {
        self.state.lock().unwrap().under_way
    }

    /// Closes the socket and every connection.
    pub(crate) fn go_away(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
        let _ = std::fs::remove_file(&self.socket);
    }

    pub(crate) fn come_back(&mut self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let state = Arc::clone(&self.state);
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    let mut calls = tokio::task::JoinSet::new();
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        calls.spawn(answer(Arc::clone(&state), request, respond));
                    }
                });
            }
        });
        self.serving = Some(serving.abort_handle());
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.go_away();
    }
}

/// Counts a command as long as it runs.
struct UnderWay(Arc<Mutex<State>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().unwrap().under_way -= 1;
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let limit = request.headers().get("grpc-timeout").map(|limit| limit.to_str().unwrap().strip_suffix('m').unwrap());
    let limit = limit.map_or(Duration::MAX, |limit| Duration::from_millis(limit.parse().unwrap()));
    let mut body = Vec::new();
    let mut stream = request.into_body();
    while let Some(Ok(bytes)) = stream.data().await {
        stream.flow_control().release_capacity(bytes.len()).unwrap();
        body.extend_from_slice(&bytes);
    }
    let mut words = Vec::new();
    fields(unframe(&body).unwrap(), |_, value| words.push(value.text())).unwrap();
    let argument = words.first().cloned().unwrap_or_default();
    let answered = {
        let mut state = state.lock().unwrap();
        state.calls.push(format!("{method} {argument}").trim().to_owned());
        match method.as_str() {
            "Version" => Ok(Message::default().text(1, "0.1.0").text(2, "fake").text(3, "1.0").bytes()),
            "ListContainers" => Ok(list(&state, &argument)),
            "ContainerStatus" | "PodSandboxStatus" if state.refused.contains(&argument) => Err((2, "the shim does not answer")),
            "ContainerStatus" => state.containers.get(&argument).map(status).ok_or((5, "not found")),
            "PodSandboxStatus" => state.containers.get(&argument).map(sandbox).ok_or((5, "not found")),
            "ExecSync" if state.containers.get(&argument).is_some_and(|made| made.running) => Ok(Vec::new()),
            "ExecSync" => Err((2, "container is in CONTAINER_EXITED state")),
            _ => Err((12, "unknown method")),
        }
    };
    let answered = match (method.as_str(), answered) {
        ("ExecSync", Ok(_)) if words[1] == "nope" => {
            Err((2, "failed to exec in container: exec: %22nope%22: executable file not found in $PATH"))
        }
        ("ExecSync", Ok(_)) => {
            let command = state.lock().unwrap().commands.get(&words[1]).cloned().unwrap_or_default();
            let under_way = {
                state.lock().unwrap().under_way += 1;
                UnderWay(Arc::clone(&state))
            };
            let cancelled = || state.lock().unwrap().calls.push("Cancelled".to_owned());
            let in_time = tokio::select! {
                () = tokio::time::sleep(command.takes) => true,
                () = tokio::time::sleep(limit) => false,
                _ = std::future::poll_fn(|context| respond.poll_reset(context)) => return cancelled(),
            };
            if !in_time {
                cancelled();
                tokio::time::sleep(command.dies_in).await;
            }
            drop(under_way);
            let answer = Message::default().element(1, &command.stdout).number(3, i64::from(command.exit_code));
            if in_time { Ok(answer.bytes()) } else { Err((4, "context deadline exceeded")) }
        }
        (_, answered) => answered,
    };
    send(respond, answered).await;
}

/// Returns the containers of the pod that the filter names in its one label, or all.
fn list(state: &State, filter: &str) -> Vec<u8> {
    let wanted = |made: &&Made| filter.is_empty() || filter.contains(&made.pod_uid);
    let all = state.containers.iter().filter(|(_, made)| wanted(made));
    let message = |(id, made): (&String, &Made)| {
        let state = if made.running { 1 } else { 2 };
        let head = Message::default().text(1, id).text(2, id).number(6, state).number(7, made.started_at * 1_000_000_000);
        let labels = head.entry(8, "io.kubernetes.pod.uid", &made.pod_uid).entry(8, "io.kubernetes.container.name", &made.name);
        labels.bytes()
    };
    all.fold(Message::default(), |list, made| list.element(1, &message(made))).bytes()
}

fn status(made: &Made) -> Vec<u8> {
    let state = if made.running { 1 } else { 2 };
    let status =
        Message::default().number(3, state).number(5, made.started_at * 1_000_000_000).number(7, made.exit_code.into());
    Message::default().element(1, &status.bytes()).bytes()
}

/// A sandbox has the ID of its container here.
fn sandbox(made: &Made) -> Vec<u8> {
    let network = Message::default().text(1, &made.ip).bytes();
    Message::default().element(1, &Message::default().element(5, &network).bytes()).bytes()
}

async fn send(mut respond: h2::server::SendResponse<Bytes>, answered: Result<Vec<u8>, (u32, &str)>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let Ok(mut stream) = respond.send_response(head, false) else { return };
    let (code, message) = match answered {
        Ok(body) => {
            let mut framed = Bytes::from(cri::wire::frame(&body));
            while !framed.is_empty() {
                stream.reserve_capacity(framed.len());
                let Some(Ok(room)) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else { return };
                if stream.send_data(framed.split_to(room), false).is_err() {
                    return;
                }
            }
            (0, "")
        }
        Err(refusal) => refusal,
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.to_string().parse().unwrap());
    trailers.insert("grpc-message", message.parse().unwrap());
    let _ = stream.send_trailers(trailers);
}
