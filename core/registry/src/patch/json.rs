//! JSON patch (RFC 6902) with the bounds of an API server.
//!
//! `copy` and `move` can grow a document far beyond the size of the patch, in width and in depth; both are bounded here, so
//! that whatever comes out can be stored and parsed again.

use json_patch::{Patch, PatchOperation, jsonptr::Pointer};
use serde_json::Value;

use super::{OPERATIONS_MAX, PatchError};

/// The most bytes that all `copy` operations of a patch may add: the limit of a request body.
const COPIED_MAX: usize = 3 << 20;
/// The deepest nesting that a moved or copied value may reach; the parser refuses documents a little deeper than this.
const DEPTH_MAX: usize = 120;

/// Returns `current` changed by a JSON patch: all operations, or an error.
pub fn json_patch(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations =
        patch.as_array().ok_or_else(|| PatchError::BadRequest("a JSON patch must be a list of operations".to_owned()))?;
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let Patch(operations) =
        serde::Deserialize::deserialize(patch).map_err(|error: serde_json::Error| PatchError::BadRequest(error.to_string()))?;
    let mut patched = current.clone();
    let mut copied = 0;
    for (index, operation) in operations.iter().enumerate() {
        if passes_as_absent(&patched, operation) {
            continue;
        }
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
