//! One attempt of an HTTP probe: redirects, retries, and the outcome.

use std::sync::Arc;
use std::time::Duration;

use super::request::Request;
use super::{SHOWN_BYTES_MAX, failure_message, shown};
use crate::outcome::{Cause, OUTPUT_BYTES_MAX, Report, TargetOutput, Tries, unanswered};

/// How many redirects are followed; Go's client.
const REDIRECTS_MAX: u8 = 9;
/// How many interim answers (100, 102 to 199) one request may have; Go's client.
const INTERIM_MAX: u8 = 5;

/// What came back, or did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAnswer {
    /// Status line and headers.
    Head {
        /// The status code.
        status: u16,
        /// The `Location` header, if there is one.
        location: Option<String>,
    },
    /// The body, as far as it was asked for.
    Body {
        /// What arrived.
        bytes: Vec<u8>,
        /// It ended as it should, or all that was asked for is there.
        whole: bool,
    },
    /// No answer, or no more of it.
    Failed(Cause),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeStep {
    /// Send [`Exchange::request`] on a new connection; the one before is closed, its body unread.
    Send,
    /// Wait for the next status line on this connection.
    Wait,
    /// Read this much of the body.
    Read {
        /// The most bytes to read; what comes after them does not matter.
        max: usize,
    },
    /// The attempt is over.
    Done(Report),
}

/// One attempt, from the first request to its report.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Shared with the attempts before and after: a request does not change while a container instance lives.
    first: Arc<Request>,
    /// Where a redirect has led.
    redirected: Option<Request>,
    shows_body: bool,
    timeout: Duration,
    redirects: u8,
    /// Interim answers to the request that is under way.
    interim: u8,
    tries: Tries,
    /// The status whose body is read.
    status: u16,
}

impl Exchange {
    /// Returns the attempt that begins with sending `request`; see [`shows_body`](super::shows_body).
    pub fn new(request: impl Into<Arc<Request>>, shows_body: bool, timeout: Duration) -> Exchange {
        let tries = Tries::default();
        Exchange { first: request.into(), redirected: None, shows_body, timeout, redirects: 0, interim: 0, tries, status: 0 }
    }

    /// Returns the request to send, or that is under way.
    pub fn request(&self) -> &Request {
        self.redirected.as_ref().unwrap_or(&self.first)
    }

    /// Takes an answer and says what to do next.
    pub fn take(&mut self, answer: HttpAnswer) -> ExchangeStep {
        match answer {
            HttpAnswer::Head { status, location } => self.head(status, location.as_deref()),
            HttpAnswer::Body { bytes, whole } => ExchangeStep::Done(self.body(bytes, whole)),
            // The status line has decided already.
            HttpAnswer::Failed(_) if self.status >= 400 => ExchangeStep::Done(self.body(Vec::new(), false)),
            HttpAnswer::Failed(cause) => {
                let mut report = unanswered(&cause, self.timeout);
                // After a redirect somebody has been asked already.
                report.refused &= self.redirected.is_none();
                if !self.tries.again(&report) {
                    return ExchangeStep::Done(report);
                }
                self.redirected = None;
                (self.redirects, self.interim, self.status) = (0, 0, 0);
                ExchangeStep::Send
            }
        }
    }

    fn head(&mut self, status: u16, location: Option<&str>) -> ExchangeStep {
        match (status, location.unwrap_or_default()) {
            (200..=299, _) => self.read(status, OUTPUT_BYTES_MAX),
            (301 | 302 | 303 | 307 | 308, location) if !location.is_empty() => self.redirect(status, location),
            (300..=399, _) => ExchangeStep::Done(self.warning(status, "")),
            (100 | 102..=199, _) => self.interim(),
            _ if self.shows_body && status >= 400 => self.read(status, SHOWN_BYTES_MAX),
            _ => ExchangeStep::Done(failure(status, failure_message(status, None), Vec::new())),
        }
    }

    /// An answer that announces another one. A server that never gets to it must not be listened to for ever.
    fn interim(&mut self) -> ExchangeStep {
        if self.interim == INTERIM_MAX {
            return ExchangeStep::Done(Report::failure(format!(
                "more than {INTERIM_MAX} interim answers (1xx) before the final one"
            )));
        }
        self.interim += 1;
        ExchangeStep::Wait
    }

    fn read(&mut self, status: u16, max: usize) -> ExchangeStep {
        self.status = status;
        ExchangeStep::Read { max }
    }

    fn body(&self, mut bytes: Vec<u8>, whole: bool) -> Report {
        let status = self.status;
        if status >= 400 {
            return failure(status, failure_message(status, Some(&bytes)), bytes);
        }
        bytes.truncate(OUTPUT_BYTES_MAX);
        if whole || bytes.len() == OUTPUT_BYTES_MAX {
            return Report { output: TargetOutput::Http { status, body: bytes }, ..Report::success() };
        }
        Report::failure(format!("HTTP {status}, but the body broke off after {} bytes", bytes.len()))
    }

    /// The order of these rules is that of Go's client with the kubelet's check.
    fn redirect(&mut self, status: u16, location: &str) -> ExchangeStep {
        let (url, absolute) = match self.request().url.join(location) {
            Ok(joined) => joined,
            Err(error) => {
                return ExchangeStep::Done(failure(status, format!("HTTP {status}, but the Location {error}"), Vec::new()));
            }
        };
        if !url.host.eq_ignore_ascii_case(&self.first.url.host) {
            return ExchangeStep::Done(self.warning(status, location));
        }
        if self.redirects == REDIRECTS_MAX {
            return ExchangeStep::Done(failure(status, format!("stopped after {} redirects", REDIRECTS_MAX + 1), Vec::new()));
        }
        if url.port == Some(0) {
            return ExchangeStep::Done(failure(status, format!("HTTP {status}, but the Location has a bad port"), Vec::new()));
        }
        if url.scheme != "http" && url.scheme != "https" {
            return ExchangeStep::Done(failure(
                status,
                format!("HTTP {status} leads to the unsupported scheme {:?}", url.scheme),
                Vec::new(),
            ));
        }
        self.redirects += 1;
        self.interim = 0;
        self.redirected = Some(self.request().redirected(url, absolute));
        ExchangeStep::Send
    }

    /// A redirect that is not followed: somebody is there, but not the answer that the user expects.
    fn warning(&self, status: u16, location: &str) -> Report {
        let output = TargetOutput::Http { status, body: Vec::new() };
        let leads = match (self.shows_body, location) {
            (true, location) if !location.is_empty() => format!(" leads to another host ({})", shown(location.as_bytes())),
            (_, "") => " is not followed".to_owned(),
            _ => " leads to another host".to_owned(),
        };
        Report { output, ..Report::warning(format!("HTTP {status}{leads}")) }
    }
}

fn failure(status: u16, message: String, body: Vec<u8>) -> Report {
    Report { output: TargetOutput::Http { status, body }, ..Report::failure(message) }
}
