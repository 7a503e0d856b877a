//! What two values are together: the second wins, nothing goes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{Mismatch, elements_of, items, leaves, member, members};
use crate::element::Element;
use crate::schema::{Elements, Form, Members, Schema, form};

/// Returns `live` with everything that `config` says.
///
/// Lists whose elements are told apart keep the order of `live` where `config` does not say otherwise.
pub fn merge<'a, S: Schema<'a>>(schema: S, live: &Value, config: &Value) -> Result<Value, Mismatch> {
    Ok(both(schema, Some(live), Some(config))?.unwrap_or(Value::Null))
}

fn both<'a, S: Schema<'a>>(schema: S, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, Mismatch> {
    let leaf = || Ok(config.or(live).cloned());
    // What the configuration does not speak of stays as it is.
    if config.is_none() {
        return leaf();
    }
    match form(schema, config) {
        Form::Scalar | Form::List(Elements::Atomic) | Form::Map(Members::Atomic) => leaf(),
        Form::List(elements) => {
            let (live, config) = (items(live), items(config));
            if live.is_empty() && config.is_empty() {
                return leaf();
            }
            let out = Merge::new(schema, elements, live, config)?.run()?;
            Ok((!out.is_empty()).then_some(Value::Array(out)))
        }
        Form::Map(Members::Granular) => {
            let (live, config) = (members(live), members(config));
            if live.is_none_or(Map::is_empty) && config.is_none_or(Map::is_empty) {
                return leaf();
            }
            let out = maps(schema, live, config)?;
            Ok((!out.is_empty()).then_some(Value::Object(out)))
        }
        Form::None => Err(Mismatch::new("the type allows no value")),
    }
}

fn maps<'a, S: Schema<'a>>(
    schema: S,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>, Mismatch> {
    let mut out = live.cloned().unwrap_or_default();
    for (name, value) in config.into_iter().flatten() {
        let step = Element::field(name);
        let inner = member(schema, name).ok_or_else(|| Mismatch::new("field not declared in schema").below(&step))?;
        match both(inner, out.get(name), Some(value)).map_err(|error| error.below(&step))? {
            Some(merged) => out.insert(name.clone(), merged),
            None => out.remove(name),
        };
    }
    Ok(out)
}

/// Merges two lists whose elements are told apart.
struct Merge<'v, S> {
    schema: S,
    live: &'v [Value],
    live_steps: Vec<Element>,
    config_steps: Vec<Element>,
    /// Elements of the live list; null where several cannot be told apart: those are not merged with anything.
    of_live: BTreeMap<Element, Value>,
    of_config: BTreeMap<Element, &'v Value>,
    /// Elements of both, in the order of the configuration, that are still to come.
    shared: VecDeque<Element>,
    done: BTreeSet<Element>,
    out: Vec<Value>,
}

impl<'a, 'v, S: Schema<'a>> Merge<'v, S> {
    fn new(schema: S, elements: Elements, live: &'v [Value], config: &'v [Value]) -> Result<Merge<'v, S>, Mismatch> {
        let config_steps = elements_of(schema, elements, config)?;
        if let Some(twin) = leaves::twin(&config_steps) {
            return Err(Mismatch::new(format!("duplicate entries for key {twin}")));
        }
        let live_steps = elements_of(schema, elements, live)?;
        let mut of_live = BTreeMap::new();
        for (step, value) in live_steps.iter().zip(live) {
            of_live.entry(step.clone()).and_modify(|known| *known = Value::Null).or_insert_with(|| value.clone());
        }
        let of_config = config_steps.iter().cloned().zip(config).collect();
        let shared = config_steps.iter().filter(|step| of_live.contains_key(step)).cloned().collect();
        Ok(Merge { schema, live, live_steps, config_steps, of_live, of_config, shared, done: BTreeSet::new(), out: Vec::new() })
    }

    fn run(mut self) -> Result<Vec<Value>, Mismatch> {
        let (mut at_live, mut at_config) = (0, 0);
        while at_live < self.live_steps.len() || at_config < self.config_steps.len() {
            let (live, config) = (self.live_steps.get(at_live).cloned(), self.config_steps.get(at_config).cloned());
            if let (Some(live), Some(config)) = (&live, &config) {
                if live == config {
                    self.take_config(config)?;
                    (at_live, at_config) = (at_live + 1, at_config + 1);
                    continue;
                }
                // The configuration wants this one later.
                if self.of_config.contains_key(live) && self.shared.front().is_some_and(|next| next != live) {
                    at_live += 1;
                    continue;
                }
            }
            if let Some(live) = live {
                if !self.of_config.contains_key(&live) {
                    // By index: of several that cannot be told apart, this very one.
                    let kept = both(self.schema.item(), Some(&self.live[at_live]), None).map_err(|error| error.below(&live))?;
                    self.out.extend(kept);
                    at_live += 1;
                    continue;
                }
                if self.done.contains(&live) {
                    at_live += 1;
                }
            }
            if let Some(config) = config {
                self.take_config(&config)?;
                at_config += 1;
            }
        }
        Ok(self.out)
    }

    /// Takes the next element of the configuration, merged with the live one.
    fn take_config(&mut self, step: &Element) -> Result<(), Mismatch> {
        self.done.insert(step.clone());
        let merged = both(self.schema.item(), self.of_live.get(step), self.of_config.get(step).copied());
        self.out.extend(merged.map_err(|error| error.below(step))?);
        if self.shared.front() == Some(step) {
            self.shared.pop_front();
        }
        Ok(())
    }
}
