//! An order of JSON values, for sets and maps of them: whoever compares every item of one list with every item of another
//! lets a client of some hundred kilobytes keep a core busy for half a minute.

use std::cmp::Ordering;

use serde_json::Value;

/// A JSON value that has an order, so that items are found without looking at all the others. The order means nothing;
/// values are equal in it exactly if they are equal.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<'a>(pub &'a Value);

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Number(number) if number.is_f64() => 2,
            Value::Number(_) => 3,
            Value::String(_) => 4,
            Value::Array(_) => 5,
            Value::Object(_) => 6,
        };
        match (self.0, other.0) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Number(a), Value::Number(b)) => {
                let float = |number: &serde_json::Number| number.as_f64().filter(|_| number.is_f64());
                let whole = |number: &serde_json::Number| (number.as_i64(), number.as_u64());
                match (float(a), float(b)) {
                    // Both zeros are equal, and no number of a document is NaN.
                    (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
                    (None, None) => whole(a).cmp(&whole(b)),
                    (a, b) => a.is_none().cmp(&b.is_none()),
                }
            }
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Array(a), Value::Array(b)) => a.iter().map(Ordered).cmp(b.iter().map(Ordered)),
            (Value::Object(a), Value::Object(b)) => {
                a.iter().map(|(key, value)| (key, Ordered(value))).cmp(b.iter().map(|(key, value)| (key, Ordered(value))))
            }
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ordered<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2i64..3).prop_map(Value::from),
            Just(json!(u64::MAX)),
            prop_oneof![Just(0.0), Just(-0.0), Just(1.0), Just(1.5)].prop_map(|float: f64| json!(float)),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn equal_in_order_is_equal(a in any_value(), b in any_value(), c in any_value()) {
            let (x, y, z) = (Ordered(&a), Ordered(&b), Ordered(&c));
            prop_assert_eq!(x == y, a == b);
            prop_assert_eq!(x.cmp(&y), y.cmp(&x).reverse());
            prop_assert!(!(x <= y && y <= z) || x <= z);
        }
    }
}
