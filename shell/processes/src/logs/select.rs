//! Which lines of a log are wanted, and how they look.
//!
//! Order as in the kubelet: the tail is cut first, then what is too old, then the bytes. A line of the program counts once,
//! however many pieces the log has of it.

use std::collections::VecDeque;

use bytes::Bytes;
use machine::Time;

use super::LogOptions;
use super::cri::Entry;

/// The state of one selection.
#[derive(Debug)]
pub(super) struct Selection {
    /// The last lines so far, while all that is there has not been read.
    tail: Option<Tail>,
    since: Option<Time>,
    timestamps: bool,
    left: u64,
    /// Whether the last piece ended a line of the program.
    at_line_start: bool,
}

#[derive(Debug)]
struct Tail {
    lines: u64,
    /// Entries with their line feeds; each item is one line of the program.
    kept: VecDeque<Vec<u8>>,
    /// Whether the last item has not ended.
    open: bool,
}

impl Selection {
    pub(super) fn new(options: &LogOptions, now: Time) -> Selection {
        let seconds_ago = options
            .since_seconds
            .map(|seconds| Time::from_micros(now.as_micros().saturating_sub(seconds.saturating_mul(1_000_000))));
        Selection {
            tail: options.tail_lines.map(|lines| Tail { lines, kept: VecDeque::new(), open: false }),
            since: options.since_time.max(seconds_ago),
            timestamps: options.timestamps,
            left: options.limit_bytes.unwrap_or(u64::MAX),
            at_line_start: true,
        }
    }

    /// Returns whether nothing more can come.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Takes entries, each with its line feed.
    pub(super) fn take(&mut self, lines: &[u8], out: &mut VecDeque<Bytes>) {
        match &mut self.tail {
            Some(tail) => tail.take(lines),
            None => self.emit(lines, out),
        }
    }

    /// Says that all that is there has been read; returns whether that brought something out.
    pub(super) fn at_pause(&mut self, out: &mut VecDeque<Bytes>) -> bool {
        let Some(tail) = self.tail.take() else { return false };
        for line in tail.kept {
            self.emit(&line, out);
        }
        true
    }

    fn emit(&mut self, lines: &[u8], out: &mut VecDeque<Bytes>) {
        let mut text = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let Some(entry) = Entry::parse(line.strip_suffix(b"\n").unwrap_or(line)) else { continue };
            if self.since.is_some_and(|since| entry.nanos().is_none_or(|nanos| nanos < i128::from(since.as_micros()) * 1000)) {
                continue;
            }
            // Times only grow: whatever comes now is young enough, and need not be asked.
            self.since = None;
            if self.timestamps && self.at_line_start {
                text.extend_from_slice(entry.stamp.as_bytes());
                text.push(b' ');
            }
            text.extend_from_slice(entry.text);
            if entry.full {
                text.push(b'\n');
            }
            self.at_line_start = entry.full;
        }
        text.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= text.len() as u64;
        if !text.is_empty() {
            out.push_back(text.into());
        }
    }
}

impl Tail {
    fn take(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let Some(entry) = Entry::parse(line.strip_suffix(b"\n").unwrap_or(line)) else { continue };
            match self.kept.back_mut().filter(|_| self.open) {
                Some(last) => last.extend_from_slice(line),
                None => self.kept.push_back(line.to_owned()),
            }
            self.open = !entry.full;
            while self.kept.len() as u64 > self.lines {
                self.kept.pop_front();
            }
            // With no line to keep, an open one must not be taken for its own continuation.
            self.open &= !self.kept.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "1970-01-01T00:00:01.000000000Z stdout F one\n\
                       1970-01-01T00:00:02.000000000Z stderr P tw\n\
                       1970-01-01T00:00:02.500000000Z stderr F o\n\
                       not a line\n\
                       1970-01-01T00:00:03.000000000Z stdout F three\n\
                       1970-01-01T00:00:04.000000000Z stdout P end\n";

    fn select(options: LogOptions) -> String {
        let mut selection = Selection::new(&options, Time::from_secs(10));
        let mut out = VecDeque::new();
        for line in LOG.split_inclusive('\n') {
            selection.take(line.as_bytes(), &mut out);
        }
        selection.at_pause(&mut out);
        out.iter().map(|chunk| std::str::from_utf8(chunk).unwrap()).collect()
    }

    #[test]
    fn a_log_is_what_the_program_wrote() {
        assert_eq!(select(LogOptions::default()), "one\ntwo\nthree\nend");
    }

    #[test]
    fn a_tail_counts_lines_of_the_program() {
        for (lines, text) in [(0, ""), (1, "end"), (2, "three\nend"), (3, "two\nthree\nend"), (9, "one\ntwo\nthree\nend")] {
            assert_eq!(select(LogOptions { tail_lines: Some(lines), ..LogOptions::default() }), text, "{lines}");
        }
    }

    #[test]
    fn old_lines_are_left_out() {
        let since = |seconds| LogOptions { since_time: Some(Time::from_secs(seconds)), ..LogOptions::default() };
        assert_eq!(select(since(3)), "three\nend");
        assert_eq!(select(since(5)), "");
        assert_eq!(select(LogOptions { since_seconds: Some(6), ..LogOptions::default() }), "end");
        assert_eq!(select(LogOptions { since_seconds: Some(6), ..since(3) }), "end", "the stricter one counts");
    }

    #[test]
    fn stamps_stand_in_front_of_lines_not_of_pieces() {
        let text = select(LogOptions { timestamps: true, tail_lines: Some(3), ..LogOptions::default() });
        assert_eq!(
            text,
            "1970-01-01T00:00:02.000000000Z two\n1970-01-01T00:00:03.000000000Z three\n1970-01-01T00:00:04.000000000Z end"
        );
    }

    #[test]
    fn bytes_are_cut_at_the_end() {
        assert_eq!(select(LogOptions { limit_bytes: Some(6), ..LogOptions::default() }), "one\ntw");
        assert_eq!(select(LogOptions { limit_bytes: Some(0), ..LogOptions::default() }), "");
    }
}
