//! Label and field selectors: parsing and matching.
//!
//! Two shapes of label selector exist: the text of a query (`a=b,c in (d,e),!f`) and the object of a spec
//! ([`LabelSelector`]). Both become one [`Selector`], so there is one matcher.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names;

/// Requirements on labels that must all hold. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// A text that is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement: {0}")]
pub struct SelectorError(pub String);

impl Selector {
    /// Returns whether the selector has no requirement, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns a selector that wants each of these labels to have exactly this value.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Selector {
        let wants = |(key, value): (&String, &String)| Requirement { key: key.clone(), test: Test::In(vec![value.clone()]) };
        Selector { requirements: labels.iter().map(wants).collect() }
    }

    /// Returns whether the labels meet every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// Returns whether the labels that `lookup` knows meet every requirement.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = lookup(&requirement.key);
            match &requirement.test {
                Test::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
                Test::GreaterThan(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *bound),
                Test::LessThan(bound) => value.and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *bound),
            }
        })
    }

    /// Parses the text of a query: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, `a<1`.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        if parser.peek().is_none() {
            return Ok(Selector::default());
        }
        loop {
            requirements.push(parser.requirement()?);
            match parser.next_token() {
                None => return Ok(Selector { requirements }),
                Some(Token::Comma) => {}
                Some(other) => return Err(SelectorError(format!("found {other}, expected: ',' or 'end of string'"))),
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Token::Word(word) => word,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Not => "!",
            Token::Equal => "=",
            Token::NotEqual => "!=",
            Token::Greater => ">",
            Token::Less => "<",
        };
        write!(out, "'{text}'")
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        Parser { rest: self.rest }.next_token()
    }

    fn next_token(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let symbols = [
            ("==", Token::Equal),
            ("!=", Token::NotEqual),
            ("=", Token::Equal),
            ("!", Token::Not),
            (",", Token::Comma),
            ("(", Token::Open),
            (")", Token::Close),
            (">", Token::Greater),
            ("<", Token::Less),
        ];
        for (symbol, token) in symbols {
            if let Some(rest) = self.rest.strip_prefix(symbol) {
                self.rest = rest;
                return Some(token);
            }
        }
        let end = self.rest.find([' ', '\t', '\r', '\n', '=', '!', ',', '(', ')', '>', '<']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(Token::Word(word))
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        match self.next_token() {
            Some(Token::Word(word)) => match names::qualified_name(word) {
                None => Ok(word.to_owned()),
                Some(rule) => Err(SelectorError(format!("invalid label key {word:?}: {rule}"))),
            },
            Some(other) => Err(SelectorError(format!("found {other}, expected: identifier"))),
            None => Err(SelectorError("found '', expected: identifier".to_owned())),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek() == Some(Token::Not) {
            self.next_token();
            return Ok(Requirement { key: self.key()?, test: Test::DoesNotExist });
        }
        let key = self.key()?;
        let test = match self.peek() {
            None | Some(Token::Comma) => Test::Exists,
            operator => {
                self.next_token();
                match operator {
                    Some(Token::Equal) => Test::In(vec![self.value()?]),
                    Some(Token::NotEqual) => Test::NotIn(vec![self.value()?]),
                    Some(Token::Greater) => Test::GreaterThan(self.number()?),
                    Some(Token::Less) => Test::LessThan(self.number()?),
                    Some(Token::Word("in")) => Test::In(self.values()?),
                    Some(Token::Word("notin")) => Test::NotIn(self.values()?),
                    Some(other) => {
                        return Err(SelectorError(format!("found {other}, expected: in, notin, =, ==, !=, >, <")));
                    }
                    None => unreachable!("matched above"),
                }
            }
        };
        Ok(Requirement { key, test })
    }

    /// One value; the empty text is one, as in `a=`.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.next_token();
                checked_value(word)
            }
            None | Some(Token::Comma | Token::Close) => Ok(String::new()),
            Some(other) => Err(SelectorError(format!("found {other}, expected: a value"))),
        }
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let value = self.value()?;
        value
            .parse()
            .map_err(|_| SelectorError(format!("for 'Gt', 'Lt' operators, the value must be an integer, not {value:?}")))
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        if self.next_token() != Some(Token::Open) {
            return Err(SelectorError("expected: '('".to_owned()));
        }
        let mut values = vec![self.value()?];
        loop {
            match self.next_token() {
                Some(Token::Comma) => values.push(self.value()?),
                Some(Token::Close) => return Ok(values),
                Some(other) => return Err(SelectorError(format!("found {other}, expected: ',' or ')'"))),
                None => return Err(SelectorError("found '', expected: ',' or ')'".to_owned())),
            }
        }
    }
}

fn checked_value(word: &str) -> Result<String, SelectorError> {
    match names::label_value(word) {
        None => Ok(word.to_owned()),
        Some(rule) => Err(SelectorError(format!("invalid label value {word:?}: {rule}"))),
    }
}

/// A label selector as an object of a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    #[serde(deserialize_with = "crate::meta::null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(deserialize_with = "crate::meta::null_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelExpression>,
}

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelExpression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// For `In` and `NotIn`.
    #[serde(deserialize_with = "crate::meta::null_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Returns whether the selector has no requirement.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Returns the selector, or `None` if it is malformed: then it must select nothing.
    pub fn compile(&self) -> Option<Selector> {
        let mut selector = Selector::from_labels(&self.match_labels);
        let labels_good =
            self.match_labels.iter().all(|(k, v)| names::qualified_name(k).is_none() && names::label_value(v).is_none());
        for expression in &self.match_expressions {
            let values = || expression.values.clone();
            let test = match (expression.operator.as_str(), expression.values.is_empty()) {
                ("In", false) => Test::In(values()),
                ("NotIn", false) => Test::NotIn(values()),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::DoesNotExist,
                _ => return None,
            };
            if names::qualified_name(&expression.key).is_some()
                || expression.values.iter().any(|value| names::label_value(value).is_some())
            {
                return None;
            }
            selector.requirements.push(Requirement { key: expression.key.clone(), test });
        }
        labels_good.then_some(selector)
    }
}

/// A field selector: `a.b=c,d!=e`, with `\` before a comma, an equals sign or a backslash inside a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// Field, value, and whether they must be equal (else: differ).
    pub requirements: Vec<(String, String, bool)>,
}

impl FieldSelector {
    /// Parses the text of a query.
    pub fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let (at, length, equal) = operator_in(term)
                .ok_or_else(|| SelectorError(format!("invalid field selector: {term:?}; can't understand {term:?}")))?;
            let value = unescape(&term[at + length..])
                .ok_or_else(|| SelectorError(format!("invalid field selector: {term:?}; invalid escape sequence")))?;
            requirements.push((term[..at].to_owned(), value, equal));
        }
        Ok(FieldSelector { requirements })
    }

    /// Returns whether the selector has no requirement.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether the fields that `lookup` knows meet every requirement; an unknown field is empty.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|(field, value, equal)| (lookup(field).unwrap_or_default() == value) == *equal)
    }

    /// Returns the value that the selector demands of a field, if it demands one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|(name, _, equal)| *equal && name == field).map(|(_, value, _)| value.as_str())
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Finds the first operator: its place, its length, and whether it is equality.
fn operator_in(term: &str) -> Option<(usize, usize, bool)> {
    (0..term.len()).filter(|&at| term.is_char_boundary(at)).find_map(|at| match &term[at..] {
        rest if rest.starts_with("!=") => Some((at, 2, false)),
        rest if rest.starts_with("==") => Some((at, 2, true)),
        rest if rest.starts_with('=') => Some((at, 1, true)),
        _ => None,
    })
}

/// Undoes escapes; `None` for a bare separator or a bad escape.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                _ => return None,
            },
            ',' | '=' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
