//! Lines of a log in CRI format: `2026-11-15T20:00:00.123456789Z stdout F text`.
//!
//! `F` ends a line of the program, `P` is a piece of one that was too long or has not ended. Joining the texts, with a line
//! feed after every `F`, gives back exactly the bytes that the program wrote.

/// Where a program wrote something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Returns the word of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// One line of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it was written, as it stands in the file.
    pub stamp: &'a str,
    /// Where it was written.
    pub stream: Stream,
    /// Whether the program's line ends here.
    pub full: bool,
    /// What was written, without the line feed.
    pub text: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Parses one line without its line feed; `None`: it is none.
    pub fn parse(line: &'a [u8]) -> Option<Entry<'a>> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let stamp = std::str::from_utf8(parts.next()?).ok()?;
        let stream = match parts.next()? {
            b"stdout" => Stream::Stdout,
            b"stderr" => Stream::Stderr,
            _ => return None,
        };
        let full = match parts.next()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Entry { stamp, stream, full, text: parts.next()? })
    }

    /// Returns when it was written, nanoseconds since the epoch.
    pub fn nanos(&self) -> Option<i128> {
        self.stamp.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_nanosecond)
    }
}

/// Writes timestamps with nine digits; the part down to the second is made once per second.
#[derive(Debug, Default)]
pub struct Stamper {
    second: i64,
    prefix: String,
}

impl Stamper {
    /// Appends the timestamp of an instant.
    pub fn append(&mut self, nanos_since_epoch: i128, out: &mut Vec<u8>) {
        let second = i64::try_from(nanos_since_epoch.div_euclid(1_000_000_000)).unwrap_or(0);
        if self.prefix.is_empty() || second != self.second {
            self.second = second;
            // A clock beyond the year 9999 prints as the epoch: the log goes on.
            let whole = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string();
            whole.trim_end_matches('Z').clone_into(&mut self.prefix);
        }
        out.extend_from_slice(self.prefix.as_bytes());
        out.push(b'.');
        let mut rest = nanos_since_epoch.rem_euclid(1_000_000_000);
        let start = out.len();
        out.resize(start + 9, b'0');
        for digit in out[start..].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
        }
        out.push(b'Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_it_was_written() {
        let line = b"2026-11-15T20:00:00.000000042Z stderr P a b  c";
        let entry = Entry::parse(line).unwrap();
        assert_eq!((entry.stream, entry.full, entry.text), (Stream::Stderr, false, &b"a b  c"[..]));
        let mut out = Vec::new();
        Stamper::default().append(entry.nanos().unwrap(), &mut out);
        assert_eq!(out, b"2026-11-15T20:00:00.000000042Z");
        assert_eq!(Entry::parse(b"2026-11-15T20:00:00Z stdout F ").unwrap().text, b"");
        for bad in [
            &b""[..],
            b"x",
            b"2026-11-15T20:00:00Z stdout",
            b"2026-11-15T20:00:00Z tty F x",
            b"2026-11-15T20:00:00Z stdout X x",
        ] {
            assert_eq!(Entry::parse(bad), None);
        }
    }

    #[test]
    fn the_second_is_renewed() {
        let mut stamper = Stamper::default();
        let mut out = Vec::new();
        for nanos in [0, 999_999_999, 1_000_000_000] {
            stamper.append(nanos, &mut out);
        }
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1970-01-01T00:00:00.000000000Z1970-01-01T00:00:00.999999999Z1970-01-01T00:00:01.000000000Z"
        );
    }
}
