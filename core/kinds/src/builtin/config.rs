//! ConfigMaps and Secrets: keys, sizes, types, and the promise not to change.

use api::field::{Error, Path};
use api::json;
use serde_json::{Map, Value};

use super::check::{Errors, config_key, members};
use super::fill::fill;
use super::meta::immutable;
use crate::base64;

/// The most bytes that the values of one object may have together; Kubernetes API.
const SIZE_MAX: usize = 1024 * 1024;

/// Types whose content is used by somebody, and the keys that it must have.
const REQUIRED_KEYS: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

/// Fills in the type of a secret and moves plain texts to where they are kept.
pub(super) fn default_secret(secret: &mut Value) {
    let secret = json::object_mut(secret, &[]);
    fill(secret, "type", "Opaque");
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    if texts.is_empty() {
        return;
    }
    let data = secret.entry("data").or_insert(Value::Null);
    if !data.is_object() {
        *data = Value::Object(Map::new());
    }
    for (key, text) in texts {
        let encoded = base64::encode(text.as_str().unwrap_or_default().as_bytes());
        data.as_object_mut().expect("made an object just above").insert(key, encoded.into());
    }
}

/// Judges a ConfigMap.
pub(super) fn validate_config_map(map: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (key, value, path) in members(map, "data", &Path::root()) {
        validate_key(key, &path, errors);
        if json::at(map, &["binaryData", key]).is_some() {
            errors.push(Error::invalid(&path, key, "duplicate of key present in binaryData"));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value, path) in members(map, "binaryData", &Path::root()) {
        validate_key(key, &path, errors);
        size += decoded_len(value);
    }
    if size > SIZE_MAX {
        errors.push(Error::too_long(&Path::root(), SIZE_MAX));
    }
}

fn validate_key(key: &str, path: &Path, errors: &mut Errors) {
    if let Some(broken) = config_key(key) {
        errors.push(Error::invalid(path, key, broken));
    }
}

/// Returns the bytes behind a base64 text, without making them.
fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    (text.len() / 4 * 3).saturating_sub(text.len() - text.trim_end_matches('=').len())
}

/// Judges a Secret.
pub(super) fn validate_secret(secret: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (key, value, path) in members(secret, "data", &Path::root()) {
        validate_key(key, &path, errors);
        size += decoded_len(value);
    }
    if size > SIZE_MAX {
        errors.push(Error::too_long(&Path::root().child("data"), SIZE_MAX));
    }
    validate_secret_type(secret, errors);
}

fn validate_secret_type(secret: &Value, errors: &mut Errors) {
    let data = Path::root().child("data");
    let bytes = |key: &str| json::at(secret, &["data", key]).and_then(Value::as_str).and_then(|text| base64::decode(text).ok());
    let type_ = json::text(secret, &["type"]);
    match type_ {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if json::text(secret, &["metadata", "annotations", key]).is_empty() {
                errors.push(Error::required(&Path::new("metadata").child("annotations").key(key), ""));
            }
        }
        "kubernetes.io/basic-auth" if ["username", "password"].iter().all(|key| bytes(key).is_none()) => {
            errors.push(Error::required(&data.key("username"), ""));
            errors.push(Error::required(&data.key("password"), ""));
        }
        _ => {}
    }
    for key in REQUIRED_KEYS.iter().find(|(name, _)| *name == type_).map_or(&[][..], |(_, keys)| keys) {
        match bytes(key) {
            None => errors.push(Error::required(&data.key(key), "")),
            Some(content) if content.is_empty() && type_ == "kubernetes.io/ssh-auth" => {
                errors.push(Error::required(&data.key(key), ""));
            }
            Some(content) if key.starts_with(".docker") && serde_json::from_slice::<Value>(&content).is_err() => {
                errors.push(Error::invalid(&data.key(key), "<secret contents redacted>", "must be JSON"));
            }
            Some(_) => {}
        }
    }
}

/// Judges what an update changes: the type never, and nothing once the object is immutable.
pub(super) fn validate_change(new: &Value, old: &Value, errors: &mut Errors) {
    let type_ = |object| json::get(object, "type");
    if type_(old).is_some() && type_(new) != type_(old) {
        errors.push(immutable(&Path::root().child("type"), type_(new)));
    }
    if json::boolean(old, &["immutable"]) != Some(true) {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if json::boolean(new, &["immutable"]) != Some(true) {
        errors.push(Error::forbidden(&Path::root().child("immutable"), detail));
    }
    for key in ["data", "binaryData"] {
        if !json::same_but_nils(new.get(key), old.get(key)) {
            errors.push(Error::forbidden(&Path::root().child(key), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(check: impl FnOnce(&mut Errors)) -> Vec<(String, &'static str)> {
        let mut errors = Vec::new();
        check(&mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    fn owned(expected: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        expected.iter().map(|(path, kind)| ((*path).to_owned(), *kind)).collect()
    }

    #[test]
    fn plain_texts_of_a_secret_are_encoded() {
        let mut secret = json!({"stringData": {"p": "hello"}, "data": {"p": "eA==", "q": "eQ=="}});
        default_secret(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"p": "aGVsbG8=", "q": "eQ=="}}));
    }

    #[test]
    fn keys_and_sizes_of_a_config_map_are_judged() {
        let map = json!({"data": {"a": "x", "b/c": "", "both": ""}, "binaryData": {"both": "", "..": ""}});
        let expected = [("data[b/c]", "Invalid"), ("data[both]", "Invalid"), ("binaryData[..]", "Invalid")];
        assert_eq!(found(|errors| validate_config_map(&map, errors)), owned(&expected));
        let map = json!({"data": {"a": "x".repeat(SIZE_MAX), "b": "y"}});
        assert_eq!(found(|errors| validate_config_map(&map, errors)), owned(&[("", "TooLong")]));
    }

    #[test]
    fn a_type_of_secret_demands_its_keys() {
        let judge = |secret: Value| found(|errors| validate_secret(&secret, errors));
        assert_eq!(judge(json!({"type": "Opaque"})), []);
        assert_eq!(
            judge(json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}})),
            owned(&[("data[tls.key]", "Required")])
        );
        assert_eq!(judge(json!({"type": "kubernetes.io/basic-auth"})).len(), 2);
        assert_eq!(
            judge(json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}})),
            owned(&[("data[.dockerconfigjson]", "Invalid")])
        );
        assert_eq!(
            judge(json!({"type": "kubernetes.io/service-account-token"})),
            owned(&[("metadata.annotations[kubernetes.io/service-account.name]", "Required")])
        );
    }

    #[test]
    fn an_immutable_object_does_not_change() {
        let old = json!({"immutable": true, "data": {"k": "v"}});
        let change = |new: Value| found(|errors| validate_change(&new, &old, errors));
        assert_eq!(change(json!({"immutable": true, "data": {"k": "w"}})), owned(&[("data", "Forbidden")]));
        assert_eq!(change(json!({"data": {"k": "v"}})), owned(&[("immutable", "Forbidden")]));
        assert_eq!(change(json!({"immutable": true, "data": {"k": "v"}, "binaryData": {}})), []);
        let retyped = found(|errors| validate_change(&json!({"type": "b"}), &json!({"type": "a"}), errors));
        assert_eq!(retyped, owned(&[("type", "Invalid")]));
    }
}
