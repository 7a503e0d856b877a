//! Base64 as the API has it: the standard alphabet, padded.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A text that is not base64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {at}")]
pub struct Base64Error {
    /// Where reading stopped.
    pub at: usize,
}

/// Returns the padded text of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// Returns the bytes of a padded text. Line ends are passed over, as clients wrap long values.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut digits, mut padding) = (0u32, 0usize, 0usize);
    for (at, symbol) in text.bytes().enumerate() {
        let value = match symbol {
            b'\r' | b'\n' => continue,
            b'=' if digits >= 2 && digits + padding < 4 => {
                padding += 1;
                continue;
            }
            _ if padding > 0 => return Err(Base64Error { at }),
            _ => value_of(symbol).ok_or(Base64Error { at })?,
        };
        bits = bits << 6 | value;
        digits += 1;
        if digits == 4 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, digits) = (0, 0);
        }
    }
    match (digits, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((bits >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return Err(Base64Error { at: text.len() }),
    }
    Ok(bytes)
}

fn value_of(symbol: u8) -> Option<u32> {
    Some(u32::from(match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("alice", "YWxpY2U=")] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text), Ok(bytes.as_bytes().to_vec()));
        }
        assert_eq!(decode("Zm\n9v\r\n"), Ok(b"foo".to_vec()));
    }

    #[test]
    fn malformed_texts_say_where() {
        for (text, at) in [("Zg", 2), ("Zg=", 3), ("Z===", 1), ("Zg==Zg==", 4), ("Zm9v!", 4), ("Zg===", 4), ("=", 0)] {
            assert_eq!(decode(text), Err(Base64Error { at }), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }

        #[test]
        fn any_text_is_an_answer(text: String) {
            if let Ok(bytes) = decode(&text) {
                prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
            }
        }
    }
}
