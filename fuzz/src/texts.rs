//! Texts inside requests: selectors, amounts, instants, expressions, paths, URLs.

use api::{FeatureGates, FieldSelector, Quantity, Selector, Timestamp, duration, ip};
use schemas::JsonPath;
use schemas::cel::{self, Budget, OldSelf};
use registry::query::{self, Continue, Parameters};
use serde_json::json;

/// Reads the bytes as every kind of text that a client may send, and uses what could be read.
pub fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Selector::parse(text).map(|selector| selector.matches(&Default::default()));
    let _ = FieldSelector::parse(text).map(|selector| selector.matches_with(|_| Some("a")));
    let _ = text.parse::<FeatureGates>();
    let _ = Timestamp::parse(text).map(|stamp| (stamp.micro(), stamp.shortest()));
    if let Ok(span) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::format(span)), Ok(span), "a duration reads back");
    }
    if let Ok(quantity) = Quantity::parse(text) {
        assert_eq!(Quantity::parse(&quantity.to_string()), Ok(quantity), "a quantity reads back");
    }
    if let Some(canonical) = ip::canonical(text) {
        assert_eq!(ip::canonical(&canonical), Some(canonical), "the canonical form of an address is canonical");
    }
    let object = json!({"spec": {"replicas": 3, "items": [{"a": "b"}, 1, null], "name": "x"}, "metadata": {"name": "n"}});
    let _ = JsonPath::parse(text).map(|path| path.find(&object).len());
    if let Ok(program) = cel::compile(text) {
        let old = if program.uses_old_self() { OldSelf::Value(&object) } else { OldSelf::Absent };
        let _ = program.holds(None, &object, old, &mut Budget::default());
    }
    let parameters = Parameters::parse(text);
    let _ = (query::list_query(&parameters), query::watch_query(&parameters), query::dry_run(&parameters, "Pod"));
    let _ = (query::decode_segment(text), Continue::decode(text));
}
