//! Errors as the API says them: `Status` objects.
//!
//! One constructor per reason; nothing else in the server makes an error answer.

use serde_json::{Value, json};

use crate::field;

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The reason, one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details`, or null.
    pub details: Value,
    /// `metadata.continue`: how a list goes on whose state is gone.
    pub resume: Option<String>,
}

/// What an error is about: group, resource (or kind) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The API group; empty for core.
    pub group: String,
    /// The plural resource name.
    pub resource: String,
    /// The kind.
    pub kind: String,
    /// The object, if one is named.
    pub name: String,
}

impl Subject {
    /// Returns `leases.coordination.k8s.io`, or `pods` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    fn details(&self) -> Value {
        let mut details = json!({"kind": self.resource});
        if !self.name.is_empty() {
            details["name"] = json!(self.name);
        }
        if !self.group.is_empty() {
            details["group"] = json!(self.group);
        }
        details
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status { code, reason, message: message.into(), details: Value::Null, resume: None }
    }

    fn about(mut self, subject: &Subject) -> Status {
        self.details = subject.details();
        self
    }

    /// Adds `details.causes`.
    pub fn with_causes(mut self, causes: Vec<Value>) -> Status {
        if self.details.is_null() {
            self.details = json!({});
        }
        self.details["causes"] = Value::Array(causes);
        self
    }

    /// Adds `metadata.continue`.
    pub fn with_continue(mut self, token: String) -> Status {
        self.resume = Some(token);
        self
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }

    /// 401: nobody known asks.
    pub fn unauthorized() -> Status {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: the identity may not do this; `why` follows "is forbidden: ". A path has no subject.
    pub fn forbidden(subject: &Subject, why: impl AsRef<str>) -> Status {
        let message = if subject.resource.is_empty() {
            format!("forbidden: {}", why.as_ref())
        } else if subject.name.is_empty() {
            format!("{} is forbidden: {}", subject.qualified(), why.as_ref())
        } else {
            format!("{} {:?} is forbidden: {}", subject.qualified(), subject.name, why.as_ref())
        };
        Status::new(403, "Forbidden", message).about(subject)
    }

    /// 404: no such object.
    pub fn not_found(subject: &Subject) -> Status {
        Status::new(404, "NotFound", format!("{} {:?} not found", subject.qualified(), subject.name)).about(subject)
    }

    /// 404: no such resource or path.
    pub fn no_such_resource() -> Status {
        let mut status = Status::new(404, "NotFound", "the server could not find the requested resource");
        status.details = json!({});
        status
    }

    /// 405: the resource does not have this verb.
    pub fn method_not_allowed(subject: &Subject, verb: &str) -> Status {
        Status::new(405, "MethodNotAllowed", format!("{verb} is not supported on resources of kind {:?}", subject.qualified()))
            .about(subject)
    }

    /// 405: the resource has the verb, but not in its present state.
    pub fn not_allowed_now(subject: &Subject, message: impl Into<String>) -> Status {
        Status::new(405, "MethodNotAllowed", message).about(subject)
    }

    /// 406: nothing that the client accepts can be sent.
    pub fn not_acceptable() -> Status {
        Status::new(406, "NotAcceptable", "only the following media types are accepted: application/json, application/yaml")
    }

    /// 408: the client takes too long.
    pub fn timeout(message: impl Into<String>) -> Status {
        Status::new(408, "Timeout", message)
    }

    /// 409: the name is taken.
    pub fn already_exists(subject: &Subject) -> Status {
        Status::new(409, "AlreadyExists", format!("{} {:?} already exists", subject.qualified(), subject.name)).about(subject)
    }

    /// 409: the object is not what the client thinks it is.
    pub fn conflict(subject: &Subject, why: impl AsRef<str>) -> Status {
        let message = format!("Operation cannot be fulfilled on {} {:?}: {}", subject.qualified(), subject.name, why.as_ref());
        Status::new(409, "Conflict", message).about(subject)
    }

    /// 409: the version that the client has is not the latest.
    pub fn modified(subject: &Subject) -> Status {
        Status::conflict(subject, "the object has been modified; please apply your changes to the latest version and try again")
    }

    /// 409: an apply would change fields that others own.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Value>) -> Status {
        Status::new(409, "Conflict", message).with_causes(causes)
    }

    /// 410: a version outside the window.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, "Expired", message)
    }

    /// 413: the body is larger than the limit.
    pub fn too_large(message: impl Into<String>) -> Status {
        Status::new(413, "RequestEntityTooLarge", message)
    }

    /// 415: the body has a type that is not understood here.
    pub fn unsupported_media_type(got: &str, accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {} (got {got:?})",
            accepted.join(", ")
        );
        Status::new(415, "UnsupportedMediaType", message)
    }

    /// 422: the object breaks rules of its kind.
    pub fn invalid(subject: &Subject, errors: &[field::Error]) -> Status {
        let kind = if subject.group.is_empty() { subject.kind.clone() } else { format!("{}.{}", subject.kind, subject.group) };
        let (shown, left_out) = shown(errors);
        let mut texts: Vec<String> = shown.iter().map(|error| clip(error.to_string())).collect();
        if left_out > 0 {
            texts.push(format!("and {left_out} more errors"));
        }
        let all = if texts.len() == 1 { texts[0].clone() } else { format!("[{}]", texts.join(", ")) };
        let mut status = Status::new(422, "Invalid", format!("{kind} {:?} is invalid: {all}", subject.name)).about(subject);
        status.details["kind"] = json!(subject.kind);
        let cause =
            |error: &field::Error| json!({"reason": error.kind.cause(), "message": clip(error.message()), "field": error.path});
        status.with_causes(shown.iter().map(cause).collect())
    }

    /// 422: the options of the request break rules; `kind` is for example `ListOptions`.
    pub fn invalid_options(kind: &str, errors: &[field::Error]) -> Status {
        let subject = Subject { group: "meta.k8s.io".into(), resource: kind.into(), kind: kind.into(), name: String::new() };
        Status::invalid(&subject, errors)
    }

    /// 422: a patch that cannot be applied to the object.
    pub fn unprocessable(message: impl Into<String>) -> Status {
        Status::new(422, "Invalid", message)
    }

    /// 429: later.
    pub fn too_many_requests(message: impl Into<String>) -> Status {
        let mut status = Status::new(429, "TooManyRequests", message);
        status.details = json!({"retryAfterSeconds": 1});
        status
    }

    /// 500: our fault or the disk's.
    pub fn internal(message: impl Into<String>) -> Status {
        Status::new(500, "InternalError", message)
    }

    /// 501: known, not built.
    pub fn not_implemented(message: impl Into<String>) -> Status {
        Status::new(501, "NotImplemented", message)
    }

    /// 503: not now.
    pub fn unavailable(message: impl Into<String>) -> Status {
        let mut status = Status::new(503, "ServiceUnavailable", message);
        status.details = json!({"retryAfterSeconds": 1});
        status
    }

    /// 504: a version that the server has not reached.
    pub fn version_too_large(asked: u64, current: u64) -> Status {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut status = Status::new(504, "Timeout", format!("Timeout: {message}"));
        status.details = json!({"retryAfterSeconds": 1, "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
        status
    }

    /// Returns the seconds after which to try again, if the answer says so.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// Returns the object of the API.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        if let Some(token) = &self.resume {
            status["metadata"]["continue"] = json!(token);
        }
        status
    }

    /// Returns the `Status` of a success that has no object to show.
    pub fn success(subject: &Subject, uid: &str) -> Value {
        let mut details = subject.details();
        if !uid.is_empty() {
            details["uid"] = json!(uid);
        }
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    }
}

/// The most errors of one object that an answer tells of; whoever has more corrects these first.
const ERRORS_MAX: usize = 500;
/// The longest text of one error: some quote the value that they are about.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// Returns the errors to tell of, and how many are left out.
fn shown(errors: &[field::Error]) -> (&[field::Error], usize) {
    let most = errors.len().min(ERRORS_MAX);
    (&errors[..most], errors.len() - most)
}

fn clip(mut text: String) -> String {
    if text.len() > ERROR_BYTES_MAX {
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
        text.push_str("...");
    }
    text
}

impl std::fmt::Display for Status {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod bounds {
    use super::*;

    #[test]
    fn an_answer_is_bounded_however_much_is_wrong() {
        let path = field::Path::new("spec");
        let errors: Vec<field::Error> =
            (0..10_000).map(|n| field::Error::invalid(&path.index(n), "x".repeat(1_000), "must be good")).collect();
        let status = Status::invalid(&Subject::default(), &errors);
        assert_eq!(status.details["causes"].as_array().map(Vec::len), Some(ERRORS_MAX));
        assert!(status.message.ends_with("and 9500 more errors]"), "{}", &status.message[status.message.len() - 100..]);
        let one = Status::invalid(&Subject::default(), &[field::Error::invalid(&path, "x".repeat(1 << 20), "must be good")]);
        assert!(one.to_json().to_string().len() < 3 * ERROR_BYTES_MAX);
    }
}
