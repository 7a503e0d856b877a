//! The options of lists and watches: what a query means, and which combinations are refused.

use api::field::{Error, ErrorKind, Path};
use api::{FieldSelector, Selector};

use api::status::Status;
use kinds::base64;

/// How the version of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The present.
    Current,
    /// At least this one; the present serves.
    NotOlderThan(u64),
    /// Exactly this one.
    Exact(u64),
}

/// What a list asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Which labels.
    pub labels: Selector,
    /// Which fields.
    pub fields: FieldSelector,
    /// At most so many; 0: all.
    pub limit: usize,
    /// Which state.
    pub version: Version,
    /// Where the page before ended: its state and its last key.
    pub resume: Option<Continue>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// With what is there now, as `ADDED`, then changes; no marker in between.
    Present,
    /// With what is there now, then a marker, then changes. The state is at least this revision.
    Streaming(u64),
    /// With the changes after this revision.
    After(u64),
}

/// What a watch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchQuery {
    /// Which labels.
    pub labels: Selector,
    /// Which fields.
    pub fields: FieldSelector,
    /// Where it begins.
    pub start: WatchStart,
    /// Whether bookmarks are wanted.
    pub bookmarks: bool,
    /// How long it may last.
    pub timeout_seconds: Option<u64>,
}

/// The place where a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continue {
    /// The revision of the first page; 0: whatever is there by then.
    pub revision: u64,
    /// The last key that was looked at.
    pub key: String,
}

impl Continue {
    /// Returns the opaque text for clients.
    pub fn encode(&self) -> String {
        base64::encode(format!("v1 {} {}", self.revision, self.key).as_bytes())
    }

    /// Returns the same place in a later state: what a client may go on with when the state of the first page is gone.
    pub fn in_any_state(&self) -> Continue {
        Continue { revision: 0, key: self.key.clone() }
    }

    /// Reads the text back.
    pub fn decode(text: &str) -> Option<Continue> {
        let plain = String::from_utf8(base64::decode(text).ok()?).ok()?;
        let (revision, key) = plain.strip_prefix("v1 ")?.split_once(' ')?;
        Some(Continue { revision: revision.parse().ok()?, key: key.to_owned() })
    }
}

/// The parameters of a query, decoded; the first of a name counts.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Decodes the part of a URL after `?`.
    pub fn parse(query: &str) -> Parameters {
        let decode = |text: &str| percent_decode(&text.replace('+', " "));
        let pair = |part: &str| match part.split_once('=') {
            Some((name, value)) => (decode(name), decode(value)),
            None => (decode(part), String::new()),
        };
        Parameters(query.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// Returns the value of a parameter; `None` if it is absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter, empty if it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Returns every value of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all of them as they are written in a URL.
    pub fn encoded(&self) -> String {
        let pairs = self.0.iter().map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Returns a truth value as Kubernetes reads it from a query: present and neither `false` nor `0`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "false" | "0"))
    }

    /// Returns a number; empty counts as absent.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Status> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!("unable to convert query parameter {name}: {text:?} is not a number"))
            }),
        }
    }
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |offset: usize| bytes.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns a path segment of a URL with its escapes undone.
pub fn decode_segment(segment: &str) -> String {
    percent_decode(segment)
}

/// Encodes a text as a value of a query.
pub fn encode_component(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn selectors(parameters: &Parameters) -> Result<(Selector, FieldSelector), Status> {
    let labels = Selector::parse(parameters.text("labelSelector")).map_err(|error| Status::bad_request(error.to_string()))?;
    let fields =
        FieldSelector::parse(parameters.text("fieldSelector")).map_err(|error| Status::bad_request(error.to_string()))?;
    Ok((labels, fields))
}

fn version_number(parameters: &Parameters) -> Result<Option<u64>, Status> {
    match parameters.text("resourceVersion") {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| Status::bad_request(format!("invalid resource version {text:?}: it must be a number or empty"))),
    }
}

/// Refuses combinations of version, match, continue and initial events; the words of an error tell which.
fn check_match(parameters: &Parameters, watch: bool) -> Result<(), Status> {
    let field = Path::root().child("resourceVersionMatch");
    let (version, matching) = (parameters.text("resourceVersion"), parameters.text("resourceVersionMatch"));
    let initial = parameters.get("sendInitialEvents").filter(|value| !value.is_empty());
    let mut errors = Vec::new();
    if watch {
        match (initial.is_some(), matching) {
            (true, "NotOlderThan") | (false, "") => {}
            (true, _) => {
                errors.push(Error::forbidden(&field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
            }
            (false, _) => errors.push(Error::forbidden(
                &field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )),
        }
    } else {
        if initial.is_some() {
            let path = Path::root().child("sendInitialEvents");
            errors.push(Error::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        if !matching.is_empty() {
            if version.is_empty() {
                errors.push(Error::forbidden(&field, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if !parameters.text("continue").is_empty() {
                errors.push(Error::forbidden(&field, "resourceVersionMatch is forbidden when continue is provided"));
            }
            match matching {
                "NotOlderThan" => {}
                "Exact" if version == "0" => {
                    errors.push(Error::forbidden(
                        &field,
                        "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
                    ));
                }
                "Exact" => {}
                other => errors.push(Error::not_supported(&field, other, &["Exact", "NotOlderThan"])),
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid_options("ListOptions", &errors)) }
}

/// Reads the options of a list.
pub fn list_query(parameters: &Parameters) -> Result<ListQuery, Status> {
    check_match(parameters, false)?;
    let (labels, fields) = selectors(parameters)?;
    let limit = parameters.number::<i64>("limit")?.unwrap_or(0).max(0);
    let number = version_number(parameters)?;
    let token = parameters.text("continue");
    let resume = if token.is_empty() {
        None
    } else {
        if number.is_some_and(|number| number != 0) {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        Some(
            Continue::decode(token)
                .ok_or_else(|| Status::bad_request("continue key is not valid: it was not made by this server"))?,
        )
    };
    let version = match (number, parameters.text("resourceVersionMatch")) {
        (None | Some(0), _) => Version::Current,
        (Some(number), "Exact") => Version::Exact(number),
        (Some(number), _) => Version::NotOlderThan(number),
    };
    Ok(ListQuery { labels, fields, limit: usize::try_from(limit).unwrap_or(usize::MAX), version, resume })
}

/// Reads the options of a watch.
pub fn watch_query(parameters: &Parameters) -> Result<WatchQuery, Status> {
    check_match(parameters, true)?;
    let (labels, fields) = selectors(parameters)?;
    let number = version_number(parameters)?.unwrap_or(0);
    let start = match (parameters.get("sendInitialEvents").filter(|value| !value.is_empty()), number) {
        (Some(_), number) if parameters.flag("sendInitialEvents") => WatchStart::Streaming(number),
        (Some(_), number) => WatchStart::After(number),
        (None, 0) => WatchStart::Present,
        (None, number) => WatchStart::After(number),
    };
    let timeout_seconds = parameters.number("timeoutSeconds")?;
    Ok(WatchQuery { labels, fields, start, bookmarks: parameters.flag("allowWatchBookmarks"), timeout_seconds })
}

/// Reads `dryRun`; true: nothing is to be stored.
pub fn dry_run(parameters: &Parameters, kind: &str) -> Result<bool, Status> {
    let mut dry = false;
    for value in parameters.all("dryRun").filter(|value| !value.is_empty()) {
        if value != "All" {
            let error = Error::not_supported(&Path::root().child("dryRun"), value, &["All"]);
            return Err(Status::invalid_options(kind, &[error]));
        }
        dry = true;
    }
    Ok(dry)
}

/// The longest name of a field manager.
const FIELD_MANAGER_MAX: usize = 128;

/// Returns the name under which a writer owns what it sets: what it says, else what its user agent begins with.
pub fn field_manager(parameters: &Parameters, user_agent: &str, kind: &str) -> Result<String, Status> {
    let stated = parameters.text("fieldManager");
    if stated.is_empty() {
        let name = user_agent.split('/').next().unwrap_or_default();
        let fits = |length: &mut usize, c: char| {
            *length += c.len_utf8();
            (*length <= FIELD_MANAGER_MAX).then_some(c)
        };
        return Ok(name.chars().filter(|c| !c.is_control()).scan(0, fits).collect());
    }
    let path = Path::root().child("fieldManager");
    let mut errors = Vec::new();
    if stated.len() > FIELD_MANAGER_MAX {
        errors.push(Error::too_long(&path, FIELD_MANAGER_MAX));
    }
    for (position, c) in stated.char_indices().filter(|(_, c)| c.is_control()) {
        let shown = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        errors.push(Error::invalid(&path, stated, shown));
    }
    if errors.is_empty() { Ok(stated.to_owned()) } else { Err(Status::invalid_options(kind, &errors)) }
}

/// Returns the name under which an apply owns what it sets; it must say one.
pub fn applying_manager(parameters: &Parameters) -> Result<String, Status> {
    if parameters.text("fieldManager").is_empty() {
        let error = Error::required(&Path::root().child("fieldManager"), "is required for apply patch");
        return Err(Status::invalid_options("PatchOptions", &[error]));
    }
    field_manager(parameters, "", "PatchOptions")
}

/// Refuses `force` where nothing is applied.
pub fn no_force(parameters: &Parameters) -> Result<(), Status> {
    if parameters.text("force").is_empty() {
        return Ok(());
    }
    let error = Error::forbidden(&Path::root().child("force"), "may not be specified for non-apply patch");
    Err(Status::invalid_options("PatchOptions", &[error]))
}

/// How strictly a body is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and repeated fields are dropped in silence.
    Ignore,
    /// They are dropped with a warning.
    Warn,
    /// They are refused.
    Strict,
}

/// Reads `fieldValidation`.
pub fn field_validation(parameters: &Parameters, kind: &str) -> Result<FieldValidation, Status> {
    match parameters.text("fieldValidation") {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let path = Path::root().child("fieldValidation");
            let error =
                Error { kind: ErrorKind::NotSupported, ..Error::not_supported(&path, other, &["Ignore", "Warn", "Strict"]) };
            Err(Status::invalid_options(kind, &[error]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let parameters = Parameters::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch&limit=&x=%zz");
        assert_eq!(parameters.text("labelSelector"), "a=b,c in (d)");
        assert!(parameters.flag("watch"));
        assert_eq!(parameters.number::<u64>("limit").unwrap(), None);
        assert_eq!(parameters.text("x"), "%zz");
    }

    #[test]
    fn continue_tokens_survive_a_round_trip() {
        let place = Continue { revision: 7, key: "/apps/deployments/a b/ü".into() };
        assert_eq!(Continue::decode(&place.encode()), Some(place));
        assert_eq!(Continue::decode("garbage"), None);
    }

    #[test]
    fn bad_combinations_are_refused() {
        let code = |query: &str, watch: bool| {
            let parameters = Parameters::parse(query);
            if watch { watch_query(&parameters).map(|_| ()) } else { list_query(&parameters).map(|_| ()) }
                .map_err(|status| status.code)
        };
        assert_eq!(code("resourceVersionMatch=NotOlderThan", false), Err(422));
        assert_eq!(code("resourceVersionMatch=Exact&resourceVersion=0", false), Err(422));
        assert_eq!(code("resourceVersionMatch=Exact&resourceVersion=5", false), Ok(()));
        assert_eq!(code("sendInitialEvents=true", true), Err(422));
        assert_eq!(code("resourceVersion=abc", true), Err(400));
        assert_eq!(code("limit=many", false), Err(400));
        assert_eq!(code("labelSelector=a%20b", false), Err(400));
    }
}
