//! The client: one HTTP/2 connection to a unix socket, made again when it is lost.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::exec::{ExecOutput, ExecReader};
use crate::messages::{self, Container, ContainerStatus, Version};
use crate::wire::{Message, unframe};

/// A runtime that does not answer by then does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A list of all containers of a node is far shorter than this.
const MESSAGE_MAX: usize = 16 << 20;
/// What the runtime may send before we have read.
const WINDOW: u32 = 1 << 20;
/// Status codes of gRPC that callers tell apart.
const NOT_FOUND: u32 = 5;
/// A command is ended by the runtime so long after its time, so that whoever waits for it is first to say that it took too long.
const GRACE: Duration = Duration::from_millis(20);
/// The header has room for eight digits.
const MILLISECONDS_MAX: u128 = 99_999_999;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The runtime cannot be spoken to.
    #[error("the container runtime at unix://{socket} cannot be reached: {cause}", socket = socket.display())]
    Unreachable {
        /// The socket that was tried.
        socket: PathBuf,
        /// What happened.
        cause: String,
    },
    /// The runtime refuses.
    #[error("the container runtime refuses: {message} (code {code})")]
    Refused {
        /// The status code of gRPC.
        code: u32,
        /// What it says.
        message: String,
    },
}

impl Error {
    /// Returns whether the runtime does not know what was asked about.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Refused { code: NOT_FOUND, .. })
    }
}

/// A client of the runtime behind a socket.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    connection: Mutex<Option<SendRequest<Bytes>>>,
}

impl Client {
    /// Returns a client of the runtime behind `unix:///path` or `/path`; nothing is connected yet.
    pub fn new(endpoint: &str) -> Client {
        Client { socket: PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint)), connection: Mutex::default() }
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns what the runtime is.
    pub async fn version(&self) -> Result<Version, Error> {
        let answer = self.ask("Version", Message::default().text(1, "v1")).await?;
        self.read(&answer, messages::version)
    }

    /// Returns the containers of one pod, or of all, those that have ended included.
    pub async fn containers(&self, pod_uid: Option<&str>) -> Result<Vec<Container>, Error> {
        let answer = self.ask("ListContainers", messages::list_request(pod_uid)).await?;
        self.read(&answer, messages::containers)
    }

    /// Returns a container, looked at closely.
    pub async fn container_status(&self, id: &str) -> Result<ContainerStatus, Error> {
        let answer = self.ask("ContainerStatus", Message::default().text(1, id)).await?;
        self.read(&answer, messages::container_status)
    }

    /// Returns the addresses of a sandbox; none for one on the network of the node.
    pub async fn sandbox_addresses(&self, id: &str) -> Result<Vec<String>, Error> {
        let answer = self.ask("PodSandboxStatus", Message::default().text(1, id)).await?;
        self.read(&answer, messages::sandbox_addresses)
    }

    /// Runs a command in a container to its end, or until its time is over: then the call is cancelled on the side of the runtime,
    /// which kills the command and answers when it is gone. Dropped before, the call is cancelled as well.
    ///
    /// The time of the request itself is in whole seconds, and a child of the command that holds its output keeps the call open for
    /// longer than that; the time of the call is to the millisecond and ends both.
    pub async fn exec(&self, container_id: &str, command: &[String], timeout: Duration) -> Result<ExecOutput, Error> {
        let request = Message::default().text(1, container_id);
        let request = command.iter().fold(request, |request, word| request.element(2, word.as_bytes()));
        let seconds = i64::try_from(timeout.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX);
        let mut reader = ExecReader::default();
        let read = |bytes: &[u8]| {
            reader.push(bytes);
            true
        };
        self.call("ExecSync", request.number(3, seconds), Some(timeout + GRACE), read).await?;
        reader.finish().ok_or_else(|| self.unreachable("the answer cannot be read"))
    }

    /// Makes a call whose answer is short and quick.
    async fn ask(&self, method: &str, request: Message) -> Result<Vec<u8>, Error> {
        let mut answer = Vec::new();
        let call = self.call(method, request, None, |bytes| {
            answer.extend_from_slice(bytes);
            answer.len() <= MESSAGE_MAX
        });
        match tokio::time::timeout(TIMEOUT, call).await {
            Ok(called) => called.map(|()| answer),
            Err(_) => {
                // Whatever holds it up, the next call goes another way.
                *self.connection.lock().await = None;
                Err(self.unreachable(format!("{method}: no answer within {} s", TIMEOUT.as_secs())))
            }
        }
    }

    fn read<T>(&self, framed: &[u8], read: fn(&[u8]) -> Option<T>) -> Result<T, Error> {
        unframe(framed).and_then(read).ok_or_else(|| self.unreachable("the answer cannot be read"))
    }

    fn unreachable(&self, cause: impl ToString) -> Error {
        Error::Unreachable { socket: self.socket.clone(), cause: cause.to_string() }
    }

    /// Makes a call; the answer is handed to `take` as it comes, until that has enough. `limit`: when the runtime cancels it.
    async fn call(
        &self,
        method: &str,
        request: Message,
        limit: Option<Duration>,
        take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        let sender = self.connected().await?;
        let called = call(sender, method, request.framed(), limit, take).await;
        called.map_err(|failure| match failure {
            Failure::Status(code, message) => Error::Refused { code, message },
            Failure::Broken(cause) => self.unreachable(cause),
        })
    }

    /// Returns a connection that takes requests, an earlier one if it still does.
    async fn connected(&self) -> Result<SendRequest<Bytes>, Error> {
        let mut connection = self.connection.lock().await;
        if let Some(sender) = connection.take()
            && let Ok(ready) = sender.ready().await
        {
            *connection = Some(ready.clone());
            return Ok(ready);
        }
        let made = tokio::time::timeout_at(Instant::now() + TIMEOUT, connect(&self.socket)).await;
        let sender =
            made.unwrap_or_else(|_| Err("no handshake in time".to_owned())).map_err(|cause| self.unreachable(cause))?;
        *connection = Some(sender.clone());
        Ok(sender)
    }
}

async fn connect(socket: &Path) -> Result<SendRequest<Bytes>, String> {
    let text = |error: io::Error| error.to_string();
    let stream = UnixStream::connect(socket).await.map_err(text)?;
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).initial_window_size(WINDOW).initial_connection_window_size(4 * WINDOW);
    let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the container runtime has ended");
        }
    });
    sender.ready().await.map_err(|error| error.to_string())
}

enum Failure {
    Status(u32, String),
    Broken(String),
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Failure {
        Failure::Broken(error.to_string())
    }
}

async fn call(
    mut sender: SendRequest<Bytes>,
    method: &str,
    body: Vec<u8>,
    limit: Option<Duration>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), Failure> {
    let mut request = Request::post(format!("http://localhost/runtime.v1.RuntimeService/{method}"))
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "lifesign");
    if let Some(limit) = limit {
        request = request.header("grpc-timeout", format!("{}m", limit.as_millis().min(MILLISECONDS_MAX)));
    }
    let request = request.body(()).map_err(|error| Failure::Broken(error.to_string()))?;
    let (response, mut stream) = sender.send_request(request, false)?;
    stream.send_data(body.into(), true)?;
    let (head, mut answer) = response.await?.into_parts();
    status(&head.headers).map_or(Ok(()), refusal)?;
    if !head.status.is_success() {
        return Err(Failure::Broken(format!("HTTP status {}", head.status.as_u16())));
    }
    while let Some(bytes) = answer.data().await {
        let bytes = bytes?;
        answer.flow_control().release_capacity(bytes.len())?;
        if !take(&bytes) {
            return Err(Failure::Broken("the answer is too long".to_owned()));
        }
    }
    end(answer).await
}

async fn end(mut answer: RecvStream) -> Result<(), Failure> {
    let trailers = answer.trailers().await?.unwrap_or_default();
    match status(&trailers) {
        Some(status) => refusal(status),
        None => Err(Failure::Broken("the answer has no status".to_owned())),
    }
}

fn refusal((code, message): (u32, String)) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure::Status(code, message)) }
}

fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let code = text("grpc-status")?.parse().unwrap_or(2);
    Some((code, percent_decoded(&text("grpc-message").unwrap_or_default())))
}

/// Decodes a message of gRPC.
fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => bytes.extend_from_slice(format!("%{part}").as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_decoded() {
        assert_eq!(percent_decoded("exec: %22nope%22: 100%"), "exec: \"nope\": 100%");
    }
}
