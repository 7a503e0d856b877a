//! Reading the JSON of an annotation, with errors at the path of the annotation.

use api::field::{Error, Path};
use api::json;
use kinds::model;
use serde_json::{Map, Value};

/// Returns the path of an annotation.
pub(crate) fn path(key: &str) -> Path {
    Path::new("metadata.annotations").key(key)
}

/// Returns the text of an annotation of a pod; `Err`: it is no text.
pub(crate) fn text<'a>(pod: &'a Value, key: &str) -> Result<Option<&'a str>, Error> {
    match json::at(pod, &["metadata", "annotations", key]) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Error::type_invalid(&path(key), other, "must be a string")),
    }
}

/// Reads a text as a JSON object; members that are null are left out.
///
/// A member that is written twice is an error: only one of the two could count, and nobody would see which.
pub(crate) fn object(text: &str, path: &Path) -> Result<Map<String, Value>, Vec<Error>> {
    let parsed = model::json::parse(text.as_bytes());
    let parsed = parsed.map_err(|error| vec![Error::invalid(path, text, format!("must be a JSON object: {error}"))])?;
    if !parsed.duplicates.is_empty() {
        let at = |duplicate: &String| Path::new(format!("{path}.{duplicate}"));
        return Err(parsed.duplicates.iter().map(|duplicate| Error::duplicate(&at(duplicate), duplicate.as_str())).collect());
    }
    match parsed.value {
        Value::Object(mut members) => {
            members.retain(|_, member| !member.is_null());
            Ok(members)
        }
        other => Err(vec![Error::type_invalid(path, &other, "must be a JSON object: container -> probe")]),
    }
}
