//! The formats of texts that a schema can ask for.
//!
//! The list is that of Kubernetes; a format that is not in it means nothing and is ignored.

use std::net::{Ipv4Addr, Ipv6Addr};

use api::Timestamp;

use super::url::Url;

/// Decides whether a text has a format.
pub(super) type Check = fn(&str) -> bool;

/// Returns the check of a format of texts, or `None` if the format means nothing.
pub(super) fn of_text(name: &str) -> Option<Check> {
    let check: Check = match name {
        "date-time" | "datetime" => |text| Timestamp::parse(text).is_ok(),
        "date" => date,
        "duration" => |text| duration(text).is_some(),
        "email" => email,
        "hostname" => hostname,
        "ipv4" => |text| text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr,
        "mac" => mac,
        "uri" => |text| Url::parse(text).is_some(),
        "uuid" => |text| uuid(text, None),
        "uuid3" => |text| uuid(text, Some('3')),
        "uuid4" => |text| uuid(text, Some('4')),
        "uuid5" => |text| uuid(text, Some('5')),
        "byte" => base64,
        "hexcolor" => hexcolor,
        "rgbcolor" => rgbcolor,
        "bsonobjectid" => |text| text.len() == 24 && hex(text),
        "ssn" => ssn,
        "isbn" => |text| isbn10(text) || isbn13(text),
        "isbn10" => isbn10,
        "isbn13" => isbn13,
        "creditcard" => creditcard,
        "k8s-short-name" => |text| api::names::dns1123_label(text).is_none(),
        "k8s-long-name" => |text| api::names::dns1123_subdomain(text).is_none(),
        _ => return None,
    };
    Some(check)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn date(text: &str) -> bool {
    // A date is good when midnight of it is an instant.
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// Reads a duration as Go writes it (`1h30m`, `-1.5s`), or with a unit in words (`22 ns`, `3 days`); in nanoseconds.
pub(super) fn duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    const WORDS: [(&[&str], f64); 8] = [
        (&["ns", "nano", "nanosecond"], 1.0),
        (&["us", "µs", "micro", "microsecond"], 1e3),
        (&["ms", "milli", "millisecond"], 1e6),
        (&["s", "sec", "second"], 1e9),
        (&["m", "min", "minute"], 60e9),
        (&["h", "hr", "hour"], 3600e9),
        (&["d", "day"], 86_400e9),
        (&["w", "wk", "week"], 604_800e9),
    ];
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if text == "0" {
        return Some(0);
    }
    let number_end = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    if let Some((amount, unit)) = text.trim().split_once(' ') {
        let amount: f64 = amount.parse().ok()?;
        let unit = unit.trim();
        let (_, factor) =
            WORDS.iter().find(|(names, _)| names.iter().any(|name| *name == unit || unit.strip_suffix('s') == Some(*name)))?;
        return in_range(sign * amount * factor);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let (amount, after) = rest.split_at(number_end(rest));
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let amount: f64 = amount.parse().ok()?;
        total += amount * UNITS.iter().find(|(name, _)| *name == unit)?.1;
        rest = after;
    }
    (!text.is_empty()).then_some(total).and_then(|total| in_range(sign * total))
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn in_range(nanoseconds: f64) -> Option<i64> {
    (nanoseconds.abs() < 9.2e18).then_some(nanoseconds as i64)
}

fn email(text: &str) -> bool {
    // `Name <address>` is an address too.
    let address = match text.trim().strip_suffix('>') {
        Some(inside) => inside.rsplit_once('<').map_or("", |(_, address)| address),
        None => text.trim(),
    };
    let atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let atoms = |part: &str| !part.is_empty() && part.split('.').all(|atoms| !atoms.is_empty() && atoms.chars().all(atom));
    let quoted = |part: &str| part.len() >= 2 && part.starts_with('"') && part.ends_with('"');
    let literal = |part: &str| part.len() > 2 && part.starts_with('[') && part.ends_with(']');
    address
        .rsplit_once('@')
        .is_some_and(|(local, domain)| (atoms(local) || quoted(local)) && (atoms(domain) || literal(domain)))
}

fn hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let label = |label: &&str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || !c.is_ascii())
    };
    let top = labels.last().copied().unwrap_or_default();
    text.len() <= 255
        && labels.iter().all(label)
        && (labels.len() == 1 || (top.chars().count() >= 2 && top.chars().all(char::is_alphabetic)))
}

fn cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let bits = if digits(bits) && bits.len() <= 3 { bits.parse::<u8>().unwrap_or(u8::MAX) } else { u8::MAX };
        (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
    })
}

fn mac(text: &str) -> bool {
    let grouped = |separator: char, width: usize, counts: &[usize]| {
        let groups: Vec<&str> = text.split(separator).collect();
        counts.contains(&groups.len()) && groups.iter().all(|group| group.len() == width && hex(group))
    };
    grouped(':', 2, &[6, 8, 20]) || grouped('-', 2, &[6, 8, 20]) || grouped('.', 4, &[3, 4, 10])
}

fn uuid(text: &str, version: Option<char>) -> bool {
    // Dashes may be left out, but stand nowhere else.
    let mut digits = String::with_capacity(32);
    for (index, part) in text.split('-').enumerate() {
        if index > 0 && ![8, 12, 16, 20].contains(&digits.len()) {
            return false;
        }
        digits.push_str(part);
    }
    digits.len() == 32
        && hex(&digits)
        && version.is_none_or(|version| {
            digits[12..].starts_with(version) && (version == '3' || digits[16..].starts_with(['8', '9', 'a', 'b', 'A', 'B']))
        })
}

fn base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn hexcolor(text: &str) -> bool {
    let text = text.strip_prefix('#').unwrap_or(text);
    (text.len() == 3 || text.len() == 6) && hex(text)
}

fn rgbcolor(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inside.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| digits(part) && part.parse::<u8>().is_ok())
}

fn ssn(text: &str) -> bool {
    let text: String = text.chars().filter(|c| *c != '-' && *c != ' ').collect();
    text.len() == 9 && digits(&text)
}

fn compact(text: &str) -> String {
    text.chars().filter(|c| *c != '-' && *c != ' ').collect()
}

fn isbn10(text: &str) -> bool {
    let text = compact(text);
    let value = |(index, byte): (usize, u8)| match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'X' if index == 9 => Some(10),
        _ => None,
    };
    let values: Option<Vec<u32>> = text.bytes().enumerate().map(value).collect();
    values.is_some_and(|values| {
        values.len() == 10 && values.iter().zip(1..).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
    })
}

fn isbn13(text: &str) -> bool {
    let text = compact(text);
    text.len() == 13
        && digits(&text)
        && text.bytes().zip([1, 3].into_iter().cycle()).map(|(byte, weight)| u32::from(byte - b'0') * weight).sum::<u32>() % 10
            == 0
}

fn creditcard(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn = number.bytes().rev().enumerate().map(|(index, byte)| match (index % 2, u32::from(byte - b'0')) {
        (0, digit) => digit,
        (_, digit) => digit * 2 / 10 + digit * 2 % 10,
    });
    (13..=16).contains(&number.len()) && number.starts_with(['2', '3', '4', '5', '6', '1']) && luhn.sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_the_good_and_refuse_the_bad() {
        let cases: [(&str, &[&str], &[&str]); 20] = [
            ("date-time", &["2026-01-31T08:00:00Z", "2026-01-31T08:00:00.5+02:00"], &["2026-01-31", "now", ""]),
            ("date", &["2026-02-28"], &["2026-02-30", "2026-1-1", "28.02.2026"]),
            ("duration", &["1h30m", "1.5s", "0", "22 ns", "3 days", "-5m"], &["", "5", "5 parsecs", "m5"]),
            ("email", &["a@b.c", "A B <a.b+c@d-e.org>"], &["a", "@b", "a@", "a b@c", "a..b@c"]),
            ("hostname", &["localhost", "a-b.example.com", "1a"], &["-a", "a_b", "a.b.c.1", ""]),
            ("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "10.0.0.256"]),
            ("ipv6", &["::1", "fe80::1:2"], &["10.0.0.1", ":::"]),
            ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0/33", "10.0.0.0", "x/8"]),
            ("mac", &["00:11:22:aa:bb:cc", "0011.22aa.bbcc"], &["00:11:22", "00:11:22:aa:bb:cg"]),
            ("uri", &["https://a.b/c?d", "/path", "urn:x"], &["", "a b", "plain"]),
            (
                "uuid",
                &["11111111-2222-3333-4444-555555555555", "11111111222233334444555555555555"],
                &["1111", "1-1111111222233334444555555555555"],
            ),
            ("uuid4", &["11111111-2222-4333-8444-555555555555"], &["11111111-2222-3333-8444-555555555555"]),
            ("byte", &["aGk=", ""], &["aGk", "a-==", "===="]),
            ("hexcolor", &["#fff", "A0B1C2"], &["#ffff", "xyz"]),
            ("rgbcolor", &["rgb(0, 128,255)"], &["rgb(0,1)", "rgb(256,0,0)"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112", "1"]),
            ("ssn", &["123-45-6789"], &["123"]),
            ("k8s-short-name", &["web-0"], &["Web"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
        ];
        for (name, good, bad) in cases {
            let check = of_text(name).expect(name);
            for text in good {
                assert!(check(text), "{name}: {text}");
            }
            for text in bad {
                assert!(!check(text), "{name}: {text:?}");
            }
        }
        assert!(of_text("password").is_none() && of_text("my-own").is_none());
    }

    #[test]
    fn durations_are_counted_in_nanoseconds() {
        assert_eq!(duration("1m30s"), Some(90_000_000_000));
        assert_eq!(duration("-1.5ms"), Some(-1_500_000));
        assert_eq!(duration("9999999999h"), None);
    }
}
