//! What the endpoint answers.

use std::convert::Infallible;

use bytes::Bytes;
use futures::TryStreamExt;
use http::{Method, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use machine::Time;
use processes::logs::{self, LogError, LogOptions};
use tokio::sync::oneshot;

use super::Endpoint;
use super::tls::Caller;
use crate::supervisor::{Ask, Message};

/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// The format of Prometheus and OpenMetrics scrapers.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Whether the agent is there.
pub(super) const HEALTH: &str = "/healthz";
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request.
pub(super) async fn answer(endpoint: &Endpoint, caller: Caller, method: &Method, uri: &Uri) -> Response<Body> {
    if method != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
    }
    let path = uri.path();
    if path == HEALTH {
        return text(StatusCode::OK, "ok");
    }
    if caller == Caller::Stranger {
        return text(StatusCode::UNAUTHORIZED, "a client certificate of the cluster's authority is needed\n");
    }
    match path {
        "/metrics" => match endpoint.ask(|answer| Ask::AgentCounts { answer }).await {
            Some(counts) => typed(METRICS_TYPE, endpoint.metrics.text(Some(&counts))),
            None => stopping(),
        },
        "/metrics/probes" => typed(METRICS_TYPE, endpoint.metrics.text(None)),
        "/debug/probes" => match since(uri.query().unwrap_or_default()) {
            Ok(since) => match endpoint.ask(|answer| Ask::Probes { since, answer }).await {
                // Who asks for what is new is a program.
                Some(probes) if since.is_some() => typed("application/json", probes.to_string()),
                Some(probes) => typed("application/json", format!("{probes:#}\n")),
                None => stopping(),
            },
            Err(message) => text(StatusCode::BAD_REQUEST, &message),
        },
        _ => match path.strip_prefix("/containerLogs/") {
            Some(_) if caller != Caller::Admin => text(StatusCode::FORBIDDEN, "logs are for administrators\n"),
            Some(rest) => container_logs(endpoint, rest, uri.query().unwrap_or_default()).await,
            None => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        },
    }
}

impl Endpoint {
    pub(super) async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.messages.send(Message::Ask(ask(answer))).await.ok()?;
        answered.await.ok()
    }
}

async fn container_logs(endpoint: &Endpoint, rest: &str, query: &str) -> Response<Body> {
    let parts: Vec<&str> = rest.split('/').collect();
    let &[namespace, pod, container] = parts.as_slice() else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let options = match options(query) {
        Ok(options) => options,
        Err(message) => return text(StatusCode::BAD_REQUEST, &message),
    };
    let [namespace, pod, name] = [namespace, pod, container].map(str::to_owned);
    let found = endpoint.ask(|answer| Ask::Logs { namespace, pod, container: name, answer }).await;
    let Some(dir) = found.flatten() else {
        return text(StatusCode::NOT_FOUND, &format!("pod {rest:?} is not on this node"));
    };
    match tokio::task::spawn_blocking(move || logs::read(&dir, &options)).await {
        Ok(Ok(stream)) => {
            let body = StreamBody::new(stream.map_ok(Frame::data));
            response(StatusCode::OK, TEXT, body.boxed_unsync())
        }
        Ok(Err(error @ (LogError::NotStarted | LogError::NoPrevious))) => {
            text(StatusCode::BAD_REQUEST, &format!("container {container:?}: {error}"))
        }
        Ok(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("container {container:?}: {error}")),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Reads since when attempts are wanted: `since=MICROSECONDS` of the clock of the agent; absent: all.
fn since(query: &str) -> Result<Option<Time>, String> {
    let Some(value) = query.split('&').find_map(|pair| pair.strip_prefix("since=")) else { return Ok(None) };
    value.parse().map(|micros| Some(Time::from_micros(micros))).map_err(|_| format!("since={value:?} is not valid"))
}

/// Reads the options of `kubectl logs`.
fn options(query: &str) -> Result<LogOptions, String> {
    let mut options = LogOptions::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
        let value = decode(value);
        let bad = || format!("{name}={value:?} is not valid");
        let number = || value.parse::<u64>().map(Some).map_err(|_| bad());
        let flag = || matches!(value.as_str(), "" | "1" | "t" | "true" | "T" | "TRUE" | "True");
        match name {
            "follow" => options.follow = flag(),
            "previous" => options.previous = flag(),
            "timestamps" => options.timestamps = flag(),
            "tailLines" => options.tail_lines = number()?,
            "limitBytes" => options.limit_bytes = number()?,
            "sinceSeconds" => options.since_seconds = Some(value.parse().map_err(|_| bad())?),
            "sinceTime" => options.since_time = Some(api::Timestamp::parse(&value).map_err(|_| bad())?.0),
            _ => {}
        }
    }
    Ok(options)
}

/// Decodes a value of a query.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |range: &[u8]| std::str::from_utf8(range).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
        match (first, tail.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn stopping() -> Response<Body> {
    text(StatusCode::SERVICE_UNAVAILABLE, "the agent stops\n")
}

pub(super) fn text(code: StatusCode, text: &str) -> Response<Body> {
    response(code, TEXT, full(text.to_owned()))
}

fn typed(content_type: &'static str, body: String) -> Response<Body> {
    response(StatusCode::OK, content_type, full(body))
}

pub(super) fn full(body: String) -> Body {
    Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn response(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_kubectl() {
        let read = options("follow=true&tailLines=5&sinceTime=2031-05-01T12%3A00%3A00Z&limitBytes=9&timestamps=true").unwrap();
        assert_eq!((read.follow, read.timestamps, read.previous), (true, true, false));
        assert_eq!((read.tail_lines, read.limit_bytes), (Some(5), Some(9)));
        assert_eq!(read.since_time, Some(api::Timestamp::parse("2031-05-01T12:00:00Z").unwrap().0));
        assert_eq!(options("follow=false&previous=1&sinceSeconds=3").unwrap().since_seconds, Some(3));
        assert!(options("tailLines=-1").unwrap_err().contains("tailLines"));
        assert_eq!(options("").unwrap(), LogOptions::default());
    }

    #[test]
    fn attempts_can_be_asked_for_from_an_instant_on() {
        assert_eq!(since(""), Ok(None));
        assert_eq!(since("a=b&since=17"), Ok(Some(Time::from_micros(17))));
        assert!(since("since=yesterday").is_err());
    }

    #[test]
    fn values_of_a_query_are_decoded() {
        assert_eq!(decode("a%2Bb+c%3A%zz%"), "a+b c:%zz%");
    }
}
