//! Frames of WebSocket (RFC 6455), from the side of a server.

/// A message that is longer than this ends the connection; clients of Kubernetes write some ten kilobytes at a time.
pub const MESSAGE_MAX: usize = 1 << 20;
/// What is added to the key of a client to prove that its request was understood.
pub const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;

/// A connection that ends as both sides want.
pub const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const TOO_BIG: u16 = 1009;

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// A message, put together.
    Message(Vec<u8>),
    /// It wants to hear the same bytes in a [`pong`].
    Ping(Vec<u8>),
    /// It sends nothing more.
    Close,
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketError {
    /// The client breaks the protocol.
    #[error("the client breaks the protocol of WebSocket: {0}")]
    Protocol(&'static str),
    /// A message is too long.
    #[error("a message of the client is longer than {MESSAGE_MAX} bytes")]
    TooBig,
}

impl WebSocketError {
    /// Returns the code of the frame that tells the client.
    pub fn code(self) -> u16 {
        match self {
            WebSocketError::Protocol(_) => PROTOCOL_ERROR,
            WebSocketError::TooBig => TOO_BIG,
        }
    }
}

/// Reads what a client sends.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// What has come of a message in several frames.
    message: Option<Vec<u8>>,
}

impl Decoder {
    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next event; `None`: more bytes are needed.
    pub fn next_event(&mut self) -> Result<Option<SocketEvent>, WebSocketError> {
        loop {
            let Some(head) = Head::read(&self.bytes)? else { return Ok(None) };
            let begun = self.message.as_ref().map_or(0, Vec::len);
            if head.length.saturating_add(begun) > MESSAGE_MAX {
                return Err(WebSocketError::TooBig);
            }
            if self.bytes.len() < head.size + head.length {
                return Ok(None);
            }
            let payload = head.unmask(&self.bytes);
            self.bytes.drain(..head.size + head.length);
            if let Some(event) = self.take(&head, payload)? {
                return Ok(Some(event));
            }
        }
    }

    /// Takes one frame; returns what it completes.
    fn take(&mut self, head: &Head, payload: Vec<u8>) -> Result<Option<SocketEvent>, WebSocketError> {
        let begun = match (head.opcode, self.message.take()) {
            (PING, begun) => {
                self.message = begun;
                return Ok(Some(SocketEvent::Ping(payload)));
            }
            (PONG, begun) => {
                self.message = begun;
                return Ok(None);
            }
            (CLOSE, _) => return Ok(Some(SocketEvent::Close)),
            (BINARY | TEXT, None) => payload,
            (CONTINUATION, Some(mut begun)) => {
                begun.extend_from_slice(&payload);
                begun
            }
            (BINARY | TEXT, Some(_)) => return Err(WebSocketError::Protocol("a message begins inside of another")),
            (CONTINUATION, None) => return Err(WebSocketError::Protocol("nothing is to be continued")),
            _ => return Err(WebSocketError::Protocol("a frame of unknown kind")),
        };
        if head.last {
            return Ok(Some(SocketEvent::Message(begun)));
        }
        self.message = Some(begun);
        Ok(None)
    }
}

/// What a frame begins with.
struct Head {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    /// Bytes before the payload.
    size: usize,
    length: usize,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Option<Head>, WebSocketError> {
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(WebSocketError::Protocol("extensions were not agreed on"));
        }
        if second & 0x80 == 0 {
            return Err(WebSocketError::Protocol("frames of clients are masked"));
        }
        let (opcode, last) = (first & 0x0f, first & FINAL != 0);
        let (length, after) = match (second & 0x7f, rest) {
            (126, &[a, b, ref after @ ..]) => (u64::from(u16::from_be_bytes([a, b])), after),
            (127, &[a, b, c, d, e, f, g, h, ref after @ ..]) => (u64::from_be_bytes([a, b, c, d, e, f, g, h]), after),
            (126 | 127, _) => return Ok(None),
            (short, after) => (u64::from(short), after),
        };
        if opcode >= CLOSE && (length > 125 || !last) {
            return Err(WebSocketError::Protocol("a control frame is short and whole"));
        }
        let length = usize::try_from(length).map_err(|_| WebSocketError::TooBig)?;
        let &[a, b, c, d, ref payload @ ..] = after else { return Ok(None) };
        Ok(Some(Head { opcode, last, mask: [a, b, c, d], size: bytes.len() - payload.len(), length }))
    }

    fn unmask(&self, bytes: &[u8]) -> Vec<u8> {
        let payload = &bytes[self.size..self.size + self.length];
        payload.iter().zip(self.mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
    }
}

/// Returns a message to a client, of several parts that follow each other.
pub fn message(parts: &[&[u8]]) -> Vec<u8> {
    frame(BINARY, parts)
}

/// Returns the answer to a ping.
pub fn pong(payload: &[u8]) -> Vec<u8> {
    frame(PONG, &[payload])
}

/// Returns the last frame of a connection.
pub fn close(code: u16) -> Vec<u8> {
    frame(CLOSE, &[&code.to_be_bytes()])
}

fn frame(opcode: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(length + 10);
    frame.push(FINAL | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => frame.push(short),
        (_, Ok(middle)) => {
            frame.push(126);
            frame.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a frame as a client writes it.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [7, 0, 201, 90];
        let mut plain = frame(first & 0x0f, &[payload]);
        plain[0] = first;
        plain[1] |= 0x80;
        let at = plain.len() - payload.len();
        let masked: Vec<u8> = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        [&plain[..at], &mask, &masked].concat()
    }

    fn all(bytes: &[u8], step: usize) -> Result<Vec<SocketEvent>, WebSocketError> {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        for part in bytes.chunks(step) {
            decoder.push(part);
            while let Some(event) = decoder.next_event()? {
                events.push(event);
            }
        }
        Ok(events)
    }

    #[test]
    fn messages_in_parts_are_put_together_around_a_ping() {
        let bytes = [sent(BINARY, b"ab"), sent(FINAL | PING, b"?"), sent(CONTINUATION, b"c"), sent(FINAL, b"d")].concat();
        let expected = vec![SocketEvent::Ping(b"?".to_vec()), SocketEvent::Message(b"abcd".to_vec())];
        for step in 1..bytes.len() {
            assert_eq!(all(&bytes, step), Ok(expected.clone()), "{step} bytes at a time");
        }
        assert_eq!(all(&sent(FINAL | CLOSE, &[3, 232]), 3), Ok(vec![SocketEvent::Close]));
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let refused = |bytes: &[u8]| matches!(all(bytes, 99), Err(WebSocketError::Protocol(_)));
        assert!(refused(&message(&[b"not masked"])));
        assert!(refused(&sent(FINAL, b"continues nothing")));
        assert!(refused(&[sent(BINARY, b"a"), sent(BINARY, b"b")].concat()));
        assert!(refused(&sent(0x40 | FINAL | BINARY, b"an extension")));
        assert!(refused(&sent(FINAL | 3, b"of unknown kind")));
        assert!(refused(&sent(PING, b"in parts")));
        let long = [&[FINAL | BINARY, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
        assert_eq!(all(&long, 99), Err(WebSocketError::TooBig));
        let half = vec![1; MESSAGE_MAX / 2 + 1];
        assert_eq!(all(&[sent(BINARY, &half), sent(FINAL, &half)].concat(), 9999), Err(WebSocketError::TooBig));
    }

    #[test]
    fn frames_to_clients_say_their_length() {
        assert_eq!(message(&[&[1], b"ab"]), [0x82, 3, 1, b'a', b'b']);
        assert_eq!(message(&[&[0; 126]])[..4], [0x82, 126, 0, 126]);
        assert_eq!(message(&[&vec![0; 65536]])[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(close(NORMAL), [0x88, 2, 3, 232]);
        assert_eq!(pong(b"x"), [0x8a, 1, b'x']);
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1usize..50) {
            let _ = all(&bytes, step);
        }

        #[test]
        fn messages_of_any_length_arrive(payload in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            prop_assert_eq!(all(&sent(FINAL | BINARY, &payload), 8192), Ok(vec![SocketEvent::Message(payload)]));
        }
    }
}
