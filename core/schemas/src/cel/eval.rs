//! Evaluation of CEL expressions.
//!
//! `&&`, `||` and the macros built on them ignore an error when another part decides the result, as CEL demands.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::Value;

use super::compare::is_unordered;
use super::expr::{Expr, Macro, Op};
use super::functions;
use super::value::Val;
use super::{OldSelf, Schema};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    Failed(String),
    OutOfBudget,
}

pub(super) type Outcome<'a> = Result<Val<'a>, Fault>;

pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(why.into()))
}

/// The variables of the macros around an expression.
pub(super) struct Scope<'s, 'a> {
    parent: Option<&'s Scope<'s, 'a>>,
    name: &'s str,
    value: Val<'a>,
}

impl<'a> Scope<'_, 'a> {
    /// Returns the scope outside of every macro.
    pub(super) fn outermost() -> Self {
        Scope { parent: None, name: "", value: Val::Null }
    }

    fn find(&self, name: &str) -> Option<&Val<'a>> {
        if self.name == name { Some(&self.value) } else { self.parent?.find(name) }
    }
}

/// One evaluation: the inputs and what it may still cost.
pub(super) struct Evaluation<'a> {
    schema: Option<&'a Schema>,
    this: &'a Value,
    old: OldSelf<'a>,
    budget: Cell<u64>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(schema: Option<&'a Schema>, this: &'a Value, old: OldSelf<'a>, budget: u64) -> Evaluation<'a> {
        Evaluation { schema, this, old, budget: Cell::new(budget) }
    }

    pub(super) fn left(&self) -> u64 {
        self.budget.get()
    }

    /// Pays for work that grows with its input.
    pub(super) fn spend(&self, cost: usize) -> Result<(), Fault> {
        match self.budget.get().checked_sub(cost as u64) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => {
                self.budget.set(0);
                Err(Fault::OutOfBudget)
            }
        }
    }

    /// Compares two values, paying for every part of the first; where each part must be looked for, once for each part of
    /// the second.
    pub(super) fn equal(&self, left: &Val<'a>, right: &Val<'a>) -> Result<bool, Fault> {
        let before = self.left();
        self.pay(left)?;
        if is_unordered(left) || is_unordered(right) || matches!((left, right), (Val::Map(_), _) | (_, Val::Map(_))) {
            let paid = usize::try_from(before - self.left()).unwrap_or(usize::MAX);
            self.spend(paid.saturating_mul(right.count()))?;
        }
        Ok(left.equals(right))
    }

    /// Returns the items of a list, paying for each as for looking at it.
    pub(super) fn items(&self, list: &Val<'a>) -> Result<Option<Vec<Val<'a>>>, Fault> {
        self.spend(list.count())?;
        let Some(items) = list.items() else { return Ok(None) };
        items.iter().try_for_each(|item| self.spend(item.surface()))?;
        Ok(Some(items))
    }

    /// Returns whether a list has an item, looking no further than to the first.
    fn has_item(&self, list: &Val<'a>, wanted: &Val<'a>) -> Result<bool, Fault> {
        for position in 0..list.count() {
            if let Some(item) = list.item(position)
                && self.equal(&item, wanted)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a member of a map, paying for the search where there is one.
    fn entry(&self, map: &Val<'a>, key: &Val<'_>) -> Result<Option<Val<'a>>, Fault> {
        if let Val::Map(entries) = map {
            self.spend(entries.len().saturating_mul(1 + key.surface()))?;
        }
        Ok(map.entry(key))
    }

    /// Pays for looking at a whole value; parts that it holds twice cost twice.
    fn pay(&self, value: &Val<'a>) -> Result<(), Fault> {
        match value {
            Val::Items(..) | Val::List(_) => {
                let items = value.items().unwrap_or_default();
                self.spend(items.len())?;
                items.iter().try_for_each(|item| self.pay(item))
            }
            Val::Members(..) | Val::Map(_) => {
                let keys = value.keys().unwrap_or_default();
                self.spend(keys.len())?;
                keys.iter().filter_map(|key| value.entry(key)).try_for_each(|member| self.pay(&member))
            }
            Val::Optional(Some(inner)) => self.pay(inner),
            scalar => self.spend(scalar.surface()),
        }
    }

    pub(super) fn eval(&self, expr: &'a Expr, scope: &Scope<'_, 'a>) -> Outcome<'a> {
        self.spend(1)?;
        let value = self.value(expr, scope)?;
        // What is not borrowed from the object was made, or copied, just now.
        if let Val::Str(Cow::Owned(_)) | Val::Bytes(Cow::Owned(_)) = value {
            self.spend(value.surface())?;
        }
        Ok(value)
    }

    fn value(&self, expr: &'a Expr, scope: &Scope<'_, 'a>) -> Outcome<'a> {
        match expr {
            Expr::Null => Ok(Val::Null),
            Expr::Bool(flag) => Ok(Val::Bool(*flag)),
            Expr::Int(int) => Ok(Val::Int(*int)),
            Expr::Uint(uint) => Ok(Val::Uint(*uint)),
            Expr::Double(double) => Ok(Val::Double(*double)),
            Expr::Str(text) => Ok(Val::Str(text.as_str().into())),
            Expr::Bytes(bytes) => Ok(Val::Bytes(bytes.as_slice().into())),
            Expr::Type(name) => Ok(Val::Type(name)),
            Expr::SelfValue => Ok(Val::of(self.this, self.schema)),
            Expr::OldSelf => self.old_self(),
            Expr::Variable(name) => scope.find(name).cloned().map_or_else(|| failed(format!("no such variable: {name}")), Ok),
            Expr::Select { of, field, optional } => self.select(self.eval(of, scope)?, field, *optional),
            Expr::Has { of, field } => Ok(Val::Bool(self.member(&self.eval(of, scope)?, field)?.is_some())),
            Expr::Index { of, index, optional } => self.index(&self.eval(of, scope)?, &self.eval(index, scope)?, *optional),
            Expr::Call { function, args } => {
                let args: Vec<Val<'a>> = args.iter().map(|arg| self.eval(arg, scope)).collect::<Result<_, _>>()?;
                // Lists and maps are paid for by those functions that look at what they hold.
                args.iter().filter(|arg| arg.count() == 0).try_for_each(|arg| self.spend(arg.surface()))?;
                functions::call(self, *function, args)
            }
            Expr::Matches { text, regex } => match self.eval(text, scope)? {
                Val::Str(text) => {
                    self.spend(text.len())?;
                    Ok(Val::Bool(regex.is_match(&text)))
                }
                other => failed(format!("no such overload: {}.matches(string)", other.type_name())),
            },
            Expr::Not(inner) => Ok(Val::Bool(!self.truth(inner, scope)?)),
            Expr::Negate(inner) => negate(&self.eval(inner, scope)?),
            Expr::Binary { op, left, right } => self.binary(*op, self.eval(left, scope)?, self.eval(right, scope)?),
            Expr::And(parts) => self.decide(parts.iter().map(|part| self.truth(part, scope)), false),
            Expr::Or(parts) => self.decide(parts.iter().map(|part| self.truth(part, scope)), true),
            Expr::Ternary { condition, yes, no } => {
                if self.truth(condition, scope)? {
                    self.eval(yes, scope)
                } else {
                    self.eval(no, scope)
                }
            }
            Expr::List(items) => Ok(Val::list(items.iter().map(|item| self.eval(item, scope)).collect::<Result<_, _>>()?)),
            Expr::Map(entries) => {
                let entry = |(key, value): &'a (Expr, Expr)| match self.eval(key, scope)? {
                    key @ (Val::Str(_) | Val::Int(_) | Val::Uint(_) | Val::Bool(_)) => Ok((key, self.eval(value, scope)?)),
                    other => failed(format!("unsupported key type: {}", other.type_name())),
                };
                Ok(Val::Map(Rc::new(entries.iter().map(entry).collect::<Result<_, Fault>>()?)))
            }
            Expr::Macro { kind, over, variable, filter, body } => {
                let over = self.eval(over, scope)?;
                self.comprehend(*kind, over, variable, filter.as_deref(), body, scope)
            }
        }
    }

    fn old_self(&self) -> Outcome<'a> {
        match self.old {
            OldSelf::Absent => failed("no such variable: oldSelf"),
            OldSelf::Value(old) => Ok(Val::of(old, self.schema)),
            OldSelf::Optional(old) => Ok(Val::Optional(old.map(|old| Rc::new(Val::of(old, self.schema))))),
        }
    }

    fn truth(&self, expr: &'a Expr, scope: &Scope<'_, 'a>) -> Result<bool, Fault> {
        match self.eval(expr, scope)? {
            Val::Bool(flag) => Ok(flag),
            other => failed(format!("no such overload: a value of type {} is not a bool", other.type_name())),
        }
    }

    /// Returns `decisive` if any part is, else the first error, else the opposite.
    fn decide(&self, parts: impl Iterator<Item = Result<bool, Fault>>, decisive: bool) -> Outcome<'a> {
        let mut fault = None;
        for part in parts {
            match part {
                Ok(flag) if flag == decisive => return Ok(Val::Bool(decisive)),
                Ok(_) => {}
                Err(Fault::OutOfBudget) => return Err(Fault::OutOfBudget),
                Err(other) => {
                    fault.get_or_insert(other);
                }
            }
        }
        fault.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn member(&self, of: &Val<'a>, field: &str) -> Result<Option<Val<'a>>, Fault> {
        match of {
            Val::Members(..) | Val::Map(_) => self.entry(of, &Val::Str(field.into())),
            Val::Optional(None) => Ok(None),
            Val::Optional(Some(inner)) => self.member(inner, field),
            other => failed(format!("no such overload: a value of type {} has no member {field}", other.type_name())),
        }
    }

    fn select(&self, of: Val<'a>, field: &str, optional: bool) -> Outcome<'a> {
        let found = self.member(&of, field)?;
        if optional || matches!(of, Val::Optional(_)) {
            return Ok(Val::Optional(found.map(Rc::new)));
        }
        found.map_or_else(|| failed(format!("no such key: {field}")), Ok)
    }

    fn index(&self, of: &Val<'a>, index: &Val<'a>, optional: bool) -> Outcome<'a> {
        let found = match of {
            Val::Optional(None) => None,
            Val::Optional(Some(inner)) => match self.index(inner, index, true)? {
                Val::Optional(found) => return Ok(Val::Optional(found)),
                found => Some(found),
            },
            Val::Members(..) | Val::Map(_) => self.entry(of, index)?,
            Val::Items(..) | Val::List(_) => position(index).and_then(|position| of.item(position)),
            other => return failed(format!("no such overload: {}[{}]", other.type_name(), index.type_name())),
        };
        if optional || matches!(of, Val::Optional(_)) {
            return Ok(Val::Optional(found.map(Rc::new)));
        }
        found.map_or_else(
            || match of {
                Val::Members(..) | Val::Map(_) => failed(format!("no such key: {}", functions::shown(index))),
                _ => failed(format!("index out of bounds: {}", functions::shown(index))),
            },
            Ok,
        )
    }

    fn binary(&self, op: Op, left: Val<'a>, right: Val<'a>) -> Outcome<'a> {
        let ordered = |accept: fn(Ordering) -> bool| match self.spend(left.surface()).map(|()| left.order(&right))? {
            Some(order) => Ok(Val::Bool(accept(order))),
            // Nothing is less or greater than NaN.
            None if left.as_double().is_some() && right.as_double().is_some() => Ok(Val::Bool(false)),
            None => failed(format!("no such overload: {} and {} have no order", left.type_name(), right.type_name())),
        };
        match op {
            Op::Equal | Op::NotEqual => Ok(Val::Bool(self.equal(&left, &right)? == (op == Op::Equal))),
            Op::Less => ordered(Ordering::is_lt),
            Op::LessOrEqual => ordered(Ordering::is_le),
            Op::Greater => ordered(Ordering::is_gt),
            Op::GreaterOrEqual => ordered(Ordering::is_ge),
            Op::In => match &right {
                Val::Items(..) | Val::List(_) => self.has_item(&right, &left).map(Val::Bool),
                Val::Members(..) | Val::Map(_) => Ok(Val::Bool(self.entry(&right, &left)?.is_some())),
                other => failed(format!("no such overload: {} in {}", left.type_name(), other.type_name())),
            },
            Op::Add if left.is_list() && right.is_list() => self.concatenate(&left, &right),
            _ => {
                if let (Val::Str(left), Val::Str(right)) = (&left, &right) {
                    self.spend((left.len() + right.len()) / 8)?;
                }
                functions::arithmetic(op, &left, &right)
            }
        }
    }

    fn concatenate(&self, left: &Val<'a>, right: &Val<'a>) -> Outcome<'a> {
        let mut items = self.items(left)?.unwrap_or_default();
        let more = self.items(right)?.unwrap_or_default();
        if is_unordered(left) || is_unordered(right) {
            return failed("no such overload: + of lists of type set or map");
        }
        items.extend(more);
        Ok(Val::list(items))
    }

    fn comprehend(
        &self,
        kind: Macro,
        over: Val<'a>,
        variable: &'a str,
        filter: Option<&'a Expr>,
        body: &'a Expr,
        scope: &Scope<'_, 'a>,
    ) -> Outcome<'a> {
        let inner = |value: Val<'a>| Scope { parent: Some(scope), name: variable, value };
        if kind == Macro::OptionalMap {
            return match over {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(value)) => Ok(Val::Optional(Some(Rc::new(self.eval(body, &inner((*value).clone()))?)))),
                other => failed(format!("no such overload: {}.optMap()", other.type_name())),
            };
        }
        let Some(items) = self.items(&over)?.or_else(|| over.keys()) else {
            return failed(format!("no such overload: a value of type {} has no items", over.type_name()));
        };
        let holds = |item: &Val<'a>| self.truth(body, &inner(item.clone()));
        match kind {
            Macro::All => self.decide(items.iter().map(holds), false),
            Macro::Exists => self.decide(items.iter().map(holds), true),
            Macro::ExistsOne => {
                let mut count = 0;
                for item in &items {
                    count += usize::from(holds(item)?);
                }
                Ok(Val::Bool(count == 1))
            }
            Macro::Filter => {
                let mut kept = Vec::new();
                for item in items {
                    if holds(&item)? {
                        kept.push(item);
                    }
                }
                Ok(Val::list(kept))
            }
            Macro::Map | Macro::OptionalMap => {
                let mut mapped = Vec::with_capacity(items.len());
                for item in items {
                    let scope = inner(item);
                    if filter.map_or(Ok(true), |filter| self.truth(filter, &scope))? {
                        mapped.push(self.eval(body, &scope)?);
                    }
                }
                Ok(Val::list(mapped))
            }
        }
    }
}

fn negate<'a>(value: &Val<'a>) -> Outcome<'a> {
    match value {
        Val::Int(int) => int.checked_neg().map_or_else(|| failed("integer overflow"), |int| Ok(Val::Int(int))),
        Val::Double(double) => Ok(Val::Double(-double)),
        Val::Duration(nanoseconds) => Ok(Val::Duration(nanoseconds.saturating_neg())),
        other => failed(format!("no such overload: -{}", other.type_name())),
    }
}

fn position(index: &Val<'_>) -> Option<usize> {
    match index {
        Val::Int(int) => usize::try_from(*int).ok(),
        Val::Uint(uint) => usize::try_from(*uint).ok(),
        _ => None,
    }
}
