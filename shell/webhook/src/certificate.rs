//! Making and reading certificates, and the Secret that holds them.

use std::time::{Duration, SystemTime};

use admission::certificates::{AUTHORITY_LIFE, SERVER_LIFE, Validity};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use machine::Time;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::{Map, Value, json};

use crate::NAME;

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Credentials {
    /// Returns from when and until when the certificate is good; `None`: it cannot be read, or there is no key.
    pub(crate) fn life(&self) -> Option<Validity> {
        KeyPair::from_pem(&self.key).ok()?;
        life(&self.certificate)
    }

    /// Makes an authority.
    pub(crate) fn authority(now: Time) -> Result<Credentials, rcgen::Error> {
        let mut params = CertificateParams::default();
        // Two authorities of different days have different names, so that a verifier does not take one for the other.
        params.distinguished_name.push(DnType::CommonName, format!("{NAME} {}", now.as_secs()));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_life(&mut params, Validity::starting(now, AUTHORITY_LIFE));
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Makes a certificate of the server, signed by this authority.
    pub(crate) fn server(&self, namespace: &str, now: Time) -> Result<Credentials, rcgen::Error> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let mut params = CertificateParams::default();
        let name = format!("{NAME}.{namespace}.svc");
        params.distinguished_name.push(DnType::CommonName, &name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in [name.clone(), format!("{name}.cluster.local")] {
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        set_life(&mut params, Validity::starting(now, SERVER_LIFE));
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Returns whether this authority has signed a certificate.
    pub(crate) fn has_signed(&self, certificate: &str) -> bool {
        let (Some(authority), Some(signed)) = (der(&self.certificate), der(certificate)) else { return false };
        let Ok((_, authority)) = x509_parser::parse_x509_certificate(&authority) else { return false };
        let Ok((_, signed)) = x509_parser::parse_x509_certificate(&signed) else { return false };
        signed.issuer() == authority.subject()
    }
}

fn set_life(params: &mut CertificateParams, life: Validity) {
    let at = |time: Time| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.as_secs()).unwrap_or(0));
    params.not_before = at(life.from).into();
    params.not_after = at(life.until).into();
}

fn der(pem: &str) -> Option<Vec<u8>> {
    Some(x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?.1.contents)
}

/// Returns from when and until when a certificate is good.
pub(crate) fn life(pem: &str) -> Option<Validity> {
    let der = der(pem)?;
    let validity = x509_parser::parse_x509_certificate(&der).ok()?.1.validity().clone();
    let at = |time: x509_parser::time::ASN1Time| Time::from_secs(time.timestamp());
    Some(Validity { from: at(validity.not_before), until: at(validity.not_after) })
}

/// What the Secret holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) authority: Option<Credentials>,
    pub(crate) next: Option<Credentials>,
    /// The certificate of the authority before.
    pub(crate) old: Option<String>,
    pub(crate) server: Option<Credentials>,
}

/// The keys of the Secret: those of the authority, the next authority, the old one, the server.
const KEYS: [&str; 7] = ["ca.crt", "ca.key", "next-ca.crt", "next-ca.key", "old-ca.crt", "tls.crt", "tls.key"];

impl Contents {
    /// Reads a Secret; what is not text is not there.
    pub(crate) fn read(secret: &Value) -> Contents {
        let text = |key: &str| {
            let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
        };
        let pair = |certificate: &str, key: &str| Some(Credentials { certificate: text(certificate)?, key: text(key)? });
        Contents {
            authority: pair("ca.crt", "ca.key"),
            next: pair("next-ca.crt", "next-ca.key"),
            old: text("old-ca.crt"),
            server: pair("tls.crt", "tls.key"),
        }
    }

    /// Returns the merge patch that makes a Secret hold this, if it still has the version that was read.
    pub(crate) fn patch(&self, version: &str) -> Value {
        let pair =
            |pair: &Option<Credentials>| pair.clone().map_or([None, None], |pair| [Some(pair.certificate), Some(pair.key)]);
        let ([ca, ca_key], [next, next_key], [server, server_key]) =
            (pair(&self.authority), pair(&self.next), pair(&self.server));
        let texts = [ca, ca_key, next, next_key, self.old.clone(), server, server_key];
        let encoded = texts.map(|text| text.map_or(Value::Null, |text| STANDARD.encode(text).into()));
        let data: Map<String, Value> = KEYS.into_iter().map(str::to_owned).zip(encoded).collect();
        json!({"metadata": {"resourceVersion": version}, "data": data})
    }

    /// Returns what the configurations are to trust.
    pub(crate) fn bundle(&self) -> String {
        let pairs = [&self.authority, &self.next].into_iter().flatten().map(|pair| pair.certificate.as_str());
        pairs.chain(self.old.as_deref()).collect()
    }
}
