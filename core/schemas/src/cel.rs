//! A small evaluator of CEL, the language of `x-kubernetes-validations`.
//!
//! It covers what rules in practice are made of: members, `has`, comparison, arithmetic, logic, `in`, lists and maps, the
//! macros `all`, `exists`, `exists_one`, `filter`, `map`, optionals, conversions, texts, lists, durations, timestamps, and
//! what Kubernetes adds: addresses, URLs, quantities, named formats.
//! What is not covered is refused at compilation with a reason, so that the server can tell: an expression is either
//! evaluated or reported, never guessed. There is no type checker; a wrong type is an error when the rule runs.
//! Invariant: evaluation ends, because it spends a budget, and it cannot touch anything but its two inputs.

mod compare;
mod convert;
mod eval;
mod expr;
mod functions;
mod kubernetes;
mod lexer;
mod parser;
mod texts;
mod value;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::schema::Schema;
use eval::{Evaluation, Fault};
use expr::Expr;
use value::Val;

/// An expression that this evaluator does not cover, or that is no expression at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expression:?} is not supported: {reason}")]
pub struct NotSupported {
    /// The expression.
    pub expression: String,
    /// What is not covered, or wrong.
    pub reason: String,
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program {
    expr: Expr,
    uses_old_self: bool,
}

/// How many steps all expressions of one object may take together: some hundred milliseconds.
pub const BUDGET: u64 = 4_000_000;

/// What the evaluation of an expression may still cost; shared by all expressions of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(u64);

impl Default for Budget {
    fn default() -> Budget {
        Budget(BUDGET)
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// It asked for something that is not there or makes no sense, for example `no such key: x`.
    #[error("{0}")]
    Failed(String),
    /// It takes too long.
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
}

/// What stands for `oldSelf`.
#[derive(Clone, Copy, Debug)]
pub enum OldSelf<'a> {
    /// Nothing: the expression does not use it.
    Absent,
    /// The old value itself.
    Value(&'a Value),
    /// An optional, as `optionalOldSelf: true` asks for.
    Optional(Option<&'a Value>),
}

/// Compiles an expression.
pub fn compile(expression: &str) -> Result<Program, NotSupported> {
    parser::parse(expression)
        .map(|(expr, uses_old_self)| Program { expr, uses_old_self })
        .map_err(|reason| NotSupported { expression: expression.to_owned(), reason })
}

impl Program {
    /// Returns whether the expression compares with the old value: a transition rule.
    pub fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// Returns whether the expression holds for a value.
    pub fn holds(
        &self,
        schema: Option<&Schema>,
        this: &Value,
        old: OldSelf<'_>,
        budget: &mut Budget,
    ) -> Result<bool, EvalError> {
        match self.run(schema, this, old, budget)? {
            Val::Bool(holds) => Ok(holds),
            other => Err(EvalError::Failed(format!("the expression yields a value of type {}, not a bool", other.type_name()))),
        }
    }

    /// Returns the text that the expression yields for a value.
    pub fn text(
        &self,
        schema: Option<&Schema>,
        this: &Value,
        old: OldSelf<'_>,
        budget: &mut Budget,
    ) -> Result<String, EvalError> {
        match self.run(schema, this, old, budget)? {
            Val::Str(text) => Ok(text.into_owned()),
            other => {
                Err(EvalError::Failed(format!("the expression yields a value of type {}, not a string", other.type_name())))
            }
        }
    }

    fn run<'a>(
        &'a self,
        schema: Option<&'a Schema>,
        this: &'a Value,
        old: OldSelf<'a>,
        budget: &mut Budget,
    ) -> Result<Val<'a>, EvalError> {
        let evaluation = Evaluation::new(schema, this, old, budget.0);
        let result = evaluation.eval(&self.expr, &eval::Scope::outermost());
        budget.0 = evaluation.left();
        result.map_err(|fault| match fault {
            Fault::Failed(why) => EvalError::Failed(why),
            Fault::OutOfBudget => EvalError::OutOfBudget,
        })
    }
}
