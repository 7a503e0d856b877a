//! The schema of a custom resource as OpenAPI shows it to clients.

use serde_json::{Value, json};

/// Returns the published form of a version's `openAPIV3Schema`.
///
/// `common` are the members that every object has, with their schemas (`apiVersion`, `kind`, `metadata`): they stand at the
/// root and in embedded resources, whatever the definition says about them. `gvk` is group, version and kind.
pub fn open_api_schema(schema: &Value, gvk: (&str, &str, &str), common: &[(&str, Value)]) -> Value {
    let mut published = if schema.is_object() { schema.clone() } else { json!({}) };
    complete(&mut published, common);
    published["type"] = "object".into();
    add_common(&mut published, common);
    let (group, version, kind) = gvk;
    published["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    published
}

fn add_common(schema: &mut Value, common: &[(&str, Value)]) {
    let properties = api::json::object_mut(schema, &["properties"]);
    for (name, member) in common {
        properties.insert((*name).to_owned(), member.clone());
    }
}

/// Says in plain OpenAPI what extensions of Kubernetes imply, here and below.
fn complete(schema: &mut Value, common: &[(&str, Value)]) {
    let Value::Object(keywords) = schema else { return };
    for key in ["items", "additionalProperties"] {
        if let Some(child) = keywords.get_mut(key) {
            complete(child, common);
        }
    }
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        properties.values_mut().for_each(|property| complete(property, common));
    }
    let is_true = |key: &str| keywords.get(key) == Some(&Value::Bool(true));
    if is_true("x-kubernetes-int-or-string") && !keywords.contains_key("anyOf") && !keywords.contains_key("allOf") {
        keywords.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    } else if is_true("x-kubernetes-embedded-resource") {
        let required = keywords.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            for name in ["apiVersion", "kind"] {
                if !required.iter().any(|known| known == name) {
                    required.push(name.into());
                }
            }
        }
        add_common(schema, common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_says_what_the_extensions_imply() {
        let schema = json!({"description": "A gadget.", "properties": {
            "metadata": {"type": "object"},
            "port": {"x-kubernetes-int-or-string": true},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"], "properties": {"spec": {"type": "object"}}},
        }});
        let common = [("apiVersion", json!({"type": "string"})), ("metadata", json!({"$ref": "#/m"}))];
        let published = open_api_schema(&schema, ("x.test", "v1", "Gadget"), &common);
        assert_eq!(
            published,
            json!({
                "type": "object", "description": "A gadget.",
                "x-kubernetes-group-version-kind": [{"group": "x.test", "version": "v1", "kind": "Gadget"}],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "metadata": {"$ref": "#/m"},
                    "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "pod": {
                        "type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind", "apiVersion"],
                        "properties": {"apiVersion": {"type": "string"}, "metadata": {"$ref": "#/m"}, "spec": {"type": "object"}},
                    },
                },
            })
        );
        assert_eq!(open_api_schema(&Value::Null, ("", "v1", "X"), &[])["type"], "object");
    }
}
