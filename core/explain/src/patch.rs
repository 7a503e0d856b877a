//! What to change so that a finding goes away: a YAML patch with computed values.
//!
//! Candidates are made by the rule, then tried: one is offered only if the manifest with it has neither the finding nor a new one.

mod candidates;
mod yaml;

use serde_json::{Map, Value, json};

pub(crate) use candidates::{candidates, near, nearest};
pub use yaml::yaml;

/// Applies a patch: members are merged, null takes away, items of lists are found by `name` (ports of a Service by `port`).
pub fn apply(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(changes) => {
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            let members = object.as_object_mut().expect("it was made one just now");
            for (key, change) in changes {
                match change {
                    Value::Null => drop(members.remove(key)),
                    change => apply(members.entry(key.clone()).or_insert(Value::Null), change),
                }
            }
        }
        Value::Array(items) => {
            let key = merge_key(items);
            let (Some(key), Some(own)) = (key, object.as_array_mut()) else {
                *object = patch.clone();
                return;
            };
            for item in items {
                match own.iter_mut().find(|known| known.get(key) == item.get(key)) {
                    Some(known) => apply(known, item),
                    None => own.push(item.clone()),
                }
            }
        }
        plain => *object = plain.clone(),
    }
}

fn merge_key(items: &[Value]) -> Option<&'static str> {
    ["name", "port"].into_iter().find(|key| !items.is_empty() && items.iter().all(|item| item.get(key).is_some()))
}

/// A step of a path: a member, or an item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

fn segments(path: &str) -> Option<Vec<Segment>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (text, after) = inner.split_once(']')?;
            found.push(text.parse().map_or_else(|_| Segment::Key(text.to_owned()), Segment::Index));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            found.push(Segment::Key(rest[..end].to_owned()));
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    Some(found)
}

/// Returns the patch that sets something at a path; items of lists are named.
fn set(object: &Value, path: &[Segment], value: Value) -> Option<Value> {
    match path {
        [] => Some(value),
        [Segment::Key(key), rest @ ..] => {
            let inner = set(object.get(key).unwrap_or(&Value::Null), rest, value)?;
            Some(json!({ key.as_str(): inner }))
        }
        [Segment::Index(index), rest @ ..] => {
            let item = object.get(*index)?;
            let mut inner = set(item, rest, value)?;
            let Some(key) = ["name", "port"].into_iter().find(|key| item.get(key).is_some()) else {
                // An item without a name cannot be told from the others: the whole list is given.
                let mut all = object.as_array()?.clone();
                apply(all.get_mut(*index)?, &inner);
                return Some(Value::Array(all));
            };
            inner.as_object_mut()?.insert(key.to_owned(), item[key].clone());
            Some(json!([inner]))
        }
    }
}

/// Returns what stands at a path.
fn at<'a>(object: &'a Value, path: &[Segment]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(*index),
    })
}

/// Where a finding is: the object, the path, and the container around it.
struct Place<'a> {
    object: &'a Value,
    path: Vec<Segment>,
}

impl<'a> Place<'a> {
    fn set(&self, path: &[Segment], value: Value) -> Option<Value> {
        set(self.object, path, value)
    }

    /// Sets a member beside or below the finding's path.
    fn below(&self, member: &str, value: Value) -> Option<Value> {
        let mut path = self.path.clone();
        path.push(Segment::Key(member.to_owned()));
        self.set(&path, value)
    }

    fn value(&self) -> &'a Value {
        at(self.object, &self.path).unwrap_or(&Value::Null)
    }

    /// Returns the path of the container that the finding is in.
    fn container_path(&self) -> Option<Vec<Segment>> {
        let end = self.path.iter().rposition(|segment| matches!(segment, Segment::Index(_)))?;
        Some(self.path[..=end].to_vec())
    }

    fn container(&self) -> Option<&'a Value> {
        at(self.object, &self.container_path()?)
    }

    /// Sets a member of the container.
    fn in_container(&self, value: Value) -> Option<Value> {
        self.set(&self.container_path()?, value)
    }

    /// Sets a member of the pod spec.
    fn in_spec(&self, value: Value) -> Option<Value> {
        let container = self.container_path()?;
        self.set(&container[..container.len() - 2], value)
    }
}

/// Puts two patches together.
fn merge(into: &mut Value, other: &Value) {
    match (into, other) {
        (Value::Object(members), Value::Object(more)) => {
            for (key, value) in more {
                match members.get_mut(key) {
                    Some(own) if !own.is_null() => merge(own, value),
                    _ => drop(members.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(items), Value::Array(more)) => {
            let key = merge_key(more);
            for item in more {
                match key.and_then(|key| items.iter_mut().find(|own| own.get(key) == item.get(key))) {
                    Some(own) => merge(own, item),
                    None => items.push(item.clone()),
                }
            }
        }
        (into, other) => *into = other.clone(),
    }
}

/// Puts two patches together into a new one.
pub(crate) fn both(first: &Value, second: &Value) -> Value {
    let mut together = first.clone();
    merge(&mut together, second);
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_the_items_of_lists() {
        let object = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "livenessProbe": {"failureThreshold": 1}}]}});
        let path = segments("spec.containers[1].livenessProbe.failureThreshold").unwrap();
        let patch = set(&object, &path, json!(3)).unwrap();
        assert_eq!(patch, json!({"spec": {"containers": [{"name": "b", "livenessProbe": {"failureThreshold": 3}}]}}));
        let mut changed = object.clone();
        apply(&mut changed, &patch);
        assert_eq!(
            changed["spec"]["containers"],
            json!([{"name": "a"}, {"name": "b", "livenessProbe": {"failureThreshold": 3}}])
        );
        assert_eq!(yaml(&patch), "spec:\n  containers:\n  - livenessProbe:\n      failureThreshold: 3\n    name: b\n");
    }

    #[test]
    fn null_takes_away_and_keys_of_annotations_are_one_step() {
        let mut object = json!({"metadata": {"annotations": {"lifesign.dev/probes": "x", "a": "b"}}});
        let path = segments("metadata.annotations[lifesign.dev/probes]").unwrap();
        let patch = set(&object, &path, Value::Null).unwrap();
        apply(&mut object, &patch);
        assert_eq!(object, json!({"metadata": {"annotations": {"a": "b"}}}));
    }

    #[test]
    fn slips_find_their_field() {
        assert!(near("livenessProbe", "livenesProbe") && near("livenessProbe", "livenessprobe") && !near("args", "env"));
    }
}
