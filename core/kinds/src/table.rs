//! Tables: what `kubectl get` prints. The server decides the columns and the cells, clients only align them.
//!
//! Custom resources bring columns and cells of their own; [`cell`] turns what a printer column found into a cell, and
//! [`Table`] puts either together.

mod columns;
mod further;
mod kinds;
mod pod;

use std::borrow::Cow;

use api::Timestamp;
use machine::Time;
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use columns::{columns, custom_columns};

/// The definition of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The heading.
    pub name: Cow<'static, str>,
    /// The type of its cells: `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// A hint: `name` marks the column that names the object.
    pub format: Cow<'static, str>,
    /// What it shows.
    pub description: Cow<'static, str>,
    /// 0: always shown; 1: only in wide output.
    pub priority: i64,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, priority: i64, description: &'static str) -> Column {
        Column::formatted(name, kind, "", priority, description)
    }

    const fn formatted(
        name: &'static str,
        kind: &'static str,
        format: &'static str,
        priority: i64,
        description: &'static str,
    ) -> Column {
        Column {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(description),
            priority,
        }
    }

    /// Returns the column that tables begin with.
    pub const fn name() -> Column {
        Column::named(0)
    }

    const fn named(priority: i64) -> Column {
        Column::formatted("Name", "string", "name", priority, "Name of the object, unique in its namespace.")
    }

    /// Returns the column of custom resources that define none.
    pub const fn age() -> Column {
        Column::new("Age", "date", 0, "Time since the object was created.")
    }
}

/// A row: its cells, one for each column, and what is particular about the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The cells, in the order of the columns.
    pub cells: Vec<Value>,
    /// Conditions, for example that a pod is completed.
    pub conditions: Vec<Value>,
}

impl From<Vec<Value>> for Row {
    fn from(cells: Vec<Value>) -> Row {
        Row { cells, conditions: Vec::new() }
    }
}

/// Returns the row of an object of a built-in kind. A custom resource may have the same kind: ask for its definition first.
pub fn row(kind: &str, object: &Value, now: Time) -> Row {
    match kind {
        "Pod" => pod::row(object, now),
        "Node" => kinds::node(object, now).into(),
        "Service" => kinds::service(object, now).into(),
        "Namespace" => kinds::namespace(object, now).into(),
        "ServiceAccount" => kinds::service_account(object, now).into(),
        "Lease" => kinds::lease(object, now).into(),
        "ConfigMap" => kinds::config_map(object, now).into(),
        "Secret" => kinds::secret(object, now).into(),
        "Event" => kinds::event(object, now).into(),
        "EndpointSlice" => kinds::endpoint_slice(object, now).into(),
        "Deployment" => kinds::deployment(object, now).into(),
        "ReplicaSet" => kinds::replica_set(object, now).into(),
        "PodDisruptionBudget" => kinds::budget(object, now).into(),
        kind => further::cells(kind, object, now).unwrap_or_else(|| kinds::other(object)).into(),
    }
}

/// How much of the object a row carries: the query parameter `includeObject`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Parses the query parameter; empty is the default.
    pub fn parse(text: &str) -> Option<Include> {
        match text {
            "None" => Some(Include::None),
            "" | "Metadata" => Some(Include::Metadata),
            "Object" => Some(Include::Object),
            _ => None,
        }
    }
}

/// A table that is being put together.
#[derive(Clone, Debug)]
pub struct Table {
    version: String,
    include: Include,
    columns: Option<Value>,
    rows: Vec<Value>,
}

impl Table {
    /// Returns a table without rows; `version` is that of `meta.k8s.io`, as the client asked for it.
    pub fn new(version: &str, include: Include, columns: &[Column]) -> Table {
        Table { columns: Some(json!(columns)), ..Table::continued(version, include) }
    }

    /// Returns a table without column definitions: later events of a watch repeat none.
    pub fn continued(version: &str, include: Include) -> Table {
        Table { version: format!("meta.k8s.io/{version}"), include, columns: None, rows: Vec::new() }
    }

    /// Adds the row of an object.
    pub fn push(&mut self, row: Row, object: &Value) {
        let mut members = Map::new();
        members.insert("cells".to_owned(), Value::Array(row.cells));
        if !row.conditions.is_empty() {
            members.insert("conditions".to_owned(), Value::Array(row.conditions));
        }
        match self.include {
            Include::None => {}
            Include::Metadata => {
                members.insert("object".to_owned(), partial(&self.version, object));
            }
            Include::Object => {
                members.insert("object".to_owned(), object.clone());
            }
        }
        self.rows.push(Value::Object(members));
    }

    /// Returns the table; `metadata` is that of the list, or `{resourceVersion}` of the one object.
    pub fn finish(self, metadata: Value) -> Value {
        let mut table = json!({"kind": "Table", "apiVersion": self.version, "metadata": metadata, "rows": self.rows});
        table["columnDefinitions"] = self.columns.unwrap_or_else(|| json!([]));
        table
    }
}

/// Returns the table of some objects of a built-in kind.
pub fn table<'a>(
    kind: &str,
    objects: impl IntoIterator<Item = &'a Value>,
    metadata: Value,
    version: &str,
    include: Include,
    now: Time,
) -> Value {
    let mut table = Table::new(version, include, columns(kind));
    for object in objects {
        table.push(row(kind, object, now), object);
    }
    table.finish(metadata)
}

/// Returns a label selector of a spec in the form of a query: `a=b,c in (d,e),!f`.
pub fn label_selector(selector: &Value) -> String {
    kinds::selector_text(selector)
}

/// Returns `PartialObjectMetadata` of an object; `api_version` is `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
pub fn partial(api_version: &str, object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata})
}

/// Returns the cell of a printer column: `kind` is the column's type, `found` what its path leads to.
///
/// A date is shown as an age, a text column shows anything, and a value of another type than the column's is no value.
pub fn cell(kind: &str, found: Option<&Value>, now: Time) -> Value {
    let Some(found) = found.filter(|found| !found.is_null()) else { return Value::Null };
    match (kind, found) {
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().map_or(Value::Null, |number| (number as i64).into()),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => found.clone(),
        ("string", other) => other.to_string().into(),
        ("date", Value::String(text)) => match Timestamp::parse(text) {
            Ok(stamp) => since(now, stamp.0).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// Returns the age of an object from a timestamp in its text form: `<unknown>` if there is none.
pub fn age(now: Time, stamp: Option<&Value>) -> String {
    match stamp.and_then(Value::as_str).map(Timestamp::parse) {
        Some(Ok(stamp)) => since(now, stamp.0),
        _ => "<unknown>".to_owned(),
    }
}

/// Returns the time since an instant, in the two largest units that matter.
pub fn since(now: Time, then: Time) -> String {
    let seconds = now.as_micros().saturating_sub(then.as_micros()) / 1_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let pair = |large: i64, unit: &str, small: i64, sub: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{sub}") }
    };
    match seconds {
        // Clocks of two machines may differ a little.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests;
