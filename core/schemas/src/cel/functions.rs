//! The functions of CEL that are covered, by name, form and number of arguments.

use std::cmp::Ordering;
use std::rc::Rc;

use super::convert;
use super::eval::{Evaluation, Fault, Outcome, failed};
use super::expr::Op;
use super::kubernetes::{self, Library};
use super::texts;
use super::value::Val;

/// A function; the receiver of a method is its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Type,
    Dyn,
    Bool,
    Double,
    Int,
    Uint,
    String,
    Timestamp,
    Duration,
    Matches,
    StartsWith,
    EndsWith,
    Contains,
    Find,
    FindAll,
    CharAt,
    IndexOf,
    LastIndexOf,
    LowerAscii,
    UpperAscii,
    Replace,
    Split,
    Substring,
    Trim,
    Join,
    IsSorted,
    Sum,
    Min,
    Max,
    OptionalOf,
    OptionalOfNonZero,
    OptionalNone,
    HasValue,
    Value,
    OrValue,
    Or,
    Library(Library),
}

/// Returns the function of a name, if it is covered; `arguments` counts the receiver of a method.
pub(super) fn lookup(name: &str, method: bool, arguments: usize) -> Option<Function> {
    use Function::{
        Bool, CharAt, Contains, Double, Duration, Dyn, EndsWith, Find, FindAll, HasValue, IndexOf, Int, IsSorted, Join,
        LastIndexOf, LowerAscii, Matches, Max, Min, OptionalNone, OptionalOf, OptionalOfNonZero, Or, OrValue, Replace, Size,
        Split, StartsWith, String, Substring, Sum, Timestamp, Trim, Type, Uint, UpperAscii, Value,
    };
    Some(match (name, method, arguments) {
        ("size", _, 1) => Size,
        ("type", false, 1) => Type,
        ("dyn", false, 1) => Dyn,
        ("bool", false, 1) => Bool,
        ("double", false, 1) => Double,
        ("int", false, 1) => Int,
        ("uint", false, 1) => Uint,
        ("string", false, 1) => String,
        ("timestamp", false, 1) => Timestamp,
        ("duration", false, 1) => Duration,
        ("matches", _, 2) => Matches,
        ("startsWith", true, 2) => StartsWith,
        ("endsWith", true, 2) => EndsWith,
        ("contains", true, 2) => Contains,
        ("find", true, 2) => Find,
        ("findAll", true, 2 | 3) => FindAll,
        ("charAt", true, 2) => CharAt,
        ("indexOf", true, 2 | 3) => IndexOf,
        ("lastIndexOf", true, 2) => LastIndexOf,
        ("lowerAscii", true, 1) => LowerAscii,
        ("upperAscii", true, 1) => UpperAscii,
        ("replace", true, 3 | 4) => Replace,
        ("split", true, 2 | 3) => Split,
        ("substring", true, 2 | 3) => Substring,
        ("trim", true, 1) => Trim,
        ("join", true, 1 | 2) => Join,
        ("isSorted", true, 1) => IsSorted,
        ("sum", true, 1) => Sum,
        ("min", true, 1) => Min,
        ("max", true, 1) => Max,
        ("optional.of", false, 1) => OptionalOf,
        ("optional.ofNonZeroValue", false, 1) => OptionalOfNonZero,
        ("optional.none", false, 0) => OptionalNone,
        ("hasValue", true, 1) => HasValue,
        ("value", true, 1) => Value,
        ("orValue", true, 2) => OrValue,
        ("or", true, 2) => Or,
        _ => return kubernetes::lookup(name, method, arguments).map(Function::Library),
    })
}

/// Returns a scalar as messages show it.
pub(super) fn shown(value: &Val<'_>) -> String {
    convert::text(value).unwrap_or_else(|| value.type_name().to_owned())
}

/// Calls a function with as many arguments as `lookup` has let pass.
pub(super) fn call<'a>(evaluation: &Evaluation<'a>, function: Function, args: Vec<Val<'a>>) -> Outcome<'a> {
    match (function, args.as_slice()) {
        (Function::Size, [value]) => size(value),
        (Function::Type, [value]) => Ok(Val::Type(value.type_name())),
        (Function::Dyn, [value]) => Ok(value.clone()),
        (
            Function::Bool
            | Function::Double
            | Function::Int
            | Function::Uint
            | Function::String
            | Function::Timestamp
            | Function::Duration,
            [value],
        ) => convert::to(function, value),
        (Function::IndexOf, [Val::Items(..) | Val::List(_), wanted]) => find(evaluation, &args[0], wanted, false),
        (Function::LastIndexOf, [Val::Items(..) | Val::List(_), wanted]) => find(evaluation, &args[0], wanted, true),
        (Function::Library(library), args) => kubernetes::call(library, args),
        (Function::IsSorted, [list]) => is_sorted(evaluation, list),
        (Function::Sum, [list]) => sum(evaluation, list),
        (Function::Min, [list]) => extreme(evaluation, list, Ordering::Less),
        (Function::Max, [list]) => extreme(evaluation, list, Ordering::Greater),
        (Function::OptionalOf, [value]) => Ok(Val::Optional(Some(Rc::new(value.clone())))),
        (Function::OptionalOfNonZero, [value]) => Ok(Val::Optional((!is_zero(value)).then(|| Rc::new(value.clone())))),
        (Function::OptionalNone, []) => Ok(Val::Optional(None)),
        (Function::HasValue, [Val::Optional(inner)]) => Ok(Val::Bool(inner.is_some())),
        (Function::Value, [Val::Optional(inner)]) => {
            inner.as_deref().cloned().map_or_else(|| failed("optional.none() dereference"), Ok)
        }
        (Function::OrValue, [Val::Optional(inner), other]) => Ok(inner.as_deref().unwrap_or(other).clone()),
        (Function::Or, [Val::Optional(inner), other]) => Ok(if inner.is_some() { args[0].clone() } else { other.clone() }),
        (_, [Val::Str(_), ..]) | (Function::Join, _) => texts::call(evaluation, function, &args),
        _ => no_overload(function, &args),
    }
}

pub(super) fn no_overload<'a>(function: Function, args: &[Val<'_>]) -> Outcome<'a> {
    let types: Vec<&str> = args.iter().map(Val::type_name).collect();
    failed(format!("no such overload: {function:?}({})", types.join(", ")))
}

fn size<'a>(value: &Val<'a>) -> Outcome<'a> {
    let size = match value {
        Val::Str(text) => text.chars().count(),
        Val::Bytes(bytes) => bytes.len(),
        Val::Items(items, _) => items.len(),
        Val::List(items) => items.len(),
        Val::Members(members, _) => members.len(),
        Val::Map(entries) => entries.len(),
        other => return no_overload(Function::Size, std::slice::from_ref(other)),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(flag) => !flag,
        Val::Int(0) | Val::Uint(0) | Val::Duration(0) => true,
        Val::Double(double) => *double == 0.0,
        other => matches!(size(other), Ok(Val::Int(0))),
    }
}

fn find<'a>(evaluation: &Evaluation<'a>, list: &Val<'a>, wanted: &Val<'a>, last: bool) -> Outcome<'a> {
    let mut found = -1;
    for (index, item) in (0i64..).zip((0..list.count()).filter_map(|position| list.item(position))) {
        if evaluation.equal(&item, wanted)? {
            found = index;
            if !last {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}

fn is_sorted<'a>(evaluation: &Evaluation<'a>, list: &Val<'a>) -> Outcome<'a> {
    let Some(items) = evaluation.items(list)? else { return no_overload(Function::IsSorted, std::slice::from_ref(list)) };
    for pair in items.windows(2) {
        match pair[0].order(&pair[1]) {
            Some(Ordering::Greater) => return Ok(Val::Bool(false)),
            Some(_) => {}
            None => return failed("no such overload: isSorted() of items that have no order"),
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(evaluation: &Evaluation<'a>, list: &Val<'a>) -> Outcome<'a> {
    let Some(items) = evaluation.items(list)? else { return no_overload(Function::Sum, std::slice::from_ref(list)) };
    let mut items = items.into_iter();
    let Some(mut total) = items.next() else { return Ok(Val::Int(0)) };
    if matches!(total, Val::Str(_)) {
        return failed("no such overload: sum() of strings");
    }
    for item in items {
        total = arithmetic(Op::Add, &total, &item)?;
    }
    Ok(total)
}

fn extreme<'a>(evaluation: &Evaluation<'a>, list: &Val<'a>, wanted: Ordering) -> Outcome<'a> {
    let Some(items) = evaluation.items(list)? else { return no_overload(Function::Min, std::slice::from_ref(list)) };
    let mut items = items.into_iter();
    let Some(mut best) = items.next() else { return failed("min/max called on empty list") };
    for item in items {
        match item.order(&best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return failed("no such overload: min/max of items that have no order"),
        }
    }
    Ok(best)
}

/// Returns what an arithmetic operator yields.
pub(super) fn arithmetic<'a>(op: Op, left: &Val<'a>, right: &Val<'a>) -> Outcome<'a> {
    let overflow = || Fault::Failed("integer overflow".to_owned());
    match (left, right) {
        (Val::Int(a), Val::Int(b)) => match op {
            Op::Divide | Op::Remainder if *b == 0 => {
                failed(if op == Op::Divide { "division by zero" } else { "modulus by zero" })
            }
            Op::Add => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
            Op::Subtract => a.checked_sub(*b).map(Val::Int).ok_or_else(overflow),
            Op::Multiply => a.checked_mul(*b).map(Val::Int).ok_or_else(overflow),
            Op::Divide => a.checked_div(*b).map(Val::Int).ok_or_else(overflow),
            _ => a.checked_rem(*b).map(Val::Int).ok_or_else(overflow),
        },
        (Val::Uint(a), Val::Uint(b)) => match op {
            Op::Divide | Op::Remainder if *b == 0 => {
                failed(if op == Op::Divide { "division by zero" } else { "modulus by zero" })
            }
            Op::Add => a.checked_add(*b).map(Val::Uint).ok_or_else(overflow),
            Op::Subtract => a.checked_sub(*b).map(Val::Uint).ok_or_else(overflow),
            Op::Multiply => a.checked_mul(*b).map(Val::Uint).ok_or_else(overflow),
            Op::Divide => Ok(Val::Uint(a / b)),
            _ => Ok(Val::Uint(a % b)),
        },
        (Val::Double(a), Val::Double(b)) if op != Op::Remainder => Ok(Val::Double(match op {
            Op::Add => a + b,
            Op::Subtract => a - b,
            Op::Multiply => a * b,
            _ => a / b,
        })),
        (Val::Str(a), Val::Str(b)) if op == Op::Add => Ok(Val::text(format!("{a}{b}"))),
        (Val::Duration(a), Val::Duration(b)) if op == Op::Add => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
        (Val::Duration(a), Val::Duration(b)) if op == Op::Subtract => a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow),
        (Val::Timestamp(a), Val::Duration(b)) if op == Op::Add => {
            a.checked_add(b / 1000).map(Val::Timestamp).ok_or_else(overflow)
        }
        (Val::Duration(a), Val::Timestamp(b)) if op == Op::Add => {
            b.checked_add(a / 1000).map(Val::Timestamp).ok_or_else(overflow)
        }
        (Val::Timestamp(a), Val::Duration(b)) if op == Op::Subtract => {
            a.checked_sub(b / 1000).map(Val::Timestamp).ok_or_else(overflow)
        }
        (Val::Timestamp(a), Val::Timestamp(b)) if op == Op::Subtract => {
            a.checked_sub(*b).and_then(|micros| micros.checked_mul(1000)).map(Val::Duration).ok_or_else(overflow)
        }
        _ => failed(format!("no such overload: {op:?} of {} and {}", left.type_name(), right.type_name())),
    }
}
