//! What the test server answers.

use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

use crate::health_proto;

/// More than this is no health check.
const REQUEST_MAX: usize = 4096;

/// What is answered, and from when on something else.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) status: u16,
    pub(super) fails_at: Option<Instant>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) log: bool,
}

impl Answers {
    /// Writes a line, if it was asked for. Nobody reading it is no reason to fail.
    pub(super) fn note(&self, line: &str) {
        if self.log {
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    fn failing(&self) -> bool {
        self.fails_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Answers an HTTP request with the name of the pod, if there is one.
    pub(super) async fn http(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        self.note(&format!("REQUEST {}", request.uri()));
        let status = if self.failing() { 503 } else { self.status };
        let text = std::env::var("POD_NAME").unwrap_or_else(|_| "ok".to_owned());
        let mut response = Response::new(Full::from(format!("{text}\n")));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if self.draining.load(Ordering::Relaxed) {
            // The client's next request goes elsewhere, while we are still here to say so.
            response.headers_mut().insert("connection", HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Answers a gRPC call: health checks about any service, nothing else.
    pub(super) async fn grpc(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
        self.note(&format!("REQUEST {}", request.uri().path()));
        let known = request.uri().path() == health_proto::PATH;
        let message = Limited::new(request.into_body(), REQUEST_MAX).collect().await.map(|body| body.to_bytes());
        let readable = message.ok().and_then(|message| health_proto::service_of(&message)).is_some();
        let (body, code) = match (known, readable) {
            (true, true) => (health_proto::response(self.status < 400 && !self.failing()), "0"),
            (true, false) => (Vec::new(), "3"),
            (false, _) => (Vec::new(), "12"),
        };
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(code));
        let mut response = Response::new(Full::from(body).with_trailers(async move { Some(Ok(trailers)) }));
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        Ok(response)
    }
}
