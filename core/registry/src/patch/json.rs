//! JSON patch (RFC 6902) with the bounds of an API server.
//!
//! `copy` and `move` can grow a document far beyond the size of the patch, in width and in depth; both are bounded here, so
//! that whatever comes out can be stored and parsed again. What an operation looks at in the document is charged: a short
//! patch of many operations on a large object must not take long either.

use json_patch::{Patch, PatchOperation, jsonptr::Pointer};
use serde_json::Value;

use super::{OPERATIONS_MAX, PatchError};

/// The most bytes that all `copy` operations of a patch may add: the limit of a request body.
const COPIED_MAX: usize = 3 << 20;
/// The deepest nesting that a moved or copied value may reach; the parser refuses documents a little deeper than this.
const DEPTH_MAX: usize = 120;
/// The most values that all operations of a patch may look at or shift; some hundred milliseconds.
const WORK_MAX: usize = 4_000_000;
/// Items of a list that are shifted in the time in which one value is looked at.
const SHIFTED_PER_VALUE: usize = 8;

/// Returns `current` changed by a JSON patch: all operations, or an error.
pub fn json_patch(current: Value, patch: &Value) -> Result<Value, PatchError> {
    let operations =
        patch.as_array().ok_or_else(|| PatchError::BadRequest("a JSON patch must be a list of operations".to_owned()))?;
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let Patch(operations) =
        serde::Deserialize::deserialize(patch).map_err(|error: serde_json::Error| PatchError::BadRequest(error.to_string()))?;
    let mut patched = current;
    let (mut copied, mut left) = (0, WORK_MAX);
    for (index, operation) in operations.iter().enumerate() {
        if passes_as_absent(&patched, operation) {
            continue;
        }
        charge(&patched, operation, &mut left)?;
        check_growth(&patched, operation, &mut copied)?;
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation)).map_err(|error| {
            PatchError::Invalid(format!(
                "{} operation {index} at {:?}: {}",
                name(operation),
                error.path.to_string(),
                error.kind
            ))
        })?;
    }
    Ok(patched)
}

/// Returns whether this is a `test` for null of a member that is absent: kube-apiserver lets it pass.
fn passes_as_absent(document: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    let Some((parent, member)) = test.path.split_back() else { return false };
    test.value.is_null()
        && document
            .pointer(parent.as_str())
            .and_then(Value::as_object)
            .is_some_and(|parent| !parent.contains_key(member.decoded().as_ref()))
}

fn name(operation: &PatchOperation) -> &'static str {
    match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    }
}

/// Pays for what an operation looks at in the document, which can be more than the operation is long.
fn charge(document: &Value, operation: &PatchOperation, left: &mut usize) -> Result<(), PatchError> {
    let shifted = |path: &Pointer| match path.split_back().and_then(|(parent, _)| document.pointer(parent.as_str())) {
        Some(Value::Array(items)) => items.len() / SHIFTED_PER_VALUE,
        _ => 0,
    };
    let cost = match operation {
        PatchOperation::Add(add) => shifted(&add.path),
        PatchOperation::Remove(remove) => shifted(&remove.path),
        PatchOperation::Copy(copy) => shifted(&copy.path),
        PatchOperation::Move(move_) => {
            let moved = document.pointer(move_.from.as_str()).map_or(0, |value| count(value, *left));
            shifted(&move_.from) + shifted(&move_.path) + moved
        }
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    };
    *left = left.checked_sub(cost + 1).ok_or(PatchError::TooMuchWork)?;
    Ok(())
}

/// Returns how many values a value consists of, but not much more than `most`.
fn count(value: &Value, most: usize) -> usize {
    let mut total = 1;
    let mut add = |inner: &Value| {
        if total <= most {
            total += count(inner, most - total);
        }
    };
    match value {
        Value::Array(items) => items.iter().for_each(&mut add),
        Value::Object(members) => members.values().for_each(&mut add),
        _ => {}
    }
    total
}

fn check_growth(document: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), PatchError> {
    let (value, path): (Option<&Value>, &Pointer) = match operation {
        PatchOperation::Add(add) => (Some(&add.value), &add.path),
        PatchOperation::Replace(replace) => (Some(&replace.value), &replace.path),
        PatchOperation::Move(move_) => (document.pointer(move_.from.as_str()), &move_.path),
        PatchOperation::Copy(copy) => {
            let value = document.pointer(copy.from.as_str());
            *copied += value.map_or(0, weight);
            (value, &copy.path)
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    if *copied > COPIED_MAX {
        return Err(PatchError::Invalid(format!("copy operations may add at most {COPIED_MAX} bytes")));
    }
    if path.count() + value.map_or(0, depth) > DEPTH_MAX {
        return Err(PatchError::Invalid(format!("values may be nested at most {DEPTH_MAX} levels deep")));
    }
    Ok(())
}

/// Returns about how many bytes a value takes when printed.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>(),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
