//! Answers: bytes out of the store where possible, headers that clients expect.

use api::status::Status;
use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use registry::kind::ServedKind;
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

/// How an answer counts while it is sent; without a mark it holds as many bytes as it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Its bytes are those of the store, or are made while they are sent.
    Shared,
    /// It lasts as long as its client likes; who opens such streams counts them.
    LongRunning,
}

/// Marks an answer whose bytes are not its own.
pub(crate) fn shared(mut reply: Reply) -> Reply {
    reply.extensions_mut().insert(Kept::Shared);
    reply
}

/// Marks an answer that lasts as long as its client likes.
pub(crate) fn long_running(mut reply: Reply) -> Reply {
    reply.extensions_mut().insert(Kept::LongRunning);
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

/// The most characters that all warnings of an answer have together, and each of them when they have more; as kube-apiserver.
const WARNINGS_CHARS_MAX: usize = 4 << 10;
const WARNING_CHARS_MAX: usize = 256;

/// Adds warnings: one header each, none twice, and not more than clients take.
pub(crate) fn warn(mut reply: Reply, warnings: &[String]) -> Reply {
    let mut seen = std::collections::BTreeSet::new();
    let distinct: Vec<&String> = warnings.iter().filter(|warning| seen.insert(*warning)).collect();
    let whole = distinct.iter().map(|warning| warning.chars().take(WARNINGS_CHARS_MAX + 1).count()).sum::<usize>();
    let each = if whole <= WARNINGS_CHARS_MAX { WARNINGS_CHARS_MAX } else { WARNING_CHARS_MAX };
    let mut left = WARNINGS_CHARS_MAX;
    for warning in distinct {
        let shown: String = warning.chars().take(each).filter(|c| !c.is_control()).collect();
        let Some(rest) = left.checked_sub(shown.chars().count()) else { break };
        left = rest;
        let quoted = shown.replace('\\', "\\\\").replace('"', "\\\"");
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
pub(crate) fn type_prefix(kind: &ServedKind) -> String {
    format!("{{\"apiVersion\":{:?},\"kind\":{:?},", kind.resource.api_version(), kind.resource.kind)
}

/// Appends a stored object behind a type prefix.
pub(crate) fn push_object(out: &mut BytesMut, prefix: &str, stored: &Stored) {
    // A stored object has at least `metadata`, so what follows the brace is never empty.
    let mut skip = 1;
    out.extend_from_slice(prefix.as_bytes());
    stored.write(|piece| {
        out.extend_from_slice(&piece[skip..]);
        skip = 0;
    });
}

/// Returns an object with `apiVersion` and `kind` of its kind.
pub(crate) fn typed(kind: &ServedKind, mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".into(), kind.resource.api_version().into());
        members.insert("kind".into(), kind.resource.kind.clone().into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(warnings: &[String]) -> Vec<usize> {
        let reply = warn(text(StatusCode::OK, ""), warnings);
        reply.headers().get_all(WARNING).iter().map(HeaderValue::len).collect()
    }

    #[test]
    fn warnings_are_bounded() {
        let texts = |count: usize, length: usize| -> Vec<String> {
            (0..count).map(|number| format!("{number:05}{}", "x".repeat(length - 5))).collect()
        };
        let frame = "299 - \"\"".len();
        assert_eq!(warned(&["one".into(), "two".into(), "one".into()]), [frame + 3, frame + 3]);
        assert_eq!(warned(&texts(2, 2_000)), [frame + 2_000, frame + 2_000], "what fits is shown whole");
        assert_eq!(warned(&texts(100_000, 100)), [frame + 100; 40]);
        assert_eq!(warned(&texts(30, 1_000_000)), [frame + 256; 16]);
    }
}
