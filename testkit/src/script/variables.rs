//! Variables of a script: `${name}` and `${name+5}`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a script remembers.
#[derive(Clone, Debug)]
pub(crate) struct Variables(BTreeMap<String, Value>);

impl Variables {
    pub(crate) fn new(unique: &str) -> Variables {
        let named = [("id", format!("x{unique}")), ("ns", format!("ac-x{unique}"))];
        Variables(named.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }

    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Fills in the variables of a text.
    pub(crate) fn text(&self, text: &str) -> Result<String, String> {
        let filled = self.fill(text)?;
        Ok(filled.as_str().map_or_else(|| filled.to_string(), str::to_owned))
    }

    /// Fills in the variables of every text inside a value, keys included.
    pub(crate) fn value(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => self.fill(text)?,
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?),
            Value::Object(members) => {
                let pair = |(key, value): (&String, &Value)| Ok::<_, String>((self.text(key)?, self.value(value)?));
                Value::Object(members.iter().map(pair).collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        })
    }

    /// Fills in a value and reads it as a type.
    pub(crate) fn typed<T: DeserializeOwned + Default>(&self, value: &Value) -> Result<T, String> {
        if value.is_null() {
            return Ok(T::default());
        }
        serde_json::from_value(self.value(value)?).map_err(|error| format!("script error: {error}"))
    }

    /// A text that is just one variable keeps the variable's type.
    fn fill(&self, text: &str) -> Result<Value, String> {
        let Some((before, name, after)) = first_variable(text) else { return Ok(text.into()) };
        let value = self.lookup(name)?;
        if before.is_empty() && after.is_empty() {
            return Ok(value);
        }
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let rest = self.text(after)?;
        Ok(format!("{before}{shown}{rest}").into())
    }

    fn lookup(&self, name: &str) -> Result<Value, String> {
        let (name, delta) = match name.find(['+', '-']) {
            Some(at) => {
                (&name[..at], name[at..].parse::<i64>().map_err(|error| format!("script error: ${{{name}}}: {error}"))?)
            }
            None => (name, 0),
        };
        let value = self.0.get(name).ok_or_else(|| format!("script error: variable ${{{name}}} is not set"))?;
        if delta == 0 {
            return Ok(value.clone());
        }
        let number: i64 =
            value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_i64()).ok_or("script error: not a number")?;
        Ok((number + delta).to_string().into())
    }
}

fn first_variable(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find("${")?;
    let end = start + text[start..].find('}')?;
    Some((&text[..start], &text[start + 2..end], &text[end + 1..]))
}

/// Follows a JSON pointer; a list index may be negative.
pub(crate) fn pointer<'a>(document: &'a Value, place: &str) -> Option<&'a Value> {
    place.split('/').skip(1).try_fold(document, |here, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        match here {
            Value::Array(items) => {
                let index: i64 = part.parse().ok()?;
                let index = if index < 0 { index + i64::try_from(items.len()).ok()? } else { index };
                items.get(usize::try_from(index).ok()?)
            }
            other => other.get(&part),
        }
    })
}
