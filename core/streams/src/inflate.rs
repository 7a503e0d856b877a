//! Decompression (RFC 1950, RFC 1951) of a stream that is flushed after each part, as header blocks of SPDY are.
//!
//! What was put out is kept as far as later parts may refer to it; a part that would become too long is an error.

/// How far back a part may refer.
const WINDOW: usize = 32 * 1024;
/// Bits of the longest code.
const BITS_MAX: usize = 15;
/// Bytes of one part, at most.
pub const PART_MAX: usize = 64 * 1024;

const LENGTHS: [u16; 29] =
    [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS: [u32; 29] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES: [u16; 30] = [
    1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193,
    12289, 16385, 24577,
];
const DISTANCE_BITS: [u32; 30] =
    [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13];
/// The order in which the lengths of the codes of code lengths come.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Why something cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compressed data is broken: {0}")]
pub struct InflateError(&'static str);

/// A compressed stream.
#[derive(Debug)]
pub struct Inflate {
    dictionary: Vec<u8>,
    /// The end of what was put out; `None`: the stream has not begun.
    window: Option<Vec<u8>>,
}

impl Inflate {
    /// Returns the beginning of a stream, whose writer may know a dictionary.
    pub fn new(dictionary: Vec<u8>) -> Inflate {
        Inflate { dictionary, window: None }
    }

    /// Decompresses the next part, which its writer has flushed.
    pub fn part(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, InflateError> {
        let mut out = match self.window.take() {
            Some(window) => window,
            None => self.begin(&mut bytes)?,
        };
        let before = out.len();
        let mut bits = Bits { bytes, held: 0, count: 0 };
        while !bits.at_end() {
            let last = bits.take(1)? == 1;
            match bits.take(2)? {
                0 => stored(&mut bits, &mut out, before)?,
                1 => coded(&mut bits, &mut out, before, &Code::fixed_literals()?, &Code::fixed_distances()?)?,
                2 => {
                    let (literals, distances) = codes(&mut bits)?;
                    coded(&mut bits, &mut out, before, &literals, &distances)?;
                }
                _ => return Err(InflateError("a block of unknown kind")),
            }
            if last {
                return Err(InflateError("the stream ends"));
            }
        }
        let part = out[before..].to_vec();
        out.drain(..out.len().saturating_sub(WINDOW));
        self.window = Some(out);
        Ok(part)
    }

    /// Reads what a stream begins with; returns what its first part may refer to.
    fn begin(&self, bytes: &mut &[u8]) -> Result<Vec<u8>, InflateError> {
        let &[method, flags, ref rest @ ..] = *bytes else { return Err(InflateError("it has no beginning")) };
        if method & 0x0f != 8 || u16::from_be_bytes([method, flags]) % 31 != 0 {
            return Err(InflateError("it is not of zlib"));
        }
        *bytes = rest;
        if flags & 0x20 == 0 {
            return Ok(Vec::new());
        }
        let &[a, b, c, d, ref rest @ ..] = *bytes else { return Err(InflateError("its dictionary is not named")) };
        if u32::from_be_bytes([a, b, c, d]) != adler32(&self.dictionary) {
            return Err(InflateError("its dictionary is another one"));
        }
        *bytes = rest;
        Ok(self.dictionary.clone())
    }
}

pub(crate) fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

/// Bits, the lowest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    held: u32,
    count: u32,
}

impl Bits<'_> {
    fn take(&mut self, wanted: u32) -> Result<u32, InflateError> {
        while self.count < wanted {
            let (&byte, rest) = self.bytes.split_first().ok_or(InflateError("it is cut off"))?;
            self.held |= u32::from(byte) << self.count;
            self.count += 8;
            self.bytes = rest;
        }
        let value = self.held & ((1 << wanted) - 1);
        self.held >>= wanted;
        self.count -= wanted;
        Ok(value)
    }

    /// Goes on at the next byte.
    fn align(&mut self) {
        (self.held, self.count) = (0, 0);
    }

    /// Returns whether nothing follows: a flush ends with a byte.
    fn at_end(&self) -> bool {
        self.bytes.is_empty() && self.count < 8 && self.held == 0
    }
}

/// A prefix code.
struct Code {
    /// How many codes there are of each length.
    counts: [u16; BITS_MAX + 1],
    /// Symbols in the order of their codes.
    symbols: Vec<u16>,
}

impl Code {
    fn new(lengths: &[u8]) -> Result<Code, InflateError> {
        let mut counts = [0u16; BITS_MAX + 1];
        for length in lengths {
            counts[usize::from(*length)] += 1;
        }
        let mut left = 1i32;
        for count in &counts[1..] {
            left = 2 * left - i32::from(*count);
            if left < 0 {
                return Err(InflateError("a code has too many symbols"));
            }
        }
        let mut offsets = [0u16; BITS_MAX + 2];
        for bits in 1..=BITS_MAX {
            offsets[bits + 1] = offsets[bits] + counts[bits];
        }
        let mut symbols = vec![0; lengths.len()];
        for (symbol, length) in (0u16..).zip(lengths).filter(|(_, length)| **length > 0) {
            let offset = &mut offsets[usize::from(*length)];
            symbols[usize::from(*offset)] = symbol;
            *offset += 1;
        }
        Ok(Code { counts, symbols })
    }

    fn fixed_literals() -> Result<Code, InflateError> {
        let lengths: Vec<u8> = [(144, 8), (112, 9), (24, 7), (8, 8)].into_iter().flat_map(|(n, bits)| vec![bits; n]).collect();
        Code::new(&lengths)
    }

    fn fixed_distances() -> Result<Code, InflateError> {
        Code::new(&[5; 30])
    }

    fn symbol(&self, bits: &mut Bits<'_>) -> Result<usize, InflateError> {
        let (mut code, mut first, mut index) = (0i32, 0i32, 0i32);
        for count in &self.counts[1..] {
            code |= i32::try_from(bits.take(1)?).unwrap_or(0);
            let count = i32::from(*count);
            if code - count < first {
                let at = usize::try_from(index + code - first).unwrap_or(usize::MAX);
                return self.symbols.get(at).map(|symbol| usize::from(*symbol)).ok_or(InflateError("no such symbol"));
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(InflateError("no such code"))
    }
}

/// Reads the codes of a block that brings its own.
fn codes(bits: &mut Bits<'_>) -> Result<(Code, Code), InflateError> {
    let literals = bits.take(5)? as usize + 257;
    let distances = bits.take(5)? as usize + 1;
    let given = bits.take(4)? as usize + 4;
    let mut lengths = [0u8; 19];
    for place in &ORDER[..given] {
        lengths[*place] = bits.take(3)? as u8;
    }
    let code = Code::new(&lengths)?;
    let mut lengths: Vec<u8> = Vec::with_capacity(literals + distances);
    while lengths.len() < literals + distances {
        let (repeated, times) = match code.symbol(bits)? {
            16 => {
                let before = *lengths.last().ok_or(InflateError("nothing is to be repeated"))?;
                (before, bits.take(2)? as usize + 3)
            }
            17 => (0, bits.take(3)? as usize + 3),
            18 => (0, bits.take(7)? as usize + 11),
            length => (length as u8, 1),
        };
        lengths.extend(std::iter::repeat_n(repeated, times));
    }
    if lengths.len() > literals + distances {
        return Err(InflateError("too many lengths of codes"));
    }
    Ok((Code::new(&lengths[..literals])?, Code::new(&lengths[literals..])?))
}

fn room(out: &[u8], before: usize, more: usize) -> Result<(), InflateError> {
    if out.len() - before + more > PART_MAX { Err(InflateError("it becomes too long")) } else { Ok(()) }
}

fn stored(bits: &mut Bits<'_>, out: &mut Vec<u8>, before: usize) -> Result<(), InflateError> {
    bits.align();
    let &[a, b, c, d, ref rest @ ..] = bits.bytes else { return Err(InflateError("it is cut off")) };
    let (length, check) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    if length != !check {
        return Err(InflateError("a length is wrong"));
    }
    let (data, rest) = rest.split_at_checked(usize::from(length)).ok_or(InflateError("it is cut off"))?;
    room(out, before, data.len())?;
    out.extend_from_slice(data);
    bits.bytes = rest;
    Ok(())
}

fn coded(bits: &mut Bits<'_>, out: &mut Vec<u8>, before: usize, literals: &Code, distances: &Code) -> Result<(), InflateError> {
    loop {
        let symbol = literals.symbol(bits)?;
        let place = match symbol {
            0..=255 => {
                room(out, before, 1)?;
                out.push(symbol as u8);
                continue;
            }
            256 => return Ok(()),
            _ => symbol - 257,
        };
        let base = *LENGTHS.get(place).ok_or(InflateError("no such length"))?;
        let length = usize::from(base) + bits.take(LENGTH_BITS[place])? as usize;
        let place = distances.symbol(bits)?;
        let base = *DISTANCES.get(place).ok_or(InflateError("no such distance"))?;
        let distance = usize::from(base) + bits.take(DISTANCE_BITS[place])? as usize;
        room(out, before, length)?;
        let from = out.len().checked_sub(distance).ok_or(InflateError("it refers to what is not there"))?;
        for at in from..from + length {
            out.push(out[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn blocks_of_every_kind_are_read() {
        let fixed = bytes("78012ac957484a55c82f52c8cb2f51280171742014000000ffff");
        assert_eq!(Inflate::new(Vec::new()).part(&fixed).unwrap(), b"to be or not to be, to be");
        // Made by zlib, level 9.
        let own_codes = bytes(
            "78da248c010e00000402df9aebff6f504cb6709134a988539c6f3393818cb108c6c7b9a8fef27c7d511a706369f8bf8d6a010000ffff",
        );
        let text = "aaababaabacbacbaaabdabababbbaacaabbabcaccbdbabaadaabaaaacaabacbaaaaacabaaccbbaadbbbabbbccaabababcaca";
        assert_eq!(Inflate::new(Vec::new()).part(&own_codes).unwrap(), text.as_bytes());
        let mut stored = Inflate::new(Vec::new());
        assert_eq!(stored.part(b"\x78\x01\0\x02\0\xfd\xffhi").unwrap(), b"hi");
        assert_eq!(stored.part(b"\0\x01\0\xfe\xff!").unwrap(), b"!", "the stream goes on");
    }

    #[test]
    fn broken_streams_are_refused() {
        let mut fixed = bytes("78012ac957484a55c82f52c8cb2f51280171742014000000ffff");
        let refused = |bytes: &[u8]| Inflate::new(b"ours".to_vec()).part(bytes).is_err();
        assert!(refused(b"") && refused(b"\x78") && refused(b"\x78\x02") && refused(&fixed[..9]));
        assert!(refused(b"\x78\xbb\0\0\0\x01"), "a dictionary that is not known");
        assert!(refused(b"\x78\x01\0\x02\0\0\0hi"), "a wrong length");
        fixed[2] |= 6;
        assert!(refused(&fixed), "a block of unknown kind");
        // One byte, then itself at the greatest length, for ever.
        let bomb = [&[0x78, 0x01][..], &bytes("ecc1010100000080909000").repeat(1), &[0xff; 9000]].concat();
        assert!(refused(&bomb));
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut inflate = Inflate::new(Vec::new());
            let _ = inflate.part(&[&[0x78, 0x01][..], &bytes].concat());
            let _ = Inflate::new(Vec::new()).part(&bytes);
        }
    }
}
