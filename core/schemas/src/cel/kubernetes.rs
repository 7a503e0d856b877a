//! The functions that Kubernetes adds to CEL: addresses, URLs, quantities and named formats.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use api::{Quantity, names};

use super::eval::{Outcome, failed};
use super::functions::{Function, no_overload};
use super::value::Val;
use crate::format;
use crate::url::Url;

/// A value of a type that Kubernetes adds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Special {
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Rc<Url>),
    Quantity(Quantity),
    Format(&'static str),
}

impl Special {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Special::Ip(_) => "net.IP",
            Special::Cidr(..) => "net.CIDR",
            Special::Url(_) => "kubernetes.URL",
            Special::Quantity(_) => "kubernetes.Quantity",
            Special::Format(_) => "kubernetes.NamedFormat",
        }
    }

    /// Returns how many bytes it was made of, where that is not a small number.
    pub(super) fn size(&self) -> usize {
        if let Special::Url(url) = self { url.text.len() } else { 0 }
    }

    /// Returns it as text, if it has one.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Special::Ip(ip) => Some(ip.to_string()),
            Special::Cidr(ip, bits) => Some(format!("{ip}/{bits}")),
            Special::Url(url) => Some(url.text.clone()),
            Special::Quantity(_) | Special::Format(_) => None,
        }
    }
}

/// A function that Kubernetes adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    IsIp,
    Ip,
    IsCanonical,
    Family,
    IsUnspecified,
    IsLoopback,
    IsLinkLocalMulticast,
    IsLinkLocalUnicast,
    IsGlobalUnicast,
    IsCidr,
    Cidr,
    ContainsIp,
    ContainsCidr,
    Masked,
    PrefixLength,
    IsUrl,
    Url,
    GetScheme,
    GetHost,
    GetHostname,
    GetPort,
    GetEscapedPath,
    GetQuery,
    IsQuantity,
    Quantity,
    Sign,
    Add,
    Sub,
    IsLessThan,
    IsGreaterThan,
    CompareTo,
    Format(&'static str),
    NamedFormat,
    Validate,
}

/// The formats that `format.NAME()` and `format.named("NAME")` know.
const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "qualifiedName",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// Returns the function of a name; `arguments` counts the receiver of a method.
pub(super) fn lookup(name: &str, method: bool, arguments: usize) -> Option<Library> {
    if let Some(format) = name.strip_prefix("format.").filter(|_| arguments == 0) {
        return FORMATS.iter().find(|known| **known == format).map(|known| Library::Format(known));
    }
    Some(match (name, method, arguments) {
        ("isIP", false, 1) => Library::IsIp,
        ("ip", _, 1) => Library::Ip,
        ("ip.isCanonical", false, 1) => Library::IsCanonical,
        ("family", true, 1) => Library::Family,
        ("isUnspecified", true, 1) => Library::IsUnspecified,
        ("isLoopback", true, 1) => Library::IsLoopback,
        ("isLinkLocalMulticast", true, 1) => Library::IsLinkLocalMulticast,
        ("isLinkLocalUnicast", true, 1) => Library::IsLinkLocalUnicast,
        ("isGlobalUnicast", true, 1) => Library::IsGlobalUnicast,
        ("isCIDR", false, 1) => Library::IsCidr,
        ("cidr", false, 1) => Library::Cidr,
        ("containsIP", true, 2) => Library::ContainsIp,
        ("containsCIDR", true, 2) => Library::ContainsCidr,
        ("masked", true, 1) => Library::Masked,
        ("prefixLength", true, 1) => Library::PrefixLength,
        ("isURL", false, 1) => Library::IsUrl,
        ("url", false, 1) => Library::Url,
        ("getScheme", true, 1) => Library::GetScheme,
        ("getHost", true, 1) => Library::GetHost,
        ("getHostname", true, 1) => Library::GetHostname,
        ("getPort", true, 1) => Library::GetPort,
        ("getEscapedPath", true, 1) => Library::GetEscapedPath,
        ("getQuery", true, 1) => Library::GetQuery,
        ("isQuantity", false, 1) => Library::IsQuantity,
        ("quantity", false, 1) => Library::Quantity,
        ("sign", true, 1) => Library::Sign,
        ("add", true, 2) => Library::Add,
        ("sub", true, 2) => Library::Sub,
        ("isLessThan", true, 2) => Library::IsLessThan,
        ("isGreaterThan", true, 2) => Library::IsGreaterThan,
        ("compareTo", true, 2) => Library::CompareTo,
        ("format.named", false, 1) => Library::NamedFormat,
        ("validate", true, 2) => Library::Validate,
        _ => return None,
    })
}

fn special<'a>(value: Special) -> Outcome<'a> {
    Ok(Val::Special(value))
}

/// Calls a function of the library.
pub(super) fn call<'a>(library: Library, args: &[Val<'a>]) -> Outcome<'a> {
    match (library, args) {
        (Library::IsIp, [Val::Str(text)]) => Ok(Val::Bool(ip(text).is_some())),
        (Library::Ip, [Val::Str(text)]) => {
            ip(text).map_or_else(|| failed(format!("IP Address {text:?} parse error")), |ip| special(Special::Ip(ip)))
        }
        (Library::Ip, [Val::Special(Special::Cidr(ip, _))]) => special(Special::Ip(*ip)),
        (Library::IsCanonical, [Val::Str(text)]) => ip(text)
            .map_or_else(|| failed(format!("IP Address {text:?} parse error")), |ip| Ok(Val::Bool(ip.to_string() == **text))),
        (Library::IsCidr, [Val::Str(text)]) => Ok(Val::Bool(cidr(text).is_some())),
        (Library::Cidr, [Val::Str(text)]) => cidr(text).map_or_else(
            || failed(format!("network address {text:?} parse error")),
            |(ip, bits)| special(Special::Cidr(ip, bits)),
        ),
        (Library::IsUrl, [Val::Str(text)]) => Ok(Val::Bool(Url::parse(text).is_some())),
        (Library::Url, [Val::Str(text)]) => Url::parse(text).map_or_else(
            || failed(format!("URL parse error during conversion from string: parse {text:?}: invalid URI for request")),
            |url| special(Special::Url(Rc::new(url))),
        ),
        (Library::IsQuantity, [Val::Str(text)]) => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        (Library::Quantity, [Val::Str(text)]) => match Quantity::parse(text) {
            Ok(quantity) => special(Special::Quantity(quantity)),
            Err(error) => failed(error.to_string()),
        },
        (Library::Format(name), []) => special(Special::Format(name)),
        (Library::NamedFormat, [Val::Str(text)]) => {
            let known = FORMATS.iter().find(|known| text.as_ref() == **known);
            Ok(Val::Optional(known.map(|known| Rc::new(Val::Special(Special::Format(known))))))
        }
        (_, [Val::Special(Special::Ip(ip))]) => of_ip(library, *ip, args),
        (_, [Val::Special(Special::Cidr(ip, bits)), ..]) => of_cidr(library, (*ip, *bits), args),
        (_, [Val::Special(Special::Url(url))]) => of_url(library, url, args),
        (_, [Val::Special(Special::Quantity(quantity)), ..]) => of_quantity(library, *quantity, args),
        (Library::Validate, [Val::Special(Special::Format(format)), Val::Str(text)]) => {
            let broken = broken_rule(format, text).map(|rule| Rc::new(Val::list(vec![Val::text(rule)])));
            Ok(Val::Optional(broken))
        }
        _ => no_overload(Function::Library(library), args),
    }
}

/// Parses an address; an IPv4 address in the form of IPv6 is refused.
fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok().filter(|ip| !matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()))
}

fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = ip(address)?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits: u8 = bits.parse().ok().filter(|_| plain)?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            Ipv4Addr::from(u32::from(ip) & u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)).into()
        }
        IpAddr::V6(ip) => {
            Ipv6Addr::from(u128::from(ip) & u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)).into()
        }
    }
}

fn of_ip<'a>(library: Library, ip: IpAddr, args: &[Val<'a>]) -> Outcome<'a> {
    let link_local_unicast = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    Ok(match library {
        Library::Family => Val::Int(if ip.is_ipv4() { 4 } else { 6 }),
        Library::IsUnspecified => Val::Bool(ip.is_unspecified()),
        Library::IsLoopback => Val::Bool(ip.is_loopback()),
        Library::IsLinkLocalUnicast => Val::Bool(link_local_unicast),
        Library::IsLinkLocalMulticast => Val::Bool(match ip {
            IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }),
        Library::IsGlobalUnicast => {
            Val::Bool(!(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local_unicast || broadcast))
        }
        _ => return no_overload(Function::Library(library), args),
    })
}

fn of_cidr<'a>(library: Library, (address, bits): (IpAddr, u8), args: &[Val<'a>]) -> Outcome<'a> {
    let within = |other: IpAddr| other.is_ipv4() == address.is_ipv4() && masked(other, bits) == masked(address, bits);
    Ok(match (library, args) {
        (Library::PrefixLength, [_]) => Val::Int(i64::from(bits)),
        (Library::Masked, [_]) => Val::Special(Special::Cidr(masked(address, bits), bits)),
        (Library::ContainsIp, [_, Val::Special(Special::Ip(other))]) => Val::Bool(within(*other)),
        (Library::ContainsIp, [_, Val::Str(text)]) => match ip(text) {
            Some(other) => Val::Bool(within(other)),
            None => return failed(format!("IP Address {text:?} parse error")),
        },
        (Library::ContainsCidr, [_, Val::Special(Special::Cidr(other, other_bits))]) => {
            Val::Bool(*other_bits >= bits && within(*other))
        }
        (Library::ContainsCidr, [_, Val::Str(text)]) => match cidr(text) {
            Some((other, other_bits)) => Val::Bool(other_bits >= bits && within(other)),
            None => return failed(format!("network address {text:?} parse error")),
        },
        _ => return no_overload(Function::Library(library), args),
    })
}

fn of_url<'a>(library: Library, url: &Url, args: &[Val<'a>]) -> Outcome<'a> {
    Ok(match library {
        Library::GetScheme => Val::text(url.scheme.as_str()),
        Library::GetHost => Val::text(url.host.as_str()),
        Library::GetHostname => Val::text(url.hostname()),
        Library::GetPort => Val::text(url.port()),
        Library::GetEscapedPath => Val::text(url.escaped_path()),
        Library::GetQuery => {
            let values = |values: Vec<String>| Val::list(values.into_iter().map(Val::text).collect());
            Val::Map(Rc::new(url.parameters().into_iter().map(|(name, all)| (Val::text(name), values(all))).collect()))
        }
        _ => return no_overload(Function::Library(library), args),
    })
}

fn of_quantity<'a>(library: Library, left: Quantity, args: &[Val<'a>]) -> Outcome<'a> {
    let right = match args {
        [_] => Quantity::from_whole(0),
        [_, Val::Special(Special::Quantity(right))] => *right,
        [_, Val::Int(whole)] if matches!(library, Library::Add | Library::Sub) => Quantity::from_whole(*whole),
        _ => return no_overload(Function::Library(library), args),
    };
    Ok(match (library, args.len()) {
        (Library::Sign, 1) | (Library::CompareTo, 2) => Val::Int(left.cmp(&right) as i64),
        (Library::IsLessThan, 2) => Val::Bool(left < right),
        (Library::IsGreaterThan, 2) => Val::Bool(left > right),
        (Library::Add, 2) => Val::Special(Special::Quantity(left + right)),
        (Library::Sub, 2) => Val::Special(Special::Quantity(left - right)),
        _ => return no_overload(Function::Library(library), args),
    })
}

/// Returns the rule of a named format that a text breaks.
fn broken_rule(name: &str, text: &str) -> Option<String> {
    // A prefix may end in a dash: what is generated after it makes it whole.
    let whole = || match text.strip_suffix('-') {
        Some(start) if !start.is_empty() => format!("{start}a"),
        _ => text.to_owned(),
    };
    let by_format = |name: &str| format::of_text(name).is_some_and(|check| !check(text)).then_some("does not have the format");
    let rule = match name {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "dns1123LabelPrefix" => names::dns1123_label(&whole()),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&whole()),
        "dns1035LabelPrefix" => names::dns1035_label(&whole()),
        "qualifiedName" => names::qualified_name(text),
        "labelValue" => names::label_value(text),
        other => by_format(other),
    };
    rule.map(str::to_owned)
}
