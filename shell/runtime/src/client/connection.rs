//! Which connection a request goes over: the one that all share, or with HTTP/1.1 one that is free.
//!
//! Whoever comes first makes the connection, in a task of its own: those who come meanwhile wait for the same one and share its
//! failure, and whoever gives up takes it away from nobody.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use rustls::ClientConfig;

use super::Body;
use super::dial::{Dialed, Dialer, Http2, Unreachable};

/// HTTP/1.1 connections that are kept for the next request, ...
const IDLE_MAX: usize = 32;
/// ... and for how long: before servers think of closing them.
const IDLE_FOR: Duration = Duration::from_secs(60);
/// Who gives up sooner says nothing about the connection.
const WAITED_LONG: Duration = Duration::from_secs(1);

type Attempt = Shared<BoxFuture<'static, Result<Protocol, Unreachable>>>;
type Tls = Arc<ClientConfig>;

/// The connections to one server.
pub(super) struct Connections {
    dialer: Arc<Dialer>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// Whom the connections show us as; another certificate takes other connections.
    tls: Option<Tls>,
    attempt: Option<Attempt>,
    idle: Arc<Idle>,
}

/// What the server speaks.
#[derive(Clone)]
enum Protocol {
    Http1,
    Http2(Http2),
}

/// HTTP/1.1 connections without a request.
#[derive(Default)]
struct Idle(Mutex<Vec<(Instant, SendRequest<Body>)>>);

/// A connection for one request.
pub(super) enum Connection {
    Http1(Returning),
    Http2(Http2),
}

/// An HTTP/1.1 connection in use.
pub(super) struct Returning {
    sender: SendRequest<Body>,
    idle: Arc<Idle>,
}

/// Why there is no answer.
pub(super) enum Failed {
    /// The connection had ended before: the request may go over another one.
    NotSent(Box<Request<Body>>, hyper::Error),
    Broken(hyper::Error),
}

impl From<TrySendError<Request<Body>>> for Failed {
    fn from(mut error: TrySendError<Request<Body>>) -> Failed {
        match error.take_message() {
            Some(request) => Failed::NotSent(Box::new(request), error.into_error()),
            None => Failed::Broken(error.into_error()),
        }
    }
}

impl Connections {
    pub(super) fn new(dialer: Arc<Dialer>) -> Connections {
        Connections { dialer, current: Mutex::default() }
    }

    /// Returns connections of their own to the same server.
    pub(super) fn separate(&self) -> Connections {
        Connections::new(Arc::clone(&self.dialer))
    }

    /// Returns a connection; `None`: without TLS.
    pub(super) async fn acquire(&self, tls: Option<&Tls>) -> Result<Connection, Unreachable> {
        loop {
            let (attempt, idle) = self.attempt(tls);
            match attempt.await? {
                Protocol::Http2(connection) => return Ok(Connection::Http2(connection)),
                Protocol::Http1 => {}
            }
            if let Some(sender) = idle.take().await {
                return Ok(Connection::Http1(Returning { sender, idle }));
            }
            match self.dialer.dial(tls.cloned()).await? {
                Dialed::Http1(sender) => return Ok(Connection::Http1(Returning { sender, idle })),
                // The server has learned it meanwhile.
                Dialed::Http2(_) => self.lock().attempt = None,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().expect("no code panics while it holds the connections")
    }

    /// Returns the attempt to connect that is under way or has led to what can be used, else a new one.
    fn attempt(&self, tls: Option<&Tls>) -> (Attempt, Arc<Idle>) {
        let mut current = self.lock();
        let same = match (&current.tls, tls) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        if !same {
            *current = Current { tls: tls.cloned(), ..Current::default() };
        }
        let idle = Arc::clone(&current.idle);
        let good = |attempt: &&Attempt| match attempt.peek() {
            None | Some(Ok(Protocol::Http1)) => true,
            Some(Ok(Protocol::Http2(connection))) => connection.is_usable(),
            Some(Err(_)) => false,
        };
        if let Some(attempt) = current.attempt.as_ref().filter(good) {
            return (attempt.clone(), idle);
        }
        let attempt = self.begin(tls.cloned(), Arc::clone(&idle));
        current.attempt = Some(attempt.clone());
        (attempt, idle)
    }

    fn begin(&self, tls: Option<Tls>, idle: Arc<Idle>) -> Attempt {
        let dialer = Arc::clone(&self.dialer);
        let dialing = tokio::spawn(async move {
            Ok(match dialer.dial(tls).await? {
                Dialed::Http2(connection) => Protocol::Http2(connection),
                Dialed::Http1(sender) => {
                    idle.put(sender);
                    Protocol::Http1
                }
            })
        });
        let dialer = Arc::clone(&self.dialer);
        let dialed = dialing.map(move |dialed| dialed.unwrap_or_else(|error| Err(dialer.unreachable(error.to_string()))));
        dialed.boxed().shared()
    }
}

impl Idle {
    fn put(&self, sender: SendRequest<Body>) {
        let mut idle = self.0.lock().expect("no code panics while it holds the connections");
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push((Instant::now(), sender));
        }
    }

    /// Returns the connection that was used last, if it still can be.
    async fn take(&self) -> Option<SendRequest<Body>> {
        loop {
            let newest = {
                let mut idle = self.0.lock().expect("no code panics while it holds the connections");
                idle.retain(|(since, sender)| since.elapsed() < IDLE_FOR && !sender.is_closed());
                idle.pop()
            };
            let (_, mut sender) = newest?;
            // The answer before was read to its end, so this is a matter of microseconds.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }
}

impl Returning {
    /// Keeps the connection for others: its answer was read to the end.
    pub(super) fn give_back(self) {
        self.idle.put(self.sender);
    }
}

impl Connection {
    /// Sends a request whose URI is the whole address.
    pub(super) async fn send(self, mut request: Request<Body>) -> Result<Response<Body>, Failed> {
        match self {
            Connection::Http2(mut connection) => {
                let waiting = Waiting { connection: connection.clone(), since: Instant::now(), answered: false };
                let answer = connection.sender.try_send_request(request).await;
                waiting.over();
                Ok(answer?.map(|body| Body::of_network(body, None)))
            }
            Connection::Http1(mut connection) => {
                let whole = origin_form(&mut request);
                let answer: Result<Response<Incoming>, _> = connection.sender.try_send_request(request).await;
                let answer = answer.map_err(|error| match Failed::from(error) {
                    Failed::NotSent(mut request, error) => {
                        *request.uri_mut() = whole;
                        Failed::NotSent(request, error)
                    }
                    broken => broken,
                });
                Ok(answer?.map(|body| Body::of_network(body, Some(connection))))
            }
        }
    }
}

/// Makes a request one of HTTP/1.1, which has the host in a header; returns the address that it had.
fn origin_form(request: &mut Request<Body>) -> Uri {
    let whole = request.uri().clone();
    if let Some(host) = whole.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
        request.headers_mut().insert(http::header::HOST, host);
    }
    *request.uri_mut() = whole.path_and_query().cloned().map(Uri::from).unwrap_or_default();
    whole
}

/// A request without an answer yet; dropped like that, it says that somebody waited in vain.
struct Waiting {
    connection: Http2,
    since: Instant,
    answered: bool,
}

impl Waiting {
    fn over(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.answered && self.since.elapsed() >= WAITED_LONG {
            self.connection.waited_since(self.since);
        }
    }
}
