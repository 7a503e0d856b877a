//! One wanted endpoint: what identifies it, what it says, and its text.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use api::ObjectReference;
use api::endpointslice::{Endpoint, EndpointConditions};

use crate::conditions;
use crate::hints::Mode;
use crate::settings::Settings;

/// An endpoint that the controller wants to be listed: one pod at one address.
///
/// Its identity is pod, address and host name; everything else is updated in place.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which of the pods that the Service selects it is, counted by name; says nothing about the endpoint, so it is not compared.
    pub ordinal: u64,
    /// The name of the pod.
    pub pod: Arc<str>,
    /// The very pod.
    pub uid: Arc<str>,
    /// Its address.
    pub address: IpAddr,
    /// The host name under which it is published.
    pub hostname: Option<Arc<str>>,
    /// Its state.
    pub conditions: EndpointConditions,
    /// The node that it is on.
    pub node: Option<Arc<str>>,
    /// The zone that it is in.
    pub zone: Option<Arc<str>>,
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.same_identity(other)
            && self.conditions == other.conditions
            && self.uid == other.uid
            && self.node == other.node
            && self.zone == other.zone
    }
}

impl Eq for Record {}

impl Record {
    /// Returns whether both are the same endpoint, perhaps with different content.
    pub fn same_identity(&self, other: &Record) -> bool {
        self.pod == other.pod && self.address == other.address && self.hostname == other.hostname
    }

    /// Returns whether a stored endpoint is this one, perhaps with different content.
    pub fn identifies(&self, namespace: &str, stored: &Endpoint) -> bool {
        let pod = stored.target_ref.as_ref().is_some_and(|pod| *pod.name == *self.pod && pod.namespace == namespace);
        pod && stored.hostname.as_deref() == self.hostname.as_deref()
            && matches!(stored.addresses.as_slice(), [address] if *address == self.address.to_string())
    }

    /// Returns whether a stored endpoint of the same identity says the same, hints aside.
    pub fn same_content(&self, stored: &Endpoint, settings: &Settings) -> bool {
        let pod = stored.target_ref.as_ref().is_some_and(|pod| {
            pod.kind == "Pod" && *pod.uid == *self.uid && pod.api_version.is_empty() && pod.field_path.is_empty()
        });
        pod && conditions::same(&stored.conditions, &self.conditions, settings)
            && stored.node_name.as_deref() == self.node.as_deref()
            && stored.zone.as_deref() == self.zone.as_deref()
    }

    /// Returns the endpoint as the API has it.
    pub fn endpoint(&self, namespace: &str, mode: Mode) -> Endpoint {
        let text = |text: &Arc<str>| text.to_string();
        Endpoint {
            addresses: vec![self.address.to_string()],
            conditions: self.conditions,
            hostname: self.hostname.as_ref().map(text),
            target_ref: Some(ObjectReference {
                kind: "Pod".to_owned(),
                namespace: namespace.to_owned(),
                name: self.pod.to_string(),
                uid: self.uid.to_string(),
                ..ObjectReference::default()
            }),
            node_name: self.node.as_ref().map(text),
            zone: self.zone.as_ref().map(text),
            hints: mode.hints(self),
        }
    }

    /// Appends the JSON of [`Record::endpoint`], without building it first.
    pub(crate) fn write_json(&self, namespace: &str, mode: Mode, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"addresses":[""#);
        write_address(out, self.address);
        out.extend_from_slice(br#""],"conditions":{"#);
        write_conditions(out, &self.conditions);
        out.push(b'}');
        let member = |out: &mut Vec<u8>, key: &[u8], value: &str| {
            out.extend_from_slice(key);
            write_text(out, value);
        };
        if let Some(hostname) = &self.hostname {
            member(out, br#","hostname":"#, hostname);
        }
        member(out, br#","targetRef":{"kind":"Pod","namespace":"#, namespace);
        member(out, br#","name":"#, &self.pod);
        if !self.uid.is_empty() {
            member(out, br#","uid":"#, &self.uid);
        }
        out.push(b'}');
        if let Some(node) = &self.node {
            member(out, br#","nodeName":"#, node);
        }
        if let Some(zone) = &self.zone {
            member(out, br#","zone":"#, zone);
        }
        if let Some(hints) = mode.hints(self) {
            out.extend_from_slice(br#","hints":"#);
            serde_json::to_writer(&mut *out, &hints).expect(IN_MEMORY);
        }
        out.push(b'}');
    }
}

const IN_MEMORY: &str = "writing to memory does not fail";

fn write_conditions(out: &mut Vec<u8>, conditions: &EndpointConditions) {
    let named: [(&[u8], _); 3] = [
        (br#""ready":"#, conditions.ready),
        (br#""serving":"#, conditions.serving),
        (br#""terminating":"#, conditions.terminating),
    ];
    let mut comma = false;
    for (name, value) in named {
        let Some(value) = value else { continue };
        if std::mem::replace(&mut comma, true) {
            out.push(b',');
        }
        out.extend_from_slice(name);
        out.extend_from_slice(if value { b"true" } else { b"false" });
    }
}

/// Writes a text in quotes; names need no escapes.
fn write_text(out: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/');
    if text.bytes().all(plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        serde_json::to_writer(&mut *out, text).expect(IN_MEMORY);
    }
}

fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => write_v4(out, v4),
        IpAddr::V6(v6) => write!(out, "{v6}").expect(IN_MEMORY),
    }
}

fn write_v4(out: &mut Vec<u8>, address: Ipv4Addr) {
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        if octet >= 100 {
            out.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            out.push(b'0' + octet / 10 % 10);
        }
        out.push(b'0' + octet % 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_an_endpoint_agree() {
        let bare = Record {
            ordinal: 0,
            pod: "web-0".into(),
            uid: "".into(),
            address: "10.0.0.1".parse().unwrap(),
            hostname: None,
            conditions: EndpointConditions { ready: Some(true), ..EndpointConditions::default() },
            node: None,
            zone: None,
        };
        let full = Record {
            uid: "u\"1".into(),
            address: "fd00::1".parse().unwrap(),
            hostname: Some("h0".into()),
            conditions: EndpointConditions { ready: Some(true), serving: Some(true), terminating: Some(false) },
            node: Some("n1".into()),
            zone: Some("za".into()),
            ..bare.clone()
        };
        let silent = Record { conditions: EndpointConditions::default(), ..bare.clone() };
        let far = Record { address: "10.20.105.255".parse().unwrap(), ..bare.clone() };
        for record in [bare, full, silent, far] {
            for mode in [Mode::None, Mode::Zone, Mode::Node] {
                let mut text = Vec::new();
                record.write_json("default", mode, &mut text);
                let read: Endpoint = serde_json::from_slice(&text).unwrap();
                assert_eq!(read, record.endpoint("default", mode));
                assert!(record.identifies("default", &read) && record.same_content(&read, &Settings::default()));
                assert!(!record.identifies("other", &read));
            }
        }
    }
}
