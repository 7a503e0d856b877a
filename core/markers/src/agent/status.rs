//! The writer of the status: the whole of it, never twice the same, never too often.

use std::time::Duration;

use api::WriteError;
use api::marker::NodePodProbeStatus;
use machine::{BackOff, Failures, Time};

use super::reports::cut;

/// The least time between two writes, for each part of this many bytes: a large status costs its writer, the server and all
/// who watch it in proportion, and a burst of results must not become a storm of large writes.
const WRITE_EVERY: Duration = Duration::from_millis(200);
const WRITE_EVERY_BYTES: usize = 128 * 1024;
/// The waits after a failed write.
const RETRY: BackOff = BackOff { first: Duration::from_millis(500), last: Duration::from_secs(50) };
/// The most bytes of a status; an object in etcd may have 1.5 MiB, of which the spec needs its share.
const STATUS_BYTES_MAX: usize = 768 * 1024;
/// The most bytes of a message in a status that is too large.
const SHORT_MESSAGE_BYTES_MAX: usize = 256;

/// The writer of the status.
#[derive(Default)]
pub(super) struct Writer {
    /// Something may have changed since the last write.
    pub(super) dirty: bool,
    /// What the server has.
    written: NodePodProbeStatus,
    in_flight: Option<NodePodProbeStatus>,
    earliest: Option<Time>,
    failures: Failures,
}

impl Writer {
    /// The server has this status now, whoever wrote it.
    pub(super) fn found(&mut self, status: NodePodProbeStatus) {
        self.written = status;
        self.dirty = true;
    }

    /// Returns when a write may be due.
    pub(super) fn deadline(&self) -> Option<Time> {
        (self.dirty && self.in_flight.is_none()).then(|| self.earliest.unwrap_or(Time::ZERO))
    }

    /// Returns the status to send now, if one is due and differs from what the server has.
    pub(super) fn due(&mut self, now: Time, content: impl FnOnce() -> NodePodProbeStatus) -> Option<NodePodProbeStatus> {
        if self.deadline()? > now {
            return None;
        }
        self.dirty = false;
        let (status, bytes) = bounded(content());
        if status == self.written {
            return None;
        }
        let parts = u32::try_from(bytes / WRITE_EVERY_BYTES).unwrap_or(u32::MAX).saturating_add(1);
        self.earliest = Some(now + WRITE_EVERY.saturating_mul(parts));
        self.in_flight = Some(status.clone());
        Some(status)
    }

    /// The write has ended.
    pub(super) fn ended(&mut self, now: Time, error: Option<WriteError>) {
        let Some(sent) = self.in_flight.take() else { return };
        match error {
            None => {
                self.written = sent;
                self.failures = Failures::default();
            }
            Some(_) => {
                self.earliest = Some(now + self.failures.next(RETRY));
                self.dirty = true;
            }
        }
    }
}

/// Shortens messages until the status is small enough. Returns its bytes too.
fn bounded(mut status: NodePodProbeStatus) -> (NodePodProbeStatus, usize) {
    let bytes = |status: &NodePodProbeStatus| serde_json::to_vec(status).map_or(0, |bytes| bytes.len());
    let mut length = bytes(&status);
    for max in [SHORT_MESSAGE_BYTES_MAX, 0] {
        if length <= STATUS_BYTES_MAX {
            break;
        }
        for state in status.pod_probe_statuses.iter_mut().flat_map(|item| &mut item.probe_states) {
            state.message.truncate(cut(&state.message, max).len());
        }
        length = bytes(&status);
    }
    (status, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::marker::{ContainerProbeState, PodProbeStatus};

    fn status(message: &str, count: usize) -> NodePodProbeStatus {
        let state = ContainerProbeState { name: "m#p".into(), message: message.into(), ..ContainerProbeState::default() };
        let item = PodProbeStatus { uid: "u".into(), probe_states: vec![state], ..PodProbeStatus::default() };
        NodePodProbeStatus { observed_generation: Some(1), pod_probe_statuses: vec![item; count] }
    }

    #[test]
    fn a_status_that_is_too_large_loses_its_texts() {
        let longest = |status: &NodePodProbeStatus| {
            let states = status.pod_probe_statuses.iter().flat_map(|item| &item.probe_states);
            states.map(|state| state.message.len()).max().unwrap_or(0)
        };
        let text = "x".repeat(1024);
        assert_eq!(longest(&bounded(status(&text, 100)).0), 1024);
        assert_eq!(longest(&bounded(status(&text, 1_000)).0), 256);
        assert_eq!(longest(&bounded(status(&text, 5_000)).0), 0);
    }

    #[test]
    fn a_failed_write_is_repeated_with_what_holds_then() {
        let (mut writer, at) = (Writer::default(), Time::from_millis);
        writer.dirty = true;
        assert_eq!(writer.due(at(1_000), || status("a", 1)), Some(status("a", 1)));
        writer.ended(at(1_010), Some(WriteError::Failed));
        assert_eq!(writer.deadline(), Some(at(1_510)));
        assert_eq!(writer.due(at(1_509), || status("b", 1)), None);
        assert_eq!(writer.due(at(1_510), || status("b", 1)), Some(status("b", 1)));
        writer.ended(at(1_511), Some(WriteError::Failed));
        assert_eq!(writer.deadline(), Some(at(2_511)));
        assert!(writer.due(at(2_511), || status("b", 1)).is_some());
        writer.ended(at(2_512), None);
        assert_eq!(writer.deadline(), None);
    }

    #[test]
    fn a_large_status_is_written_less_often() {
        let (mut writer, at) = (Writer::default(), Time::from_millis);
        for (entries, wait) in [(1, 200), (300, 600), (700, 1_200)] {
            writer = Writer { dirty: true, written: writer.written, ..Writer::default() };
            assert!(writer.due(at(1_000), || status(&"x".repeat(1024), entries)).is_some());
            writer.ended(at(1_001), None);
            writer.dirty = true;
            assert_eq!(writer.deadline(), Some(at(1_000 + wait)), "{entries} entries");
        }
    }
}
