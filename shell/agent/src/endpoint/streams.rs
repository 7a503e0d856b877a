//! Streams into pods: commands and connections to ports, over WebSocket.

mod command;
mod ports;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use streams::websocket::{self, Decoder, SocketEvent};
use streams::{channels, forward};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Mutex;

use super::Endpoint;
use super::answers::{Body, full, text};
use super::tls::Caller;
use crate::supervisor::Ask;

/// A client that does not close its side in this time after the last message is left alone.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const READ_SIZE: usize = 32 * 1024;

type Socket = TokioIo<Upgraded>;
/// Why a stream is refused.
type Refusal = (StatusCode, String);

/// Returns whether a path leads into a pod.
pub(super) fn is_stream(path: &str) -> bool {
    ["/exec/", "/attach/", "/portForward/"].iter().any(|what| path.starts_with(what))
}

/// Answers a request for a stream; it is served once the client has the answer.
pub(super) async fn answer(endpoint: &Endpoint, caller: Caller, mut request: Request<Incoming>) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    let open = async {
        match caller {
            Caller::Admin => open(endpoint, &request, upgrade).await,
            Caller::Stranger => {
                Err((StatusCode::UNAUTHORIZED, "a client certificate of the cluster's authority is needed".into()))
            }
            Caller::Reader => Err((StatusCode::FORBIDDEN, "streams into pods are for administrators".into())),
        }
    };
    open.await.unwrap_or_else(|(code, why)| text(code, &format!("{why}\n")))
}

async fn open(endpoint: &Endpoint, request: &Request<Incoming>, upgrade: OnUpgrade) -> Result<Response<Body>, Refusal> {
    let uri = request.uri();
    let parts: Vec<&str> = uri.path().split('/').skip(1).collect();
    let words = command::Options::read(uri.query().unwrap_or_default());
    match *parts.as_slice() {
        ["exec", namespace, pod, container] => {
            let reply = accept(request.headers(), &channels::PROTOCOLS)?;
            let [namespace, pod, name] = [namespace, pod, container].map(str::to_owned);
            let found = endpoint.ask(|answer| Ask::Instance { namespace, pod, container: name, answer }).await;
            let (running, shim) = found.flatten().ok_or_else(|| not_found(&format!("container {container:?} does not run")))?;
            endpoint.spawn(upgrade, move |socket| command::serve(socket, running, shim, words));
            Ok(reply)
        }
        ["portForward", namespace, pod] => {
            let reply = accept(request.headers(), &[forward::PROTOCOL])?;
            let [namespace, name] = [namespace, pod].map(str::to_owned);
            let found = endpoint.ask(|answer| Ask::Address { namespace, pod: name, answer }).await;
            let address = found.flatten().ok_or_else(|| not_found(&format!("pod {pod:?} has no address on this node")))?;
            endpoint.spawn(upgrade, move |socket| ports::serve(socket, address));
            Ok(reply)
        }
        ["attach", ..] => {
            let why = "attach is not available: the output of a container goes to its log, and its input is empty; \
                       use `kubectl logs -f`, or `kubectl exec` for a process beside it";
            Err((StatusCode::NOT_IMPLEMENTED, why.to_owned()))
        }
        _ => Err((StatusCode::NOT_FOUND, "404 page not found".to_owned())),
    }
}

fn not_found(why: &str) -> Refusal {
    (StatusCode::NOT_FOUND, why.to_owned())
}

/// Returns the answer that makes a connection a WebSocket with one of the protocols, the first that the client knows.
fn accept(headers: &HeaderMap, known: &[&str]) -> Result<Response<Body>, Refusal> {
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    if !header(UPGRADE).eq_ignore_ascii_case("websocket") {
        return Err(bad("streams into pods of this node are WebSockets: kubectl 1.32 or newer speaks them".to_owned()));
    }
    let asked: Vec<&str> = header(SEC_WEBSOCKET_PROTOCOL).split(',').map(str::trim).collect();
    let protocol = known.iter().find(|protocol| asked.contains(protocol));
    let protocol = protocol.ok_or_else(|| bad(format!("none of the protocols {asked:?} is spoken here, but {known:?}")))?;
    let key = header(SEC_WEBSOCKET_KEY);
    if key.is_empty() {
        return Err(bad("the client has sent no Sec-WebSocket-Key".to_owned()));
    }
    let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{}", websocket::KEY_SUFFIX).as_bytes());
    let mut reply = Response::new(full(String::new()));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let value = |text: &str| HeaderValue::from_str(text).expect("it is made of letters, digits and signs");
    reply.headers_mut().insert(UPGRADE, value("websocket"));
    reply.headers_mut().insert(CONNECTION, value("Upgrade"));
    reply.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, value(&STANDARD.encode(proof)));
    reply.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, value(protocol));
    Ok(reply)
}

impl Endpoint {
    /// Serves an upgraded connection until it or the agent ends.
    fn spawn<F: Future<Output = ()> + Send>(&self, upgrade: OnUpgrade, serve: impl FnOnce(Socket) -> F + Send + 'static) {
        let cut_off = self.cut_off.clone();
        self.connections.spawn(async move {
            let served = async {
                match upgrade.await {
                    Ok(socket) => serve(TokioIo::new(socket)).await,
                    Err(error) => tracing::debug!(%error, "a stream was not upgraded"),
                }
            };
            tokio::select! {
                () = cut_off.cancelled() => {}
                () = served => {}
            }
        });
    }
}

/// What a client sends.
struct Receiver {
    socket: ReadHalf<Socket>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

/// What a client is sent; whole messages, by whoever has one.
struct Sender(Mutex<Outgoing>);

struct Outgoing {
    socket: WriteHalf<Socket>,
    /// What is still to be written, also of a message whose sender was given up meanwhile: half a message breaks the stream.
    bytes: BytesMut,
}

fn split(socket: Socket) -> (Receiver, Sender) {
    let (reader, writer) = tokio::io::split(socket);
    let outgoing = Outgoing { socket: writer, bytes: BytesMut::new() };
    (Receiver { socket: reader, decoder: Decoder::default(), buffer: vec![0; READ_SIZE] }, Sender(Mutex::new(outgoing)))
}

impl Receiver {
    /// Returns the next message; `None`: there are no more. Pings are answered.
    async fn message(&mut self, sender: &Sender) -> Option<Vec<u8>> {
        loop {
            match self.decoder.next_event() {
                Ok(Some(SocketEvent::Message(message))) => return Some(message),
                Ok(Some(SocketEvent::Ping(payload))) => sender.send(&websocket::pong(&payload)).await.ok()?,
                Ok(Some(SocketEvent::Close)) => return None,
                Ok(None) => {
                    let length = self.socket.read(&mut self.buffer).await.ok().filter(|length| *length > 0)?;
                    self.decoder.push(&self.buffer[..length]);
                }
                Err(error) => {
                    tracing::debug!(%error, "a stream is given up");
                    let _ = sender.send(&websocket::close(error.code())).await;
                    return None;
                }
            }
        }
    }

    /// Waits until the client has closed its side: bytes that nobody reads would make the system forget our last ones.
    async fn closed(&mut self) {
        let read_all = async { while matches!(self.socket.read(&mut self.buffer).await, Ok(1..)) {} };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, read_all).await;
    }
}

impl Sender {
    async fn send(&self, frame: &[u8]) -> std::io::Result<()> {
        let Outgoing { socket, bytes } = &mut *self.0.lock().await;
        bytes.extend_from_slice(frame);
        socket.write_all_buf(bytes).await?;
        socket.flush().await
    }

    /// Says that nothing more is sent.
    async fn close(&self) {
        let _ = self.send(&websocket::close(websocket::NORMAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(protocol: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        headers
    }

    #[test]
    fn a_client_hears_that_its_request_was_understood() {
        let asked = asked("v9.channel.k8s.io, v4.channel.k8s.io,v5.channel.k8s.io");
        let reply = accept(&asked, &channels::PROTOCOLS).unwrap();
        assert_eq!(reply.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(reply.headers()[SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io");
        // The example of RFC 6455.
        assert_eq!(reply.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn other_clients_are_refused() {
        assert!(accept(&asked("v1.channel.k8s.io"), &channels::PROTOCOLS).unwrap_err().1.contains("v5.channel.k8s.io"));
        let mut spdy = asked("");
        spdy.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        assert!(accept(&spdy, &channels::PROTOCOLS).unwrap_err().1.contains("kubectl 1.32"));
        let mut without_key = asked("v5.channel.k8s.io");
        without_key.remove(SEC_WEBSOCKET_KEY);
        assert_eq!(accept(&without_key, &channels::PROTOCOLS).unwrap_err().0, StatusCode::BAD_REQUEST);
    }
}
