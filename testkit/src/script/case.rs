//! Cases and steps as they stand in the files.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::variables::Variables;
use super::{Auth, Request, decode_base64};

/// A case: a sequence of steps against one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique in its file.
    pub name: String,
    /// Free text.
    #[serde(default)]
    #[allow(dead_code, reason = "read by people")]
    about: Option<String>,
    /// What the server must have.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The gates that the server must run with.
    #[serde(default)]
    pub gates: BTreeMap<String, bool>,
    /// Whether the case gets a namespace of its own.
    #[serde(default = "yes")]
    pub namespace: bool,
    /// The steps.
    pub steps: Vec<Step>,
    /// Paths that are removed at the end.
    #[serde(default)]
    pub cleanup: Vec<String>,
}

fn yes() -> bool {
    true
}

impl Case {
    /// Returns whether the server must have something.
    pub fn needs(&self, what: &str) -> bool {
        self.needs.iter().any(|need| need == what)
    }

    /// Returns whether the server is restarted by the case.
    pub fn restarts(&self) -> bool {
        self.steps.iter().any(|step| step.restart.is_some())
    }
}

/// One step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Free text.
    #[serde(default)]
    #[allow(dead_code, reason = "read by people")]
    about: Option<String>,
    /// The request.
    #[serde(default)]
    pub given: Option<Given>,
    /// What must come back.
    #[serde(default)]
    pub expect: Value,
    /// What to remember of it.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
    /// Repeat until it holds, at most so many seconds.
    #[serde(default)]
    pub poll: Option<f64>,
    /// Look at a watch that is open.
    #[serde(default)]
    pub events: Option<String>,
    /// Wait so many seconds.
    #[serde(default)]
    pub sleep: Option<f64>,
    /// Restart the server.
    #[serde(default, deserialize_with = "present")]
    pub restart: Option<Restart>,
}

/// Reads `restart: {}` and `restart:` alike.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Restart>, D::Error> {
    Ok(Some(Option::<Restart>::deserialize(deserializer)?.unwrap_or_default()))
}

/// How the server is restarted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// With SIGKILL.
    #[serde(default)]
    pub kill: bool,
    /// With these gates changed.
    #[serde(default)]
    pub gates: BTreeMap<String, bool>,
}

/// A request as it stands in a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    #[serde(default)]
    method: Option<String>,
    path: String,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    #[serde(default)]
    auth: Option<String>,
    #[serde(default)]
    pub(crate) watch: Option<String>,
}

impl Given {
    /// Returns the content type that the script names, if it names one.
    pub fn content_type(&self) -> &str {
        let named = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        named.and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Returns the request with its variables filled in.
    pub(crate) fn request(&self, variables: &Variables) -> Result<Request, String> {
        let mut path = variables.text(&self.path)?;
        for (index, (name, value)) in self.query.iter().enumerate() {
            path.push(if index == 0 && !path.contains('?') { '?' } else { '&' });
            let value = variables.value(value)?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            path.push_str(&format!("{}={}", percent(name), percent(&text)));
        }
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            let value = variables.value(value)?;
            headers.push((name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
        let body = match (&self.body, &self.text, &self.base64) {
            (Some(body), ..) => Some(Bytes::from(variables.value(body)?.to_string())),
            (_, Some(text), _) => Some(variables.text(text)?.into()),
            (_, _, Some(text)) => Some(decode_base64(text)?),
            _ => None,
        };
        let named =
            |headers: &[(String, String)], wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if body.is_some() && !named(&headers, "content-type") {
            headers.push(("Content-Type".into(), "application/json".into()));
        }
        if !named(&headers, "accept") {
            headers.push(("Accept".into(), "application/json".into()));
        }
        let auth = match self.auth.as_deref() {
            None | Some("default") => Auth::Runner,
            Some("none") => Auth::Nobody,
            Some(token) => Auth::Token(variables.text(token)?),
        };
        let method = self.method.clone().unwrap_or_else(|| "GET".to_owned());
        Ok(Request { method, path, headers, body: body.unwrap_or_default(), auth })
    }
}

/// Escapes a part of a query.
fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
