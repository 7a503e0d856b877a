//! How a step is read: strictly, each field once.

use std::time::Duration;

use serde_json::{Map, Value};

use super::StepError;

/// The fields of a JSON object, each taken once: what is left is unknown.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn of(value: Value) -> Result<Fields, StepError> {
        match value {
            Value::Object(fields) => Ok(Fields(fields)),
            _ => Err(StepError("not an object".to_owned())),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or_default()
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, StepError> {
        match self.take(name) {
            Value::String(text) => Ok(text),
            _ => Err(StepError(format!("{name}: must be a text"))),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<u64, StepError> {
        self.take(name).as_u64().ok_or_else(|| StepError(format!("{name}: must be a whole number that is not negative")))
    }

    pub(super) fn span(&mut self, name: &str) -> Result<Duration, StepError> {
        let text = self.text(name)?;
        api::duration::parse(&text).map_err(|error| StepError(format!("{name}: {error}")))
    }

    pub(super) fn finish(self) -> Result<(), StepError> {
        self.0.keys().next().map_or(Ok(()), |name| Err(StepError(format!("{name}: unknown field"))))
    }
}
