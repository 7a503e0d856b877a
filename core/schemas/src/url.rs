//! URLs as Go's `url.ParseRequestURI` reads them: an absolute URI or an absolute path, without a fragment.

use std::collections::BTreeMap;

/// A parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) scheme: String,
    /// Host and port, as they stand in the URL.
    pub(super) host: String,
    pub(super) path: String,
    query: String,
}

impl Url {
    /// Parses a URL; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Url> {
        if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
            return None;
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url { text: text.to_owned(), scheme: scheme.to_lowercase(), query: query.to_owned(), ..Url::default() };
        let mut path = rest;
        if !rest.starts_with('/') {
            // `urn:x` is a URL without a path; a text without a scheme is none.
            return (!scheme.is_empty()).then_some(url);
        }
        if let Some(after) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            let end = after.find('/').unwrap_or(after.len());
            url.host = host(&after[..end])?.to_owned();
            path = &after[end..];
        }
        escapes_are_good(path).then_some(())?;
        url.path = path.to_owned();
        Some(url)
    }

    /// Returns the host without the port and without the brackets of an IPv6 address.
    pub(super) fn hostname(&self) -> &str {
        let host =
            self.host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or(self.host.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the port; empty if there is none.
    pub(super) fn port(&self) -> &str {
        self.host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or("", |(_, port)| port)
    }

    /// Returns the path with everything escaped that must be.
    pub(super) fn escaped_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len());
        for byte in self.path.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        out
    }

    /// Returns the parameters of the query, each with its values.
    pub(super) fn parameters(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (unescape(name), unescape(value)) {
                parameters.entry(name).or_default().push(value);
            }
        }
        parameters
    }
}

/// Splits off the scheme; empty if there is none, `None` if it is malformed.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn host(authority: &str) -> Option<&str> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let good = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            user.chars().all(good).then_some(host)?
        }
        None => authority,
    };
    let port = match (host.starts_with('['), host.rfind(']'), host.rfind(':')) {
        (true, None, _) => return None,
        (true, Some(end), _) => &host[end + 1..],
        (false, _, Some(colon)) => &host[colon..],
        (false, _, None) => "",
    };
    let port_is_good =
        port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let good = |c: char| c.is_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    (port_is_good && host.chars().all(good)).then_some(host)
}

fn escapes_are_good(text: &str) -> bool {
    text.split('%').skip(1).all(|after| after.len() >= 2 && after.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("HTTPS://user:pw@[::1]:8443/a%20b/ä c?k=1&k=2&x=%2F+y").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "[::1]:8443"));
        assert_eq!((url.hostname(), url.port()), ("::1", "8443"));
        assert_eq!(url.escaped_path(), "/a%20b/%C3%A4%20c");
        let parameters = url.parameters();
        assert_eq!(parameters["k"], ["1", "2"]);
        assert_eq!(parameters["x"], ["/ y"]);
        let plain = Url::parse("http://example.com").unwrap();
        assert_eq!((plain.hostname(), plain.port(), plain.path.as_str()), ("example.com", "", ""));
        assert_eq!(Url::parse("/only/path").unwrap().path, "/only/path");
        assert!(Url::parse("urn:a:b").is_some());
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "plain",
            "example.com/path",
            ":x",
            "http://a b/",
            "http://a:port/",
            "http://[::1",
            "/a%zz",
            "/a%2",
            "ht\ntp://a",
        ] {
            assert_eq!(Url::parse(text), None, "{text:?}");
        }
    }
}
