//! Names: what Kubernetes accepts as a label, a host name, a port name.
//!
//! Each check returns `None` for a good name, else the rule that it breaks, in the words that users know.

/// The most bytes a DNS label or a label value may have.
pub const LABEL_MAX: usize = 63;
/// The most bytes a DNS subdomain may have.
pub const SUBDOMAIN_MAX: usize = 253;

fn lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns whether `text` is non-empty, made of `inner` bytes, and begins and ends with `edge` bytes.
fn shaped(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if edge(first) && edge(last))
        && bytes.iter().all(|&byte| edge(byte) || inner(byte))
}

/// Checks a DNS-1123 label: a namespace, a container, a host name.
pub fn dns1123_label(name: &str) -> Option<&'static str> {
    if name.len() > LABEL_MAX {
        return Some("must be no more than 63 characters");
    }
    (!shaped(name, lower_alphanumeric, |byte| byte == b'-')).then_some(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    )
}

/// Checks a DNS-1123 subdomain: the name of most objects.
pub fn dns1123_subdomain(name: &str) -> Option<&'static str> {
    if name.len() > SUBDOMAIN_MAX {
        return Some("must be no more than 253 characters");
    }
    let good = name.split('.').all(|part| shaped(part, lower_alphanumeric, |byte| byte == b'-'));
    (!good).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    )
}

/// Checks a DNS-1035 label: the name of a Service.
pub fn dns1035_label(name: &str) -> Option<&'static str> {
    if name.len() > LABEL_MAX {
        return Some("must be no more than 63 characters");
    }
    let good = shaped(name, lower_alphanumeric, |byte| byte == b'-') && name.as_bytes()[0].is_ascii_lowercase();
    (!good).then_some(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    )
}

/// Checks a qualified name: a label or annotation key, a condition type. An optional DNS prefix, `/`, then a name.
pub fn qualified_name(name: &str) -> Option<&'static str> {
    let (prefix, local) = match name.split_once('/') {
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, name),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty");
        }
        if dns1123_subdomain(prefix).is_some() {
            return Some("prefix part must be a lowercase RFC 1123 subdomain");
        }
    }
    if local.is_empty() {
        return Some("name part must be non-empty");
    }
    if local.len() > LABEL_MAX {
        return Some("name part must be no more than 63 characters");
    }
    (!shaped(local, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))).then_some(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
}

/// Checks a label value; the empty text is one.
pub fn label_value(value: &str) -> Option<&'static str> {
    if value.len() > LABEL_MAX {
        return Some("must be no more than 63 characters");
    }
    (!value.is_empty() && !shaped(value, |byte| byte.is_ascii_alphanumeric(), |byte| matches!(byte, b'-' | b'_' | b'.'))).then_some(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
}

/// Returns every rule that a port name (IANA service name) breaks; each is an error of its own.
pub fn port_name(name: &str) -> Vec<&'static str> {
    let mut broken = Vec::new();
    if name.len() > 15 {
        broken.push("must be no more than 15 characters");
    }
    if !name.bytes().all(|byte| lower_alphanumeric(byte) || byte == b'-') || name.is_empty() {
        broken.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        broken.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        broken.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        broken.push("must not begin or end with a hyphen");
    }
    broken
}

/// Checks the name of an HTTP header.
pub fn http_header_name(name: &str) -> Option<&'static str> {
    (name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        .then_some("a valid HTTP header must consist of alphanumeric characters or '-'")
}

/// Checks a port number.
pub fn port_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535, inclusive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_shape_of_kubernetes() {
        assert_eq!(dns1123_label("web-0"), None);
        assert!(["", "-a", "a-", "A", "a.b", &"a".repeat(64)].iter().all(|name| dns1123_label(name).is_some()));
        assert_eq!(dns1123_subdomain("a.b-c.d"), None);
        assert!(["", ".a", "a..b", "a_b"].iter().all(|name| dns1123_subdomain(name).is_some()));
        assert!(dns1035_label("0a").is_some() && dns1035_label("a0").is_none());
        assert!(["example.com/Ready", "A_b.c", "x"].iter().all(|name| qualified_name(name).is_none()));
        assert!(["", "/x", "a/", "A.b/x", "a/b/c", "-x"].iter().all(|name| qualified_name(name).is_some()));
        assert!(label_value("").is_none() && label_value("A.b_c-9").is_none() && label_value("-").is_some());
    }

    #[test]
    fn a_port_name_may_break_several_rules() {
        assert!(port_name("http").is_empty());
        assert_eq!(port_name("HTTP").len(), 2);
        assert_eq!(port_name("").len(), 2);
        assert_eq!(port_name("a--b").len(), 1);
    }
}
