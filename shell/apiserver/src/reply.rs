//! Answers: bytes out of the store where possible, headers that clients expect.

use api::status::Status;
use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use registry::kind::Kind;
use registry::state::Stored;
use serde_json::Value;

use crate::negotiate::Encoding;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// An answer.
pub type Reply = Response<Body>;

/// Returns a body that is known whole.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns an answer with a type and a body.
pub(crate) fn reply(code: StatusCode, content_type: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = code;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}

/// Returns a text.
pub(crate) fn text(code: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(code, "text/plain; charset=utf-8", full(body))
}

/// Returns a JSON value in the encoding that the client wants.
pub(crate) fn value(code: StatusCode, encoding: Encoding, value: &Value) -> Reply {
    match encoding {
        Encoding::Json => json(code, serde_json::to_vec(value).expect("a JSON value serializes")),
        Encoding::Yaml => {
            let text = serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# {error}\n"));
            reply(code, "application/yaml", full(text))
        }
    }
}

/// Returns JSON bytes.
pub(crate) fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Reply {
    reply(code, "application/json", full(bytes))
}

/// Returns an error.
pub(crate) fn error(status: &Status) -> Reply {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = value(code, Encoding::Json, &status.to_json());
    if let Some(seconds) = status.retry_after() {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

/// Adds warnings: one header each.
pub(crate) fn warn(mut reply: Reply, warnings: &[String]) -> Reply {
    for warning in warnings {
        let clean: String = warning.chars().filter(|c| !c.is_control()).collect();
        let quoted = clean.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            reply.headers_mut().append(WARNING, value);
        }
    }
    reply
}

/// Adds a header whose value is known to be good.
pub(crate) fn header(mut reply: Reply, name: HeaderName, value: &str) -> Reply {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
    reply
}

/// Returns `{"apiVersion":"..","kind":"..",`: what stored objects lack in front.
pub(crate) fn type_prefix(kind: &Kind) -> String {
    format!("{{\"apiVersion\":{:?},\"kind\":{:?},", kind.resource.api_version(), kind.resource.kind)
}

/// Appends a stored object behind a type prefix.
pub(crate) fn push_object(out: &mut BytesMut, prefix: &str, stored: &[u8]) {
    // Stored bytes are an object with at least `metadata`, so what follows the brace is never empty.
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(&stored[1..]);
}

/// Returns a stored object with its type.
pub(crate) fn object_bytes(prefix: &str, stored: &Stored) -> Bytes {
    let mut out = BytesMut::with_capacity(prefix.len() + stored.bytes.len());
    push_object(&mut out, prefix, &stored.bytes);
    out.freeze()
}

/// Returns an object with `apiVersion` and `kind` of its kind.
pub(crate) fn typed(kind: &Kind, mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".into(), kind.resource.api_version().into());
        members.insert("kind".into(), kind.resource.kind.clone().into());
    }
    object
}
