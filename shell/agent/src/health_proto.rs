//! The messages of `grpc.health.v1.Health/Check`, each with one field, and their frame.

use cri::wire::{Message, Value, fields, unframe};

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
    Message::default().text(1, service).framed()
}

/// Returns a framed response with a serving state.
pub(crate) fn response(serving: bool) -> Vec<u8> {
    Message::default().number(1, if serving { 1 } else { 2 }).framed()
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

#[cfg(test)]
mod tests {
    use super::*;
    use cri::wire::frame;
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
