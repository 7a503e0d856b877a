//! Which lines of a log are wanted, and how they look.
//!
//! Order as in the kubelet: the tail is cut first, then what is too old, then the bytes. A line of the program counts once,
//! however many pieces the log has of it.
//!
//! The tail takes two readings: one counts lines, one passes over those that are too many. Nothing is kept in between: a
//! line can be as long as the log.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use machine::Time;

use super::LogOptions;
use super::cri::Entry;

/// The state of one selection.
#[derive(Debug)]
pub(super) struct Selection {
    /// What the tail has come to; `None`: everything is wanted from here on.
    tail: Option<Tail>,
    since: Option<Time>,
    timestamps: bool,
    left: u64,
    /// Whether the last piece ended a line of the program.
    at_line_start: bool,
}

#[derive(Debug)]
enum Tail {
    /// The lines that ended in each file, and whether one has not ended.
    Count { wanted: u64, ended: BTreeMap<u64, u64>, open: bool },
    /// So many lines that end, and the one that does not if it is one too many, are passed over.
    Skip { lines: u64, open: bool },
}

/// What to do when all that was there has been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nothing: what comes next is new.
    GoOn,
    /// To read all of it again from its beginning.
    Rewind,
}

impl Selection {
    pub(super) fn new(options: &LogOptions, now: Time) -> Selection {
        let seconds_ago = options
            .since_seconds
            .map(|seconds| Time::from_micros(now.as_micros().saturating_sub(seconds.saturating_mul(1_000_000))));
        Selection {
            tail: options.tail_lines.map(|wanted| Tail::Count { wanted, ended: BTreeMap::new(), open: false }),
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

    /// Returns whether the lines are only counted yet.
    pub(super) fn is_counting(&self) -> bool {
        matches!(self.tail, Some(Tail::Count { .. }))
    }

    /// Takes entries of a file, each with its line feed.
    pub(super) fn take(&mut self, file: u64, mut lines: &[u8], out: &mut VecDeque<Bytes>) {
        match &mut self.tail {
            Some(Tail::Count { ended, open, .. }) => {
                for full in lines.split_inclusive(|byte| *byte == b'\n').filter_map(is_full) {
                    *ended.entry(file).or_default() += u64::from(full);
                    *open = !full;
                }
                return;
            }
            Some(Tail::Skip { lines: left, open }) => {
                while *left > 0 && !lines.is_empty() {
                    let end = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| at + 1);
                    *left -= u64::from(is_full(&lines[..end]) == Some(true));
                    lines = &lines[end..];
                }
                if *left > 0 || *open {
                    return;
                }
            }
            None => {}
        }
        self.emit(lines, out);
    }

    /// Says that all that was there has been read.
    pub(super) fn at_pause(&mut self) -> Pause {
        match self.tail.take() {
            counted @ Some(Tail::Count { .. }) => {
                self.tail = counted;
                Pause::Rewind
            }
            Some(Tail::Skip { .. }) | None => Pause::GoOn,
        }
    }

    /// Says that reading begins again, with this file; those before it may be gone by now.
    pub(super) fn rewound(&mut self, first: u64) {
        if let Some(Tail::Count { wanted, ended, open }) = &self.tail {
            let there = ended.range(first..).map(|(_, lines)| lines).sum::<u64>();
            let (wanted, lines) = (*wanted, there + u64::from(*open));
            let surplus = lines.saturating_sub(wanted);
            self.tail = Some(Tail::Skip { lines: surplus.min(there), open: surplus > there });
        }
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

/// Returns whether an entry ends a line of the program; `None`: it is no entry.
fn is_full(line: &[u8]) -> Option<bool> {
    Entry::parse(line.strip_suffix(b"\n").unwrap_or(line)).map(|entry| entry.full)
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
        loop {
            for line in LOG.split_inclusive('\n') {
                selection.take(7, line.as_bytes(), &mut out);
            }
            if selection.at_pause() == Pause::GoOn {
                break;
            }
            selection.rewound(7);
        }
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

    #[test]
    fn files_that_are_gone_by_the_second_reading_are_not_counted() {
        let entry = |text: &str| format!("1970-01-01T00:00:01.000000000Z stdout F {text}\n");
        let mut selection = Selection::new(&LogOptions { tail_lines: Some(2), ..LogOptions::default() }, Time::ZERO);
        let mut out = VecDeque::new();
        selection.take(1, entry("one").repeat(100).as_bytes(), &mut out);
        selection.take(2, (entry("two") + &entry("three") + &entry("four")).as_bytes(), &mut out);
        assert_eq!(selection.at_pause(), Pause::Rewind);
        selection.rewound(2);
        selection.take(2, (entry("two") + &entry("three") + &entry("four")).as_bytes(), &mut out);
        assert_eq!(selection.at_pause(), Pause::GoOn);
        assert_eq!(out.iter().map(|chunk| std::str::from_utf8(chunk).unwrap()).collect::<String>(), "three\nfour\n");
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let piece = format!("1970-01-01T00:00:01.000000000Z stdout P {}\n", "x".repeat(16_000));
        let mut selection = Selection::new(&LogOptions { tail_lines: Some(1), ..LogOptions::default() }, Time::ZERO);
        let mut out = VecDeque::new();
        for _ in 0..1_000 {
            selection.take(1, piece.as_bytes(), &mut out);
        }
        assert!(out.is_empty() && format!("{selection:?}").len() < 1_000, "the first reading counts, and keeps nothing");
        assert_eq!(selection.at_pause(), Pause::Rewind);
        selection.rewound(1);
        selection.take(1, piece.as_bytes(), &mut out);
        assert_eq!(out.pop_front().unwrap().len(), 16_000, "the second one passes on what it reads");
    }
}
