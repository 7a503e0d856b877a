//! Protocol buffers and the frames of gRPC, as far as a handful of small messages need them.

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, truth value or enumeration.
    Number(u64),
    /// A text, bytes or another message.
    Bytes(&'a [u8]),
    /// A number of fixed length, which no message of ours has.
    Skipped,
}

impl Value<'_> {
    /// Returns a text; what is no text is empty.
    pub fn text(&self) -> String {
        match self {
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Number(_) | Value::Skipped => String::new(),
        }
    }

    /// Returns a signed number; what is no number is 0.
    pub fn number(&self) -> i64 {
        match self {
            Value::Number(number) => number.cast_signed(),
            Value::Bytes(_) | Value::Skipped => 0,
        }
    }
}

/// Calls `each` for every field of a message; `None`: it is out of shape.
pub fn fields<'a>(mut bytes: &'a [u8], mut each: impl FnMut(u64, Value<'a>)) -> Option<()> {
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Value::Number(take_varint(&mut bytes)?),
            1 => skip(&mut bytes, 8)?,
            2 => {
                let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Value::Bytes(value)
            }
            5 => skip(&mut bytes, 4)?,
            _ => return None,
        };
        each(key >> 3, value);
    }
    Some(())
}

fn skip<'a>(bytes: &mut &'a [u8], length: usize) -> Option<Value<'a>> {
    *bytes = bytes.get(length..)?;
    Some(Value::Skipped)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A message that is being written.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Adds a number; 0 is not sent.
    pub fn number(mut self, field: u64, value: i64) -> Message {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value.cast_unsigned());
        }
        self
    }

    /// Adds a text; an empty one is not sent.
    pub fn text(self, field: u64, text: &str) -> Message {
        if text.is_empty() { self } else { self.element(field, text.as_bytes()) }
    }

    /// Adds an element of a list, or a message, which is sent whatever it is.
    pub fn element(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds an entry of a map of texts.
    pub fn entry(self, field: u64, key: &str, value: &str) -> Message {
        let entry = Message::default().text(1, key).text(2, value);
        self.element(field, &entry.0)
    }

    /// Returns the message.
    pub fn bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the message in its frame.
    pub fn framed(self) -> Vec<u8> {
        frame(&self.0)
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Bytes of a frame before its message.
pub const FRAME_HEAD: usize = 5;

/// Returns a message in a frame that is not compressed.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("what we send is short");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Returns the message of a frame that is not compressed; `None`: it is none, or cut off.
pub fn unframe(framed: &[u8]) -> Option<&[u8]> {
    let (head, rest) = framed.split_at_checked(FRAME_HEAD)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    if head[0] != 0 {
        return None;
    }
    rest.get(..usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
        let mut all = Vec::new();
        fields(bytes, |field, value| all.push((field, value)))?;
        Some(all)
    }

    #[test]
    fn messages_are_those_of_protobuf() {
        let bytes = Message::default().text(1, "db").number(3, -1).number(4, 0).text(5, "").entry(8, "k", "v").bytes();
        assert_eq!(bytes[..4], [0x0a, 2, b'd', b'b']);
        let all = read(&bytes).unwrap();
        assert_eq!((all[0].1.text().as_str(), all[1].1.number(), all.len()), ("db", -1, 3), "zero and empty are not sent");
        assert_eq!(all[2], (8, Value::Bytes(&[0x0a, 1, b'k', 0x12, 1, b'v'])));
        assert_eq!(read(&[0x0d, 1, 2, 3, 4]), Some(vec![(1, Value::Skipped)]));
        assert_eq!(read(&[0x0a, 5, 1]), None, "cut off");
        assert_eq!(read(&[0x0b]), None, "groups are gone from the language");
        assert_eq!((unframe(&[1, 0, 0, 0, 0]), unframe(&[0, 0, 0, 0, 9, 8])), (None, None), "compressed, cut off");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number: i64, text in ".{0,40}", junk in prop::collection::vec(any::<u8>(), 0..60)) {
            let framed = Message::default().number(1, number).element(2, text.as_bytes()).framed();
            let mut seen = (0, String::new());
            fields(unframe(&framed).unwrap(), |field, value| match field {
                1 => seen.0 = value.number(),
                _ => seen.1 = value.text(),
            }).unwrap();
            prop_assert_eq!(seen, (number, text));
            let _ = read(&junk);
            let _ = unframe(&junk);
        }
    }
}
