//! IP addresses as Kubernetes reads and writes them.
//!
//! Two readings exist. The **lenient** one ([`parse`]) takes what old objects hold: leading zeros in an IPv4 part (the part
//! is decimal, `010` is 10) and IPv4-mapped IPv6, which means the IPv4 address. The **strict** one ([`check`]) takes only the
//! canonical text. A canonical text has the same meaning in both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Four bytes.
    IPv4,
    /// Sixteen bytes.
    IPv6,
}

impl Family {
    /// Returns the word of the API.
    pub const fn name(self) -> &'static str {
        match self {
            Family::IPv4 => "IPv4",
            Family::IPv6 => "IPv6",
        }
    }

    /// Returns the family of that name.
    pub fn from_name(name: &str) -> Option<Family> {
        [Family::IPv4, Family::IPv6].into_iter().find(|family| family.name() == name)
    }

    /// Returns the family of an address.
    pub const fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::IPv4,
            IpAddr::V6(_) => Family::IPv6,
        }
    }
}

/// Reads an address leniently; IPv4-mapped IPv6 becomes IPv4.
///
/// ```
/// assert_eq!(api::ip::parse("10.010.0.1").unwrap().to_string(), "10.10.0.1");
/// assert_eq!(api::ip::parse("::ffff:10.0.0.1").unwrap().to_string(), "10.0.0.1");
/// assert_eq!(api::ip::parse("FD00:0:0::1").unwrap().to_string(), "fd00::1");
/// ```
pub fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(unmapped(address));
    }
    match text.rsplit_once(':') {
        None => parse_v4(text).map(IpAddr::V4),
        // The tail of an IPv6 text may be written as IPv4.
        Some((head, tail)) => {
            let tail = parse_v4(tail)?;
            format!("{head}:{tail}").parse::<Ipv6Addr>().ok().map(|address| unmapped(IpAddr::V6(address)))
        }
    }
}

/// Checks that a text is an address in canonical form; returns the rule that it breaks.
pub fn check(text: &str) -> Option<&'static str> {
    let Some(address) = parse(text) else {
        return Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    };
    match address {
        IpAddr::V4(_) if text.contains(':') => Some("must not be an IPv4-mapped IPv6 address"),
        IpAddr::V4(_) if address.to_string() != text => Some("must not have leading 0s"),
        IpAddr::V6(_) if address.to_string() != text => Some("must be in canonical form (RFC 5952)"),
        _ => None,
    }
}

/// Checks that an address can be somebody's: not unspecified, loopback (unless allowed), link-local or link-local multicast.
pub fn check_endpoint(address: IpAddr, allow_loopback: bool) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("may not be unspecified (0.0.0.0 or ::)");
    }
    if address.is_loopback() && !allow_loopback {
        return Some("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        return Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    link_local_multicast.then_some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
}

fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Reads four decimal parts, with leading zeros.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_reading_gives_the_canonical_text() {
        for (text, canonical_text) in [
            ("10.0.0.1", "10.0.0.1"),
            ("010.000.00.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:010.0.0.1", "10.0.0.1"),
            ("FD00:0:0:0::1", "fd00::1"),
            ("2001:db8::10.0.0.09", "2001:db8::a00:9"),
        ] {
            assert_eq!(parse(text).map(|address| address.to_string()).as_deref(), Some(canonical_text), "{text}");
        }
        for bad in
            ["", "10.0.0", "10.0.0.1.2", "256.0.0.1", "10.0.0.+1", "x", "fe80::1%eth0", "10.0.0.1/8", ":::", "<nil>", "10..0.1"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn strict_reading_takes_only_the_canonical_text() {
        assert!(["10.0.0.1", "fd00::1", "::1"].iter().all(|text| check(text).is_none()));
        assert!(["10.05.0.1", "::ffff:10.0.0.1", "FD00::1", "fd00:0::1", "x"].iter().all(|text| check(text).is_some()));
    }

    #[test]
    fn special_ranges_are_nobodys() {
        for special in ["0.0.0.0", "::", "127.8.0.1", "::1", "169.254.1.1", "fe80::1", "224.0.0.5", "ff02::1", "ff12::1"] {
            assert!(check_endpoint(special.parse().unwrap(), false).is_some(), "{special}");
        }
        for good in ["10.0.0.1", "224.0.1.1", "fd00::1", "ff05::1", "fec0::1"] {
            assert!(check_endpoint(good.parse().unwrap(), false).is_none(), "{good}");
        }
        assert!(check_endpoint("127.88.0.1".parse().unwrap(), true).is_none());
    }
}
