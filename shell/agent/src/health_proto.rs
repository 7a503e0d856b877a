//! The messages of `grpc.health.v1.Health/Check`, each with one field, and their frame.

/// The path of the call.
pub(crate) const PATH: &str = "/grpc.health.v1.Health/Check";

/// Serving states, in the order of their numbers.
const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// Status codes of gRPC, in the order of their numbers.
pub(crate) const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Returns a framed request about a service.
pub(crate) fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a); // field 1, a text
        varint(service.len() as u64, &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    frame(&message)
}

/// Returns a framed response with a serving state.
pub(crate) fn response(serving: bool) -> Vec<u8> {
    frame(&[0x08, if serving { 1 } else { 2 }]) // field 1, a number
}

/// Returns the service of a framed request; `None`: it is none.
pub(crate) fn service_of(framed: &[u8]) -> Option<String> {
    let mut service = String::new();
    fields(unframe(framed)?, |field, value| {
        if let (1, Value::Bytes(bytes)) = (field, value) {
            service = String::from_utf8_lossy(bytes).into_owned();
        }
    })?;
    Some(service)
}

/// Returns the serving state of a framed response; `None`: it is none.
pub(crate) fn state_of(framed: &[u8]) -> Option<String> {
    let mut state = 0;
    fields(unframe(framed)?, |field, value| {
        if let (1, Value::Number(number)) = (field, value) {
            state = number;
        }
    })?;
    let known = usize::try_from(state).ok().and_then(|state| STATES.get(state));
    Some(known.map_or_else(|| state.to_string(), |name| (*name).to_owned()))
}

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("names of services are short");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Returns the message of a frame that is not compressed.
fn unframe(framed: &[u8]) -> Option<&[u8]> {
    let (head, rest) = framed.split_at_checked(5)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    if head[0] != 0 {
        return None;
    }
    rest.get(..usize::try_from(length).ok()?)
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Skipped,
}

/// Calls `each` for every field of a message; `None`: it is out of shape.
fn fields<'a>(mut bytes: &'a [u8], mut each: impl FnMut(u64, Value<'a>)) -> Option<()> {
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

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_those_of_protobuf() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("db"), [0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b']);
        assert_eq!(state_of(&response(true)).unwrap(), "SERVING");
        assert_eq!(state_of(&response(false)).unwrap(), "NOT_SERVING");
        assert_eq!(state_of(&frame(&[])).unwrap(), "UNKNOWN", "a zero is not sent");
        assert_eq!(state_of(&frame(&[8, 9])).unwrap(), "9");
        assert_eq!(state_of(&[1, 0, 0, 0, 0]), None, "compressed");
        assert_eq!(state_of(&[0, 0, 0, 0, 9, 8]), None, "cut off");
    }

    proptest! {
        #[test]
        fn a_service_survives_the_wire(service in ".{0,200}", junk in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(service_of(&request(&service)), Some(service));
            let _ = service_of(&junk);
            let _ = state_of(&frame(&junk));
        }
    }
}
