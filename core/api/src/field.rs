//! Field errors: what is wrong, where, and of which kind.
//!
//! Validation accumulates: a rule returns every error of an object, so that a user corrects a manifest once.

use std::fmt;

use serde_json::Value;

/// The kind of a field error, in the words of the Kubernetes API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A value that must be there is not.
    Required,
    /// A value that is malformed, out of range or may not change.
    Invalid,
    /// A value that is not one of an enumeration.
    NotSupported,
    /// A value that may not be set here.
    Forbidden,
    /// A value that may appear only once.
    Duplicate,
    /// A text that is too long.
    TooLong,
    /// A list that has too many items.
    TooMany,
    /// A value of the wrong JSON type.
    TypeInvalid,
    /// A name of something that does not exist.
    NotFound,
}

impl ErrorKind {
    /// Returns the short name, as the vectors write it.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Required => "Required",
            ErrorKind::Invalid => "Invalid",
            ErrorKind::NotSupported => "NotSupported",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::Duplicate => "Duplicate",
            ErrorKind::TooLong => "TooLong",
            ErrorKind::TooMany => "TooMany",
            ErrorKind::TypeInvalid => "TypeInvalid",
            ErrorKind::NotFound => "NotFound",
        }
    }

    /// Returns the reason of the cause in a `Status`, for example `FieldValueRequired`.
    pub const fn cause(self) -> &'static str {
        match self {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::NotFound => "FieldValueNotFound",
        }
    }

    /// Returns the words that open the message, as Kubernetes has them.
    const fn words(self) -> &'static str {
        match self {
            ErrorKind::Required => "Required value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::NotFound => "Not found",
        }
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The full path of the field, for example `spec.containers[0].name`.
    pub path: String,
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// The offending value, where showing it helps.
    pub value: Option<Value>,
    /// What the rule is, in words; may be empty.
    pub detail: String,
}

impl Error {
    /// Returns an error of the given kind that shows no value.
    pub fn new(path: &Path, kind: ErrorKind, detail: impl Into<String>) -> Error {
        Error { path: path.to_string(), kind, value: None, detail: detail.into() }
    }

    /// A value that must be there is not.
    pub fn required(path: &Path, detail: impl Into<String>) -> Error {
        Error::new(path, ErrorKind::Required, detail)
    }

    /// A value that is malformed, out of range or may not change.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error { value: Some(value.into()), ..Error::new(path, ErrorKind::Invalid, detail) }
    }

    /// A value that is not one of `supported`.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Error {
        let supported: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        Error {
            value: Some(value.into()),
            ..Error::new(path, ErrorKind::NotSupported, format!("supported values: {}", supported.join(", ")))
        }
    }

    /// A value that may not be set here.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Error {
        Error::new(path, ErrorKind::Forbidden, detail)
    }

    /// A value that may appear only once.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Error {
        Error { value: Some(value.into()), ..Error::new(path, ErrorKind::Duplicate, "") }
    }

    /// A text that is longer than `max` bytes.
    pub fn too_long(path: &Path, max: usize) -> Error {
        Error::new(path, ErrorKind::TooLong, format!("may not be more than {max} bytes"))
    }

    /// A list of `got` items where `max` are allowed.
    pub fn too_many(path: &Path, got: usize, max: usize) -> Error {
        Error { value: Some(got.into()), ..Error::new(path, ErrorKind::TooMany, format!("must have at most {max} items")) }
    }

    /// A name of something that does not exist.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Error {
        Error { value: Some(value.into()), ..Error::new(path, ErrorKind::NotFound, "") }
    }

    /// A value of the wrong JSON type; `detail` says which one is expected.
    pub fn type_invalid(path: &Path, value: &Value, detail: impl Into<String>) -> Error {
        Error { value: Some(value.clone()), ..Error::new(path, ErrorKind::TypeInvalid, detail) }
    }

    /// Returns the message without the path: `Invalid value: 7: must be ...`, as a cause in a `Status` has it.
    pub fn message(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if let Some(value) = &self.value {
            text.push_str(&format!(": {value}"));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!(": {}", self.detail));
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path, self.message())
    }
}

/// The path of a field, built on the way down.
///
/// ```
/// use api::field::Path;
/// let path = Path::root().child("spec").child("containers").index(0).child("name");
/// assert_eq!(path.to_string(), "spec.containers[0].name");
/// assert_eq!(Path::root().child("labels").key("a/b").to_string(), "labels[a/b]");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// Returns the path of the object itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// Returns a path that begins with `text`, which may hold dots.
    pub fn new(text: impl Into<String>) -> Path {
        Path(text.into())
    }

    /// Returns the path of a member.
    pub fn child(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// Returns the path of a list item.
    pub fn index(&self, index: usize) -> Path {
        Path(format!("{}[{index}]", self.0))
    }

    /// Returns the path of a map entry.
    pub fn key(&self, key: &str) -> Path {
        Path(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_like_those_of_kubernetes() {
        let path = Path::root().child("spec").child("replicas");
        let error = Error::invalid(&path, -1, "must be greater than or equal to 0");
        assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
        assert_eq!(Error::required(&path, "").to_string(), "spec.replicas: Required value");
        assert_eq!(
            Error::not_supported(&path, "x", &["A", "B"]).message(),
            r#"Unsupported value: "x": supported values: "A", "B""#
        );
    }
}
