//! Expressions of CEL: the tree.

use regex::Regex;

use super::functions::Function;

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(String),
    Bytes(Vec<u8>),
    Type(&'static str),
    SelfValue,
    OldSelf,
    Variable(String),
    Select { of: Box<Expr>, field: String, optional: bool },
    Has { of: Box<Expr>, field: String },
    Index { of: Box<Expr>, index: Box<Expr>, optional: bool },
    Call { function: Function, args: Vec<Expr> },
    Matches { text: Box<Expr>, regex: Regex },
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary { op: Op, left: Box<Expr>, right: Box<Expr> },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Ternary { condition: Box<Expr>, yes: Box<Expr>, no: Box<Expr> },
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Macro { kind: Macro, over: Box<Expr>, variable: String, filter: Option<Box<Expr>>, body: Box<Expr> },
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A macro over the items of a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    /// `optMap`: over the one value of an optional.
    OptionalMap,
}
