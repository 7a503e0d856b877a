//! What of a worker's states and texts is reported, and when.
//!
//! A change of state is reported at once. A text that chatters is held back by a bucket, the latest one wins. What does
//! not change is repeated every ten minutes, so that a reader can tell old from unattended.

use std::time::Duration;

use api::Timestamp;
use api::marker::{ContainerProbeState, ProbeState};
use machine::{Bucket, Time};

/// The most bytes of a message.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Texts that may change in a burst, and the time until one more may.
const BURST: u32 = 5;
const REFILL: Duration = Duration::from_secs(30);
/// An unchanged state is reported again by the first attempt that ends this long after the last report.
const REPEAT_AFTER: Duration = Duration::from_secs(600);

/// What was reported last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reported {
    pub(super) state: ProbeState,
    pub(super) message: String,
    /// When it was reported.
    pub(super) at: Time,
    pub(super) transition_at: Time,
}

impl Reported {
    /// Returns the state that `status` held, if it can be read.
    pub(super) fn restored(stored: &ContainerProbeState) -> Reported {
        let at = stored.last_probe_time.unwrap_or_default().0;
        Reported {
            state: stored.state,
            message: stored.message.clone(),
            at,
            transition_at: stored.last_transition_time.map_or(at, |time| time.0),
        }
    }

    pub(super) fn stored(&self, name: &str) -> ContainerProbeState {
        ContainerProbeState {
            name: name.to_owned(),
            state: self.state,
            last_probe_time: Some(Timestamp(self.at)),
            last_transition_time: Some(Timestamp(self.transition_at)),
            message: self.message.clone(),
        }
    }
}

/// What came of telling something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportResult {
    /// Nothing is new.
    Nothing,
    /// It waits for the bucket.
    Waiting,
    /// It is reported, with the same state as before.
    Again,
    /// Another state than before is reported.
    Changed,
}

/// The reports of one worker.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) last: Option<Reported>,
    waiting: Option<String>,
    bucket: Bucket,
}

impl Default for Reports {
    fn default() -> Reports {
        Reports { last: None, waiting: None, bucket: Bucket::new(BURST, REFILL) }
    }
}

impl Reports {
    pub(super) fn restored(last: Reported) -> Reports {
        Reports { last: Some(last), ..Reports::default() }
    }

    pub(super) fn state(&self) -> Option<ProbeState> {
        self.last.as_ref().map(|last| last.state)
    }

    /// Takes a settled state with its text.
    pub(super) fn tell(&mut self, now: Time, state: ProbeState, text: &str) -> ReportResult {
        let text = cut(text, MESSAGE_BYTES_MAX);
        match &self.last {
            Some(last) if last.state == state => {
                if last.message == text {
                    // A text that returns to the reported one cancels what waits.
                    self.waiting = None;
                    if now.since(last.at) < REPEAT_AFTER {
                        return ReportResult::Nothing;
                    }
                } else {
                    let was_waiting = self.waiting.replace(text.to_owned()).is_some();
                    return match self.release(now) {
                        ReportResult::Nothing if !was_waiting => ReportResult::Waiting,
                        result => result,
                    };
                }
                self.report(now, state, text.to_owned());
                ReportResult::Again
            }
            _ => {
                self.waiting = None;
                self.report(now, state, text.to_owned());
                ReportResult::Changed
            }
        }
    }

    /// Reports the text that waits, if the bucket allows it now.
    pub(super) fn release(&mut self, now: Time) -> ReportResult {
        let Some(last) = &self.last else { return ReportResult::Nothing };
        let state = last.state;
        match self.waiting.take() {
            Some(text) if self.bucket.try_take(now) => {
                self.report(now, state, text);
                ReportResult::Again
            }
            kept => {
                self.waiting = kept;
                ReportResult::Nothing
            }
        }
    }

    /// Returns when a text that waits may be reported.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.waiting.as_ref().map(|_| self.bucket.next_at())
    }

    fn report(&mut self, now: Time, state: ProbeState, message: String) {
        let kept = self.last.as_ref().filter(|last| last.state == state).map(|last| last.transition_at);
        self.last = Some(Reported { state, message, at: now, transition_at: kept.unwrap_or(now) });
    }
}

/// Returns the longest part of at most `max` bytes that ends at a character.
pub(super) fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_returns_cancels_what_waits() {
        let (mut reports, at) = (Reports::default(), Time::from_secs);
        assert_eq!(reports.tell(at(1), ProbeState::Failed, "0"), ReportResult::Changed);
        for text in ["1", "2", "3", "4", "5"] {
            assert_eq!(reports.tell(at(1), ProbeState::Failed, text), ReportResult::Again);
        }
        assert_eq!(reports.tell(at(2), ProbeState::Failed, "6"), ReportResult::Waiting);
        assert_eq!(reports.deadline(), Some(at(31)));
        assert_eq!(reports.tell(at(3), ProbeState::Failed, "5"), ReportResult::Nothing);
        assert_eq!(reports.deadline(), None);
        assert_eq!(reports.release(at(100)), ReportResult::Nothing);
    }

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 5), "");
    }
}
