//! `allOf`, `anyOf`, `oneOf`, `not`. Alternatives are not ratcheted: together they are one condition.

use api::field::Error;
use serde_json::Value;

use crate::schema::Schema;
use crate::trail::Trail;

pub(super) fn check(schema: &Schema, value: &Value, at: &Trail<'_>, errors: &mut Vec<Error>) {
    let violated = |detail: String| Error::invalid(&at.path(), "", detail);
    let name = || at.to_string();
    if !schema.any_of.is_empty()
        && let Err(nearest) = any(&schema.any_of, value, at)
    {
        errors.push(violated(format!("{:?} must validate at least one schema (anyOf)", name())));
        errors.extend(nearest);
    }
    if !schema.one_of.is_empty() {
        let failures: Vec<Vec<Error>> = schema.one_of.iter().map(|alternative| all_errors(alternative, value, at)).collect();
        match failures.iter().filter(|errors| errors.is_empty()).count() {
            1 => {}
            0 => {
                errors.push(violated(format!("{:?} must validate one and only one schema (oneOf). Found none valid", name())));
                errors.extend(failures.into_iter().min_by_key(Vec::len).unwrap_or_default());
            }
            many => {
                let detail =
                    format!("{:?} must validate one and only one schema (oneOf). Found {many} valid alternatives", name());
                errors.push(violated(detail));
            }
        }
    }
    let before = errors.len();
    for part in &schema.all_of {
        super::value(part, value, None, at, errors);
    }
    if errors.len() > before {
        errors.push(violated(format!("{:?} must validate all the schemas (allOf)", name())));
    }
    if let Some(not) = &schema.not
        && all_errors(not, value, at).is_empty()
    {
        errors.push(violated(format!("{:?} must not validate the schema (not)", name())));
    }
}

fn all_errors(schema: &Schema, value: &Value, at: &Trail<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    super::value(schema, value, None, at, &mut errors);
    errors
}

/// Succeeds at the first alternative that fits; else returns the errors of the one that fits best.
fn any(alternatives: &[Schema], value: &Value, at: &Trail<'_>) -> Result<(), Vec<Error>> {
    let mut nearest: Option<Vec<Error>> = None;
    for alternative in alternatives {
        let errors = all_errors(alternative, value, at);
        if errors.is_empty() {
            return Ok(());
        }
        if nearest.as_ref().is_none_or(|nearest| errors.len() < nearest.len()) {
            nearest = Some(errors);
        }
    }
    Err(nearest.unwrap_or_default())
}
