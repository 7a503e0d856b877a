//! Who asks: client certificates first, then bearer tokens, else nobody.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::RwLock;
use std::time::SystemTime;

use api::status::{Status, Subject};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use registry::authz::{AUTHENTICATED, Identity, MASTERS};

/// The identity of a client certificate that was verified by TLS; put into the extensions of a request.
#[derive(Clone, Debug)]
pub struct PeerIdentity(pub Identity);

/// Reads the identity out of a client certificate: common name and organizations.
pub fn certificate_identity(der: &[u8]) -> Option<Identity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let mut groups: Vec<String> =
        subject.iter_organization().filter_map(|name| name.as_str().ok().map(str::to_owned)).collect();
    groups.push(AUTHENTICATED.to_owned());
    Some(Identity { user, groups, ..Identity::default() })
}

/// The tokens of a file `token,user,uid,"group1,group2"`, read again when the file changes.
pub(crate) struct Tokens {
    path: PathBuf,
    known: RwLock<(Option<SystemTime>, BTreeMap<String, Identity>)>,
}

impl Tokens {
    pub(crate) fn new(path: PathBuf) -> Tokens {
        Tokens { path, known: RwLock::new((None, BTreeMap::new())) }
    }

    /// Returns who a token is listed for.
    pub(crate) fn identity(&self, token: &str) -> Option<Identity> {
        let changed = std::fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok()?;
        let current = self.known.read().expect("no code panics while it holds the tokens").0;
        if current != Some(changed) {
            let text = std::fs::read_to_string(&self.path).ok()?;
            *self.known.write().expect("no code panics while it holds the tokens") = (Some(changed), parse_tokens(&text));
        }
        let known = self.known.read().expect("no code panics while it holds the tokens");
        // Every token is compared in full, so that the time says nothing about how much of one was right.
        let mut found = None;
        for (other, identity) in &known.1 {
            if same_secret(other.as_bytes(), token.as_bytes()) {
                found = Some(identity.clone());
            }
        }
        found
    }
}

fn same_secret(a: &[u8], b: &[u8]) -> bool {
    let mut differences = a.len() ^ b.len();
    for (a, b) in a.iter().zip(b) {
        differences |= usize::from(a ^ b);
    }
    differences == 0
}

fn parse_tokens(text: &str) -> BTreeMap<String, Identity> {
    let mut tokens = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut parts = line.splitn(4, ',').map(str::trim);
        let (Some(token), Some(user), uid) = (parts.next(), parts.next(), parts.next().unwrap_or_default()) else { continue };
        let mut groups: Vec<String> = parts
            .next()
            .unwrap_or_default()
            .trim_matches('"')
            .split(',')
            .map(|group| group.trim().to_owned())
            .filter(|group| !group.is_empty())
            .collect();
        groups.push(AUTHENTICATED.to_owned());
        if !token.is_empty() && !user.is_empty() {
            let identity = Identity { user: user.to_owned(), groups, uid: uid.to_owned(), ..Identity::default() };
            tokens.insert(token.to_owned(), identity);
        }
    }
    tokens
}

/// Finds out who asks; `Ok(None)`: nobody that is known. A token that is wrong is an error, never anonymous.
pub(crate) fn authenticate(
    peer: Option<&PeerIdentity>,
    headers: &HeaderMap,
    by_token: impl FnOnce(&str) -> Option<Identity>,
) -> Result<Option<Identity>, Status> {
    if let Some(peer) = peer {
        return Ok(Some(peer.0.clone()));
    }
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer ")));
    let identity = token.and_then(|token| by_token(token.trim()));
    identity.map(Some).ok_or_else(Status::unauthorized)
}

/// Returns whom a request is to be judged as: headers may name somebody else, if they come from an administrator.
///
/// Nobody else may: a client that wants fewer rights than it has must not get all of them in silence.
pub(crate) fn impersonate(identity: Identity, headers: &HeaderMap) -> Result<Identity, Status> {
    let Some(header) = headers.keys().find(|name| name.as_str().starts_with("impersonate-")) else { return Ok(identity) };
    let subject = Subject { resource: "users".into(), ..Subject::default() };
    if !identity.is_in(MASTERS) {
        let why = format!("User {:?} cannot impersonate: the header {header} is for administrators", identity.user);
        return Err(Status::forbidden(&subject, why));
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let user = text("impersonate-user");
    if user.is_empty() {
        return Err(Status::bad_request(format!("the header {header} needs Impersonate-User beside it")));
    }
    let named = headers.get_all("impersonate-group").iter().filter_map(|value| value.to_str().ok().map(str::to_owned));
    let mut groups: Vec<String> = named.collect();
    if groups.is_empty() {
        groups = registry::tokens::account_groups(&user);
    }
    if user != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    Ok(Identity { user, groups, uid: text("impersonate-uid"), extra: impersonated_extra(headers) })
}

/// Returns what `Impersonate-Extra-KEY` says; keys are percent-encoded, because headers have no slashes.
fn impersonated_extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix("impersonate-extra-"), value.to_str()) {
            extra.entry(registry::query::decode_segment(key)).or_default().push(value.to_owned());
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Authority, Role};

    #[test]
    fn a_certificate_names_user_and_groups() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = Authority::open(folder.path()).unwrap().client(&Role::Node("n1".into())).unwrap();
        let der = x509_parser::pem::parse_x509_pem(credentials.certificate.as_bytes()).unwrap().1.contents;
        let identity = certificate_identity(&der).unwrap();
        assert_eq!(identity.node(), Some("n1"));
    }

    #[test]
    fn administrators_may_act_as_others_and_nobody_else() {
        let headers = |names: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in names {
                headers.append(*name, value.parse().unwrap());
            }
            headers
        };
        let admin = || Identity { user: "admin".into(), groups: vec![MASTERS.into()], ..Identity::default() };
        let jane = impersonate(admin(), &headers(&[("impersonate-user", "jane"), ("impersonate-group", "devs")])).unwrap();
        assert_eq!(
            (jane.user.as_str(), jane.groups.as_slice()),
            ("jane", ["devs".to_owned(), AUTHENTICATED.to_owned()].as_slice())
        );
        let account = impersonate(admin(), &headers(&[("impersonate-user", "system:serviceaccount:ns:robot")])).unwrap();
        assert!(account.is_in("system:serviceaccounts:ns") && !account.is_in(MASTERS));
        let further =
            [("impersonate-user", "jane"), ("impersonate-extra-a%2fscope", "x"), ("impersonate-extra-a%2fscope", "y")];
        let extra = impersonate(admin(), &headers(&further)).unwrap().extra;
        assert_eq!(extra["a/scope"], ["x", "y"]);
        assert_eq!(impersonate(admin(), &headers(&[("impersonate-group", "devs")])).unwrap_err().code, 400);
        let other = Identity { user: "jane".into(), ..Identity::default() };
        assert_eq!(impersonate(other.clone(), &headers(&[("impersonate-user", "admin")])).unwrap_err().code, 403);
        assert_eq!(impersonate(other.clone(), &HeaderMap::new()).unwrap(), other);
    }

    #[test]
    fn tokens_are_read_again_when_the_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.csv");
        std::fs::write(&path, "t1,jane,7,\"system:masters,x\"\n# note\nbroken\n").unwrap();
        let tokens = Tokens::new(path);
        assert!(tokens.identity("t1").unwrap().is_in("system:masters"));
        assert!(tokens.identity("t2").is_none() && tokens.identity("").is_none());
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer wrong".parse().unwrap());
        assert_eq!(authenticate(None, &headers, |token| tokens.identity(token)).unwrap_err().code, 401);
        assert_eq!(authenticate(None, &HeaderMap::new(), |token| tokens.identity(token)).unwrap(), None);
    }
}
