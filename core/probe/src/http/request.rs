//! The request of an HTTP probe: where it goes, and its headers.

use api::pod::{ContainerPort, HttpGetAction};

use super::url::{Url, good_host, target_of};
use crate::outcome::{Cause, Report, resolve_port, unanswered};

/// What a probe knows of the pod it asks.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The pod's address, if it has one.
    pub pod_ip: Option<&'a str>,
    /// The ports of the probed container.
    pub ports: &'a [ContainerPort],
    /// The version of Kubernetes that we stand for, for example `1.36`.
    pub version: &'a str,
}

/// A GET request, to be sent on a connection of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it goes.
    pub url: Url,
    /// The value of the `Host` header (`:authority` in HTTP/2).
    pub host: String,
    /// All other headers, in order.
    pub headers: Vec<(String, String)>,
    /// `host` was chosen by the user.
    host_given: bool,
}

/// How TLS is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Whether the certificate is checked. A probe asks whether somebody is there, not who.
    pub verify: bool,
    /// The server name to send; none for an address.
    pub server_name: Option<String>,
}

/// Headers that describe a body or the connection itself; sending them as given would break the request.
const NEVER_SENT: [&str; 3] = ["content-length", "transfer-encoding", "trailer"];

impl Request {
    /// Returns the request of a probe, or why it cannot be sent.
    pub fn new(action: &HttpGetAction, target: &Target<'_>) -> Result<Request, Report> {
        let port = resolve_port(&action.port, target.ports)?;
        let host = match action.host.trim_matches(['[', ']']) {
            "" => target.pod_ip.filter(|ip| !ip.is_empty()).ok_or_else(|| unanswered(&Cause::NoPodIp, Default::default()))?,
            host => host,
        };
        if !good_host(host) {
            return Err(Report::failure(format!("{host:?} is not a host name")));
        }
        let scheme = action.scheme.to_ascii_lowercase();
        let url = Url {
            scheme: if scheme.is_empty() { "http".to_owned() } else { scheme },
            host: host.to_owned(),
            port: Some(port),
            target: target_of(&action.path),
        };
        let headers = headers(action, target.version)?;
        let given = action.http_headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
        let given = given.map(|header| header.value.trim()).filter(|value| !value.is_empty());
        let host = given.map_or_else(|| url.authority(), str::to_owned);
        Ok(Request { url, host, headers, host_given: given.is_some() })
    }

    /// Returns how TLS is done, if the scheme asks for it.
    pub fn tls(&self) -> Option<Tls> {
        let is_address = self.url.host.parse::<std::net::IpAddr>().is_ok();
        (self.url.scheme == "https").then(|| Tls { verify: false, server_name: (!is_address).then(|| self.url.host.clone()) })
    }

    /// Returns the request that follows a redirect. A host that the user chose survives only a location without a scheme.
    pub(super) fn redirected(&self, url: Url, absolute: bool) -> Request {
        let host_given = self.host_given && !absolute;
        let host = if host_given { self.host.clone() } else { url.authority() };
        Request { url, host, headers: self.headers.clone(), host_given }
    }
}

/// Returns the headers to send besides `Host`.
fn headers(action: &HttpGetAction, version: &str) -> Result<Vec<(String, String)>, Report> {
    let mut headers = Vec::new();
    for header in &action.http_headers {
        let (name, value) = (header.name.as_str(), header.value.trim());
        // Admission refuses such names; values are not judged there, and a line break would smuggle in a header.
        if api::names::http_header_name(name).is_some() || value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(Report::failure(format!("header {name:?} cannot be sent")));
        }
        if !name.eq_ignore_ascii_case("host") && !NEVER_SENT.iter().any(|never| name.eq_ignore_ascii_case(never)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    for (name, default) in [("User-Agent", format!("kube-probe/{version}")), ("Accept", "*/*".to_owned())] {
        match headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.is_empty()) {
            None => headers.push((name.to_owned(), default)),
            Some(true) => headers.retain(|(given, _)| !given.eq_ignore_ascii_case(name)),
            Some(false) => {}
        }
    }
    let connection = |token: &str| {
        headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
            .any(|(_, value)| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    };
    // One who asks for another protocol needs the connection for that.
    if !connection("close") && !connection("upgrade") {
        headers.push(("Connection".to_owned(), "close".to_owned()));
    }
    Ok(headers)
}
