//! What an answer must look like: subsets, and operators that begin with `$`.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::Reply;

/// What a step expects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expectation {
    code: Option<Value>,
    headers: BTreeMap<String, Option<Value>>,
    body: Option<Value>,
    text: Option<Value>,
    pub(crate) events: Option<Vec<Value>>,
    pub(crate) within: Option<f64>,
    pub(crate) unordered: bool,
    pub(crate) skipping: bool,
    pub(crate) quiet: Option<f64>,
    pub(crate) closed: bool,
    pub(crate) bookmarks: bool,
}

impl Expectation {
    /// Returns what can be judged before the body is read.
    pub(crate) fn head_only(&self) -> Expectation {
        Expectation { code: self.code.clone(), headers: self.headers.clone(), ..Expectation::default() }
    }

    pub(crate) fn wants_events(&self) -> bool {
        self.events.is_some() || self.closed || self.quiet.is_some()
    }
}

/// Returns everything that is wrong with an answer.
pub(crate) fn check_reply(expected: &Expectation, reply: &Reply) -> Vec<String> {
    let mut errors = Vec::new();
    if let Some(code) = &expected.code {
        let allowed = code.as_array().cloned().unwrap_or_else(|| vec![code.clone()]);
        if !allowed.iter().any(|code| code.as_u64() == Some(reply.code.into())) {
            errors.push(format!("status code: expected {code}, got {}: {}", reply.code, short(&reply.text)));
        }
    }
    for (name, wanted) in &expected.headers {
        let values: Vec<&str> = reply
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        let have = values.join(", ");
        match wanted {
            None if !values.is_empty() => errors.push(format!("header {name}: must be absent, is {have:?}")),
            None => {}
            Some(wanted) => {
                let missed = missed(wanted, &have).map(|pattern| format!("header {name}: {have:?} does not match /{pattern}/"));
                errors.extend(missed);
            }
        }
    }
    if let Some(body) = &expected.body
        && errors.is_empty()
    {
        match reply.json() {
            Some(json) => errors.extend(matches(body, Some(&json), "")),
            None => errors.push(format!("body is not JSON: {}", short(&reply.text))),
        }
    }
    if let Some(patterns) = &expected.text {
        errors.extend(
            missed(patterns, &reply.text).map(|pattern| format!("body {} does not match /{pattern}/", short(&reply.text))),
        );
    }
    errors
}

/// Returns the patterns that a text does not match: one pattern, or a list of which all must match. Looking ahead is not part
/// of these patterns; a list says the same.
fn missed<'a>(patterns: &'a Value, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let all = patterns.as_array().map_or(std::slice::from_ref(patterns), Vec::as_slice);
    let pattern = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    all.iter().map(pattern).filter(|pattern| !Regex::new(&format!("(?s){pattern}")).is_ok_and(|regex| regex.is_match(text)))
}

fn short(text: &str) -> String {
    if text.chars().count() <= 400 { text.to_owned() } else { format!("{}...", text.chars().take(400).collect::<String>()) }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| short(&value.to_string()))
}

/// Returns what is wrong: maps match key by key, lists element by element with equal length.
pub(crate) fn matches(expected: &Value, got: Option<&Value>, at: &str) -> Vec<String> {
    if let Value::Object(operators) = expected
        && !operators.is_empty()
        && operators.keys().all(|key| key.starts_with('$') && !key.starts_with("${"))
    {
        return operators.iter().flat_map(|(operator, argument)| operate(operator, argument, got, at)).collect();
    }
    let Some(value) = got else { return vec![format!("{at}: missing")] };
    match (expected, value) {
        (Value::Object(members), Value::Object(have)) => {
            members.iter().flat_map(|(key, wanted)| matches(wanted, have.get(key), &format!("{at}/{key}"))).collect()
        }
        (Value::Array(wanted), Value::Array(have)) if wanted.len() == have.len() => wanted
            .iter()
            .zip(have)
            .enumerate()
            .flat_map(|(index, (wanted, have))| matches(wanted, Some(have), &format!("{at}/{index}")))
            .collect(),
        (Value::Array(wanted), Value::Array(have)) => {
            vec![format!("{at}: expected {} elements, got {}: {}", wanted.len(), have.len(), shown(got))]
        }
        _ if same(expected, value) => Vec::new(),
        _ => vec![format!("{at}: expected {}, got {}", shown(Some(expected)), shown(got))],
    }
}

/// JSON equality, numbers by value.
fn same(a: &Value, b: &Value) -> bool {
    crate::diff::diff(a, b).is_empty()
}

fn operate(operator: &str, argument: &Value, got: Option<&Value>, at: &str) -> Vec<String> {
    let fail = |why: String| vec![format!("{at}: {why}")];
    let verdict = |good: bool, why: String| if good { Vec::new() } else { fail(why) };
    if operator == "$absent" {
        let gone = got.is_none_or(Value::is_null);
        return verdict(argument.as_bool() == Some(gone), format!("expected absence {argument}, got {}", shown(got)));
    }
    let Some(value) = got else { return fail("missing".to_owned()) };
    let any_of = |options: &Value| options.as_array().is_some_and(|all| all.iter().any(|one| matches(one, got, at).is_empty()));
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    match operator {
        "$any" => verdict(!value.is_null(), "is null".to_owned()),
        "$eq" => verdict(same(argument, value), format!("expected exactly {argument}, got {}", shown(got))),
        "$ne" => verdict(!same(argument, value), format!("must not be {argument}")),
        "$in" => verdict(any_of(argument), format!("{} is not one of {}", shown(got), shown(Some(argument)))),
        "$not" => verdict(!matches(argument, got, at).is_empty(), format!("must not match {argument}")),
        "$re" => match value.as_str() {
            Some(text) => {
                missed(argument, text).map(|pattern| format!("{at}: {} does not match /{pattern}/", shown(got))).collect()
            }
            None => fail(format!("not a text: {}", shown(got))),
        },
        "$len" => {
            let length = match value {
                Value::Array(items) => Some(items.len()),
                Value::Object(members) => Some(members.len()),
                Value::String(text) => Some(text.chars().count()),
                _ => None,
            };
            verdict(
                length.is_some_and(|length| argument.as_u64() == Some(length as u64)),
                format!("expected length {argument}, got {length:?}"),
            )
        }
        "$gt" | "$ge" | "$lt" | "$le" => match (number(value), number(argument)) {
            (Some(have), Some(bound)) => {
                let good = match operator {
                    "$gt" => have > bound,
                    "$ge" => have >= bound,
                    "$lt" => have < bound,
                    _ => have <= bound,
                };
                verdict(good, format!("{have} is not {operator} {bound}"))
            }
            _ => fail(format!("{} is not a number", shown(got))),
        },
        "$contains" | "$none" => match (value.as_array(), argument.as_array()) {
            (Some(items), Some(wanted)) => wanted
                .iter()
                .filter(|wanted| {
                    items.iter().any(|item| matches(wanted, Some(item), at).is_empty()) != (operator == "$contains")
                })
                .map(|wanted| format!("{at}: {operator} fails for {wanted} in {}", shown(got)))
                .collect(),
            _ => fail(format!("not a list: {}", shown(got))),
        },
        "$json" => match value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            Some(inner) => matches(argument, Some(&inner), &format!("{at}(json)")),
            None => fail(format!("not a JSON text: {}", shown(got))),
        },
        other => fail(format!("script error: unknown operator {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn several_patterns_must_all_match() {
        let errors = |pattern: Value, text: &str| matches(&json!({ "$re": pattern }), Some(&json!(text)), "/m");
        assert_eq!(errors(json!("b.*c"), "a b c"), Vec::<String>::new());
        assert_eq!(errors(json!(["c", "a.*b"]), "a b c"), Vec::<String>::new());
        assert_eq!(errors(json!(["c", "x", "y"]), "a b c").len(), 2);
        assert_eq!(errors(json!("(?=a)a"), "a").len(), 1, "a pattern that cannot be read matches nothing");
        assert_eq!(matches(&json!({"$re": ["1"]}), Some(&json!(1)), "/m").len(), 1);
    }

    #[test]
    fn headers_and_texts_take_several_patterns_too() {
        let expected: Expectation =
            serde_json::from_value(json!({"headers": {"etag": ["^\"", "z$"], "vary": null}, "text": ["one", "two"]})).unwrap();
        let reply = |etag: &str, text: &str| Reply {
            code: 200,
            headers: vec![("ETag".to_owned(), etag.to_owned())],
            text: text.to_owned(),
        };
        assert_eq!(check_reply(&expected, &reply("\"xyz", "two and one")), Vec::<String>::new());
        assert_eq!(check_reply(&expected, &reply("xyz", "one")).len(), 2);
    }
}
