//! URLs, as far as a probe needs them: what it asks, and where an answer wants to send it.

use std::fmt;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// `http` or `https`; a redirect may name another one, which is never asked.
    pub scheme: String,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port, if one is written.
    pub port: Option<u16>,
    /// Path and query; begins with `/`.
    pub target: String,
}

/// What a redirect cannot lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("has a control character")]
    Control,
    #[error("has a % without two hexadecimal digits")]
    Escape,
    #[error("has no scheme before its colon")]
    Scheme,
    #[error("has a bad host or port")]
    Host,
}

impl Url {
    /// Returns the port to connect to.
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(if self.scheme == "https" { 443 } else { 80 })
    }

    /// Returns host and port as a `Host` header has them: the port only if it is written.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// Returns where a `Location` leads from here, and whether it names a scheme.
    pub(crate) fn join(&self, location: &str) -> Result<(Url, bool), UrlError> {
        let reference = Reference::parse(location)?;
        let absolute = reference.scheme.is_some();
        let scheme = reference.scheme.unwrap_or_else(|| self.scheme.clone());
        let (base_path, base_query) = split_query(&self.target);
        let (host, port, path, query) = match (reference.authority, reference.path) {
            (Some((host, port)), path) => (host, port, remove_dots(&path), reference.query),
            // A scheme without a host (`mailto:x`) leads to no host at all.
            (None, path) if absolute => (String::new(), None, path, reference.query),
            (None, path) if path.is_empty() => {
                let query = reference.query.or(base_query.map(str::to_owned));
                (self.host.clone(), self.port, base_path.to_owned(), query)
            }
            (None, path) => {
                let whole = match path.starts_with('/') {
                    true => path,
                    false => format!("{}{path}", &base_path[..base_path.rfind('/').map_or(0, |at| at + 1)]),
                };
                (self.host.clone(), self.port, remove_dots(&whole), reference.query)
            }
        };
        let mut target = encode(&path, Part::Path);
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if let Some(query) = query {
            target.push('?');
            target.push_str(&encode(&query, Part::Query));
        }
        Ok((Url { scheme, host, port, target }, absolute))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme, self.authority(), self.target)
    }
}

/// A URL or a part of one, as it is written; the fragment is left out, because it is never sent.
struct Reference {
    scheme: Option<String>,
    authority: Option<(String, Option<u16>)>,
    path: String,
    query: Option<String>,
}

impl Reference {
    fn parse(text: &str) -> Result<Reference, UrlError> {
        if has_control(text) {
            return Err(UrlError::Control);
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = match split_scheme(text) {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, text),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let (authority, path) = match split_authority(rest) {
            Some((authority, path)) => (Some(parse_authority(authority)?), path),
            None => (None, rest),
        };
        if scheme.is_none() && authority.is_none() && path.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(UrlError::Scheme);
        }
        if !good_escapes(path) || !good_escapes(fragment) {
            return Err(UrlError::Escape);
        }
        Ok(Reference { scheme, authority, path: path.to_owned(), query })
    }
}

/// Returns the path and query to ask for, from what a user wrote as the path of a probe.
pub(crate) fn target_of(path: &str) -> String {
    let (before_query, _) = path.split_once('?').unwrap_or((path, ""));
    let fragment = path.split_once('#').map_or("", |(_, fragment)| fragment);
    if has_control(path) || !good_escapes(before_query) || !good_escapes(fragment) {
        // Unparsable: all of it is the path.
        return with_slash(encode(path, Part::Literal));
    }
    let (text, _) = path.split_once('#').unwrap_or((path, ""));
    let (text, query) = match text.split_once('?') {
        Some((text, query)) => (text, Some(query)),
        None => (text, None),
    };
    // A scheme is one only in front of a host or an absolute path: `a:b` is a path.
    let text = split_scheme(text).map(|(_, rest)| rest).filter(|rest| rest.starts_with('/')).unwrap_or(text);
    let text = split_authority(text).map_or(text, |(_, path)| path);
    let mut target = with_slash(encode(text, Part::Path));
    if let Some(query) = query {
        target.push('?');
        target.push_str(&encode(query, Part::Query));
    }
    target
}

fn with_slash(mut target: String) -> String {
    if !target.starts_with('/') {
        target.insert(0, '/');
    }
    target
}

/// Splits `scheme:rest`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut bytes = scheme.bytes();
    let good = bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    good.then_some((scheme, rest))
}

/// Splits `//authority/path`.
fn split_authority(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("//")?;
    Some(rest.split_at(rest.find('/').unwrap_or(rest.len())))
}

fn parse_authority(text: &str) -> Result<(String, Option<u16>), UrlError> {
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
            if !after.is_empty() && !after.starts_with(':') {
                return Err(UrlError::Host);
            }
            (host, after.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if !good_host(host) {
        return Err(UrlError::Host);
    }
    let port = port.filter(|port| !port.is_empty()).map(parse_port).transpose()?;
    Ok((host.to_owned(), port))
}

/// Reads a port; a number that is none becomes 0, because whose host it is must be judged first.
fn parse_port(text: &str) -> Result<u16, UrlError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlError::Host);
    }
    Ok(text.parse().unwrap_or(0))
}

/// Returns whether a host can stand in a URL and in a header.
pub(crate) fn good_host(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'%'))
}

fn has_control(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_control())
}

/// Returns whether every `%` has its two hexadecimal digits.
fn good_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        let mut bytes = after.bytes();
        matches!((bytes.next(), bytes.next()), (Some(a), Some(b)) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
    })
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Query,
    /// A path in which nothing has a meaning.
    Literal,
}

/// Percent-encodes what may not stand in a part of a URL; escapes that are there stay.
fn encode(text: &str, part: Part) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let allowed = match byte {
            b'%' | b'?' => part != Part::Literal,
            b'#' => false,
            // Square brackets are left alone, as browsers and Go do.
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':'
            | b'@' | b'/' | b'[' | b']' => true,
            _ => byte.is_ascii_alphanumeric(),
        };
        if allowed {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Resolves `.` and `..` in a path.
fn remove_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." && kept.len() > 1 {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}
