//! Tokens of CEL.

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Ident(String),
    Int(i64),
    /// A whole number one larger than the largest: only good after a minus.
    IntMin,
    Uint(u64),
    Double(f64),
    Str(String),
    Bytes(Vec<u8>),
    Symbol(&'static str),
}

/// Longer symbols first: the first that fits is taken.
const SYMBOLS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", ".?", "[?", "(", ")", "[", "]", "{", "}", "<", ">", "+", "-", "*", "/", "%", "!", "?",
    ":", ",", ".",
];

/// Splits an expression into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
        } else if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if let Some((prefix, quote_at)) = string_prefix(rest) {
            let (token, taken) = string(rest, prefix, quote_at)?;
            tokens.push(token);
            rest = &rest[taken..];
        } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            let (token, taken) = number(rest)?;
            tokens.push(token);
            rest = &rest[taken..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Ident(rest[..end].to_owned()));
            rest = &rest[end..];
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            return Err(format!("unexpected character {first:?}"));
        }
    }
    Ok(tokens)
}

/// Returns the prefix (`r`, `b`, `rb`) of a string literal and where its quotes begin, if one begins here.
fn string_prefix(rest: &str) -> Option<(String, usize)> {
    let quote_at = rest.bytes().take(3).position(|byte| byte == b'"' || byte == b'\'')?;
    let prefix = rest[..quote_at].to_ascii_lowercase();
    ["", "r", "b", "rb", "br"].contains(&prefix.as_str()).then_some((prefix, quote_at))
}

fn string(rest: &str, prefix: String, quote_at: usize) -> Result<(Token, usize), String> {
    let raw = prefix.contains('r');
    let is_bytes = prefix.contains('b');
    let quote = &rest[quote_at..=quote_at];
    let triple = quote.repeat(3);
    let quote = if rest[quote_at..].starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = quote_at + quote.len();
    let mut text = String::new();
    loop {
        let here = &rest[at..];
        if here.starts_with(quote) {
            let token = if is_bytes { Token::Bytes(text.into_bytes()) } else { Token::Str(text) };
            return Ok((token, at + quote.len()));
        }
        let Some(c) = here.chars().next() else { return Err("a string has no end".to_owned()) };
        if c == '\\' && !raw {
            let (unescaped, taken) = escape(here)?;
            text.push(unescaped);
            at += taken;
        } else {
            text.push(c);
            at += c.len_utf8();
        }
    }
}

fn escape(here: &str) -> Result<(char, usize), String> {
    let Some(escaped) = here[1..].chars().next() else { return Err("a string has no end".to_owned()) };
    let by_code = |digits: usize, skip: usize, radix: u32| {
        here.get(skip..skip + digits)
            .and_then(|code| u32::from_str_radix(code, radix).ok())
            .and_then(char::from_u32)
            .map(|c| (c, skip + digits))
            .ok_or_else(|| format!("bad escape \\{escaped}"))
    };
    let plain = match escaped {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => escaped,
        'x' | 'X' => return by_code(2, 2, 16),
        'u' => return by_code(4, 2, 16),
        'U' => return by_code(8, 2, 16),
        '0'..='3' => return by_code(3, 1, 8),
        other => return Err(format!("bad escape \\{other}")),
    };
    Ok((plain, 2))
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let (text, radix, skip) = match rest.get(..2) {
        Some("0x" | "0X") => (&rest[2..], 16, 2),
        _ => (rest, 10, 0),
    };
    let digits = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    let after = &text[digits..];
    let fraction = after.starts_with('.') && after[1..].starts_with(|c: char| c.is_ascii_digit());
    if radix == 10 && (fraction || after.starts_with(['e', 'E'])) {
        let mut end = digits;
        if fraction {
            end += 1 + text[digits + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - digits - 1);
        }
        if text[end..].starts_with(['e', 'E']) {
            let exponent = &text[end + 1..];
            let sign = usize::from(exponent.starts_with(['+', '-']));
            end += 1 + sign + exponent[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(exponent.len() - sign);
        }
        return text[..end]
            .parse()
            .map(|double| (Token::Double(double), end))
            .map_err(|_| format!("bad number {:?}", &text[..end]));
    }
    let value = u64::from_str_radix(&text[..digits], radix).map_err(|_| format!("bad number {:?}", &rest[..digits + skip]))?;
    if after.starts_with(['u', 'U']) {
        return Ok((Token::Uint(value), skip + digits + 1));
    }
    let token = match i64::try_from(value) {
        Ok(int) => Token::Int(int),
        Err(_) if value == 1 << 63 => Token::IntMin,
        Err(_) => return Err(format!("the number {value} is too large")),
    };
    Ok((token, skip + digits))
}
