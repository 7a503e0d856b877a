//! HTTP probes: sends, reads and keeps the one timeout; what an answer means is said by [`probe::http::Exchange`].
//!
//! The request is put into bytes once per worker. An attempt on this machine costs a socket, a write and a read.

mod response;
mod tls;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::pod::HttpGetAction;
use probe::http::{Exchange, ExchangeStep, HttpAnswer, Request, Target, shows_body};
use probe::outcome::{Cause, Report};
use processes::lag::Deadline;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socket::Socket;
use super::{errno, lookup};
use response::{Body, Buffer, Framing, HeadReader};

/// Room for an answer: nearly every one fits.
const BUFFER: usize = 2048;

/// The HTTP probe of a worker.
#[derive(Clone, Debug)]
pub struct HttpProbe {
    /// The first request, or why it cannot be sent.
    request: Result<Request, Report>,
    wire: Vec<u8>,
    /// Where it goes, unless a name must be looked up.
    address: Option<SocketAddr>,
    shows_body: bool,
}

impl HttpProbe {
    /// Prepares the probe of a container; a spec that cannot be carried out fails at every attempt.
    pub fn new(action: &HttpGetAction, target: &Target<'_>, host_network: bool) -> HttpProbe {
        let request = Request::new(action, target);
        let wire = request.as_ref().map(wire).unwrap_or_default();
        let address = request.as_ref().ok().and_then(address);
        HttpProbe { request, wire, address, shows_body: shows_body(action, host_network) }
    }

    /// Returns the address that it asks, if no name has to be looked up.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns what it asks for first, if its spec says so.
    pub fn url(&self) -> Option<&probe::http::Url> {
        self.request.as_ref().ok().map(|request| &request.url)
    }

    /// Carries out one attempt.
    pub async fn run(&self, timeout: Duration) -> Report {
        self.run_on(None, timeout).await
    }

    /// Carries out one attempt, on a connection that a knock has begun.
    pub async fn run_on(&self, begun: Option<Socket>, timeout: Duration) -> Report {
        let request = match &self.request {
            Ok(request) => request.clone(),
            Err(report) => return report.clone(),
        };
        let mut deadline = Deadline::after(timeout);
        let mut attempt = Attempt {
            probe: self,
            begun,
            exchange: Exchange::new(request, self.shows_body, timeout),
            redirected: false,
            status: 0,
            body: None,
        };
        tokio::select! {
            biased;
            report = attempt.run() => report,
            lag = deadline.passed() => attempt.timed_out(lag),
        }
    }
}

/// Returns the bytes of a request.
fn wire(request: &Request) -> Vec<u8> {
    let mut wire = format!("GET {} HTTP/1.1\r\nHost: {}\r\n", request.url.target, request.host);
    for (name, value) in &request.headers {
        wire.extend([name, ": ", value, "\r\n"]);
    }
    wire.push_str("\r\n");
    wire.into_bytes()
}

/// Returns the address of a request whose host is one.
fn address(request: &Request) -> Option<SocketAddr> {
    let ip: IpAddr = request.url.host.parse().ok()?;
    Some(SocketAddr::new(ip, request.url.port_or_default()))
}

/// One attempt; it outlives the future that runs it, so that what has arrived by the timeout can be told.
struct Attempt<'a> {
    probe: &'a HttpProbe,
    /// For the first request.
    begun: Option<Socket>,
    exchange: Exchange,
    redirected: bool,
    status: u16,
    body: Option<Body>,
}

impl Attempt<'_> {
    async fn run(&mut self) -> Report {
        let mut step = ExchangeStep::Send;
        let mut connection: Option<Connection> = None;
        let mut framing = Framing::UntilClose;
        loop {
            let answer = match step {
                ExchangeStep::Send => {
                    connection = None;
                    match self.send().await {
                        Ok(opened) => connection.insert(opened).head(&mut framing).await,
                        Err(cause) => Err(cause),
                    }
                }
                ExchangeStep::Wait => match &mut connection {
                    Some(connection) => connection.head(&mut framing).await,
                    None => Err(closed()),
                },
                ExchangeStep::Read { max } => match &mut connection {
                    Some(connection) => connection.body(self.body.insert(Body::new(framing, max))).await,
                    None => Err(closed()),
                },
                ExchangeStep::Done(report) => {
                    if let Some(connection) = connection {
                        connection.close();
                    }
                    return report;
                }
            };
            let answer = answer.unwrap_or_else(HttpAnswer::Failed);
            self.redirected |= matches!(answer, HttpAnswer::Head { status: 300..400, .. });
            if let HttpAnswer::Head { status, .. } = answer {
                self.status = status;
            } else if let HttpAnswer::Failed(_) = answer {
                // What comes now is a new try, from the first request on.
                self.redirected = false;
            }
            step = self.exchange.take(answer);
        }
    }

    /// Opens a connection and sends the request.
    async fn send(&mut self) -> Result<Connection, Cause> {
        let begun = self.begun.take();
        let request = self.exchange.request();
        let built;
        let (wire, address) = if self.redirected {
            built = wire(request);
            (built.as_slice(), address(request))
        } else {
            (self.probe.wire.as_slice(), self.probe.address)
        };
        if let (Some(address), None) = (address, request.tls()) {
            let mut socket = begun.map_or_else(|| Socket::begin(&address), Ok).map_err(system)?;
            socket.send(wire).await.map_err(system)?;
            return Ok(Connection::new(Stream::Plain(socket)));
        }
        let socket = lookup::connect(begun, &request.url.host, request.url.port_or_default()).await?;
        let mut stream = match request.tls() {
            Some(tls) => Stream::Tls(Box::new(tls::handshake(socket, &request.url.host, &tls).await?)),
            None => Stream::Plain(socket),
        };
        stream.send(wire).await?;
        Ok(Connection::new(stream))
    }

    /// Says what the end of the time means: a status line that came before has decided.
    fn timed_out(mut self, lag: Duration) -> Report {
        let arrived = self.body.take().map(|body| body.bytes).unwrap_or_default();
        let answer = match self.status {
            400.. => HttpAnswer::Body { bytes: arrived, whole: false },
            _ => HttpAnswer::Failed(Cause::TimedOut { lag }),
        };
        match self.exchange.take(answer) {
            ExchangeStep::Done(report) => report,
            // A timeout is never tried again.
            _ => probe::outcome::unanswered(&Cause::TimedOut { lag }, Duration::ZERO),
        }
    }
}

fn system(errno: Errno) -> Cause {
    Cause::Errno(errno::name(errno))
}

fn closed() -> Cause {
    Cause::Protocol("the server closed the connection before it answered".to_owned())
}

enum Stream {
    Plain(Socket),
    Tls(Box<tls::TlsStream>),
}

impl Stream {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        match self {
            Stream::Plain(socket) => socket.send(bytes).await.map_err(system),
            Stream::Tls(stream) => {
                stream.write_all(bytes).await.map_err(tls::cause)?;
                stream.flush().await.map_err(tls::cause)
            }
        }
    }

    async fn receive(&mut self, buffer: &mut Buffer) -> Result<usize, Cause> {
        let buffer = buffer.room(BUFFER / 2);
        match self {
            Stream::Plain(socket) => socket.receive(buffer).await,
            Stream::Tls(stream) => stream.read_buf(buffer).await.map_err(tls::cause),
        }
    }
}

/// A connection on which the answers to one request arrive.
struct Connection {
    stream: Stream,
    /// Read, but not used yet.
    buffer: Buffer,
}

impl Connection {
    fn new(stream: Stream) -> Connection {
        Connection { stream, buffer: Buffer::with_capacity(BUFFER) }
    }

    /// Reads a status line and headers.
    async fn head(&mut self, framing: &mut Framing) -> Result<HttpAnswer, Cause> {
        let mut reader = HeadReader::default();
        loop {
            if let Some(head) = reader.take(&mut self.buffer).map_err(|error| Cause::Protocol(error.to_string()))? {
                *framing = head.framing;
                return Ok(HttpAnswer::Head { status: head.status, location: head.location });
            }
            if self.stream.receive(&mut self.buffer).await? == 0 {
                return Err(closed());
            }
        }
    }

    /// Reads a body.
    async fn body(&mut self, body: &mut Body) -> Result<HttpAnswer, Cause> {
        loop {
            if body.take(&mut self.buffer).is_err() {
                return Ok(HttpAnswer::Body { bytes: std::mem::take(&mut body.bytes), whole: false });
            }
            if body.is_done() {
                return Ok(HttpAnswer::Body { bytes: std::mem::take(&mut body.bytes), whole: true });
            }
            // An error after the status line breaks the body; whose fault it is plays no part any more.
            let length = self.stream.receive(&mut self.buffer).await;
            if !matches!(length, Ok(1..)) {
                let whole = length.is_ok() && body.is_whole();
                return Ok(HttpAnswer::Body { bytes: std::mem::take(&mut body.bytes), whole });
            }
        }
    }

    fn close(self) {
        match self.stream {
            Stream::Plain(socket) => socket.close(),
            // Closed in the background.
            Stream::Tls(_) => {}
        }
    }
}
