//! Functions of texts. Positions count characters, as in CEL, not bytes.

use super::eval::{Evaluation, Outcome, failed};
use super::functions::{Function, no_overload};
use super::value::Val;
use crate::pattern;

/// The cost of compiling a regular expression that is known only when the rule runs.
const PATTERN_COST: usize = 1000;

/// Calls a function of texts; the first argument is the text, or the list to join.
pub(super) fn call<'a>(evaluation: &Evaluation<'a>, function: Function, args: &[Val<'a>]) -> Outcome<'a> {
    if let Some(Val::Str(text)) = args.first() {
        evaluation.spend(text.len() / 8)?;
    }
    match (function, args) {
        (Function::StartsWith, [Val::Str(text), Val::Str(part)]) => Ok(Val::Bool(text.starts_with(part.as_ref()))),
        (Function::EndsWith, [Val::Str(text), Val::Str(part)]) => Ok(Val::Bool(text.ends_with(part.as_ref()))),
        (Function::Contains, [Val::Str(text), Val::Str(part)]) => Ok(Val::Bool(text.contains(part.as_ref()))),
        (Function::Matches | Function::Find | Function::FindAll, [Val::Str(text), Val::Str(pattern), ..]) => {
            evaluation.spend(PATTERN_COST + pattern::size(pattern) + text.len())?;
            search(function, text, pattern, args.get(2))
        }
        (Function::LowerAscii, [Val::Str(text)]) => Ok(Val::text(text.to_ascii_lowercase())),
        (Function::UpperAscii, [Val::Str(text)]) => Ok(Val::text(text.to_ascii_uppercase())),
        (Function::Trim, [Val::Str(text)]) => Ok(Val::text(text.trim())),
        (Function::CharAt, [Val::Str(text), Val::Int(at)]) => match usize::try_from(*at) {
            Ok(at) if at == text.chars().count() => Ok(Val::text("")),
            Ok(at) => text.chars().nth(at).map_or_else(|| out_of_range(at as i128), |c| Ok(Val::text(c))),
            Err(_) => out_of_range(i128::from(*at)),
        },
        (Function::IndexOf, [Val::Str(text), Val::Str(part)]) => Ok(position(text, text.find(part.as_ref()))),
        (Function::IndexOf, [Val::Str(text), Val::Str(part), Val::Int(from)]) => {
            let Some(start) = byte_position(text, *from) else { return out_of_range(i128::from(*from)) };
            Ok(position(text, text[start..].find(part.as_ref()).map(|at| at + start)))
        }
        (Function::LastIndexOf, [Val::Str(text), Val::Str(part)]) => Ok(position(text, text.rfind(part.as_ref()))),
        (Function::Substring, [Val::Str(text), Val::Int(from)]) => slice(text, *from, None),
        (Function::Substring, [Val::Str(text), Val::Int(from), Val::Int(to)]) => slice(text, *from, Some(*to)),
        (Function::Replace, [Val::Str(text), Val::Str(old), Val::Str(new), limit @ ..]) => {
            // Paid for before it is made: an empty text is found between every two characters.
            let grows = if old.is_empty() { text.len() + 1 } else { text.matches(old.as_ref()).count() };
            evaluation.spend(grows.saturating_mul(1 + new.len() / 8))?;
            let replaced = match limit {
                [Val::Int(limit)] if *limit >= 0 => {
                    text.replacen(old.as_ref(), new, usize::try_from(*limit).unwrap_or(usize::MAX))
                }
                [] | [Val::Int(_)] => text.replace(old.as_ref(), new),
                _ => return no_overload(function, args),
            };
            Ok(Val::text(replaced))
        }
        (Function::Split, [Val::Str(text), Val::Str(separator), limit @ ..]) => split(evaluation, text, separator, limit),
        (Function::Join, [list, separator @ ..]) => join(evaluation, list, separator),
        _ => no_overload(function, args),
    }
}

fn out_of_range<'a>(at: i128) -> Outcome<'a> {
    failed(format!("index out of range: {at}"))
}

/// Returns the position in characters of a position in bytes; -1 if there is none.
fn position(text: &str, byte: Option<usize>) -> Val<'static> {
    Val::Int(byte.map_or(-1, |byte| i64::try_from(text[..byte].chars().count()).unwrap_or(i64::MAX)))
}

fn byte_position(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(at)
}

fn slice<'a>(text: &str, from: i64, to: Option<i64>) -> Outcome<'a> {
    let Some(start) = byte_position(text, from) else { return out_of_range(i128::from(from)) };
    let end = match to {
        Some(to) => byte_position(text, to),
        None => Some(text.len()),
    };
    match end {
        Some(end) if end >= start => Ok(Val::text(&text[start..end])),
        _ => out_of_range(i128::from(to.unwrap_or_default())),
    }
}

fn search<'a>(function: Function, text: &str, pattern: &str, limit: Option<&Val<'a>>) -> Outcome<'a> {
    let regex = match pattern::compile(pattern) {
        Ok(regex) => regex,
        Err(why) => return failed(format!("the regular expression {pattern:?} is wrong: {why}")),
    };
    match (function, limit) {
        (Function::Matches, None) => Ok(Val::Bool(regex.is_match(text))),
        (Function::Find, None) => Ok(Val::text(regex.find(text).map_or("", |found| found.as_str()))),
        (Function::FindAll, None | Some(Val::Int(_))) => {
            let most = match limit {
                Some(Val::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            Ok(Val::list(regex.find_iter(text).take(most).map(|found| Val::text(found.as_str())).collect()))
        }
        _ => failed("no such overload"),
    }
}

fn split<'a>(evaluation: &Evaluation<'a>, text: &str, separator: &str, limit: &[Val<'a>]) -> Outcome<'a> {
    let most = match limit {
        [] => usize::MAX,
        [Val::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => return failed("no such overload: split()"),
    };
    evaluation.spend(text.len())?;
    let parts: Vec<Val<'a>> = if most == 0 {
        Vec::new()
    } else if separator.is_empty() {
        // Between every two characters: the standard library would add empty texts at both ends.
        let cut = text.char_indices().map(|(at, _)| at).nth(most - 1).unwrap_or(text.len());
        let (single, rest) = text.split_at(cut);
        single.chars().map(Val::text).chain((!rest.is_empty()).then(|| Val::text(rest))).collect()
    } else {
        text.splitn(most, separator).map(Val::text).collect()
    };
    Ok(Val::list(parts))
}

fn join<'a>(evaluation: &Evaluation<'a>, list: &Val<'a>, separator: &[Val<'a>]) -> Outcome<'a> {
    let separator = match separator {
        [] => "",
        [Val::Str(separator)] => separator.as_ref(),
        _ => return no_overload(Function::Join, separator),
    };
    let mut joined = String::new();
    let Some(items) = evaluation.items(list)? else { return no_overload(Function::Join, std::slice::from_ref(list)) };
    for (index, item) in items.iter().enumerate() {
        let Val::Str(item) = item else { return failed("no such overload: join() of a list that does not hold strings") };
        evaluation.spend(1 + (item.len() + separator.len()) / 8)?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(item);
    }
    Ok(Val::text(joined))
}
