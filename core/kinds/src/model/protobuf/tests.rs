use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Writes a field with a payload of bytes.
fn field(number: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() < 128 && number < 16);
    [&[number << 3 | 2, payload.len() as u8], payload].concat()
}

/// Writes a field with a small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    assert!(value < 128 && number < 16);
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
}

fn budget(values: usize) -> Budget {
    Budget { values, depth: MAX_DEPTH }
}

#[test]
fn every_kind_that_is_served_can_be_read() {
    for resource in crate::resource::builtins() {
        let message = message_for(&resource.api_version(), &resource.kind);
        let message = message.unwrap_or_else(|| panic!("no layout of {}", resource.kind));
        for field in message.fields() {
            let numbered = message
                .wire
                .iter()
                .any(|(_, slot)| matches!(slot, Slot::Field(place) if message.fields()[*place].name == field.name));
            assert!(numbered, "{}.{} has no number", resource.kind, field.name);
        }
    }
}

#[test]
fn schemas_may_not_lie_too_deep_in_schemas() {
    let schema = crate::model::message("JSONSchemaProps").unwrap();
    // Field 28, `not`, with a length of up to two bytes.
    let nested = |depth: usize| {
        (0..depth).fold(Vec::new(), |inner: Vec<u8>, _| {
            let length = [(inner.len() & 0x7f) as u8 | 0x80, (inner.len() >> 7) as u8];
            [&[0xe2, 0x01][..], &length, &inner].concat()
        })
    };
    let read = |depth| read_message(&nested(depth), schema, &mut Map::new(), &mut budget(MAX_VALUES));
    assert_eq!(read(MAX_DEPTH - 1), Ok(()));
    assert_eq!(read(MAX_DEPTH), Err(DecodeError::TooDeep));
}

#[test]
fn a_body_without_the_prefix_or_of_an_unknown_kind_is_refused() {
    assert_eq!(decode(b"{}"), Err(DecodeError::Magic));
    assert_eq!(decode(b""), Err(DecodeError::Magic));
    let unknown = decode(&body("v1", "Gadget", &[]));
    assert_eq!(unknown, Err(DecodeError::UnknownKind { api_version: "v1".to_owned(), kind: "Gadget".to_owned() }));
}

#[test]
fn the_url_stands_in_for_an_envelope_without_kind() {
    let body = [MAGIC.to_vec(), field(2, &field(1, &field(1, b"a")))].concat();
    assert_eq!(
        decode_as(&body, "v1", "ConfigMap"),
        Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
    );
    assert!(matches!(decode(&body), Err(DecodeError::UnknownKind { .. })));
}

#[test]
fn another_content_encoding_is_refused() {
    let with = |number, text: &[u8]| decode(&[body("v1", "ConfigMap", &[]), field(number, text)].concat());
    assert_eq!(with(3, b"gzip"), Err(DecodeError::Encoding("gzip".to_owned())));
    assert_eq!(with(4, b"application/json"), Err(DecodeError::Encoding("application/json".to_owned())));
    assert!(with(3, b"").is_ok() && with(4, b"").is_ok());
}

#[test]
fn delete_options_are_read_for_any_group() {
    let raw = [number(1, 0), field(2, &field(1, b"u")), field(5, b"All")].concat();
    let options = decode(&body("apps/v1", "DeleteOptions", &raw)).unwrap();
    let expected = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"}, "dryRun": ["All"]});
    assert_eq!(options, expected);
}

#[test]
fn messages_that_come_in_parts_merge_and_the_last_scalar_wins() {
    let part = |text: &[u8]| field(1, &field(1, text));
    let raw = [part(b"a"), field(1, &field(3, b"ns")), part(b"b")].concat();
    let object = decode(&body("v1", "ConfigMap", &raw)).unwrap();
    assert_eq!(object["metadata"], json!({"name": "b", "namespace": "ns"}));
    let emptied = decode(&body("v1", "ConfigMap", &[part(b"a"), part(b"")].concat())).unwrap();
    assert_eq!(emptied, json!({"apiVersion": "v1", "kind": "ConfigMap"}));
}

#[test]
fn numbers_may_be_packed_and_negative() {
    // securityContext (14) of the pod's spec: supplementalGroups (4), once packed and once not.
    let context = field(14, &[field(4, &[1, 2]), number(4, 3)].concat());
    let object = decode(&body("v1", "Pod", &field(2, &context))).unwrap();
    assert_eq!(object["spec"], json!({"securityContext": {"supplementalGroups": [1, 2, 3]}}));
    let minus_one = [&[8u8 << 3], [0xff; 9].as_slice(), &[1]].concat();
    let object = decode(&body("v1", "Event", &minus_one)).unwrap();
    assert_eq!(object["count"], json!(-1));
}

#[test]
fn lists_as_map_values_are_unwrapped() {
    // status.userInfo.extra: {k: [a, b]}
    let entry = [field(1, b"k"), field(2, &[field(1, b"a"), field(1, b"b")].concat())].concat();
    let raw = field(2, &field(1, &field(4, &entry)));
    let object = decode(&body("authentication.k8s.io/v1", "SelfSubjectReview", &raw)).unwrap();
    assert_eq!(object["status"], json!({"userInfo": {"extra": {"k": ["a", "b"]}}}));
}

#[test]
fn times_keep_the_digits_of_their_type() {
    let seconds = [vec![1 << 3, 0x80, 0x94, 0xeb, 0xdc, 0x03], vec![2 << 3, 0x80, 0xad, 0xe2, 0x04]].concat();
    let raw = [field(7, &seconds), field(10, &seconds), field(6, &[])].concat();
    let object = decode(&body("v1", "Event", &raw)).unwrap();
    assert_eq!(object["lastTimestamp"], "2001-09-09T01:46:40Z");
    assert_eq!(object["eventTime"], "2001-09-09T01:46:40.010000Z");
    assert_eq!(object.get("firstTimestamp"), None);
    let out_of_range = field(7, &[&[1 << 3], [0xff; 8].as_slice(), &[0x7f]].concat());
    assert!(decode(&body("v1", "Event", &out_of_range)).is_err());
}

#[test]
fn unknown_fields_are_passed_over_and_wrong_ones_refused() {
    // 15 is no field of a ConfigMap: a group with a group inside, then a fixed32.
    let group = vec![15 << 3 | 3, 1 << 3 | 3, 1 << 3, 7, 1 << 3 | 4, 15 << 3 | 4];
    let fixed = vec![15 << 3 | 5, 1, 2, 3, 4];
    let raw = [group, fixed, field(1, &field(1, b"a"))].concat();
    assert_eq!(decode(&body("v1", "ConfigMap", &raw)).unwrap()["metadata"]["name"], "a");
    for bad in [number(1, 1), vec![1 << 3 | 7], vec![0], vec![1 << 3 | 2, 9, 1], field(1, &field(1, &[0xff]))] {
        assert!(decode(&body("v1", "ConfigMap", &bad)).is_err(), "{bad:?}");
    }
}

#[test]
fn a_body_cannot_hold_more_values_than_its_budget() {
    let mut object = Map::new();
    let raw = [1 << 3 | 2, 0].repeat(11);
    let message = message_for("v1", "ServiceAccount").unwrap();
    assert_eq!(read_message(&raw, message, &mut object, &mut budget(10)), Err(DecodeError::TooMany));
    assert_eq!(read_message(&raw, message, &mut object, &mut budget(11)), Ok(()));
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer(raw: Vec<u8>, kind in 0..22usize) {
        let (version, name, _) = super::super::kinds().nth(kind).unwrap();
        let _ = decode(&raw);
        let _ = decode(&[&MAGIC, raw.as_slice()].concat());
        let mut object = Map::new();
        let message = message_for(version, name).unwrap();
        let _ = read_message(&raw, message, &mut object, &mut budget(1_000));
    }

    #[test]
    fn a_body_cut_anywhere_is_an_answer(cut in 0..60usize, flip in 0..60usize, bit in 0..8u8) {
        let metadata = field(1, &[field(1, b"web"), field(11, &[field(1, b"a"), field(2, b"b")].concat())].concat());
        let whole = body("v1", "ConfigMap", &metadata);
        let _ = decode(&whole[..cut.min(whole.len())]);
        let mut flipped = whole.clone();
        let place = flip % flipped.len();
        flipped[place] ^= 1 << bit;
        let _ = decode(&flipped);
        prop_assert!(decode(&whole).is_ok());
    }
}
