//! The objects of the given files, sorted once: what is beside an object is found without a look at all of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::{Selector, json};
use serde_json::Value;

use crate::templates::{self, texts};
use crate::{is_service, name, namespace};

/// The objects of the given files.
pub(crate) struct Given<'a> {
    pub(crate) objects: &'a [Value],
    /// By namespace, as all below.
    services: BTreeMap<&'a str, Vec<GivenService<'a>>>,
    pods: BTreeMap<&'a str, Vec<GivenPod<'a>>>,
    markers: BTreeMap<&'a str, Vec<&'a Value>>,
}

/// A Service that selects pods.
struct GivenService<'a> {
    object: &'a Value,
    selector: Selector,
}

/// Pods that the given files make.
pub(crate) struct GivenPod<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) spec: Cow<'a, Value>,
}

impl<'a> Given<'a> {
    pub(crate) fn new(objects: &'a [Value]) -> Given<'a> {
        let mut given = Given { objects, services: BTreeMap::new(), pods: BTreeMap::new(), markers: BTreeMap::new() };
        for object in objects {
            let (namespace, name) = (namespace(object), name(object));
            if is_service(object) {
                let wanted = texts(object, &["spec", "selector"]);
                if !wanted.is_empty() {
                    let service = GivenService { object, selector: Selector::from_labels(&wanted) };
                    given.services.entry(namespace).or_default().push(service);
                }
            } else if json::text(object, &["kind"]) == "PodProbeMarker" {
                given.markers.entry(namespace).or_default().push(object);
            }
            let pods = templates::pods(object).into_iter().map(|(labels, spec)| GivenPod { name, labels, spec });
            given.pods.entry(namespace).or_default().extend(pods);
        }
        given
    }

    /// Returns the pods in the namespace of an object.
    pub(crate) fn pods_beside(&self, object: &Value) -> &[GivenPod<'a>] {
        self.pods.get(namespace(object)).map_or(&[], Vec::as_slice)
    }

    /// Returns all pods with their namespaces.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (&'a str, &GivenPod<'a>)> {
        self.pods.iter().flat_map(|(namespace, pods)| pods.iter().map(|pod| (*namespace, pod)))
    }

    /// Returns the Services that lead to pods with these labels in the namespace of an object.
    pub(crate) fn services_of(&self, object: &Value, labels: &BTreeMap<String, String>) -> impl Iterator<Item = &'a Value> {
        let here = self.services.get(namespace(object)).into_iter().flatten();
        here.filter(|service| service.selector.matches(labels)).map(|service| service.object)
    }

    /// Returns the labels that markers put on pods in the namespace of an object.
    pub(crate) fn marks_beside(&self, object: &Value) -> Vec<(String, String)> {
        let probes = self
            .markers
            .get(namespace(object))
            .into_iter()
            .flatten()
            .flat_map(|marker| json::items(marker, &["spec", "probes"]));
        let policies = probes.flat_map(|probe| json::items(probe, &["markerPolicy"]));
        policies.flat_map(|policy| texts(policy, &["labels"])).collect()
    }
}
