//! Requests to a Kubernetes API: one way to send, one timeout each, one meaning of every failure.

use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Body, Client};

/// How long a command or test waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A JSON body.
pub const JSON: &str = "application/json";

/// How a request can fail.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestError {
    /// The API answered no.
    #[error("{0}")]
    Refused(Refusal),
    /// Nobody knows what became of it.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The API cannot be reached, or the connection broke.
    #[error("{0}")]
    Connection(String),
    /// The answer is not what was asked for.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

/// What an API says when it answers no.
#[derive(Clone, Debug, Default, Deserialize, thiserror::Error)]
#[error("{message} ({code} {reason})")]
#[serde(default)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// More.
    pub details: Option<Details>,
}

/// More of what an API says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// Why, one by one.
    pub causes: Vec<Cause>,
    /// When to try again.
    pub retry_after_seconds: Option<u64>,
}

/// One reason.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// One word.
    pub reason: String,
}

impl RequestError {
    /// Returns the HTTP status that the API answered with, if it answered no.
    pub fn code(&self) -> Option<u16> {
        match self {
            RequestError::Refused(refusal) => Some(refusal.code),
            _ => None,
        }
    }

    /// Returns whether the API did not answer, or could not.
    pub fn is_unanswered(&self) -> bool {
        self.code().is_none_or(|code| code >= 500 || code == 429)
    }

    /// Reads the body of an answer that is no.
    pub(crate) fn from_status(body: &[u8], code: u16) -> RequestError {
        let mut refusal: Refusal = serde_json::from_slice(body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
            Refusal { code, message: if text.is_empty() { "refused".to_owned() } else { text }, ..Refusal::default() }
        });
        if refusal.code == 0 {
            refusal.code = code;
        }
        RequestError::Refused(refusal)
    }
}

async fn start(client: &Client, request: Request<Body>) -> Result<http::Response<Body>, RequestError> {
    let answer = client.send(request).await.map_err(|error| RequestError::Connection(crate::chain(&error)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    Err(RequestError::from_status(&collect(answer.into_body()).await?, status.as_u16()))
}

async fn collect(body: Body) -> Result<Bytes, RequestError> {
    Ok(body.collect().await.map_err(|error| RequestError::Connection(crate::chain(&error)))?.to_bytes())
}

fn build(method: Method, uri: &str, content_type: &str, body: Vec<u8>) -> Result<Request<Body>, RequestError> {
    let request = Request::builder().method(method).uri(uri).header(ACCEPT, JSON).header(CONTENT_TYPE, content_type);
    request.body(Body::from(body)).map_err(|error| RequestError::Connection(error.to_string()))
}

/// Sends a body and returns the whole answer.
pub async fn send(
    client: &Client,
    method: Method,
    uri: &str,
    content_type: &str,
    body: Vec<u8>,
    timeout: Duration,
) -> Result<Bytes, RequestError> {
    let request = build(method, uri, content_type, body)?;
    let whole = async { collect(start(client, request).await?.into_body()).await };
    tokio::time::timeout(timeout, whole).await.unwrap_or(Err(RequestError::Timeout(timeout)))
}

/// Reads something whole.
pub async fn read(client: &Client, uri: &str, timeout: Duration) -> Result<Bytes, RequestError> {
    send(client, Method::GET, uri, JSON, Vec::new(), timeout).await
}

/// Reads an object or a list of them.
pub async fn get<T: DeserializeOwned>(client: &Client, uri: &str, timeout: Duration) -> Result<T, RequestError> {
    parse(&read(client, uri, timeout).await?)
}

/// Reads an object; `None`: it is not there.
pub async fn get_opt<T: DeserializeOwned>(client: &Client, uri: &str, timeout: Duration) -> Result<Option<T>, RequestError> {
    match read(client, uri, timeout).await {
        Ok(body) => parse(&body).map(Some),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, RequestError> {
    serde_json::from_slice(body).map_err(|error| RequestError::Unreadable(error.to_string()))
}

/// Opens a stream; its beginning must come in time. It must not be compressed: every event is to be read when it comes.
pub(crate) async fn open(client: &Client, uri: &str, timeout: Duration) -> Result<Body, RequestError> {
    let mut request = build(Method::GET, uri, JSON, Vec::new())?;
    request.headers_mut().insert(ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
    let begun = tokio::time::timeout(timeout, start(client, request)).await.unwrap_or(Err(RequestError::Timeout(timeout)));
    Ok(begun?.into_body())
}

/// Sends a JSON body and reads a JSON answer, for commands and tests; a PATCH is a merge patch.
pub async fn request(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, RequestError> {
    Ok(request_with_warnings(client, method, path, body).await?.0)
}

/// The same, with what the API warns about.
pub async fn request_with_warnings(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<(Value, Vec<String>), RequestError> {
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { JSON };
    let bytes = serde_json::to_vec(body).expect("a JSON value serializes");
    let request = build(method, path, content_type, bytes)?;
    let whole = async {
        let answer = start(client, request).await?;
        let values = answer.headers().get_all(http::header::WARNING).iter();
        let warnings = values.filter_map(|value| warning(&String::from_utf8_lossy(value.as_bytes()))).collect();
        Ok((parse(&collect(answer.into_body()).await?)?, warnings))
    };
    tokio::time::timeout(TIMEOUT, whole).await.unwrap_or(Err(RequestError::Timeout(TIMEOUT)))
}

/// Returns the text of a `Warning` header: `299 - "text"`, with quotes and backslashes escaped.
fn warning(value: &str) -> Option<String> {
    let (_, rest) = value.split_once('"')?;
    let mut text = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(text),
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_what_stands_between_its_quotes() {
        assert_eq!(warning(r#"299 - "unknown field \"a\"""#).as_deref(), Some(r#"unknown field "a""#));
        assert_eq!(warning("299 - nothing"), None);
    }
}
