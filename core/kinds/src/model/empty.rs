//! Lists and maps that are empty: Kubernetes does not store them, so nobody can own them.

use serde_json::{Map, Value};

use super::{Message, Type};

/// Lists that are shown even when they are empty, and that documents do not call required.
const SHOWN: [(&str, &str); 1] = [("EndpointSlice", "ports")];

/// Removes empty lists and maps from an object of a type, but for its status.
pub fn drop_empty(message: &'static Message, object: &mut Value) {
    if let Value::Object(members) = object {
        let status = members.remove("status");
        walk(message, members);
        members.extend(status.map(|status| ("status".to_owned(), status)));
    }
}

fn walk(message: &'static Message, members: &mut Map<String, Value>) {
    members.retain(|name, value| {
        let Some(field) = message.field(name) else { return true };
        descend(&field.kind, value);
        let empty = match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty() && matches!(field.kind, Type::Map(_)),
            _ => false,
        };
        !empty || field.optional || field.required || SHOWN.contains(&(message.name(), field.name))
    });
}

fn descend(kind: &Type, value: &mut Value) {
    match (kind, value) {
        (Type::Message(id), Value::Object(members)) => walk(id.get(), members),
        (Type::List(item), Value::Array(items)) => items.iter_mut().for_each(|value| descend(item, value)),
        (Type::Map(item), Value::Object(members)) => members.values_mut().for_each(|value| descend(item, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::message;
    use serde_json::json;

    #[test]
    fn empty_lists_and_maps_go_and_empty_objects_stay() {
        let mut pod = json!({
            "metadata": {"labels": {}, "finalizers": []},
            "spec": {"nodeSelector": {}, "containers": [{"name": "a", "args": [], "resources": {"limits": {}}}],
                     "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": []},
            "status": {"conditions": []},
        });
        drop_empty(message("Pod").unwrap(), &mut pod);
        assert_eq!(
            pod,
            json!({
                "metadata": {},
                "spec": {"containers": [{"name": "a", "resources": {}}], "volumes": [{"name": "v", "emptyDir": {}}]},
                "status": {"conditions": []},
            })
        );
        let mut slice = json!({"endpoints": [], "ports": []});
        drop_empty(message("EndpointSlice").unwrap(), &mut slice);
        assert_eq!(slice, json!({"endpoints": [], "ports": []}));
    }
}
