//! The order of versions: `v2` before `v1` before `v1beta2` before `v1alpha1` before anything else.

use std::cmp::{Ordering, Reverse};

/// How stable a version is; the greatest is the most stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// Returns the stability, the major and the minor number of a version such as `v1beta2`.
fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let number = |text: &str| if text.starts_with('0') { None } else { text.parse::<u64>().ok() };
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = number(&rest[..digits])?;
    let (stability, minor) = match &rest[digits..] {
        "" => return Some((Stability::Stable, major, 0)),
        rest => match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
            (Some(minor), _) => (Stability::Alpha, minor),
            (_, Some(minor)) => (Stability::Beta, minor),
            _ => return None,
        },
    };
    let digits_only = minor.bytes().all(|byte| byte.is_ascii_digit());
    Some((stability, major, if digits_only { number(minor)? } else { return None }))
}

/// Compares two versions; the preferred one is less, so that sorting puts it first.
///
/// ```
/// let mut versions = ["v1alpha1", "foo", "v1", "v10", "v1beta2", "v1beta10"];
/// versions.sort_by(|a, b| schemas::compare_versions(a, b));
/// assert_eq!(versions, ["v10", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]);
/// ```
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}
