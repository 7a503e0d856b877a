//! Who may look: whoever shows the token, from a page of ours.

use std::io;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, ORIGIN};

/// A secret that nobody can guess.
pub(super) struct Token(String);

impl Token {
    pub(super) fn random() -> io::Result<Token> {
        let mut bytes = [0; 24];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns whether a text is this token; how long that takes says nothing about it.
    fn is(&self, text: &str) -> bool {
        let same = self.0.bytes().zip(text.bytes()).fold(0, |differences, (own, given)| differences | (own ^ given));
        same == 0 && self.0.len() == text.len()
    }
}

/// Returns why a request is refused; `None`: it is not.
///
/// The name in Host must be that of this machine, so that a name of somebody else that leads here is of no use; its port may be
/// another one, because people forward ports.
pub(super) fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = text(HOST).filter(|host| is_this_machine(host)) else {
        return Some("the Host of the request is not this machine");
    };
    if headers.contains_key(ORIGIN) && text(ORIGIN) != Some(format!("http://{host}").as_str()) {
        return Some("the request comes from another page");
    }
    None
}

fn is_this_machine(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let good_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    good_port && ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Returns whether a request shows the token.
pub(super) fn is_allowed(headers: &HeaderMap, token: &Token) -> bool {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    given.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|given| token.is(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(all: &[(http::HeaderName, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        for good in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST", "[::1]:80", "[::1]"] {
            assert_eq!(refusal(&headers(&[(HOST, good)])), None, "{good}");
        }
        for bad in [
            "example.com",
            "127.0.0.1.example.com:80",
            "localhost.example.com",
            "127.0.0.2:1",
            "",
            "localhost:",
            "localhost:x",
            "10.0.0.1",
        ] {
            assert!(refusal(&headers(&[(HOST, bad)])).is_some(), "{bad}");
        }
        assert!(refusal(&HeaderMap::new()).is_some());
    }

    #[test]
    fn an_origin_must_be_ours() {
        let with = |origin| refusal(&headers(&[(HOST, "127.0.0.1:4000"), (ORIGIN, origin)]));
        assert_eq!(with("http://127.0.0.1:4000"), None);
        for bad in ["http://127.0.0.1:4001", "https://127.0.0.1:4000", "http://example.com", "null", ""] {
            assert!(with(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn the_token_and_nothing_else_is_let_in() {
        let token = Token::random().unwrap();
        assert_eq!(token.text().len(), 48);
        let with = |value: &str| is_allowed(&headers(&[(AUTHORIZATION, value)]), &token);
        assert!(with(&format!("Bearer {}", token.text())));
        assert!(!with(&format!("Bearer {}", &token.text()[1..])) && !with(&format!("Bearer {}x", token.text())));
        assert!(!with("Bearer ") && !with(token.text()) && !is_allowed(&HeaderMap::new(), &token));
        assert_ne!(token.text(), Token::random().unwrap().text());
    }
}
