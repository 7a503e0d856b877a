//! Frames of SPDY/3.1, from the side of a server: as much as clients of Kubernetes use to forward ports.
//!
//! Windows are neither given nor heeded, as by every component of Kubernetes that speaks it.

use crate::inflate::{Inflate, InflateError};

/// A frame that is longer than this ends the connection.
pub const FRAME_MAX: usize = 1 << 20;

const CONTROL: u8 = 0x80;
const VERSION: u8 = 3;
const SYN_STREAM: u8 = 1;
const SYN_REPLY: u8 = 2;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const HEADERS: u8 = 8;
const FIN: u8 = 1;
/// Why a stream is reset: there is no room for it.
const REFUSED_STREAM: u32 = 3;
/// The longest frame of data that is written.
const DATA_MAX: usize = (1 << 24) - 1;

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A stream begins.
    Open {
        /// Its number.
        stream: u32,
        /// What it is for.
        headers: Vec<(String, String)>,
    },
    /// Bytes of a stream.
    Data {
        /// Its number.
        stream: u32,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether the client sends nothing more on it.
        last: bool,
    },
    /// A stream is given up.
    Reset(u32),
    /// It wants to see that somebody is there: the same bytes go back.
    Ping(u32),
    /// The client begins nothing more.
    GoAway,
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// The client breaks the protocol.
    #[error("the client breaks the protocol of SPDY: {0}")]
    Protocol(&'static str),
    /// Its headers cannot be read.
    #[error(transparent)]
    Headers(#[from] InflateError),
}

/// Reads what a client sends.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    headers: Inflate,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { bytes: Vec::new(), headers: Inflate::new(dictionary()) }
    }
}

impl Decoder {
    /// Takes bytes as they come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame; `None`: more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, SpdyError> {
        loop {
            let &[a, b, c, d, flags, x, y, z, ref rest @ ..] = self.bytes.as_slice() else { return Ok(None) };
            let length = u32::from_be_bytes([0, x, y, z]) as usize;
            if length > FRAME_MAX {
                return Err(SpdyError::Protocol("a frame is too long"));
            }
            let Some(payload) = rest.get(..length) else { return Ok(None) };
            let payload = payload.to_vec();
            self.bytes.drain(..8 + length);
            if a & CONTROL == 0 {
                let stream = u32::from_be_bytes([a, b, c, d]);
                return Ok(Some(Frame::Data { stream, bytes: payload, last: flags & FIN != 0 }));
            }
            if [a, b, c] != [CONTROL, VERSION, 0] {
                return Err(SpdyError::Protocol("it is not of version 3"));
            }
            if let Some(frame) = self.control(d, &payload)? {
                return Ok(Some(frame));
            }
        }
    }

    fn control(&mut self, kind: u8, payload: &[u8]) -> Result<Option<Frame>, SpdyError> {
        let number = || match *payload {
            [a, b, c, d, ..] => Ok(u32::from_be_bytes([a & 0x7f, b, c, d])),
            _ => Err(SpdyError::Protocol("a frame is too short")),
        };
        match kind {
            SYN_STREAM => {
                let block = payload.get(10..).ok_or(SpdyError::Protocol("a frame is too short"))?;
                let block = self.headers.part(block)?;
                let headers = headers(&block).ok_or(SpdyError::Protocol("headers are cut off"))?;
                Ok(Some(Frame::Open { stream: number()?, headers }))
            }
            // Of no interest, but the compression goes on behind them.
            SYN_REPLY | HEADERS => {
                let block = payload.get(4..).ok_or(SpdyError::Protocol("a frame is too short"))?;
                self.headers.part(block)?;
                Ok(None)
            }
            RST_STREAM => Ok(Some(Frame::Reset(number()?))),
            PING => Ok(Some(Frame::Ping(number()?))),
            GOAWAY => Ok(Some(Frame::GoAway)),
            _ => Ok(None),
        }
    }
}

/// Reads a block of headers; `None`: it is cut off.
fn headers(mut block: &[u8]) -> Option<Vec<(String, String)>> {
    let number = |block: &mut &[u8]| {
        let (first, rest) = block.split_first_chunk::<4>()?;
        *block = rest;
        usize::try_from(u32::from_be_bytes(*first)).ok()
    };
    let count = number(&mut block)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let mut text = || {
            let length = number(&mut block)?;
            let (text, rest) = block.split_at_checked(length)?;
            block = rest;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        found.push((text()?, text()?));
    }
    Some(found)
}

/// Writes what a server sends.
#[derive(Debug, Default)]
pub struct Encoder {
    replied: bool,
}

impl Encoder {
    /// Returns the answer to a stream that begins: it is accepted, without headers.
    pub fn reply(&mut self, stream: u32) -> Vec<u8> {
        // A stored block, then an empty one: without this flush the reader asks for more before it gives out what it has. The
        // first reply begins the compressed stream.
        let begin: &[u8] = if self.replied { &[] } else { &[0x78, 0x01] };
        self.replied = true;
        control(SYN_REPLY, &[&stream.to_be_bytes(), begin, &[0, 4, 0, 0xfb, 0xff], &[0; 4], &[0, 0, 0, 0xff, 0xff]])
    }
}

/// Returns bytes of a stream.
pub fn data(stream: u32, bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(DATA_MAX).flat_map(|bytes| data_frame(stream, 0, bytes)).collect()
}

/// Returns the end of a stream in this direction.
pub fn end(stream: u32) -> Vec<u8> {
    data_frame(stream, FIN, &[])
}

/// Returns the refusal of a stream.
pub fn refuse(stream: u32) -> Vec<u8> {
    control(RST_STREAM, &[&stream.to_be_bytes(), &REFUSED_STREAM.to_be_bytes()])
}

/// Returns the answer to a ping.
pub fn pong(id: u32) -> Vec<u8> {
    control(PING, &[&id.to_be_bytes()])
}

fn data_frame(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let [_, x, y, z] = length(bytes.len());
    [&stream.to_be_bytes()[..], &[flags, x, y, z], bytes].concat()
}

fn control(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let [_, x, y, z] = length(parts.iter().map(|part| part.len()).sum());
    [&[CONTROL, VERSION, 0, kind, 0, x, y, z], parts.concat().as_slice()].concat()
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("frames are cut to their bound before").to_be_bytes()
}

/// Words that headers are compressed with, each behind its length; SPDY/3, section 2.6.10.1.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age \
    allow authorization cache-control connection content-base content-encoding content-language content-length content-location \
    content-md5 content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range \
    if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer \
    retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status \
    200_OK version HTTP/1.1 url public set-cookie keep-alive origin";
/// What follows them.
const PHRASES: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 \
    Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,\
    text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// Returns the dictionary that both sides know.
fn dictionary() -> Vec<u8> {
    let words = WORDS.split(' ').flat_map(|word| {
        let word = word.replace('_', " ");
        [length(word.len()).to_vec(), word.into_bytes()].concat()
    });
    words.chain(PHRASES.bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_dictionary_is_the_one_of_the_protocol() {
        assert_eq!(dictionary().len(), 1423);
        assert_eq!(crate::inflate::adler32(&dictionary()), 0xe3c6_a7c2);
    }

    #[test]
    fn frames_of_a_client_are_read_whatever_the_cuts() {
        let bytes = crate::forward::tests::two_streams();
        for step in [1, 7, 1000] {
            let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
            for part in bytes.chunks(step) {
                decoder.push(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            let headers = |kind: &str| {
                let pairs = [("port", "8080"), ("requestid", "0"), ("streamtype", kind)];
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
            };
            assert_eq!(frames[0], Frame::Open { stream: 1, headers: headers("error") });
            assert_eq!(frames[1], Frame::Data { stream: 1, bytes: Vec::new(), last: true });
            assert_eq!(frames[2], Frame::Open { stream: 3, headers: headers("data") });
            assert_eq!(frames.len(), 3);
        }
    }

    #[test]
    fn frames_of_the_server() {
        let mut encoder = Encoder::default();
        assert_eq!(encoder.reply(1), *b"\x80\x03\0\x02\0\0\0\x14\0\0\0\x01\x78\x01\0\x04\0\xfb\xff\0\0\0\0\0\0\0\xff\xff");
        assert_eq!(encoder.reply(3), *b"\x80\x03\0\x02\0\0\0\x12\0\0\0\x03\0\x04\0\xfb\xff\0\0\0\0\0\0\0\xff\xff");
        assert_eq!(data(3, b"hi"), *b"\0\0\0\x03\0\0\0\x02hi");
        assert_eq!(end(3), *b"\0\0\0\x03\x01\0\0\0");
        assert_eq!(pong(7), *b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x07");
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..10) {
            let mut decoder = Decoder::default();
            decoder.push(&control(kind, &[&bytes]));
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }
}
