//! Reading an HTTP/1 response, as far as a probe needs it: status, `Location`, and where the body ends.
//!
//! Pure, and indifferent to how the bytes were cut on their way: every function may be asked again with more of them. Lines may
//! end with a bare line feed, as Go's client allows; anything else out of shape is an error, never a guess.

/// A line of a head or between chunks; whole answers are limited by [`super::super::pace`].
const LINE_MAX: usize = 64 << 10;

/// What is wrong with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("malformed HTTP status line")]
    StatusLine,
    #[error("malformed HTTP header")]
    Header,
    #[error("bad Content-Length in HTTP response")]
    ContentLength,
    #[error("unsupported Transfer-Encoding in HTTP response")]
    TransferEncoding,
    #[error("malformed chunked encoding in HTTP response")]
    Chunk,
    #[error("HTTP response headers are too large")]
    TooLarge,
}

/// Status line and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) framing: Framing,
}

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What has arrived and is not used yet; every byte is looked at once, however the bytes were cut on their way.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// What lies before is used.
    start: usize,
    /// No line ends between `start` and here.
    searched: usize,
}

impl Buffer {
    pub(super) fn with_capacity(capacity: usize) -> Buffer {
        Buffer { bytes: Vec::with_capacity(capacity), ..Buffer::default() }
    }

    /// Returns the bytes to append to, with room for so many more.
    pub(super) fn room(&mut self, length: usize) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.bytes.reserve(length);
        &mut self.bytes
    }

    /// Returns all that is there.
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Uses so many bytes.
    fn skip(&mut self, length: usize) {
        self.start += length;
        self.searched = self.searched.max(self.start);
    }

    /// Uses a line and returns it without its end; `None`: it is not complete.
    fn line(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return if self.bytes.len() - self.start > LINE_MAX { Err(Malformed::TooLarge) } else { Ok(None) };
        };
        let (start, end) = (self.start, self.searched + end);
        (self.start, self.searched) = (end + 1, end + 1);
        let line = &self.bytes[start..end];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// Reads one head.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    status: Option<u16>,
    fields: Fields,
}

impl HeadReader {
    /// Takes what it can use; `None`: the head is not complete.
    pub(super) fn take(&mut self, buffer: &mut Buffer) -> Result<Option<Head>, Malformed> {
        let start = buffer.rest();
        // A wrong beginning need not be waited for: a TLS or HTTP/2 server will never say more.
        if self.status.is_none() && !b"HTTP/".starts_with(&start[..start.len().min(5)]) {
            return Err(Malformed::StatusLine);
        }
        while let Some(line) = buffer.line()? {
            match self.status {
                None => self.status = Some(status(line).ok_or(Malformed::StatusLine)?),
                Some(status) if line.is_empty() => return Ok(Some(self.head(status))),
                Some(_) => self.fields.take(line)?,
            }
        }
        Ok(None)
    }

    fn head(&mut self, status: u16) -> Head {
        let framing = match &self.fields {
            _ if status < 200 || status == 204 || status == 304 => Framing::Length(0),
            Fields { chunked: true, .. } => Framing::Chunked,
            Fields { length: Some(length), .. } => Framing::Length(*length),
            Fields { .. } => Framing::UntilClose,
        };
        Head { status, location: self.fields.location.take(), framing }
    }
}

/// Parses `HTTP/1.1 200 OK`; the reason may be missing.
fn status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [version, b' ', a, b, c, rest @ ..] = rest else { return None };
    let ends = rest.is_empty() || rest[0] == b' ';
    let digits = [a, b, c];
    if !version.is_ascii_digit() || !ends || !digits.iter().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(**digit - b'0'));
    Some(code).filter(|code| *code >= 100)
}

/// The headers that matter.
#[derive(Debug, Default)]
struct Fields {
    location: Option<String>,
    length: Option<u64>,
    chunked: bool,
}

impl Fields {
    fn take(&mut self, line: &[u8]) -> Result<(), Malformed> {
        // A line that goes on from the one before: obsolete, and of none of the headers that matter.
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Ok(());
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(Malformed::Header)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace()) {
            return Err(Malformed::Header);
        }
        if name.eq_ignore_ascii_case(b"location") && self.location.is_none() {
            self.location = Some(String::from_utf8_lossy(value).into_owned());
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = length.and_then(|text| text.parse().ok()).ok_or(Malformed::ContentLength)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(Malformed::ContentLength);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed::TransferEncoding);
            }
            self.chunked = true;
        }
        Ok(())
    }
}

/// Takes a body apart.
#[derive(Debug)]
pub(super) struct Body {
    state: ParserState,
    max: usize,
    /// What has arrived, at most `max` bytes.
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    /// So many bytes of data follow.
    Data(u64),
    /// Data follows until the connection ends.
    UntilClose,
    /// The size of a chunk follows.
    ChunkSize,
    /// So many bytes of a chunk follow.
    ChunkData(u64),
    /// The line feed behind a chunk follows.
    ChunkEnd,
    /// Lines behind the last chunk follow, up to an empty one.
    Trailer,
    /// All of it is there.
    Complete,
}

impl Body {
    /// Expects a body of which `max` bytes are wanted.
    pub(super) fn new(framing: Framing, max: usize) -> Body {
        let state = match framing {
            Framing::Length(0) => ParserState::Complete,
            Framing::Length(length) => ParserState::Data(length),
            Framing::Chunked => ParserState::ChunkSize,
            Framing::UntilClose => ParserState::UntilClose,
        };
        Body { state, max, bytes: Vec::new() }
    }

    /// Returns whether nothing more need be read.
    pub(super) fn is_done(&self) -> bool {
        self.state == ParserState::Complete || self.bytes.len() >= self.max
    }

    /// Returns whether the body is whole if the connection ends now.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.state, ParserState::Complete | ParserState::UntilClose) || self.bytes.len() >= self.max
    }

    /// Takes what it can use.
    pub(super) fn take(&mut self, buffer: &mut Buffer) -> Result<(), Malformed> {
        while !self.is_done() {
            let before = buffer.rest().len();
            match self.state {
                ParserState::UntilClose => drop(self.data(buffer, u64::MAX)),
                ParserState::Data(left) => {
                    let left = self.data(buffer, left);
                    self.state = if left == 0 { ParserState::Complete } else { ParserState::Data(left) };
                }
                ParserState::ChunkData(left) => {
                    let left = self.data(buffer, left);
                    self.state = if left == 0 { ParserState::ChunkEnd } else { ParserState::ChunkData(left) };
                }
                ParserState::ChunkSize | ParserState::ChunkEnd | ParserState::Trailer => self.line(buffer)?,
                ParserState::Complete => {}
            }
            if buffer.rest().len() == before {
                break;
            }
        }
        Ok(())
    }

    /// Takes data; returns how much of `left` is still to come.
    fn data(&mut self, buffer: &mut Buffer, left: u64) -> u64 {
        let bytes = buffer.rest();
        let length = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let kept = length.min(self.max - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        buffer.skip(length);
        left - length as u64
    }

    /// Takes a line between data, if it is complete.
    fn line(&mut self, buffer: &mut Buffer) -> Result<(), Malformed> {
        let Some(line) = buffer.line()? else { return Ok(()) };
        self.state = match (self.state, line) {
            (ParserState::ChunkEnd, b"") => ParserState::ChunkSize,
            (ParserState::ChunkEnd, _) => return Err(Malformed::Chunk),
            (ParserState::Trailer, b"") => ParserState::Complete,
            (ParserState::Trailer, _) => ParserState::Trailer,
            (_, line) => match chunk_size(line).ok_or(Malformed::Chunk)? {
                0 => ParserState::Trailer,
                size => ParserState::ChunkData(size),
            },
        };
        Ok(())
    }
}

/// Parses the size of a chunk; what follows a semicolon is of no interest.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let text = std::str::from_utf8(size).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Result<Option<(u16, Option<String>, Framing)>, Malformed> {
        let mut buffer = Buffer::default();
        buffer.room(0).extend_from_slice(text.as_bytes());
        let head = HeadReader::default().take(&mut buffer)?;
        assert!(head.is_none() || buffer.rest().is_empty(), "all of it is used");
        Ok(head.map(|head| (head.status, head.location, head.framing)))
    }

    #[test]
    fn heads_are_read() {
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), Ok(Some((200, None, Framing::Length(2)))));
        assert_eq!(head("HTTP/1.0 503\n\n"), Ok(Some((503, None, Framing::UntilClose))));
        assert_eq!(
            head("HTTP/1.1 302 Found\r\nlocation:  /x \r\nLocation: /y\r\ntransfer-encoding: Chunked\r\n\r\n"),
            Ok(Some((302, Some("/x".to_owned()), Framing::Chunked)))
        );
        assert_eq!(head("HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n"), Ok(Some((204, None, Framing::Length(0)))));
        assert_eq!(head("HTTP/1.1 100 Continue\r\n\r\n"), Ok(Some((100, None, Framing::Length(0)))));
        assert_eq!(head("HTTP/1.1 200 OK\r\nX: a\r\n b: folded\r\n\r\n"), Ok(Some((200, None, Framing::UntilClose))));
    }

    #[test]
    fn heads_out_of_shape_are_refused() {
        for (text, error) in [
            ("HTTP/2.0 200 OK\r\n\r\n", Malformed::StatusLine),
            ("HTTP/1.1 2000 OK\r\n\r\n", Malformed::StatusLine),
            ("HTTP/1.1 20 OK\r\n\r\n", Malformed::StatusLine),
            ("HTTP/1.1 099 OK\r\n\r\n", Malformed::StatusLine),
            ("\u{15}\u{3}\u{1}", Malformed::StatusLine),
            ("220 smtp.example.com\r\n", Malformed::StatusLine),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Malformed::Header),
            ("HTTP/1.1 200 OK\r\nname : x\r\n\r\n", Malformed::Header),
            ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Malformed::ContentLength),
            ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n", Malformed::ContentLength),
            ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", Malformed::ContentLength),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", Malformed::TransferEncoding),
        ] {
            assert_eq!(head(text), Err(error), "{text:?}");
        }
        for text in ["", "HTT", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n"] {
            assert_eq!(head(text), Ok(None), "{text:?}");
        }
        assert_eq!(head(&format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(LINE_MAX))), Err(Malformed::TooLarge));
    }

    /// Feeds a body in pieces that end at `cuts`.
    fn body(framing: Framing, max: usize, bytes: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, bool, bool), Malformed> {
        let mut body = Body::new(framing, max);
        let mut buffer = Buffer::default();
        let mut start = 0;
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]).collect();
        ends.sort_unstable();
        for end in ends {
            buffer.room(0).extend_from_slice(&bytes[start..end]);
            body.take(&mut buffer)?;
            start = end;
        }
        let (done, whole) = (body.is_done(), body.is_whole());
        Ok((body.bytes, done, whole))
    }

    #[test]
    fn bodies_end_where_they_should() {
        let run = |framing, text: &str| {
            body(framing, 10, text.as_bytes(), &[]).map(|(bytes, done, whole)| (String::from_utf8(bytes).unwrap(), done, whole))
        };
        assert_eq!(run(Framing::Length(2), "okay"), Ok(("ok".to_owned(), true, true)));
        assert_eq!(run(Framing::Length(5), "ok"), Ok(("ok".to_owned(), false, false)));
        assert_eq!(run(Framing::UntilClose, "ok"), Ok(("ok".to_owned(), false, true)));
        assert_eq!(run(Framing::Length(50), "0123456789abc"), Ok(("0123456789".to_owned(), true, true)));
        assert_eq!(run(Framing::Chunked, "2\r\nok\r\n3;x=y\r\nay!\r\n0\r\nT: t\r\n\r\n"), Ok(("okay!".to_owned(), true, true)));
        assert_eq!(run(Framing::Chunked, "2\r\nok\r\n0\r\n"), Ok(("ok".to_owned(), false, false)));
        assert_eq!(run(Framing::Chunked, "x\r\n"), Err(Malformed::Chunk));
        assert_eq!(run(Framing::Chunked, "2\r\nokay\r\n"), Err(Malformed::Chunk));
        assert_eq!(run(Framing::Chunked, "11111111111111111\r\n"), Err(Malformed::Chunk));
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            max in 1usize..120,
            cuts in prop::collection::vec(any::<usize>(), 0..8),
        ) {
            let data = chunks.concat();
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let kept = data[..data.len().min(max)].to_vec();
            prop_assert_eq!(body(Framing::Chunked, max, &wire, &cuts), Ok((kept.clone(), true, true)));
            if !data.is_empty() {
                prop_assert_eq!(body(Framing::Length(data.len() as u64), max, &data, &cuts), Ok((kept, true, true)));
            }
        }

        #[test]
        fn nothing_that_arrives_can_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
            for bytes in [bytes.clone(), [b"HTTP/1.1 200 OK\r\n", &bytes[..], b"\r\n\r\n"].concat()] {
                let mut buffer = Buffer::default();
                buffer.room(0).extend_from_slice(&bytes);
                let _ = HeadReader::default().take(&mut buffer);
            }
            let _ = body(Framing::Chunked, 50, &bytes, &cuts);
        }
    }
}
