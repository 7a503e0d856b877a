//! Reads the model's data files. Their form is regular, so a line reader is enough; whatever it does not know is an error.

use std::collections::BTreeMap;

use super::{Apply, Field, Merge, Message, MessageId, Model, Slot, Type};

/// A message as written: its fields by number (`None`: JSON only), name and type.
#[derive(Default)]
struct Written {
    fields: Vec<(Option<u32>, &'static str, &'static str)>,
}

#[derive(Default)]
struct Files {
    kinds: Vec<(&'static str, &'static str)>,
    messages: BTreeMap<&'static str, Written>,
    lists: BTreeMap<&'static str, &'static str>,
    atomic: Vec<&'static str>,
    /// Texts by `Message`, `Message.field` or `*.field`.
    texts: BTreeMap<&'static str, &'static str>,
    required: BTreeMap<&'static str, Vec<&'static str>>,
}

/// Reads the files into one model.
pub(super) fn load(files: &[&'static str]) -> Result<Model, String> {
    let mut read = Files::default();
    for text in files {
        read.file(text)?;
    }
    // A BTreeMap yields the names sorted, so the place of a name is the id of its message.
    let names: Vec<(&'static str, MessageId)> =
        read.messages.keys().enumerate().map(|(place, name)| (*name, MessageId(place))).collect();
    let builder = Builder { read: &read, names: &names };
    let mut messages = names.iter().map(|(name, _)| builder.message(name)).collect::<Result<Vec<Message>, String>>()?;
    let mut kinds = Vec::new();
    for (full, name) in &read.kinds {
        let (version, kind) = full.rsplit_once('/').ok_or_else(|| format!("kind {full} has no version"))?;
        let id = builder.id(name)?;
        messages[id.0].top = true;
        kinds.push((version, kind, id));
    }
    kinds.sort_unstable();
    for name in &read.atomic {
        messages[builder.id(name)?.0].atomic = true;
    }
    builder.everything_named_exists(&messages)?;
    Ok(Model { messages, names, kinds })
}

impl Files {
    fn file(&mut self, text: &'static str) -> Result<(), String> {
        let (mut section, mut message) = ("", "");
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let bad = || format!("cannot read the line {line:?}");
            let content = line.trim_start();
            match (line.len() - content.len(), section) {
                (0, _) => section = content.strip_suffix(':').ok_or_else(bad)?,
                (2, "kinds") => self.kinds.push(content.split_once(": ").ok_or_else(bad)?),
                (2, "lists") => {
                    let (field, rule) = content.split_once(": ").ok_or_else(bad)?;
                    self.lists.insert(field, rule);
                }
                (2, "structs") => self.atomic.push(content.strip_suffix(": atomic").ok_or_else(bad)?),
                (2, "describe") => {
                    let (what, text) = content.split_once(": ").ok_or_else(bad)?;
                    self.texts.insert(what.trim_matches('"'), text.trim_matches('"'));
                }
                (2, "required") => {
                    let (message, fields) = content.split_once(": ").ok_or_else(bad)?;
                    self.required.insert(message, fields.split(' ').collect());
                }
                (2, "messages") => {
                    message = content.strip_suffix(':').ok_or_else(bad)?;
                    self.messages.entry(message).or_default();
                }
                (4, "messages") => {
                    let (number, field) = content.split_once(": ").ok_or_else(bad)?;
                    let number = if number == "-" { None } else { Some(number.parse().map_err(|_| bad())?) };
                    let field = field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).ok_or_else(bad)?;
                    let (name, kind) = field.split_once(": ").ok_or_else(bad)?;
                    self.messages.get_mut(message).ok_or_else(bad)?.fields.push((number, name, kind));
                }
                _ => return Err(bad()),
            }
        }
        Ok(())
    }
}

struct Builder<'a> {
    read: &'a Files,
    names: &'a [(&'static str, MessageId)],
}

impl Builder<'_> {
    fn id(&self, name: &str) -> Result<MessageId, String> {
        let place = self.names.binary_search_by(|(known, _)| (*known).cmp(name)).map_err(|_| format!("no message {name}"))?;
        Ok(self.names[place].1)
    }

    fn message(&self, name: &'static str) -> Result<Message, String> {
        let mut fields = Vec::new();
        self.fields(name, name, &mut fields)?;
        fields.sort_by_key(|field| field.name);
        if let Some(pair) = fields.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(format!("{name} has the field {} twice", pair[0].name));
        }
        let mut wire = Vec::new();
        for (number, field, kind) in &self.read.messages[name].fields {
            let Some(number) = number else { continue };
            let slot = match *field {
                "+" => Slot::Inline(self.id(kind)?),
                field => Slot::Field(fields.binary_search_by(|known| known.name.cmp(field)).expect("collected just above")),
            };
            wire.push((*number, slot));
        }
        wire.sort_by_key(|(number, _)| *number);
        Ok(Message { name, fields, wire, description: self.text(name), top: false, atomic: false })
    }

    /// Appends the fields that the message `outer` has in JSON because it is, or inlines, the message `name`.
    fn fields(&self, outer: &str, name: &'static str, into: &mut Vec<Field>) -> Result<(), String> {
        let written = self.read.messages.get(name).ok_or_else(|| format!("no message {name}"))?;
        for (_, field, kind) in &written.fields {
            if *field == "+" {
                self.fields(outer, kind, into)?;
                continue;
            }
            let (kind, optional) = kind.strip_suffix('?').map_or((*kind, false), |kind| (kind, true));
            let merge =
                self.read.lists.get(format!("{name}.{field}").as_str()).map_or(Ok(Merge::default()), |rule| merge(rule))?;
            let texts = [outer, name, "*"].map(|of| self.text(&format!("{of}.{field}")));
            let description = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
            into.push(Field {
                name: field,
                kind: self.kind(kind)?,
                optional,
                merge,
                description,
                required: self.read.required.get(name).is_some_and(|fields| fields.contains(field)),
            });
        }
        Ok(())
    }

    fn kind(&self, text: &str) -> Result<Type, String> {
        if let Some((first, second)) = text.split_once('|') {
            return match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
                Some(inner) => Ok(Type::Map(Box::new(self.kind(inner)?))),
                None => Ok(Type::Either(Box::new(self.kind(first)?), Box::new(self.kind(second)?))),
            };
        }
        let inner = |open, close| text.strip_prefix(open).and_then(|text: &str| text.strip_suffix(close));
        if let Some(item) = inner('[', ']') {
            return Ok(Type::List(Box::new(self.kind(item)?)));
        }
        if let Some(value) = inner('{', '}') {
            return Ok(Type::Map(Box::new(self.kind(value)?)));
        }
        Ok(match text {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            "Time" => Type::Time,
            "MicroTime" => Type::MicroTime,
            "Quantity" => Type::Quantity,
            "IntOrString" => Type::IntOrString,
            "RawExtension" | "FieldsV1" | "any" => Type::Any,
            name => Type::Message(self.id(name)?),
        })
    }

    fn text(&self, what: &str) -> &'static str {
        self.read.texts.get(what).copied().unwrap_or_default()
    }

    /// Refuses rules and texts about something that does not exist.
    fn everything_named_exists(&self, messages: &[Message]) -> Result<(), String> {
        let known = |full: &str| {
            let (message, field) = full.rsplit_once('.').unwrap_or((full, ""));
            let has = |message: &Message| message.field(field).is_some();
            let named = |name: &str| self.id(name).ok().map(|id| &messages[id.0]);
            named(full).is_some() || named(message).is_some_and(has) || (message == "*" && messages.iter().any(has))
        };
        let required =
            self.read.required.iter().flat_map(|(name, fields)| fields.iter().map(move |field| format!("{name}.{field}")));
        let named = self.read.lists.keys().chain(self.read.texts.keys()).map(|full| (*full).to_owned());
        match named.chain(required).find(|full| !known(full)) {
            Some(full) => Err(format!("no field {full}")),
            None => Ok(()),
        }
    }
}

/// Reads `merge KEY[, retainKeys][; apply: KEYS]`, `set`, `atomic` or `retainKeys`.
fn merge(rule: &'static str) -> Result<Merge, String> {
    let (strategic, apply) = rule.split_once("; apply: ").map_or((rule, None), |(rule, apply)| (rule, Some(apply)));
    let mut merge = Merge::default();
    for word in strategic.split(", ") {
        match word.split_once(' ') {
            Some(("merge", key)) => {
                merge.key = Some(key);
                merge.apply = Apply::Map(vec![key]);
            }
            None if word == "retainKeys" => merge.retain_keys = true,
            None if word == "set" => merge.apply = Apply::Set,
            None if word == "atomic" => merge.apply = Apply::Atomic,
            _ => return Err(format!("cannot read the list rule {rule:?}")),
        }
    }
    match apply {
        None => {}
        Some("atomic") => merge.apply = Apply::Atomic,
        Some(keys) => merge.apply = Apply::Map(keys.split(' ').collect()),
    }
    Ok(merge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_the_data_is_an_error() {
        for text in [
            "messages:\n  A:\n    1: \"b: B\"",
            "messages:\n  A:\n    1: \"b: string\"\n    2: \"b: string\"",
            "messages:\n  A:\n    one: \"b: string\"",
            "messages:\n  A\n",
            "kinds:\n  v1/A: A",
            "messages:\n  A:\nlists:\n  A.b: atomic",
            "messages:\n  A:\ndescribe:\n  A.b: text",
            "messages:\n  A:\ndescribe:\n  \"*.b\": text",
            "messages:\n  A:\nrequired:\n  A: b",
            "messages:\n  A:\n    1: \"b: [string]\"\nlists:\n  A.b: sometimes",
        ] {
            assert!(load(&[text]).is_err(), "{text}");
        }
    }
}
