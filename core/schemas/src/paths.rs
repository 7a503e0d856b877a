//! Places inside custom resources that a definition names: the numbers of `/scale` and the fields to select by.

use std::borrow::Cow;

use api::json;
use serde_json::{Map, Value, json};

use super::jsonpath::JsonPath;

/// Where the subresource `scale` finds its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    spec_replicas: Vec<String>,
    status_replicas: Vec<String>,
    label_selector: Option<Vec<String>>,
}

fn members(text: &str) -> Option<Vec<String>> {
    Some(JsonPath::parse(text).ok()?.members()?.into_iter().map(str::to_owned).collect())
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

impl ScalePaths {
    /// Reads `subresources.scale` of a version; `None` if there is none.
    pub fn compile(version: &Value) -> Option<ScalePaths> {
        let scale = json::at(version, &["subresources", "scale"])?;
        Some(ScalePaths {
            spec_replicas: members(json::text(scale, &["specReplicasPath"]))?,
            status_replicas: members(json::text(scale, &["statusReplicasPath"]))?,
            label_selector: Some(json::text(scale, &["labelSelectorPath"])).filter(|text| !text.is_empty()).and_then(members),
        })
    }

    /// Returns the `Scale` of an object; `None` if the object does not say how many replicas it wants.
    pub fn read(&self, object: &Value) -> Option<Value> {
        let replicas = at(object, &self.spec_replicas)?.as_i64()?;
        let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
        let member = |name: &&str| Some(((*name).to_owned(), json::at(object, &["metadata", name])?.clone()));
        let metadata: Map<String, Value> = kept.iter().filter_map(member).collect();
        let mut status = json!({"replicas": at(object, &self.status_replicas).and_then(Value::as_i64).unwrap_or(0)});
        if let Some(selector) = self.label_selector.as_ref().and_then(|path| at(object, path)).and_then(Value::as_str) {
            status["selector"] = selector.into();
        }
        Some(json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": replicas}, "status": status,
        }))
    }

    /// Writes the number of replicas that the object shall have.
    pub fn write(&self, object: &mut Value, replicas: i64) {
        let names: Vec<&str> = self.spec_replicas.iter().map(String::as_str).collect();
        if let Some((last, parents)) = names.split_last() {
            json::object_mut(object, parents).insert((*last).to_owned(), replicas.into());
        }
    }
}

/// The fields of a version that a field selector may name: `selectableFields`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelectableFields {
    /// The label, without the leading dot, and the members that lead there.
    fields: Vec<(String, Vec<String>)>,
}

impl SelectableFields {
    /// Reads the selectable fields of a version.
    pub fn compile(version: &Value) -> SelectableFields {
        let field = |field: &Value| {
            let path = members(json::text(field, &["jsonPath"]))?;
            Some((path.join("."), path))
        };
        SelectableFields { fields: json::items(version, &["selectableFields"]).iter().filter_map(field).collect() }
    }

    /// Returns the labels, for example `spec.color`.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(label, _)| label.as_str())
    }

    /// Returns the value of a field of an object, empty if it is not set; `None` if the label is not selectable.
    pub fn value<'a>(&self, object: &'a Value, label: &str) -> Option<Cow<'a, str>> {
        let (_, path) = self.fields.iter().find(|(known, _)| known == label)?;
        Some(match at(object, path) {
            Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => Cow::Owned(value.to_string()),
            _ => Cow::Borrowed(""),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_reads_and_writes_the_places_that_the_definition_names() {
        let version = json!({"subresources": {"scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector",
        }}});
        let scale = ScalePaths::compile(&version).unwrap();
        let mut object = json!({
            "metadata": {"name": "g", "namespace": "n", "labels": {"a": "b"}}, "spec": {"size": 3}, "status": {"size": 2, "selector": "a=b"},
        });
        assert_eq!(
            scale.read(&object).unwrap(),
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "g", "namespace": "n"},
                "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}})
        );
        scale.write(&mut object, 5);
        assert_eq!(object["spec"]["size"], 5);
        let mut empty = json!({});
        assert_eq!(scale.read(&empty), None);
        scale.write(&mut empty, 1);
        assert_eq!(empty, json!({"spec": {"size": 1}}));
        assert_eq!(ScalePaths::compile(&json!({"subresources": {"status": {}}})), None);
    }

    #[test]
    fn fields_are_selected_by_their_text() {
        let fields = SelectableFields::compile(
            &json!({"selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}, {"jsonPath": ".spec.on"}]}),
        );
        let object = json!({"spec": {"color": "blue", "n": 3}});
        assert_eq!(fields.labels().collect::<Vec<_>>(), ["spec.color", "spec.n", "spec.on"]);
        assert_eq!(fields.value(&object, "spec.color").as_deref(), Some("blue"));
        assert_eq!(fields.value(&object, "spec.n").as_deref(), Some("3"));
        assert_eq!(fields.value(&object, "spec.on").as_deref(), Some(""));
        assert_eq!(fields.value(&object, "spec.other"), None);
    }
}
