//! What is known of the cluster: questions and their replies.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::chain::{Step, Stop};

/// A kind of object that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// `v1`
    Pods,
    /// `v1`
    Services,
    /// `v1`
    Nodes,
    /// `v1`
    Events,
    /// `v1`
    ConfigMaps,
    /// `v1`
    Namespaces,
    /// `v1`
    PersistentVolumeClaims,
    /// `discovery.k8s.io/v1`
    EndpointSlices,
    /// `coordination.k8s.io/v1`
    Leases,
    /// `apps/v1`
    Deployments,
    /// `apps/v1`
    ReplicaSets,
    /// `apps/v1`
    StatefulSets,
    /// `apps/v1`
    DaemonSets,
    /// `batch/v1`
    Jobs,
    /// `apps.kruise.io/v1alpha1`
    PodProbeMarkers,
    /// `config.openshift.io/v1`
    ConfigNodes,
}

impl Resource {
    /// Returns group and version, plural and kind.
    pub const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Resource::Pods => ("v1", "pods", "Pod"),
            Resource::Services => ("v1", "services", "Service"),
            Resource::Nodes => ("v1", "nodes", "Node"),
            Resource::Events => ("v1", "events", "Event"),
            Resource::ConfigMaps => ("v1", "configmaps", "ConfigMap"),
            Resource::Namespaces => ("v1", "namespaces", "Namespace"),
            Resource::PersistentVolumeClaims => ("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
            Resource::EndpointSlices => ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
            Resource::Leases => ("coordination.k8s.io/v1", "leases", "Lease"),
            Resource::Deployments => ("apps/v1", "deployments", "Deployment"),
            Resource::ReplicaSets => ("apps/v1", "replicasets", "ReplicaSet"),
            Resource::StatefulSets => ("apps/v1", "statefulsets", "StatefulSet"),
            Resource::DaemonSets => ("apps/v1", "daemonsets", "DaemonSet"),
            Resource::Jobs => ("batch/v1", "jobs", "Job"),
            Resource::PodProbeMarkers => ("apps.kruise.io/v1alpha1", "podprobemarkers", "PodProbeMarker"),
            Resource::ConfigNodes => ("config.openshift.io/v1", "nodes", "Node"),
        }
    }

    /// Returns the plural name, as URLs and rules of RBAC have it.
    pub const fn plural(self) -> &'static str {
        self.names().1
    }

    /// Returns the name before a slash, as kubectl takes it.
    pub const fn short(self) -> &'static str {
        match self {
            Resource::Pods => "pod",
            Resource::Services => "svc",
            Resource::Nodes => "node",
            Resource::Deployments => "deploy",
            Resource::ReplicaSets => "rs",
            Resource::StatefulSets => "sts",
            Resource::DaemonSets => "ds",
            Resource::Jobs => "job",
            _ => self.names().1,
        }
    }
}

/// A question to the API.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Query {
    /// One object.
    Get {
        /// Its kind.
        resource: Resource,
        /// Where it is; empty: it is in no namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Some objects, never more than `limit`.
    List {
        /// Their kind.
        resource: Resource,
        /// Where they are; empty: everywhere.
        namespace: String,
        /// A label selector; empty: all.
        labels: String,
        /// A field selector; empty: all.
        fields: String,
        /// At most this many.
        limit: u32,
    },
    /// What the agent of a node knows of the probes of a pod.
    Attempts {
        /// The node.
        node: String,
        /// Where the agent listens, as the Node says: address and port.
        address: String,
    },
}

impl Query {
    /// Asks for an object.
    pub fn get(resource: Resource, namespace: &str, name: &str) -> Query {
        Query::Get { resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Asks for objects.
    pub fn list(resource: Resource, namespace: &str, labels: &str, fields: &str, limit: u32) -> Query {
        Query::List { resource, namespace: namespace.to_owned(), labels: labels.to_owned(), fields: fields.to_owned(), limit }
    }

    /// Asks for the events about an object.
    pub fn events(namespace: &str, kind: &str, name: &str) -> Query {
        // Events about objects without a namespace are kept in `default`.
        let place = if namespace.is_empty() { "default" } else { namespace };
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        Query::list(Resource::Events, place, "", &fields, EVENTS_MAX)
    }

    /// Returns the path and query of a request to the API; `None`: this is asked elsewhere.
    pub fn path(&self) -> Option<String> {
        let root = |resource: Resource, namespace: &str| {
            let (version, plural, _) = resource.names();
            let group = if version.contains('/') { "apis" } else { "api" };
            match namespace {
                "" => format!("/{group}/{version}/{plural}"),
                namespace => format!("/{group}/{version}/namespaces/{}/{plural}", escape(namespace)),
            }
        };
        match self {
            Query::Get { resource, namespace, name } => Some(format!("{}/{}", root(*resource, namespace), escape(name))),
            Query::List { resource, namespace, labels, fields, limit } => {
                let mut path = format!("{}?limit={limit}", root(*resource, namespace));
                for (name, selector) in [("labelSelector", labels), ("fieldSelector", fields)] {
                    if !selector.is_empty() {
                        path.push_str(&format!("&{name}={}", escape(selector)));
                    }
                }
                Some(path)
            }
            Query::Attempts { .. } => None,
        }
    }

    /// Returns what is asked for, for people: `nodes`, `pods in namespace a`.
    pub fn subject(&self) -> String {
        match self {
            Query::Get { resource, namespace, .. } | Query::List { resource, namespace, .. } if !namespace.is_empty() => {
                format!("{} in namespace {namespace}", resource.plural())
            }
            Query::Get { resource, .. } => resource.plural().to_owned(),
            Query::List { resource, .. } => format!("{} of all namespaces", resource.plural()),
            Query::Attempts { node, .. } => format!("probe attempts of node {node}"),
        }
    }
}

/// An object has far fewer events than this; a list must not grow without end.
const EVENTS_MAX: u32 = 200;

/// Escapes what may not stand in a part of a URL.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// What the API answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The object, or what the agent says.
    Object(Value),
    /// There is none.
    Missing,
    /// The objects, and whether there are more.
    List {
        /// Those that were returned.
        items: Vec<Value>,
        /// How many more there are, if any; an API that does not count says 1.
        more: u64,
    },
    /// It may not be asked, or the API cannot answer.
    Refused {
        /// The HTTP status; 0: there was no answer.
        code: u16,
        /// For people.
        message: String,
    },
}

/// Everything that is known.
#[derive(Debug, Default)]
pub struct Facts {
    replies: BTreeMap<Query, Reply>,
    missing: RefCell<BTreeSet<Query>>,
}

/// A list of objects.
pub(crate) struct Listed<'a> {
    pub(crate) items: &'a [Value],
    pub(crate) more: u64,
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) subject: String,
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Facts {
    /// Puts a reply in.
    pub fn insert(&mut self, query: Query, reply: Reply) {
        self.replies.insert(query, reply);
    }

    /// Returns how many questions were answered.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Returns what was asked in vain since the last call.
    pub fn take_missing(&self) -> Vec<Query> {
        std::mem::take(&mut *self.missing.borrow_mut()).into_iter().collect()
    }

    /// Says that these will be needed, so that they are asked for together.
    pub(crate) fn want(&self, queries: impl IntoIterator<Item = Query>) {
        let unknown = queries.into_iter().filter(|query| !self.replies.contains_key(query));
        self.missing.borrow_mut().extend(unknown);
    }

    pub(crate) fn reply(&self, query: &Query) -> Step<&Reply> {
        match self.replies.get(query) {
            Some(reply) => Ok(reply),
            None => {
                self.missing.borrow_mut().insert(query.clone());
                Err(Stop::Ask)
            }
        }
    }

    /// Returns an object; `None`: there is none.
    pub(crate) fn object(&self, query: &Query) -> Step<Result<Option<&Value>, Refused>> {
        Ok(match self.reply(query)? {
            Reply::Object(object) => Ok(Some(object)),
            Reply::Missing | Reply::List { .. } => Ok(None),
            Reply::Refused { code, message } => Err(refused(query, *code, message)),
        })
    }

    /// Returns a list. A kind that the API does not serve has no objects.
    pub(crate) fn list(&self, query: &Query) -> Step<Result<Listed<'_>, Refused>> {
        Ok(match self.reply(query)? {
            Reply::List { items, more } => Ok(Listed { items, more: *more }),
            Reply::Missing | Reply::Object(_) => Ok(Listed { items: &[], more: 0 }),
            Reply::Refused { code, message } => Err(refused(query, *code, message)),
        })
    }
}

fn refused(query: &Query, code: u16, message: &str) -> Refused {
    Refused { subject: query.subject(), code, message: message.to_owned() }
}

impl Refused {
    /// Returns the refusal for people.
    pub(crate) fn say(&self) -> String {
        match self.code {
            401 => format!("the API does not know who you are: {}", self.message),
            403 => format!("you may not read {}", self.subject),
            _ => format!("{} cannot be read: {}", self.subject, self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api() {
        let get = Query::get(Resource::Pods, "shop", "web-1");
        assert_eq!(get.path().as_deref(), Some("/api/v1/namespaces/shop/pods/web-1"));
        let list = Query::list(Resource::EndpointSlices, "shop", "kubernetes.io/service-name in (a,b)", "", 50);
        assert_eq!(
            list.path().as_deref(),
            Some(
                "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?limit=50&labelSelector=kubernetes.io%2Fservice-name%20in%20%28a%2Cb%29"
            )
        );
        assert_eq!(Query::get(Resource::Nodes, "", "n").path().as_deref(), Some("/api/v1/nodes/n"));
        let events = Query::events("", "Node", "n").path().unwrap();
        assert!(events.starts_with("/api/v1/namespaces/default/events?limit=200&fieldSelector=involvedObject.kind%3DNode%2C"));
    }

    #[test]
    fn what_is_not_known_is_asked_for_once() {
        let mut facts = Facts::default();
        let query = Query::get(Resource::Nodes, "", "n");
        facts.want([query.clone(), query.clone()]);
        assert!(facts.object(&query).is_err());
        assert_eq!(facts.take_missing(), std::slice::from_ref(&query));
        facts.insert(query.clone(), Reply::Missing);
        assert_eq!(facts.object(&query).ok(), Some(Ok(None)));
        assert!(facts.take_missing().is_empty());
    }
}
