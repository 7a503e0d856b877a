//! CustomResourceDefinitions, and objects by their schemas.

use api::json;
use schemas::{self, Definition, Schema};
use kinds::model;
use serde_json::Value;

use crate::objects::NOW;

/// Takes `{"definition": .., "object": ..}`: judges and compiles the one, then prunes, fills in and judges the other by it.
pub fn definition(bytes: &[u8]) {
    let Ok(parsed) = model::json::parse(bytes) else { return };
    let (mut definition, object) = (parsed.value["definition"].clone(), &parsed.value["object"]);
    schemas::default_definition(&mut definition);
    let once = definition.clone();
    schemas::default_definition(&mut definition);
    assert_eq!(definition, once, "defaulting twice is defaulting once");
    let _ = schemas::validate_definition(&definition, None);
    let _ = schemas::validate_definition(&definition, Some(&once));
    let _ = schemas::definition_warnings(&definition);
    if let Ok(compiled) = Definition::compile(&definition) {
        for version in &compiled.versions {
            let _ = compiled.resource(version);
            judge(&version.schema, object);
            let _ = (version.columns.row(object, NOW), version.scale.as_ref().and_then(|scale| scale.read(object)));
        }
    }
    for version in json::items(&definition, &["spec", "versions"]) {
        if let Ok(schema) = Schema::compile(&version["schema"]["openAPIV3Schema"]) {
            judge(&schema, object);
        }
    }
}

fn judge(schema: &Schema, object: &Value) {
    let mut object = object.clone();
    schemas::prune(schema, &mut object);
    assert_eq!(schemas::prune(schema, &mut object), Vec::<String>::new(), "what is pruned is gone");
    schemas::default(schema, &mut object);
    let once = object.clone();
    schemas::default(schema, &mut object);
    assert_eq!(object, once, "defaulting twice is defaulting once");
    let _ = schemas::validate(schema, &object, None);
    let _ = schemas::validate(schema, &object, Some(&once));
}
