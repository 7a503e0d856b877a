//! One wanted endpoint: what identifies it, what it says, and its text.

use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use api::ObjectReference;
use api::endpointslice::{Endpoint, EndpointConditions};

use crate::conditions;
use crate::hints::Mode;
use crate::settings::Settings;

/// An endpoint that the controller wants to be listed: one pod at one address.
///
/// Its identity is pod, address and host name; everything else is updated in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
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
        const IN_MEMORY: &str = "writing to memory does not fail";
        write!(out, r#"{{"addresses":["{}"],"conditions":{{"#, self.address).expect(IN_MEMORY);
        let conditions = [
            ("ready", self.conditions.ready),
            ("serving", self.conditions.serving),
            ("terminating", self.conditions.terminating),
        ];
        for (index, (name, value)) in conditions.into_iter().filter_map(|(name, value)| Some((name, value?))).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, r#"{comma}"{name}":{value}"#).expect(IN_MEMORY);
        }
        out.push(b'}');
        let member = |out: &mut Vec<u8>, key: &str, value: &str| {
            out.extend_from_slice(key.as_bytes());
            serde_json::to_writer(&mut *out, value).expect(IN_MEMORY);
        };
        if let Some(hostname) = &self.hostname {
            member(out, r#","hostname":"#, hostname);
        }
        member(out, r#","targetRef":{"kind":"Pod","namespace":"#, namespace);
        member(out, r#","name":"#, &self.pod);
        if !self.uid.is_empty() {
            member(out, r#","uid":"#, &self.uid);
        }
        out.push(b'}');
        if let Some(node) = &self.node {
            member(out, r#","nodeName":"#, node);
        }
        if let Some(zone) = &self.zone {
            member(out, r#","zone":"#, zone);
        }
        if let Some(hints) = mode.hints(self) {
            out.extend_from_slice(br#","hints":"#);
            serde_json::to_writer(&mut *out, &hints).expect(IN_MEMORY);
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_an_endpoint_agree() {
        let bare = Record {
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
        for record in [bare, full, silent] {
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
