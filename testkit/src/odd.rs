//! Strategies for property tests: any JSON at all, and objects that are nearly right.
//!
//! Rules must be total, and what breaks them is rarely noise: it is a good manifest with one thing in the wrong place. So
//! [`nearly`] starts from a manifest that reaches the rules and puts something odd into it, a few times.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

/// Any JSON value of moderate size; member names and texts are often one of `words`, which blanks separate.
pub fn json(words: &'static str) -> impl Strategy<Value = Value> + Clone {
    let words: Vec<&str> = words.split_whitespace().collect();
    let word = prop_oneof![3 => select(words).prop_map(str::to_owned), 1 => "[a-z#/%.-]{0,6}", 1 => "\\PC{0,4}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1100i64..1100).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The given object with up to four changes: a value replaced by any other, a member or an item lost, an item repeated.
pub fn nearly(object: Value, words: &'static str) -> impl Strategy<Value = Value> {
    let change = prop_oneof![
        4 => json(words).prop_map(Change::Replace),
        1 => Just(Change::Lose),
        1 => Just(Change::Repeat),
    ];
    let way = prop::collection::vec(any::<usize>(), 1..10);
    prop::collection::vec((way, change), 0..5).prop_map(move |changes| {
        let mut object = object.clone();
        for (way, change) in changes {
            apply(&mut object, &way, change);
        }
        object
    })
}

#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Lose,
    Repeat,
}

/// Goes down into `value` as the numbers say, and makes the change where they end or there is nothing deeper.
fn apply(value: &mut Value, way: &[usize], change: Change) {
    let Some((step, rest)) = way.split_first() else {
        if let Change::Replace(other) = change {
            *value = other;
        }
        return;
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            let key = members.keys().nth(step % members.len()).cloned().unwrap_or_default();
            match (rest.is_empty(), change) {
                (true, Change::Lose) => {
                    members.remove(&key);
                }
                (_, change) => apply(&mut members[&key], rest, change),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let place = step % items.len();
            match (rest.is_empty(), change) {
                (true, Change::Lose) => {
                    items.remove(place);
                }
                (true, Change::Repeat) => items.push(items[place].clone()),
                (_, change) => apply(&mut items[place], rest, change),
            }
        }
        _ => apply(value, &[], change),
    }
}
