//! gRPC probes: one health check on one plaintext HTTP/2 connection.

use std::net::SocketAddr;
use std::time::Duration;

use api::pod::GrpcAction;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Request, Response};
use probe::http::Target;
use probe::outcome::{self, Cause, GrpcAnswer, Report, Tries};
use processes::lag::Deadline;
use rustix::io::Errno;

use super::socket::Socket;
use super::{errno, lookup, pod_address};
use crate::health_proto::{self, CODES};

/// More than this is no answer to a health check.
const MESSAGE_MAX: usize = 4096;
/// Nor is a list of headers longer than this.
const HEADERS_MAX: u32 = 64 << 10;

/// The gRPC probe of a worker.
#[derive(Clone, Debug)]
pub struct GrpcProbe {
    /// Where it goes, or why it cannot.
    address: Result<SocketAddr, Report>,
    service: String,
    user_agent: String,
}

impl GrpcProbe {
    /// Prepares the probe of a container; a spec that cannot be carried out fails at every attempt.
    pub fn new(action: &GrpcAction, target: &Target<'_>) -> GrpcProbe {
        let address = outcome::port_number(action.port).and_then(|port| pod_address(target, port));
        GrpcProbe { address, service: action.service.clone(), user_agent: format!("kube-probe/{}", target.version) }
    }

    /// Returns the address that it asks.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address.as_ref().ok().copied()
    }

    /// Carries out one attempt.
    pub async fn run(&self, timeout: Duration) -> Report {
        self.run_on(None, timeout).await
    }

    /// Carries out one attempt, on a connection that a knock has begun.
    pub async fn run_on(&self, mut begun: Option<Socket>, timeout: Duration) -> Report {
        let address = match &self.address {
            Ok(address) => *address,
            Err(report) => return report.clone(),
        };
        let mut deadline = Deadline::after(timeout);
        let mut tries = Tries::default();
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.check(begun.take(), &address, timeout) => answer,
                lag = deadline.passed() => Err(Cause::TimedOut { lag }),
            };
            let report = match answer {
                Ok(answer) => outcome::grpc(Ok(answer), &self.service, timeout),
                Err(cause) => outcome::unanswered(&cause, timeout),
            };
            if !tries.again(&report) {
                return report;
            }
        }
    }

    async fn check(&self, begun: Option<Socket>, address: &SocketAddr, timeout: Duration) -> Result<GrpcAnswer, Cause> {
        let stream =
            lookup::connect_to(begun, address).await?.into_tokio().map_err(|error| Cause::Errno(errno::name(error)))?;
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false).max_header_list_size(HEADERS_MAX);
        let (client, mut connection) = builder.handshake(stream).await.map_err(cause)?;
        let call = self.call(client, address, timeout);
        tokio::pin!(call);
        tokio::select! {
            biased;
            answer = &mut call => answer,
            // The connection may end in order while the answer is on its way to us.
            ended = &mut connection => match ended {
                Ok(()) => call.await,
                Err(error) => Err(cause(error)),
            },
        }
    }

    async fn call(&self, client: SendRequest<Bytes>, address: &SocketAddr, timeout: Duration) -> Result<GrpcAnswer, Cause> {
        let request = Request::post(format!("http://{address}{}", health_proto::PATH))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", &self.user_agent)
            .header("grpc-timeout", format!("{}m", timeout.as_millis().min(99_999_999)))
            .body(())
            .map_err(|error| Cause::Protocol(error.to_string()))?;
        let mut client = client.ready().await.map_err(cause)?;
        let (response, mut body) = client.send_request(request, false).map_err(cause)?;
        body.send_data(health_proto::request(&self.service).into(), true).map_err(cause)?;
        answer(response).await
    }
}

async fn answer(response: ResponseFuture) -> Result<GrpcAnswer, Cause> {
    let (head, mut body) = response.await.map_err(cause)?.into_parts();
    if let Some(answer) = refusal(&head.headers) {
        return Ok(answer);
    }
    if !head.status.is_success() {
        return Ok(by_http_status(&Response::from_parts(head, ())));
    }
    let mut message = Vec::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes.map_err(cause)?;
        body.flow_control().release_capacity(bytes.len()).map_err(cause)?;
        message.extend_from_slice(&bytes);
        if message.len() > MESSAGE_MAX {
            return Err(Cause::Protocol("grpc: the answer is too long for a health check".to_owned()));
        }
    }
    let trailers = body.trailers().await.map_err(cause)?.unwrap_or_default();
    match status(&trailers) {
        Some((0, _)) => {
            let state = health_proto::state_of(&message);
            let state = state.ok_or_else(|| Cause::Protocol("grpc: the answer is not that of a health service".to_owned()))?;
            Ok(GrpcAnswer { code: "OK".into(), status: state.into(), detail: "".into() })
        }
        Some((code, detail)) => Ok(failed(code, detail)),
        None => Err(Cause::Protocol("grpc: the server sent no status".to_owned())),
    }
}

/// Returns the answer of a call that was refused before it began: everything is in the headers then.
fn refusal(headers: &HeaderMap) -> Option<GrpcAnswer> {
    status(headers).filter(|(code, _)| *code != 0).map(|(code, detail)| failed(code, detail))
}

fn status(headers: &HeaderMap) -> Option<(usize, String)> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let code = text("grpc-status")?.parse().unwrap_or(2);
    Some((code, text("grpc-message").unwrap_or_default()))
}

fn failed(code: usize, detail: String) -> GrpcAnswer {
    GrpcAnswer { code: CODES.get(code).copied().unwrap_or("UNKNOWN").into(), status: "".into(), detail: detail.into() }
}

/// Translates the answer of something that speaks HTTP/2 but not gRPC, as gRPC says it is to be done.
fn by_http_status(response: &Response<()>) -> GrpcAnswer {
    let code = match response.status().as_u16() {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    };
    failed(code, format!("HTTP status {}", response.status().as_u16()))
}

fn cause(error: h2::Error) -> Cause {
    match error.get_io().and_then(std::io::Error::raw_os_error) {
        Some(number) => Cause::Errno(errno::name(Errno::from_raw_os_error(number))),
        None => Cause::Protocol(format!("http2: {error}")),
    }
}
