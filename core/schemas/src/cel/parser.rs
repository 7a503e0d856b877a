//! Expressions of CEL: how the tree is read.
//!
//! The parser also decides what is covered: a function, macro or name that the evaluator does not know ends in an error
//! here. The depth of the tree is bounded, so that walking it cannot exhaust the stack.

use super::expr::{Expr, Macro, Op};
use super::functions::{Function, lookup};
use super::lexer::{Token, tokens};
use crate::pattern;

/// The deepest tree that is accepted.
const DEPTH_MAX: usize = 120;
/// The most brackets around one place: reading one takes much more stack than evaluating it.
const NESTING_MAX: usize = 40;

const TYPES: [&str; 10] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// An expression and the depth of its tree.
struct Node {
    expr: Expr,
    depth: usize,
}

type Parsed = Result<Node, String>;

/// Reads an expression; returns it and whether it uses `oldSelf`.
pub(super) fn parse(text: &str) -> Result<(Expr, bool), String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, scopes: Vec::new(), depth: 0, uses_old_self: false };
    if parser.tokens.is_empty() {
        return Err("the expression is empty".to_owned());
    }
    let node = parser.expression()?;
    match parser.tokens.get(parser.at) {
        None => Ok((node.expr, parser.uses_old_self)),
        Some(token) => Err(format!("unexpected {}", describe(token))),
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Ident(name) => format!("{name:?}"),
        Token::Symbol(symbol) => format!("{symbol:?}"),
        Token::Int(_) | Token::IntMin | Token::Uint(_) | Token::Double(_) => "number".to_owned(),
        Token::Str(_) | Token::Bytes(_) => "string".to_owned(),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    /// The variables of the macros around this place.
    scopes: Vec<String>,
    depth: usize,
    uses_old_self: bool,
}

fn node(expr: Expr, below: usize) -> Parsed {
    if below >= DEPTH_MAX {
        return Err("it is nested too deeply".to_owned());
    }
    Ok(Node { expr, depth: below + 1 })
}

impl Parser {
    fn eat(&mut self, symbol: &'static str) -> bool {
        let found = self.tokens.get(self.at) == Some(&Token::Symbol(symbol));
        self.at += usize::from(found);
        found
    }

    fn eat_any(&mut self, symbols: &[(&'static str, Op)]) -> Option<Op> {
        symbols.iter().find(|(symbol, _)| self.eat(symbol)).map(|(_, op)| *op)
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), String> {
        if self.eat(symbol) {
            return Ok(());
        }
        let found = self.tokens.get(self.at).map_or("the end".to_owned(), describe);
        Err(format!("expected {symbol:?}, found {found}"))
    }

    fn ident(&mut self) -> Result<String, String> {
        match self.tokens.get(self.at) {
            Some(Token::Ident(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            other => Err(format!("expected a name, found {}", other.map_or("the end".to_owned(), describe))),
        }
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        let result = self.conditional();
        self.depth -= 1;
        result
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.logic("||", Expr::Or, |parser| parser.logic("&&", Expr::And, Parser::relation))?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.logic("||", Expr::Or, |parser| parser.logic("&&", Expr::And, Parser::relation))?;
        self.expect(":")?;
        let no = self.expression()?;
        let depth = condition.depth.max(yes.depth).max(no.depth);
        node(Expr::Ternary { condition: Box::new(condition.expr), yes: Box::new(yes.expr), no: Box::new(no.expr) }, depth)
    }

    /// Reads a chain of one logical operator into one flat node.
    fn logic(&mut self, symbol: &'static str, make: fn(Vec<Expr>) -> Expr, part: impl Fn(&mut Parser) -> Parsed) -> Parsed {
        let first = part(self)?;
        if !self.eat(symbol) {
            return Ok(first);
        }
        let mut depth = first.depth;
        let mut parts = vec![first.expr];
        loop {
            let next = part(self)?;
            depth = depth.max(next.depth);
            parts.push(next.expr);
            if !self.eat(symbol) {
                return node(make(parts), depth);
            }
        }
    }

    fn relation(&mut self) -> Parsed {
        const SYMBOLS: [(&str, Op); 6] = [
            ("==", Op::Equal),
            ("!=", Op::NotEqual),
            ("<=", Op::LessOrEqual),
            (">=", Op::GreaterOrEqual),
            ("<", Op::Less),
            (">", Op::Greater),
        ];
        self.chain(Parser::sum, |parser| {
            if parser.tokens.get(parser.at) == Some(&Token::Ident("in".to_owned())) {
                parser.at += 1;
                return Some(Op::In);
            }
            parser.eat_any(&SYMBOLS)
        })
    }

    fn sum(&mut self) -> Parsed {
        self.chain(Parser::product, |parser| parser.eat_any(&[("+", Op::Add), ("-", Op::Subtract)]))
    }

    fn product(&mut self) -> Parsed {
        self.chain(Parser::unary, |parser| parser.eat_any(&[("*", Op::Multiply), ("/", Op::Divide), ("%", Op::Remainder)]))
    }

    fn chain(&mut self, part: impl Fn(&mut Parser) -> Parsed, op: impl Fn(&mut Parser) -> Option<Op>) -> Parsed {
        let mut left = part(self)?;
        while let Some(op) = op(self) {
            let right = part(self)?;
            let depth = left.depth.max(right.depth);
            left = node(Expr::Binary { op, left: Box::new(left.expr), right: Box::new(right.expr) }, depth)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let mut nots = 0usize;
        while self.eat("!") {
            nots += 1;
        }
        if nots > 0 {
            let inner = self.member()?;
            return if nots.is_multiple_of(2) { Ok(inner) } else { node(Expr::Not(Box::new(inner.expr)), inner.depth) };
        }
        let mut minuses = 0usize;
        while self.eat("-") {
            minuses += 1;
        }
        if minuses == 0 {
            return self.member();
        }
        if let Some(Token::IntMin) = self.tokens.get(self.at) {
            self.at += 1;
            return if minuses == 1 { node(Expr::Int(i64::MIN), 0) } else { Err("the number is too large".to_owned()) };
        }
        let inner = self.member()?;
        if minuses.is_multiple_of(2) { Ok(inner) } else { node(Expr::Negate(Box::new(inner.expr)), inner.depth) }
    }

    fn member(&mut self) -> Parsed {
        let mut of = self.primary()?;
        loop {
            if self.eat(".?") {
                let field = unescape(&self.ident()?);
                of = node(Expr::Select { of: Box::new(of.expr), field, optional: true }, of.depth)?;
            } else if self.eat(".") {
                let name = self.ident()?;
                of = if self.eat("(") {
                    self.method(of, &name)?
                } else {
                    node(Expr::Select { of: Box::new(of.expr), field: unescape(&name), optional: false }, of.depth)?
                };
            } else if self.eat("[?") {
                of = self.index(of, true)?;
            } else if self.eat("[") {
                of = self.index(of, false)?;
            } else {
                return Ok(of);
            }
        }
    }

    fn index(&mut self, of: Node, optional: bool) -> Parsed {
        let index = self.expression()?;
        self.expect("]")?;
        let depth = of.depth.max(index.depth);
        node(Expr::Index { of: Box::new(of.expr), index: Box::new(index.expr), optional }, depth)
    }

    fn primary(&mut self) -> Parsed {
        let Some(token) = self.tokens.get(self.at).cloned() else { return Err("unexpected end".to_owned()) };
        self.at += 1;
        match token {
            Token::Int(int) => node(Expr::Int(int), 0),
            Token::Uint(uint) => node(Expr::Uint(uint), 0),
            Token::Double(double) => node(Expr::Double(double), 0),
            Token::Str(text) => node(Expr::Str(text), 0),
            Token::Bytes(bytes) => node(Expr::Bytes(bytes), 0),
            Token::Ident(name) if self.eat("(") => self.function(&name),
            Token::Ident(name) => self.name(&name),
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => {
                let items = self.arguments("]")?;
                let depth = items.iter().map(|item| item.depth).max().unwrap_or(0);
                node(Expr::List(items.into_iter().map(|item| item.expr).collect()), depth)
            }
            Token::Symbol("{") => self.map(),
            other => Err(format!("unexpected {}", describe(&other))),
        }
    }

    fn name(&mut self, name: &str) -> Parsed {
        if self.scopes.iter().any(|scope| scope == name) {
            return node(Expr::Variable(name.to_owned()), 0);
        }
        match name {
            "true" => node(Expr::Bool(true), 0),
            "false" => node(Expr::Bool(false), 0),
            "null" => node(Expr::Null, 0),
            "self" => node(Expr::SelfValue, 0),
            "oldSelf" => {
                self.uses_old_self = true;
                node(Expr::OldSelf, 0)
            }
            "format" | "ip" | "optional" => self.in_namespace(name),
            _ => match TYPES.iter().find(|known| **known == name) {
                Some(known) => node(Expr::Type(known), 0),
                None => Err(format!("undeclared reference to {name:?}")),
            },
        }
    }

    /// Reads a call such as `optional.of(x)`, of which the first word is read.
    fn in_namespace(&mut self, namespace: &str) -> Parsed {
        self.expect(".")?;
        let name = format!("{namespace}.{}", self.ident()?);
        self.expect("(")?;
        self.function(&name)
    }

    fn map(&mut self) -> Parsed {
        let mut entries = Vec::new();
        let mut depth = 0;
        while !self.eat("}") {
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push((key.expr, value.expr));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        node(Expr::Map(entries), depth)
    }

    /// Reads expressions up to `close`, which is eaten.
    fn arguments(&mut self, close: &'static str) -> Result<Vec<Node>, String> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.expression()?);
            if !self.eat(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn function(&mut self, name: &str) -> Parsed {
        if name == "has" {
            let [argument] = <[Node; 1]>::try_from(self.arguments(")")?).map_err(|_| "has() takes one argument".to_owned())?;
            let depth = argument.depth;
            return match argument.expr {
                Expr::Select { of, field, optional: false } => node(Expr::Has { of, field }, depth),
                _ => Err("has() takes a member such as self.name".to_owned()),
            };
        }
        let arguments = self.arguments(")")?;
        call(name, false, arguments)
    }

    fn method(&mut self, of: Node, name: &str) -> Parsed {
        let kind = match name {
            "all" => Macro::All,
            "exists" => Macro::Exists,
            "exists_one" | "existsOne" => Macro::ExistsOne,
            "filter" => Macro::Filter,
            "map" => Macro::Map,
            "optMap" => Macro::OptionalMap,
            _ => {
                let mut arguments = vec![of];
                arguments.extend(self.arguments(")")?);
                return call(name, true, arguments);
            }
        };
        let variable = self.ident().map_err(|_| format!("{name}() needs the name of a variable"))?;
        self.expect(",")?;
        if let [Token::Ident(_), Token::Symbol(","), ..] = &self.tokens[self.at..]
            && kind != Macro::Map
        {
            return Err(format!("the macro {name}() with two variables is not covered"));
        }
        self.scopes.push(variable.clone());
        let mut parts = self.arguments(")")?;
        self.scopes.pop();
        let filter = if kind == Macro::Map && parts.len() == 2 { Some(parts.remove(0)) } else { None };
        let [body] = <[Node; 1]>::try_from(parts).map_err(|_| format!("this form of the macro {name}() is not covered"))?;
        let depth = of.depth.max(body.depth).max(filter.as_ref().map_or(0, |filter| filter.depth));
        let filter = filter.map(|filter| Box::new(filter.expr));
        node(Expr::Macro { kind, over: Box::new(of.expr), variable, filter, body: Box::new(body.expr) }, depth)
    }
}

fn call(name: &str, method: bool, arguments: Vec<Node>) -> Parsed {
    let depth = arguments.iter().map(|argument| argument.depth).max().unwrap_or(0);
    let mut args: Vec<Expr> = arguments.into_iter().map(|argument| argument.expr).collect();
    let function = lookup(name, method, args.len()).ok_or_else(|| format!("the function {name}() is not covered"))?;
    // A constant expression is compiled once, not per object.
    if let (Function::Matches, [_, Expr::Str(pattern)]) = (function, args.as_slice()) {
        let regex = pattern::compile(pattern).map_err(|why| format!("the regular expression {pattern:?} is wrong: {why}"))?;
        return node(Expr::Matches { text: Box::new(args.swap_remove(0)), regex }, depth);
    }
    node(Expr::Call { function, args }, depth)
}

/// Returns the member that an escaped name stands for: `__dash__` is `-`, `__if__` is `if`.
fn unescape(name: &str) -> String {
    const KEYWORDS: [&str; 20] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
    ];
    if let Some(word) = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"))
        && (KEYWORDS.contains(&word) || word == "while")
    {
        return word.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    const ESCAPES: [(&str, &str); 4] = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    'next: while !rest.is_empty() {
        for (escape, plain) in ESCAPES {
            if let Some(after) = rest.strip_prefix(escape) {
                out.push_str(plain);
                rest = after;
                continue 'next;
            }
        }
        let mut chars = rest.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out
}
