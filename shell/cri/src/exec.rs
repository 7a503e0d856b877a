//! The answer to `ExecSync`, read as it comes: what is kept of the output is bounded, whatever the command prints.

/// Bytes that are kept of each stream.
const KEPT: usize = 10_240;

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// The beginning of its output, at most 10 KiB.
    pub stdout: Vec<u8>,
    /// The beginning of its complaints, at most 10 KiB.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub exit_code: i32,
}

/// Reads an answer piece by piece.
#[derive(Debug, Default)]
pub(crate) struct ExecReader {
    output: ExecOutput,
    head: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The number of a field, so far.
    Key(u64, u32),
    /// A number, so far.
    Number { field: u64, value: u64, shift: u32 },
    /// The length of bytes, so far.
    Length { field: u64, value: u64, shift: u32 },
    /// Bytes that are still to come.
    Bytes { field: u64, left: u64 },
    /// It is no answer.
    Broken,
}

impl Default for State {
    fn default() -> State {
        State::Key(0, 0)
    }
}

impl ExecReader {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        let head = (crate::wire::FRAME_HEAD - self.head).min(bytes.len());
        if self.head == 0 && bytes.first().is_some_and(|compressed| *compressed != 0) {
            self.state = State::Broken;
        }
        self.head += head;
        bytes = &bytes[head..];
        while !bytes.is_empty() {
            if let State::Bytes { field, left } = self.state {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                self.keep(field, &bytes[..taken]);
                bytes = &bytes[taken..];
                let left = left - taken as u64;
                self.state = if left == 0 { State::default() } else { State::Bytes { field, left } };
                continue;
            }
            self.byte(bytes[0]);
            bytes = &bytes[1..];
        }
    }

    fn byte(&mut self, byte: u8) {
        let (more, bits) = (byte & 0x80 != 0, u64::from(byte & 0x7f));
        self.state = match self.state {
            State::Key(_, shift) | State::Number { shift, .. } | State::Length { shift, .. } if shift > 63 => State::Broken,
            State::Key(value, shift) => match (value | bits << shift, more) {
                (value, true) => State::Key(value, shift + 7),
                (key, false) if key & 7 == 0 => State::Number { field: key >> 3, value: 0, shift: 0 },
                (key, false) if key & 7 == 2 => State::Length { field: key >> 3, value: 0, shift: 0 },
                _ => State::Broken,
            },
            State::Number { field, value, shift } => {
                let value = value | bits << shift;
                if !more && field == 3 {
                    self.output.exit_code = i32::try_from(value.cast_signed()).unwrap_or(-1);
                }
                if more { State::Number { field, value, shift: shift + 7 } } else { State::default() }
            }
            State::Length { field, value, shift } => match (value | bits << shift, more) {
                (value, true) => State::Length { field, value, shift: shift + 7 },
                (0, false) => State::default(),
                (left, false) => State::Bytes { field, left },
            },
            State::Bytes { .. } | State::Broken => State::Broken,
        };
    }

    fn keep(&mut self, field: u64, bytes: &[u8]) {
        let into = match field {
            1 => &mut self.output.stdout,
            2 => &mut self.output.stderr,
            _ => return,
        };
        let room = KEPT - into.len();
        into.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the answer; `None`: it was none, or was cut off.
    pub(crate) fn finish(self) -> Option<ExecOutput> {
        (self.head == crate::wire::FRAME_HEAD && matches!(self.state, State::Key(0, 0))).then_some(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Message;
    use proptest::prelude::*;

    fn read(bytes: &[u8], piece: usize) -> Option<ExecOutput> {
        let mut reader = ExecReader::default();
        bytes.chunks(piece).for_each(|piece| reader.push(piece));
        reader.finish()
    }

    #[test]
    fn long_output_is_cut_and_the_exit_code_behind_it_is_read() {
        let framed = Message::default().element(1, &[b'x'; 500_000]).text(2, "bad").number(3, 7).framed();
        let output = read(&framed, 16_384).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.as_slice(), output.exit_code), (10_240, &b"bad"[..], 7));
        assert_eq!(read(&framed[..framed.len() - 1], 16_384), None, "cut off");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            stdout in prop::collection::vec(any::<u8>(), 0..300),
            stderr in prop::collection::vec(any::<u8>(), 0..300),
            exit_code in -1..256,
            piece in 1usize..40,
            junk in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let framed = Message::default().element(1, &stdout).element(2, &stderr).number(3, i64::from(exit_code)).framed();
            prop_assert_eq!(read(&framed, piece), Some(ExecOutput { stdout, stderr, exit_code }));
            let _ = read(&junk, piece);
        }
    }
}
