//! For property tests of this crate: arbitrary JSON.

use proptest::prelude::*;
use serde_json::Value;

/// Any JSON value of moderate size; keys and texts are often words that the rules look for.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "[a-z#/%.-]{0,6}",
        prop::sample::select(vec![
            "name", "probe", "exec", "command", "port", "labels", "state", "Failed", "key", "In", "values"
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
