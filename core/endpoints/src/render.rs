//! The JSON of the writes.
//!
//! An update is the whole object, which the controller owns, except for what others may have put into its metadata: foreign
//! annotations, finalizers, further owners stay. It carries uid and resourceVersion, so it never overwrites what was not seen.

use std::collections::BTreeMap;

use api::endpointslice::TRIGGER_TIME_ANNOTATION;
use api::ip::Family;
use api::{ObjectMeta, OwnerReference, Timestamp};
use machine::Time;
use serde::Serialize;

use crate::content::{Content, Edit};
use crate::labels::{generate_name, owner_reference};
use crate::ports::Ports;
use crate::service::ServiceRecord;

/// The writes of one sync, each with its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Bodies of the slices to create.
    pub creates: Vec<Vec<u8>>,
    /// Names and bodies of the slices to update.
    pub updates: Vec<(String, Vec<u8>)>,
    /// Names and uids of the slices to delete.
    pub deletes: Vec<(String, String)>,
}

impl Writes {
    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.updates.is_empty() && self.deletes.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    generate_name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'a str, &'a str>,
    owner_references: &'a [OwnerReference],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    finalizers: &'a [String],
}

/// Returns the value of the trigger-time annotation.
pub fn trigger_text(trigger: Time) -> String {
    Timestamp(trigger).shortest()
}

/// Returns a slice to create, encoded.
pub(crate) fn create(service: &ServiceRecord, family: Family, ports: &Ports, edit: Edit<'_>, trigger: Option<&str>) -> Content {
    let metadata = Metadata {
        name: "",
        generate_name: &generate_name(&service.name),
        namespace: &service.namespace,
        uid: "",
        resource_version: "",
        labels: &service.labels,
        annotations: trigger.map(|trigger| (TRIGGER_TIME_ANNOTATION, trigger)).into_iter().collect(),
        owner_references: &[owner_reference(&service.name, &service.uid)],
        finalizers: &[],
    };
    body(&metadata, family, ports, edit)
}

/// Returns a slice to update, encoded.
pub(crate) fn update(
    service: &ServiceRecord,
    stored: &ObjectMeta,
    family: Family,
    ports: &Ports,
    edit: Edit<'_>,
    trigger: Option<&str>,
) -> Content {
    let mut annotations: BTreeMap<&str, &str> =
        stored.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    annotations.remove(TRIGGER_TIME_ANNOTATION);
    annotations.extend(trigger.map(|trigger| (TRIGGER_TIME_ANNOTATION, trigger)));
    let metadata = Metadata {
        name: &stored.name,
        generate_name: &stored.generate_name,
        namespace: &service.namespace,
        uid: &stored.uid,
        resource_version: &stored.resource_version,
        labels: &service.labels,
        annotations,
        owner_references: &stored.owner_references,
        finalizers: &stored.finalizers,
    };
    body(&metadata, family, ports, edit)
}

fn body(metadata: &Metadata<'_>, family: Family, ports: &Ports, edit: Edit<'_>) -> Content {
    const IN_MEMORY: &str = "writing to memory does not fail";
    let mut head = Vec::with_capacity(edit.text_len() + 1024);
    head.extend_from_slice(br#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":"#);
    serde_json::to_writer(&mut head, metadata).expect(IN_MEMORY);
    head.extend_from_slice(br#","addressType":""#);
    head.extend_from_slice(family.name().as_bytes());
    head.extend_from_slice(br#"","endpoints":["#);
    edit.finish(head, |out| {
        out.extend_from_slice(br#"],"ports":"#);
        serde_json::to_writer(&mut *out, ports.listed()).expect(IN_MEMORY);
        out.push(b'}');
    })
}
