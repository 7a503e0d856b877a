//! OpenAPI version 2: one document for everything, made of those of version 3. Older clients read it, and kubectl does when it
//! looks for a kind that version 3 does not have.

use serde_json::{Map, Value, json};

/// The media type of the document in protobuf, the only form that clients of Go ask for. They write `@` before the version when
/// they ask, and do not understand it in the answer.
pub const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// What a schema of version 2 does not have.
const NOT_IN_V2: [&str; 4] = ["oneOf", "anyOf", "not", "nullable"];

/// Returns the document that says what all these documents of version 3 say.
pub fn document(documents: &[Value], server_version: &str) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for document in documents {
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            paths.insert(path.clone(), path_item(item));
        }
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            let kinds = definitions.get(name).map(|known: &Value| known["x-kubernetes-group-version-kind"].clone());
            let mut schema = whole(schema);
            // What several groups share is the kind of them all.
            if let (Some(Value::Array(known)), Some(Value::Array(more))) =
                (kinds, schema.get_mut("x-kubernetes-group-version-kind"))
            {
                more.extend(known.into_iter().filter(|kind| !more.contains(kind)).collect::<Vec<Value>>());
            }
            definitions.insert(name.clone(), schema);
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "definitions": definitions,
    })
}

/// Returns the least document in protobuf: that this is version 2, of whom, and no paths.
///
/// kubectl asks for it only about kinds that version 3 does not have, and these are not in it either.
pub fn protobuf(server_version: &str) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 128).expect("a title and a version are short");
        [&[number << 3 | 2, length][..], bytes].concat()
    };
    let info = [field(1, b"Kubernetes"), field(2, server_version.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

fn path_item(item: &Value) -> Value {
    let convert_item = |(method, operation): (&String, &Value)| {
        let value = if method == "parameters" { parameters(operation).into() } else { self::operation(operation) };
        (method.clone(), value)
    };
    item.as_object().into_iter().flatten().map(convert_item).collect::<Map<String, Value>>().into()
}

fn operation(operation: &Value) -> Value {
    let mut new = operation.as_object().cloned().unwrap_or_default();
    let mut all = parameters(&operation["parameters"]);
    if let Some(body) = new.remove("requestBody") {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        let schema = content.values().next().map_or(Value::Null, |first| convert(&first["schema"]));
        all.push(json!({"name": "body", "in": "body", "required": body["required"], "schema": schema}));
        new.insert("consumes".to_owned(), content.keys().map(|kind| Value::from(kind.as_str())).collect());
    }
    new.insert("parameters".to_owned(), all.into());
    let response = |(code, answer): (&String, &Value)| {
        let mut short = json!({"description": answer["description"]});
        if let Some(content) = answer["content"].as_object().and_then(|content| content.values().next()) {
            short["schema"] = convert(&content["schema"]);
        }
        (code.clone(), short)
    };
    let responses: Map<String, Value> = operation["responses"].as_object().into_iter().flatten().map(response).collect();
    new.insert("responses".to_owned(), responses.into());
    new.insert("produces".to_owned(), json!(["application/json", "application/yaml"]));
    new.into()
}

/// Version 2 has the type of a parameter beside its name.
fn parameters(parameters: &Value) -> Vec<Value> {
    let flat = |parameter: &Value| {
        let mut new = parameter.as_object().cloned().unwrap_or_default();
        if let Some(Value::Object(schema)) = new.remove("schema") {
            new.extend(schema);
        }
        Value::Object(new)
    };
    parameters.as_array().into_iter().flatten().map(flat).collect()
}

/// Rewrites the schema of a type. Of one that keeps whatever it gets, version 2 says only that it is an object: kubectl takes
/// properties for all that there are.
fn whole(schema: &Value) -> Value {
    if !keeps_unknown(schema) {
        return convert(schema);
    }
    let kept = ["type", "description", "x-kubernetes-group-version-kind"];
    let members = kept.into_iter().filter_map(|key| Some((key.to_owned(), schema.get(key)?.clone())));
    Value::Object(members.collect())
}

fn keeps_unknown(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

/// Rewrites a schema: other references, no alternatives, and text may stand beside a reference.
fn convert(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(convert).collect(),
        Value::String(text) => text
            .strip_prefix("#/components/schemas/")
            .map_or_else(|| schema.clone(), |name| format!("#/definitions/{name}").into()),
        Value::Object(members) => object(members),
        other => other.clone(),
    }
}

fn object(members: &Map<String, Value>) -> Value {
    // Where properties are listed, the keys are names and not words of a schema.
    let by_name = ["properties", "definitions", "patternProperties"];
    let free = members.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let mut new = Map::new();
    for (key, value) in members {
        match (key.as_str(), value) {
            ("properties" | "items", _) if free => {}
            ("default" | "example" | "enum", _) => drop(new.insert(key.clone(), value.clone())),
            (name, Value::Object(inner)) if by_name.contains(&name) => {
                let all: Map<String, Value> = inner.iter().map(|(name, schema)| (name.clone(), convert(schema))).collect();
                new.insert(key.clone(), all.into());
            }
            ("allOf", Value::Array(one)) if one.len() == 1 && one[0].get("$ref").is_some() => {
                new.insert("$ref".to_owned(), convert(&one[0]["$ref"]));
            }
            (word, _) if NOT_IN_V2.contains(&word) => {}
            _ => drop(new.insert(key.clone(), convert(value))),
        }
    }
    new.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_parameters_and_bodies_are_those_of_version_2() {
        let v3 = json!({
            "paths": {"/api/v1/x": {
                "parameters": [{"name": "pretty", "in": "query", "schema": {"type": "string"}}],
                "post": {"parameters": [], "requestBody": {"required": true, "content": {"*/*": {"schema": {"$ref": "#/components/schemas/X"}}}},
                    "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/X"}}}}},
                    "x-kubernetes-action": "post"},
            }},
            "components": {"schemas": {"X": {"type": "object", "properties": {
                "not": {"type": "string", "nullable": true},
                "y": {"allOf": [{"$ref": "#/components/schemas/Y"}], "description": "text"},
            }}}},
        });
        let v2 = document(&[v3], "v1");
        let post = &v2["paths"]["/api/v1/x"]["post"];
        assert_eq!(post["parameters"][0]["schema"]["$ref"], "#/definitions/X");
        assert_eq!((&post["consumes"], &post["x-kubernetes-action"]), (&json!(["*/*"]), &json!("post")));
        assert_eq!(post["responses"]["200"]["schema"]["$ref"], "#/definitions/X");
        assert_eq!(v2["paths"]["/api/v1/x"]["parameters"][0], json!({"name": "pretty", "in": "query", "type": "string"}));
        let properties = json!({"not": {"type": "string"}, "y": {"$ref": "#/definitions/Y", "description": "text"}});
        assert_eq!(v2["definitions"]["X"]["properties"], properties);
    }

    #[test]
    fn what_keeps_unknown_fields_has_no_properties() {
        let free =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}});
        let document = |schema: &Value| document(&[json!({"components": {"schemas": {"X": schema}}})], "v1");
        assert_eq!(document(&free)["definitions"]["X"], json!({"type": "object"}));
        let inside = json!({"type": "object", "properties": {"spec": free}});
        let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(document(&inside)["definitions"]["X"]["properties"]["spec"], spec);
    }

    #[test]
    fn the_protobuf_form_names_its_version() {
        let bytes = protobuf("v1.36");
        assert_eq!(bytes[..5], *b"\x0a\x032.0");
        assert_eq!(bytes[5..], *b"\x12\x13\x0a\x0aKubernetes\x12\x05v1.36\x42\x00");
    }
}
