//! What the server answers.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

use super::assets::ASSETS;
use super::{Site, access, stream};
use crate::Subject;

type Body = UnsyncBoxBody<Bytes, Infallible>;

const TEXT: &str = "text/plain; charset=utf-8";

/// Nothing but our own files, no inline script or style, no frame around it, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Answers a request.
pub(super) async fn answer<B>(site: &Site, request: &Request<B>) -> Response<Body> {
    let mut response = choose(site, request).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn choose<B>(site: &Site, request: &Request<B>) -> Response<Body> {
    if let Some(why) = access::refusal(request.headers()) {
        return text(StatusCode::FORBIDDEN, why);
    }
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "this page only reads");
    }
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if let Some((_, content_type, content)) = ASSETS.iter().find(|(asset, ..)| *asset == path) {
        return response(StatusCode::OK, content_type, Full::new(Bytes::from_static(content.as_bytes())).boxed_unsync());
    }
    if !matches!(path, "/stream" | "/detail") {
        return text(StatusCode::NOT_FOUND, "there is no such file");
    }
    if !access::is_allowed(request.headers(), &site.token) {
        return text(StatusCode::FORBIDDEN, "the token is missing or wrong: open the address that was printed");
    }
    if path == "/detail" { detail(site, query).await } else { follow(site, query) }
}

fn follow(site: &Site, query: &str) -> Response<Body> {
    // A revision of another server means nothing here.
    let since = parameter(query, "since").filter(|_| parameter(query, "instance").as_deref() == Some(&*site.instance));
    match stream::lines(site, since.and_then(|since| since.parse().ok())) {
        Some(lines) => {
            let body = StreamBody::new(lines.map(|line| Ok::<_, Infallible>(Frame::data(line))));
            response(StatusCode::OK, "application/x-ndjson", body.boxed_unsync())
        }
        None => text(StatusCode::TOO_MANY_REQUESTS, "too many pages are open"),
    }
}

async fn detail(site: &Site, query: &str) -> Response<Body> {
    let value = |name| parameter(query, name).unwrap_or_default();
    let subject = Subject { kind: value("kind"), namespace: value("namespace"), name: value("name") };
    // What leads nowhere is not asked.
    let good = matches!(subject.kind.as_str(), "pod" | "svc" | "node")
        && api::names::dns1123_subdomain(&subject.name).is_none()
        && (subject.namespace.is_empty() || api::names::dns1123_label(&subject.namespace).is_none());
    if !good {
        return text(StatusCode::BAD_REQUEST, "kind, namespace and name of an object are needed");
    }
    let answer = (site.config.ask_detail)(subject).await;
    response(StatusCode::OK, "application/json", Full::new(Bytes::from(answer.to_string())).boxed_unsync())
}

/// Returns a parameter of a query. Names of objects need no escapes.
fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

fn text(code: StatusCode, text: &'static str) -> Response<Body> {
    response(code, TEXT, Full::new(Bytes::from(format!("{text}\n"))).boxed_unsync())
}

fn response(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
