//! The small checks that validation is made of. Each looks at one member of an object and appends what is wrong with it.

use api::field::{Error, Path};
use api::json;
use serde_json::Value;

use super::meta::NameRule;

/// Where errors are collected.
pub(super) type Errors = Vec<Error>;

/// The largest user, group or process number; Linux.
pub(super) const ID_MAX: i64 = i32::MAX as i64;

/// Checks a text that must be there; returns it if it is.
pub(super) fn required<'a>(object: &'a Value, key: &str, path: &Path, errors: &mut Errors) -> Option<&'a str> {
    let text = json::text(object, &[key]);
    if text.is_empty() {
        errors.push(Error::required(&path.child(key), ""));
    }
    (!text.is_empty()).then_some(text)
}

/// Checks the form of a text, if it is there.
pub(super) fn shaped(object: &Value, key: &str, rule: NameRule, path: &Path, errors: &mut Errors) {
    let text = json::text(object, &[key]);
    if !text.is_empty()
        && let Some(broken) = rule(text)
    {
        errors.push(Error::invalid(&path.child(key), text, broken));
    }
}

/// Checks a text that must be there and have a form; returns it if it is there.
pub(super) fn required_shaped<'a>(
    object: &'a Value,
    key: &str,
    rule: NameRule,
    path: &Path,
    errors: &mut Errors,
) -> Option<&'a str> {
    shaped(object, key, rule, path, errors);
    required(object, key, path, errors)
}

/// Checks that a text, if it is there, is one of an enumeration.
pub(super) fn one_of(object: &Value, key: &str, supported: &[&str], path: &Path, errors: &mut Errors) {
    let text = json::text(object, &[key]);
    if !text.is_empty() && !supported.contains(&text) {
        errors.push(Error::not_supported(&path.child(key), text, supported));
    }
}

/// Checks that a text is there and one of an enumeration.
pub(super) fn required_one_of(object: &Value, key: &str, supported: &[&str], path: &Path, errors: &mut Errors) {
    one_of(object, key, supported, path, errors);
    required(object, key, path, errors);
}

/// Checks that a number, if it is there, is not below a bound.
pub(super) fn at_least(object: &Value, key: &str, min: i64, path: &Path, errors: &mut Errors) {
    if let Some(value) = json::int(object, &[key])
        && value < min
    {
        errors.push(Error::invalid(&path.child(key), value, format!("must be greater than or equal to {min}")));
    }
}

/// Checks that a number, if it is there, lies between two bounds, both included.
pub(super) fn between(object: &Value, key: &str, min: i64, max: i64, path: &Path, errors: &mut Errors) {
    if let Some(value) = json::int(object, &[key])
        && !(min..=max).contains(&value)
    {
        errors.push(Error::invalid(&path.child(key), value, format!("must be between {min} and {max}, inclusive")));
    }
}

/// Returns the items of a list with their paths.
pub(super) fn each<'a>(object: &'a Value, key: &str, path: &Path) -> impl Iterator<Item = (&'a Value, Path)> + use<'a> {
    let path = path.child(key);
    json::items(object, &[key]).iter().enumerate().map(move |(index, item)| (item, path.index(index)))
}

/// Returns the members of a map with their paths.
pub(super) fn members<'a>(
    object: &'a Value,
    key: &str,
    path: &Path,
) -> impl Iterator<Item = (&'a str, &'a Value, Path)> + use<'a> {
    let path = path.child(key);
    json::object(object, &[key]).into_iter().flatten().map(move |(name, value)| (name.as_str(), value, path.key(name)))
}

/// Checks the key of a ConfigMap or Secret.
pub(super) fn config_key(key: &str) -> Option<&'static str> {
    if key.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        return Some("a valid config key must consist of alphanumeric characters, '-', '_' or '.'");
    }
    match key {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if key.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    }
}

/// Checks the name of an environment variable.
pub(super) fn env_name(name: &str) -> Option<&'static str> {
    (!name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'='))
        .then_some("a valid environment variable name must consist only of printable ASCII characters other than '='")
}

/// Checks a path that may not lead out of the place where it begins.
pub(super) fn inner_path(path: &str) -> Option<&'static str> {
    match path {
        _ if path.starts_with('/') => Some("must be a relative path"),
        _ => no_backsteps(path),
    }
}

/// Checks a path for steps upwards.
pub(super) fn no_backsteps(path: &str) -> Option<&'static str> {
    path.split('/').any(|part| part == "..").then_some("must not contain '..'")
}

/// Checks the text of an IP network, for example `10.0.0.0/24`.
pub(super) fn cidr(text: &str) -> Option<&'static str> {
    const BROKEN: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let Some((address, bits)) = text.split_once('/') else { return Some(BROKEN) };
    let max = match api::ip::parse(address) {
        Some(std::net::IpAddr::V4(_)) => 32,
        Some(std::net::IpAddr::V6(_)) => 128,
        None => return Some(BROKEN),
    };
    let digits = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|byte| byte.is_ascii_digit());
    (!digits || bits.parse::<u32>().is_ok_and(|bits| bits > max)).then_some(BROKEN)
}

/// Checks the text of an IP address, leniently.
pub(super) fn ip(text: &str) -> Option<&'static str> {
    api::ip::parse(text).is_none().then_some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_file_names() {
        assert!(["a", "A.b_c-9", ".hidden"].iter().all(|key| config_key(key).is_none()));
        assert!(["", ".", "..", "..a", "a/b", "a b"].iter().all(|key| config_key(key).is_some()));
    }

    #[test]
    fn networks_have_a_prefix_that_fits() {
        assert!(["10.0.0.0/24", "fd00::/64", "0.0.0.0/0"].iter().all(|text| cidr(text).is_none()));
        assert!(["10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "x/8", "10.0.0.0/"].iter().all(|text| cidr(text).is_some()));
    }

    #[test]
    fn paths_stay_inside() {
        assert!(inner_path("a/b..c").is_none());
        assert!(["/a", "../a", "a/.."].iter().all(|path| inner_path(path).is_some()));
    }

    #[test]
    fn environment_names_are_printable() {
        assert!(["A", "a.b-c", "1 2"].iter().all(|name| env_name(name).is_none()));
        assert!(["a=b", "ä", "\n"].iter().all(|name| env_name(name).is_some()));
    }
}
