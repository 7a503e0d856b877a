//! Reading bodies: JSON, YAML or protobuf becomes one JSON value.

use api::status::Status;
use http::header::CONTENT_TYPE;
use kinds::model;
use kinds::model::json::ParseError;
use kinds::model::protobuf::DecodeError;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error as SaphyrError};

use crate::server::Call;

/// A body that was read.
pub(crate) struct Read {
    pub(crate) value: Value,
    /// Paths of fields that were written twice.
    pub(crate) duplicates: Vec<String>,
}

const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The most values that a YAML body may have; each takes far more memory than its text.
const YAML_NODES_MAX: usize = 60_000;

/// Returns the media type of the body, without parameters.
pub(crate) fn media_type(call: &Call) -> &str {
    call.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

/// Reads an object. Custom resources have no protobuf form. An empty type counts as JSON.
pub(crate) fn object(call: &Call, protobuf: bool) -> Result<Read, Status> {
    let read = match media_type(call) {
        "" | "application/json" => json(&call.body)?,
        "application/yaml" => yaml(&call.body)?,
        "application/vnd.kubernetes.protobuf" if protobuf => {
            let value = model::protobuf::decode(&call.body).map_err(|error| match error {
                // A kind without a layout cannot be read from protobuf at all; JSON always works.
                DecodeError::UnknownKind { .. } => Status::unsupported_media_type(TYPES[2], &TYPES[..2]),
                error => Status::bad_request(error.to_string()),
            })?;
            Read { value, duplicates: Vec::new() }
        }
        other => return Err(Status::unsupported_media_type(other, if protobuf { &TYPES } else { &TYPES[..2] })),
    };
    if read.value.is_object() { Ok(read) } else { Err(Status::bad_request("the body is not an object")) }
}

/// Reads options such as `DeleteOptions`; an empty body is empty options.
pub(crate) fn options(call: &Call, kind: &str) -> Result<Value, Status> {
    if call.body.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match media_type(call) {
        "application/vnd.kubernetes.protobuf" => {
            model::protobuf::decode_as(&call.body, "v1", kind).map_err(|error| Status::bad_request(error.to_string()))
        }
        _ => Ok(object(call, true)?.value),
    }
}

pub(crate) fn json(bytes: &[u8]) -> Result<Read, Status> {
    let parsed = model::json::parse(bytes).map_err(|error| match error {
        ParseError::TooLarge => Status::too_large(error.to_string()),
        ParseError::Malformed(_) => Status::bad_request(format!("the object provided is unrecognized: {error}")),
    })?;
    Ok(Read { value: parsed.value, duplicates: parsed.duplicates })
}

pub(crate) fn yaml(bytes: &[u8]) -> Result<Read, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(format!("the body is not YAML: {error}"));
    let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
    let read = |duplicate_keys| {
        let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_nodes: YAML_NODES_MAX }, duplicate_keys: duplicate_keys };
        serde_saphyr::from_str_with_options::<Value>(text, options)
    };
    let error = match read(DuplicateKeyPolicy::Error) {
        Ok(value) => return Ok(Read { value, duplicates: Vec::new() }),
        Err(error) => error,
    };
    // A key that comes twice is for the client to decide about; then the last one counts. Only the first such key is named.
    let SaphyrError::DuplicateMappingKey { key: Some(key), location } = error.without_snippet() else {
        return Err(bad(&error));
    };
    let duplicate = format!("{}{}: key {key:?} already set in map", model::BY_LINE, location.line());
    let value = read(DuplicateKeyPolicy::LastWins).map_err(|error| bad(&error))?;
    Ok(Read { value, duplicates: vec![duplicate] })
}
