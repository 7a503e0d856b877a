//! Connections to ports of a pod, many over one connection of SPDY frames: `portforward.k8s.io`.
//!
//! For each connection a client opens two streams with the same request: one for bytes, one on which it hears why there are
//! none. What they are for is in their headers.

use std::collections::BTreeMap;

use crate::spdy::{self, Decoder, Encoder, Frame, SpdyError};

/// The protocol, as a client asks for it inside of a WebSocket.
pub const PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
/// Connections at once over one connection; more are refused.
pub const CONNECTIONS_MAX: usize = 500;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this to the client.
    Send(Vec<u8>),
    /// Connect to a port of the pod.
    Connect {
        /// The name of the connection from now on.
        stream: u32,
        /// The port.
        port: u16,
    },
    /// Write to a connection.
    Write {
        /// Its name.
        stream: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The client writes nothing more to a connection.
    EndOfInput(u32),
    /// A connection is given up.
    Drop(u32),
    /// The client begins nothing more.
    GoAway,
}

/// The connections of a client.
#[derive(Debug, Default)]
pub struct Forwards {
    decoder: Decoder,
    encoder: Encoder,
    /// Streams of bytes, with the request that they belong to.
    connections: BTreeMap<u32, String>,
    /// Streams of errors by their request.
    errors: BTreeMap<String, u32>,
}

impl Forwards {
    /// Takes bytes of the client.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Vec<Effect>, SpdyError> {
        self.decoder.push(bytes);
        let mut effects = Vec::new();
        while let Some(frame) = self.decoder.next_frame()? {
            self.take(frame, &mut effects);
        }
        Ok(effects)
    }

    fn take(&mut self, frame: Frame, effects: &mut Vec<Effect>) {
        match frame {
            Frame::Open { stream, headers } => self.open(stream, &headers, effects),
            Frame::Data { stream, bytes, last } if self.connections.contains_key(&stream) => {
                if !bytes.is_empty() {
                    effects.push(Effect::Write { stream, bytes });
                }
                if last {
                    effects.push(Effect::EndOfInput(stream));
                }
            }
            Frame::Reset(stream) if self.connections.contains_key(&stream) => {
                effects.push(Effect::Drop(stream));
                effects.push(Effect::Send(self.forget(stream, None)));
            }
            Frame::Ping(id) => effects.push(Effect::Send(spdy::pong(id))),
            Frame::GoAway => effects.push(Effect::GoAway),
            // Of a stream that has ended, or one on which only we write.
            Frame::Data { .. } | Frame::Reset(_) => {}
        }
    }

    fn open(&mut self, stream: u32, headers: &[(String, String)], effects: &mut Vec<Effect>) {
        let header = |name: &str| headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
        let request = header("requestid").to_owned();
        let full = self.connections.len() >= CONNECTIONS_MAX || self.errors.len() >= CONNECTIONS_MAX;
        match (header("streamtype"), header("port").parse()) {
            ("error", Ok(1..=u16::MAX)) if !full => {
                effects.push(Effect::Send(self.encoder.reply(stream)));
                self.errors.insert(request, stream);
            }
            ("data", Ok(port @ 1..=u16::MAX)) if !full => {
                effects.push(Effect::Send(self.encoder.reply(stream)));
                self.connections.insert(stream, request);
                effects.push(Effect::Connect { stream, port });
            }
            _ => effects.push(Effect::Send(spdy::refuse(stream))),
        }
    }

    /// Returns what the client is sent when a connection has brought bytes.
    pub fn data(&self, stream: u32, bytes: &[u8]) -> Vec<u8> {
        if self.connections.contains_key(&stream) { spdy::data(stream, bytes) } else { Vec::new() }
    }

    /// Returns what the client is sent when a connection has ended, or could not be made.
    pub fn ended(&mut self, stream: u32, why: Option<&str>) -> Vec<u8> {
        if !self.connections.contains_key(&stream) {
            return Vec::new();
        }
        let end = spdy::end(stream);
        [self.forget(stream, why), end].concat()
    }

    /// Ends the stream of errors that belongs to a connection, and forgets both.
    fn forget(&mut self, stream: u32, why: Option<&str>) -> Vec<u8> {
        let request = self.connections.remove(&stream).unwrap_or_default();
        let Some(error) = self.errors.remove(&request) else { return Vec::new() };
        let text = why.map_or_else(Vec::new, |why| spdy::data(error, why.as_bytes()));
        [text, spdy::end(error)].concat()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns what kubectl sends for its first connection; the headers were compressed by zlib.
    pub(crate) fn two_streams() -> Vec<u8> {
        let error = "78f9e3c6a7c202253a48f95b044eea16061606409ab308125f99a074cc68004e892545a989b9d0c2863515141500000000ffff";
        let data = "225333a8a44a04000000ffff";
        let open = |stream: u8, hex: &str| {
            let block: Vec<u8> =
                (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
            let length = u8::try_from(10 + block.len()).unwrap();
            [&[0x80, 3, 0, 1, 0, 0, 0, length, 0, 0, 0, stream, 0, 0, 0, 0, 0, 0], block.as_slice()].concat()
        };
        [open(1, error), spdy::end(1), open(3, data)].concat()
    }

    fn connected() -> Forwards {
        let mut forwards = Forwards::default();
        let effects = forwards.read(&two_streams()).unwrap();
        assert!(matches!(effects[..], [Effect::Send(_), Effect::Send(_), Effect::Connect { stream: 3, port: 8080 }]));
        forwards
    }

    #[test]
    fn bytes_go_both_ways() {
        let mut forwards = connected();
        let sent = [spdy::data(3, b"ping"), spdy::end(3)].concat();
        let expected = vec![Effect::Write { stream: 3, bytes: b"ping".to_vec() }, Effect::EndOfInput(3)];
        assert_eq!(forwards.read(&sent).unwrap(), expected);
        assert_eq!(forwards.data(3, b"pong"), spdy::data(3, b"pong"));
        assert_eq!(forwards.ended(3, None), [spdy::end(1), spdy::end(3)].concat(), "the client waits for both");
        assert_eq!(forwards.ended(3, None), Vec::<u8>::new(), "once");
        assert_eq!(forwards.data(3, b"late"), Vec::<u8>::new());
    }

    #[test]
    fn why_there_is_no_connection_is_said_on_the_other_stream() {
        let mut forwards = connected();
        let expected = [spdy::data(1, b"refused"), spdy::end(1), spdy::end(3)].concat();
        assert_eq!(forwards.ended(3, Some("refused")), expected);
    }

    #[test]
    fn a_client_may_give_up() {
        let mut forwards = connected();
        let reset = [0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 5];
        assert_eq!(forwards.read(&reset).unwrap(), vec![Effect::Drop(3), Effect::Send(spdy::end(1))]);
        assert_eq!(forwards.read(&reset).unwrap(), vec![]);
        assert_eq!(forwards.read(&spdy::pong(9)).unwrap(), vec![Effect::Send(spdy::pong(9))]);
    }

    #[test]
    fn streams_of_other_kinds_are_refused() {
        let mut forwards = Forwards::default();
        for headers in [&[][..], &[("streamtype", "data")], &[("streamtype", "data"), ("port", "0")], &[("port", "80")]] {
            let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let mut effects = Vec::new();
            forwards.open(5, &headers, &mut effects);
            assert_eq!(effects, vec![Effect::Send(spdy::refuse(5))]);
        }
    }
}
