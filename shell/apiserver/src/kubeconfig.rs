//! Kubeconfig files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::pki::Credentials;

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
