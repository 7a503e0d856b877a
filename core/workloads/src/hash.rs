//! When two pod templates are the same, and the name that a template gives to its ReplicaSet.
//!
//! Fields of a switched-off gate do not count: a Deployment keeps such a field, a ReplicaSet that is made meanwhile loses
//! it, and neither switching a gate off nor switching it on again may roll anything out.

use std::borrow::Cow;

use api::probe_rules::drop_disabled_template_fields;
use api::workload::POD_TEMPLATE_HASH;
use api::{FeatureGates, json};
use serde_json::Value;

/// The letters of generated names: none that make words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns whether two templates make the same pods.
pub fn same_template(a: &Value, b: &Value, gates: &FeatureGates) -> bool {
    json::same_but_nils(Some(&compared(a, gates)), Some(&compared(b, gates)))
}

/// Returns a short text that differs for templates that differ, as far as 32 bits can, and for each collision.
pub fn template_hash(template: &Value, collisions: Option<i64>, gates: &FeatureGates) -> String {
    let mut hash = Fnv::default();
    add(&mut hash, &compared(template, gates));
    if let Some(count) = collisions {
        hash.add(&count.to_le_bytes());
    }
    let digits = hash.0.to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Returns a template as far as it counts.
fn compared<'a>(template: &'a Value, gates: &FeatureGates) -> Cow<'a, Value> {
    let mut counted = template.clone();
    if let Some(Value::Object(labels)) = counted.pointer_mut("/metadata/labels") {
        labels.remove(POD_TEMPLATE_HASH);
    }
    drop_disabled_template_fields(&mut counted, gates);
    Cow::Owned(counted)
}

/// FNV-1a of 32 bits: short, and the same in every build.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0x811c_9dc5)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    }
}

/// Adds a value, whatever the order of its members; what counts as absent adds nothing.
fn add(hash: &mut Fnv, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(_, member)| !json::same_but_nils(Some(member), None)).collect();
            members.sort_by_key(|(name, _)| name.as_str());
            hash.add(b"{");
            for (name, member) in members {
                hash.add(name.as_bytes());
                hash.add(b"\0");
                add(hash, member);
            }
            hash.add(b"}");
        }
        Value::Array(items) => {
            hash.add(b"[");
            items.iter().for_each(|item| add(hash, item));
            hash.add(b"]");
        }
        plain => {
            hash.add(plain.to_string().as_bytes());
            hash.add(b",");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Gate;
    use serde_json::json;

    fn template(probe: &Value) -> Value {
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "readinessProbe": probe}]}})
    }

    #[test]
    fn what_counts_as_absent_and_the_hash_label_do_not_count() {
        let gates = FeatureGates::default();
        let plain = template(&json!({"periodSeconds": 1}));
        let mut same = plain.clone();
        same["metadata"]["labels"][POD_TEMPLATE_HASH] = json!("x");
        same["metadata"]["creationTimestamp"] = Value::Null;
        same["spec"]["volumes"] = json!([]);
        assert!(same_template(&plain, &same, &gates));
        assert_eq!(template_hash(&plain, None, &gates), template_hash(&same, None, &gates));
        let other = template(&json!({"periodSeconds": 2}));
        assert!(!same_template(&plain, &other, &gates));
        assert_ne!(template_hash(&plain, None, &gates), template_hash(&other, None, &gates));
        assert_ne!(template_hash(&plain, None, &gates), template_hash(&plain, Some(1), &gates));
    }

    #[test]
    fn fields_of_a_switched_off_gate_do_not_count() {
        let (with, without) =
            (template(&json!({"periodSeconds": 1, "periodMilliseconds": -500})), template(&json!({"periodSeconds": 1})));
        let off = FeatureGates::default().with(Gate::SubSecondProbes, false);
        let on = FeatureGates::default().with(Gate::SubSecondProbes, true);
        assert!(same_template(&with, &without, &off) && !same_template(&with, &without, &on));
        assert_eq!(template_hash(&with, None, &off), template_hash(&without, None, &off));
    }

    #[test]
    fn a_hash_is_a_good_end_of_a_name() {
        let hash = template_hash(&template(&json!({})), Some(3), &FeatureGates::default());
        assert!(!hash.is_empty() && hash.bytes().all(|letter| LETTERS.contains(&letter)), "{hash}");
    }
}
