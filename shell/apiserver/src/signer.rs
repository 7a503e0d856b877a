//! Signed tokens: JSON Web Tokens with ECDSA on P-256 (ES256). What they say is decided in `registry::tokens`.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::Value;

use crate::pki::PkiError;

/// The same for every token, so it is compared, not parsed: no other algorithm can slip in.
const HEADER: &str = r#"{"alg":"ES256","typ":"JWT"}"#;

/// The key that tokens of service accounts are signed with.
pub struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    /// Opens the key of a data directory, made if it is not there: tokens stay good over a restart.
    pub fn open(data_dir: &Path) -> Result<Signer, PkiError> {
        let path = data_dir.join("pki").join("sa.key");
        let shown = path.display().to_string();
        let bad_file = |error| PkiError::File { path: shown.clone(), error };
        let bad = |error| PkiError::Certificate { path: shown.clone(), error };
        if !path.exists() {
            let key = KeyPair::generate().map_err(bad)?;
            runtime::files::write_private(&path, key.serialize_pem().as_bytes()).map_err(bad_file)?;
        }
        let key = KeyPair::from_pem(&std::fs::read_to_string(&path).map_err(bad_file)?).map_err(bad)?;
        Signer::new(&key).ok_or_else(|| bad(rcgen::Error::CouldNotParseKeyPair))
    }

    /// Returns a key that is kept nowhere.
    pub fn ephemeral() -> Signer {
        let key = KeyPair::generate().expect("the system has randomness");
        Signer::new(&key).expect("keys are made for this algorithm")
    }

    fn new(key: &KeyPair) -> Option<Signer> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der(), &random).ok()?;
        Some(Signer { key, random })
    }

    /// Returns the token that says these claims; `None`: the system has no randomness.
    pub(crate) fn sign(&self, claims: &Value) -> Option<String> {
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(&self.random, text.as_bytes()).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns what a token says, if this key signed it.
    pub(crate) fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key());
        key.verify(text.as_bytes(), &signature).ok()?;
        if URL_SAFE_NO_PAD.decode(header).ok()? != HEADER.as_bytes() {
            return None;
        }
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_was_signed_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let signer = Signer::open(folder.path()).unwrap();
        let claims = json!({"sub": "me"});
        let token = signer.sign(&claims).unwrap();
        assert_eq!(signer.verify(&token), Some(claims.clone()));
        let again = Signer::open(folder.path()).unwrap();
        assert_eq!(again.verify(&token), Some(claims), "the key is kept");
        assert_eq!(Signer::ephemeral().verify(&token), None, "another key");
        let parts: Vec<&str> = token.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(json!({"sub": "you"}).to_string());
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        for bad in [
            format!("{}.{forged}.{}", parts[0], parts[2]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            String::new(),
        ] {
            assert_eq!(signer.verify(&bad), None, "{bad}");
        }
    }
}
