//! The rules of `x-kubernetes-validations`: when they apply, and what a broken one says.
//!
//! A rule that names `oldSelf` is a transition rule: it applies only where there is an old value to compare with. Any other
//! rule does not apply to a value that did not change.

use api::field::{Error, ErrorKind, Path};
use serde_json::Value;

use super::cel::{self, Budget, EvalError, NotSupported, OldSelf, Program};
use super::correlate::{self, OldItems};
use super::schema::{Schema, Type};
use super::trail::Trail;

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    program: Program,
    message: String,
    message_program: Option<Program>,
    reason: ErrorKind,
    field_path: String,
    optional_old_self: bool,
}

impl Rule {
    /// Compiles a rule; a message expression that is not covered does not disable the rule, it is returned beside it.
    pub(super) fn compile(rule: &Value) -> Result<(Rule, Option<NotSupported>), NotSupported> {
        let text = api::json::text(rule, &["rule"]).trim().to_owned();
        let program = cel::compile(&text)?;
        let expression = api::json::text(rule, &["messageExpression"]);
        let (message_program, not_supported) = match expression {
            "" => (None, None),
            expression => match cel::compile(expression) {
                Ok(program) => (Some(program), None),
                Err(why) => (None, Some(why)),
            },
        };
        let reason = match api::json::text(rule, &["reason"]) {
            "FieldValueRequired" => ErrorKind::Required,
            "FieldValueForbidden" => ErrorKind::Forbidden,
            "FieldValueDuplicate" => ErrorKind::Duplicate,
            _ => ErrorKind::Invalid,
        };
        let message = match api::json::text(rule, &["message"]).trim() {
            "" => format!("failed rule: {text}"),
            message => message.to_owned(),
        };
        let rule = Rule {
            program,
            message,
            message_program,
            reason,
            field_path: api::json::text(rule, &["fieldPath"]).trim_start_matches('.').replace("['", "[").replace("']", "]"),
            optional_old_self: api::json::boolean(rule, &["optionalOldSelf"]).unwrap_or(false),
            text,
        };
        Ok((rule, not_supported))
    }

    fn check(&self, schema: &Schema, new: &Value, old: Before<'_>, at: &Trail<'_>, budget: &mut Budget) -> Result<(), Failure> {
        let transition = self.program.uses_old_self();
        if old.unchanged && !transition {
            return Ok(());
        }
        let old_self = match old.value.filter(|old| !old.is_null()) {
            old if self.optional_old_self => OldSelf::Optional(old),
            Some(old) => OldSelf::Value(old),
            None if transition => return Ok(()),
            None => OldSelf::Absent,
        };
        match self.program.holds(Some(schema), new, old_self, budget) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure { error: self.broken(schema, new, old_self, at, budget), last: false }),
            Err(error) => {
                let last = error == EvalError::OutOfBudget;
                let detail = if last { error.to_string() } else { format!("{error} evaluating rule: {}", self.message) };
                Err(Failure { error: Error::new(&at.path(), ErrorKind::Invalid, detail), last })
            }
        }
    }

    fn broken(&self, schema: &Schema, new: &Value, old: OldSelf<'_>, at: &Trail<'_>, budget: &mut Budget) -> Error {
        let computed = self.message_program.as_ref().and_then(|program| program.text(Some(schema), new, old, budget).ok());
        let usable = |text: &String| !text.trim().is_empty() && !text.contains(['\n', '\r']);
        let message = computed.filter(usable).unwrap_or_else(|| self.message.clone());
        let path = match self.field_path.as_str() {
            "" => at.path(),
            field if field.starts_with('[') => Path::new(format!("{at}{field}")),
            field => Path::new(at.to_string()).child(field),
        };
        // Objects and lists are too large to show.
        let shown = !matches!(schema.kind, Some(Type::Object | Type::Array)) && !new.is_object() && !new.is_array();
        Error { value: shown.then(|| new.clone()), ..Error::new(&path, self.reason, message) }
    }

    /// Returns the expression.
    pub fn text(&self) -> &str {
        &self.text
    }
}

struct Failure {
    error: Error,
    /// Whether nothing more can be evaluated.
    last: bool,
}

/// What was there before.
#[derive(Clone, Copy)]
struct Before<'a> {
    value: Option<&'a Value>,
    /// Whether it, or something around it, is equal to what is there now.
    unchanged: bool,
}

impl<'a> Before<'a> {
    fn of(value: Option<&'a Value>, new: &Value, around: bool) -> Before<'a> {
        Before { value, unchanged: around || value == Some(new) }
    }
}

/// Checks every rule of a schema on an object.
pub(super) fn check(schema: &Schema, new: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    walk(schema, new, Before::of(old, new, false), &Trail::ROOT, &mut Budget::default(), errors);
}

/// Returns whether there is still budget to go on.
fn walk(schema: &Schema, new: &Value, old: Before<'_>, at: &Trail<'_>, budget: &mut Budget, errors: &mut Vec<Error>) -> bool {
    if !schema.has_rules || new.is_null() {
        return true;
    }
    for rule in &schema.rules {
        if let Err(failure) = rule.check(schema, new, old, at, budget) {
            errors.push(failure.error);
            if failure.last {
                return false;
            }
        }
    }
    match new {
        Value::Object(members) => members.iter().all(|(name, member)| {
            let old = Before::of(correlate::member(schema, old.value, name), member, old.unchanged);
            schema.member(name).is_none_or(|property| walk(property, member, old, &at.member(name), budget, errors))
        }),
        Value::Array(items) => {
            let Some(schema_of_items) = schema.items() else { return true };
            let old_items = OldItems::new(schema, old.value);
            (0..).zip(items).all(|(index, item)| {
                let old = Before::of(old_items.get(item), item, old.unchanged);
                walk(schema_of_items, item, old, &at.index(index), budget, errors)
            })
        }
        _ => true,
    }
}
