//! Kubeconfig files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use std::time::Duration;

use crate::pki::{Credentials, LEAF_LIFE};

/// Returns whether a kubeconfig that was written before still leads to a server of an authority, with a certificate that is
/// good for a third of its life or longer.
pub fn is_current(text: &str, server: &str, authority: &str) -> bool {
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    let certificate = || {
        let pem = STANDARD.decode(field("client-certificate-data")?).ok()?;
        let der = x509_parser::pem::parse_x509_pem(&pem).ok()?.1.contents;
        let left = x509_parser::parse_x509_certificate(&der).ok()?.1.validity().time_to_expiration()?;
        Duration::try_from(left).ok()
    };
    field("server") == Some(server)
        && field("certificate-authority-data") == Some(&STANDARD.encode(authority))
        && certificate().is_some_and(|left| left > LEAF_LIFE / 3)
}

/// Returns a kubeconfig with everything inside: server, authority, client certificate and key.
pub fn kubeconfig(server: &str, authority: &str, user: &str, credentials: &Credentials) -> String {
    let encode = |text: &str| STANDARD.encode(text);
    format!(
        "apiVersion: v1
kind: Config
current-context: lifesign
clusters:
- name: lifesign
  cluster:
    server: {server}
    certificate-authority-data: {authority}
contexts:
- name: lifesign
  context:
    cluster: lifesign
    user: {user}
    namespace: default
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
",
        authority = encode(authority),
        certificate = encode(&credentials.certificate),
        key = encode(&credentials.key),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Authority, Role};

    #[test]
    fn a_kubeconfig_is_kept_while_it_leads_to_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::open(folder.path()).unwrap();
        let credentials = authority.client(&Role::Admin).unwrap();
        let text = kubeconfig("https://127.0.0.1:1", authority.certificate(), "admin", &credentials);
        assert!(is_current(&text, "https://127.0.0.1:1", authority.certificate()));
        assert!(!is_current(&text, "https://127.0.0.1:2", authority.certificate()), "another port");
        assert!(!is_current(&text, "https://127.0.0.1:1", "another authority"));
        assert!(!is_current("", "https://127.0.0.1:1", authority.certificate()));
        let torn = text.replace("client-certificate-data: ", "client-certificate-data: x");
        assert!(!is_current(&torn, "https://127.0.0.1:1", authority.certificate()));
    }
}
