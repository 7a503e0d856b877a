//! The columns of custom resources: `additionalPrinterColumns`.

use std::borrow::Cow;

use api::json;
use machine::Time;
use serde_json::Value;

use super::jsonpath::JsonPath;
use kinds::table::{Column, Row, cell};

/// The columns of a version, ready to print rows.
#[derive(Clone, Debug)]
pub struct PrinterColumns {
    columns: Vec<Column>,
    /// One for each column but the first, which is the name.
    paths: Vec<JsonPath>,
}

impl PrinterColumns {
    /// Reads the columns of a version of a definition; a version without columns shows the age.
    pub fn compile(version: &Value) -> PrinterColumns {
        let mut columns = vec![Column::name()];
        let mut paths = Vec::new();
        for column in json::items(version, &["additionalPrinterColumns"]) {
            // Validation refuses bad paths; a stored one from elsewhere costs its column and nothing else.
            let path_text = json::text(column, &["jsonPath"]);
            let Ok(path) = JsonPath::parse(path_text) else { continue };
            let text = |key: &str| Cow::Owned(json::text(column, &[key]).to_owned());
            let description = match json::text(column, &["description"]) {
                "" => format!("Custom resource definition column (in JSONPath format): {path_text}"),
                description => description.to_owned(),
            };
            columns.push(Column {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                description: description.into(),
                priority: json::int(column, &["priority"]).unwrap_or(0),
            });
            paths.push(path);
        }
        if paths.is_empty() {
            columns.push(Column::age());
            paths.push(JsonPath::parse(".metadata.creationTimestamp").expect("a plain path"));
        }
        PrinterColumns { columns, paths }
    }

    /// Returns the definitions of the columns, the name first.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the row of an object.
    pub fn row(&self, object: &Value, now: Time) -> Row {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_default();
        let found = |(column, path): (&Column, &JsonPath)| cell(&column.kind, path.first(object), now);
        let cells: Vec<Value> = std::iter::once(name).chain(self.columns[1..].iter().zip(&self.paths).map(found)).collect();
        cells.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn printer_columns_make_the_table() {
        let version = json!({"additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how big"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Extra", "type": "string", "jsonPath": ".spec.extra", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]});
        let columns = PrinterColumns::compile(&version);
        let names: Vec<&str> = columns.columns().iter().map(|column| column.name.as_ref()).collect();
        assert_eq!(names, ["Name", "Size", "Ready", "Extra", "Age"]);
        assert_eq!(columns.columns()[1].description, "how big");
        assert_eq!(columns.columns()[3].priority, 1);
        let object = json!({
            "metadata": {"name": "g", "creationTimestamp": "2026-01-31T08:00:00Z"}, "spec": {"size": 3},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let now = api::Timestamp::parse("2026-01-31T08:00:05Z").unwrap().0;
        assert_eq!(columns.row(&object, now).cells, [json!("g"), json!(3), json!("True"), Value::Null, json!("5s")]);
    }

    #[test]
    fn without_columns_the_age_is_shown() {
        let columns = PrinterColumns::compile(&json!({}));
        assert_eq!(columns.columns(), [Column::name(), Column::age()]);
    }
}
