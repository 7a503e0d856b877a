//! HTTP probes: the request, what is done with each answer, and what it all amounts to.
//!
//! An [`Exchange`] follows redirects and retries as a state machine over answers; the shell only sends, reads and keeps
//! the one timeout of the attempt. Nothing that a target answers can lead a probe to another host.

mod exchange;
mod request;
mod url;

pub use exchange::{Exchange, ExchangeStep, HttpAnswer};
pub use request::{Request, Target, Tls};
pub use url::Url;

use api::pod::HttpGetAction;

use crate::events::cut;

/// The most bytes of a body that an event shows.
const SHOWN_BYTES_MAX: usize = 256;

/// Returns whether the pod itself answers. Only then is a body shown: with a foreign host, a body in an event would make
/// probes a way to read other services.
pub fn shows_body(action: &HttpGetAction, host_network: bool) -> bool {
    action.host.is_empty() && !host_network
}

/// Returns the message of a failure by status code; `body` is what may be shown of the answer.
pub fn failure_message(status: u16, body: Option<&[u8]>) -> String {
    let message = format!("HTTP probe failed with statuscode: {status}");
    match body.map(shown).filter(|body| !body.is_empty()) {
        Some(body) => format!("{message}, body: {body}"),
        None => message,
    }
}

/// Returns the first bytes of a text from outside, with control characters as spaces.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
    cut(text.replace(|c: char| c.is_control(), " "), SHOWN_BYTES_MAX)
}

#[cfg(test)]
mod tests;
