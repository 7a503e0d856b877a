//! Base64 as the API has it: the standard alphabet, padded.

use base64::DecodeError;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Bits behind the last byte are passed over, as Kubernetes does.
const ENGINE: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// A text that is not base64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base64 data at input byte {at}")]
pub struct Base64Error {
    /// Where reading stopped, line ends not counted.
    pub at: usize,
}

/// Returns the padded text of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// Returns the bytes of a padded text. Line ends are passed over, as clients wrap long values.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    let decoded = if text.contains(['\r', '\n']) {
        ENGINE.decode(text.chars().filter(|symbol| !matches!(symbol, '\r' | '\n')).collect::<String>())
    } else {
        ENGINE.decode(text)
    };
    decoded.map_err(|error| match error {
        // Good padding with more behind it: reading stopped behind the padding.
        DecodeError::InvalidByte(at, b'=') if at % 4 >= 2 => Base64Error { at: at.next_multiple_of(4) },
        DecodeError::InvalidByte(at, _) => Base64Error { at },
        _ => Base64Error { at: text.len() },
    })
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
