//! JSONPath as Kubernetes has it: members, indexes, slices, wildcards, descent and simple filters.
//!
//! A path finds references into a value and never fails: what is not there is not found.

use std::cmp::Ordering;

use serde_json::Value;

/// The most values that a path may meet on its way: repeated descents would multiply without end.
const FOUND_MAX: usize = 100_000;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Index(i64),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    Wildcard,
    /// The value itself and everything below it.
    Descent,
    Filter(Filter),
    Union(Vec<Step>),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// None: the left side must exist.
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`; braces around it are allowed.
    ///
    /// ```
    /// use schemas::JsonPath;
    /// let path = JsonPath::parse(".spec.ports[0].name").unwrap();
    /// assert_eq!(path.first(&serde_json::json!({"spec": {"ports": [{"name": "http"}]}})).unwrap(), "http");
    /// ```
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut parser = Parser { rest: text.strip_prefix(['$', '@']).unwrap_or(text) };
        let steps = parser.steps()?;
        if parser.rest.is_empty() { Ok(JsonPath { steps }) } else { Err(format!("unexpected {:?}", parser.rest)) }
    }

    /// Returns everything that the path leads to.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                if next.len() > FOUND_MAX {
                    break;
                }
                step.apply(value, &mut next);
            }
            found = next;
        }
        found
    }

    /// Returns the first thing that the path leads to.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }

    /// Returns the names of the members, if the path is made of members only.
    pub fn members(&self) -> Option<Vec<&str>> {
        self.steps.iter().map(|step| if let Step::Member(name) = step { Some(name.as_str()) } else { None }).collect()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) {
        match (self, value) {
            (Step::Member(name), Value::Object(members)) => found.extend(members.get(name)),
            (Step::Index(index), Value::Array(items)) => {
                found.extend(position(*index, items.len()).and_then(|index| items.get(index)))
            }
            (Step::Slice { start, end, step }, Value::Array(items)) => {
                let bound = |bound: Option<i64>, otherwise: usize| {
                    bound.map_or(otherwise, |bound| position(bound, items.len()).unwrap_or(0).min(items.len()))
                };
                let (start, end) = (bound(*start, 0), bound(*end, items.len()));
                let step = usize::try_from(*step).unwrap_or(1).max(1);
                found.extend(items.iter().take(end).skip(start).step_by(step));
            }
            (Step::Wildcard, Value::Array(items)) => found.extend(items),
            (Step::Wildcard, Value::Object(members)) => found.extend(members.values()),
            (Step::Descent, _) => descend(value, found),
            (Step::Filter(filter), Value::Array(items)) => found.extend(items.iter().filter(|item| filter.accepts(item))),
            (Step::Filter(filter), Value::Object(members)) => {
                found.extend(members.values().filter(|item| filter.accepts(item)))
            }
            (Step::Union(steps), _) => steps.iter().for_each(|step| step.apply(value, found)),
            _ => {}
        }
    }
}

fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, found)),
        Value::Object(members) => members.values().for_each(|member| descend(member, found)),
        _ => {}
    }
}

/// Returns the position that an index stands for: a negative one counts from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let left = self.left.value(item);
        let Some((comparison, right)) = &self.comparison else { return left.is_some() };
        let (Some(left), Some(right)) = (left, right.value(item)) else { return false };
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().and_then(|left| right.as_f64().and_then(|right| left.partial_cmp(&right)))
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (left, right) => (left == right).then_some(Ordering::Equal),
        };
        match comparison {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Operand::Path(path) => path.first(item),
            Operand::Literal(value) => Some(value),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) { Ok(()) } else { Err(format!("expected {text:?} before {:?}", self.rest)) }
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Reads steps up to something that is none.
    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            if self.eat("..") {
                steps.push(Step::Descent);
                if !self.rest.starts_with('[') {
                    steps.push(self.member()?);
                }
            } else if self.eat(".") {
                // A dot alone is the value itself; a dot before a bracket says nothing.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.member()?);
                }
            } else if self.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn member(&mut self) -> Result<Step, String> {
        if self.eat("*") {
            return Ok(Step::Wildcard);
        }
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let end = loop {
            match chars.next() {
                // An escaped dot belongs to the name.
                Some((_, '\\')) => name.extend(chars.next().map(|(_, c)| c)),
                Some((at, c)) if ".[]()=!<> ,".contains(c) => break at,
                Some((_, c)) => name.push(c),
                None => break self.rest.len(),
            }
        };
        self.rest = &self.rest[end..];
        if name.is_empty() { Err("a member has no name".to_owned()) } else { Ok(Step::Member(name)) }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        self.spaces();
        if self.eat("?(") {
            let filter = self.filter()?;
            self.expect(")")?;
            self.expect("]")?;
            return Ok(Step::Filter(filter));
        }
        let mut choices = Vec::new();
        loop {
            self.spaces();
            choices.push(self.choice()?);
            self.spaces();
            if self.eat(",") {
                continue;
            }
            self.expect("]")?;
            return Ok(if choices.len() == 1 { choices.remove(0) } else { Step::Union(choices) });
        }
    }

    fn choice(&mut self) -> Result<Step, String> {
        if self.eat("*") {
            return Ok(Step::Wildcard);
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(Step::Member);
        }
        let start = self.number();
        if !self.eat(":") {
            return start.map(Step::Index).ok_or_else(|| format!("expected an index before {:?}", self.rest));
        }
        let end = self.number();
        let step = if self.eat(":") { self.number().unwrap_or(1) } else { 1 };
        if step < 1 {
            return Err("the step of a slice must be positive".to_owned());
        }
        Ok(Step::Slice { start, end, step })
    }

    fn number(&mut self) -> Option<i64> {
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len() - sign);
        let number = self.rest[..sign + digits].parse().ok()?;
        self.rest = &self.rest[sign + digits..];
        Some(number)
    }

    fn quoted(&mut self) -> Result<String, String> {
        let mut chars = self.rest.char_indices();
        let quote = chars.next().map_or('"', |(_, quote)| quote);
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("a text has no end".to_owned())
    }

    fn filter(&mut self) -> Result<Filter, String> {
        const COMPARISONS: [(&str, Comparison); 6] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        self.spaces();
        let left = self.operand()?;
        self.spaces();
        let Some((_, comparison)) = COMPARISONS.into_iter().find(|(symbol, _)| self.eat(symbol)) else {
            return Ok(Filter { left, comparison: None });
        };
        self.spaces();
        let right = self.operand()?;
        self.spaces();
        Ok(Filter { left, comparison: Some((comparison, right)) })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        if self.eat("@") {
            return Ok(Operand::Path(JsonPath { steps: self.steps()? }));
        }
        if self.rest.starts_with(['\'', '"']) {
            return self.quoted().map(|text| Operand::Literal(Value::from(text)));
        }
        let end = self.rest.find([')', ' ', '=', '!', '<', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match serde_json::from_str::<Value>(word) {
            Ok(value) => Ok(Operand::Literal(value)),
            Err(_) => Err(format!("{word:?} is neither a path nor a value")),
        }
    }
}

#[cfg(test)]
mod tests;
