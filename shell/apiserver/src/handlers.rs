//! The handlers: one file per kind of request.

pub(crate) mod apply;
pub(crate) mod body;
pub(crate) mod delete;
pub(crate) mod documents;
mod eviction;
pub(crate) mod health;
pub(crate) mod read;
pub(crate) mod reviews;
pub(crate) mod subresources;
pub(crate) mod watch;
pub(crate) mod write;

use std::sync::Arc;

use api::FieldSelector;
use api::json;
use api::status::{Status, Subject};
use registry::authz::{self, Ask, Grant, Identity};
use registry::kind::ServedKind;
use registry::state::{Stored, key, prefix};
use serde_json::Value;

use crate::reply::Reply;
use crate::request::{self, Target};
use crate::server::{Call, Server};

/// A request for something that is served, by somebody who may ask for it.
pub(crate) struct Asked {
    kind: Arc<ServedKind>,
    verb: &'static str,
}

/// Finds out what a request is for and whether its identity may; the body has not been read yet.
pub(crate) fn admit(server: &Server, target: &Target, call: &Call) -> Result<Asked, Status> {
    let catalog = server.catalog();
    let Some(kind) = catalog.find(&target.group, &target.version, &target.resource) else {
        return Err(Status::no_such_resource());
    };
    let subject = kind.resource.subject(&target.name);
    let verb = request::verb(&call.method, target, &call.parameters)
        .ok_or_else(|| Status::method_not_allowed(&subject, call.method.as_str()))?;
    if kind.resource.namespaced && target.namespace.is_empty() && !matches!(verb, "list" | "watch") {
        return Err(Status::no_such_resource());
    }
    if !kind.resource.namespaced && !target.namespace.is_empty() {
        return Err(Status::no_such_resource());
    }
    permit(server, target, call, verb, &subject)?;
    Ok(Asked { kind: Arc::clone(kind), verb })
}

impl Asked {
    /// Returns how many bytes the work is about, at most.
    pub(crate) fn size(&self, server: &Server, target: &Target, call: &Call) -> usize {
        let resource = &self.kind.resource;
        let by_expressions = resource.custom || resource.plural == "customresourcedefinitions";
        match self.verb {
            "get" if target.subresource == "log" => 0,
            // As much as there is.
            "list" | "watch" | "deletecollection" => usize::MAX,
            // How long a schema and its rules take is for their author to choose.
            verb if by_expressions && verb != "get" => usize::MAX,
            _ => {
                let stored = server.0.hub.snapshot().get(&resource.key(&target.namespace, &target.name)).cloned();
                call.body.len() + stored.map_or(0, |stored| stored.size())
            }
        }
    }
}

/// Answers a request for a resource.
pub(crate) async fn resource(server: &Server, asked: &Asked, target: &Target, call: &Call) -> Result<Reply, Status> {
    let Asked { kind, verb } = asked;
    let verb = *verb;
    if !target.subresource.is_empty() {
        return subresources::handle(server, kind, target, call, verb).await;
    }
    if !kind.resource.verbs.contains(&verb) {
        return Err(Status::method_not_allowed(&kind.resource.subject(&target.name), verb));
    }
    match verb {
        "get" => read::get(server, kind, target, call).await,
        "list" => read::list(server, kind, target, call).await,
        "watch" => watch::watch(server, kind, target, call),
        "create" if kind.is_virtual() => reviews::create(server, kind, target, call).await,
        "create" => write::create(server, kind, target, call).await,
        "update" => write::replace(server, kind, target, call).await,
        "patch" => write::patch(server, kind, target, call).await,
        "delete" => delete::delete(server, kind, target, call).await,
        _ => delete::delete_collection(server, kind, target, call).await,
    }
}

/// Refuses what the identity may not do.
pub(crate) fn permit(server: &Server, target: &Target, call: &Call, verb: &str, subject: &Subject) -> Result<(), Status> {
    let selector = FieldSelector::parse(call.parameters.text("fieldSelector")).unwrap_or_default();
    let ask = Ask {
        verb,
        group: &target.group,
        resource: &target.resource,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: &target.name,
        selects_node: selector.exact("spec.nodeName"),
        selects_name: selector.exact("metadata.name"),
    };
    permit_ask(server, &call.identity, &ask, subject)
}

/// Decides about a request of an identity, with a look at the stored objects where the identity alone does not decide.
pub(crate) fn permit_ask(server: &Server, identity: &Identity, ask: &Ask<'_>, subject: &Subject) -> Result<(), Status> {
    let grant = authz::authorize(identity, ask)?;
    let node = identity.node().unwrap_or_default();
    let snapshot = server.0.hub.snapshot();
    let catalog = server.catalog();
    // Looked up only where pods decide: most requests are decided by who asks.
    let field = |pod: &Stored, name: &str, wanted: &str| {
        let pods = catalog.find("", "v1", "pods").expect("pods are built in");
        field_of(pods, pod, name) == Some(wanted)
    };
    let of_node = |pod: &Stored| field(pod, "spec.nodeName", node);
    let any_pod = |concerned: &dyn Fn(&Stored) -> bool| {
        snapshot.range(&prefix("", "pods", ask.namespace), None).any(|(_, pod)| of_node(pod) && concerned(pod))
    };
    let allowed = match grant {
        Grant::Allowed => true,
        // If there is none, let the answer be 404.
        Grant::IfOwnPod => snapshot.get(&key("", "pods", ask.namespace, ask.name)).is_none_or(|pod| of_node(pod)),
        Grant::IfReferenced => any_pod(&|pod| pod.references().contains(ask.resource, ask.object())),
        // That the token is bound to such a pod is in the body: checked when it is known.
        Grant::IfAccountOfOwnPod => any_pod(&|pod| field(pod, "spec.serviceAccountName", ask.name)),
    };
    if allowed {
        return Ok(());
    }
    let why = format!("User {:?} cannot {} it: no pod of this node is concerned", identity.user, ask.verb);
    Err(Status::forbidden(subject, why))
}

/// The agent of a node may ask for tokens that die with one of its own pods, and for no others.
pub(crate) fn check_node_token(server: &Server, identity: &Identity, target: &Target, request: &Value) -> Result<(), Status> {
    let Some(node) = identity.node() else { return Ok(()) };
    let bound = |field| json::text(request, &["spec", "boundObjectRef", field]);
    let snapshot = server.0.hub.snapshot();
    let pod = snapshot.get(&key("", "pods", &target.namespace, bound("name"))).map(|pod| (pod.object(), &pod.index.uid));
    let own = bound("kind") == "Pod"
        && pod.is_some_and(|(pod, uid)| {
            json::text(&pod, &["spec", "nodeName"]) == node
                && json::text(&pod, &["spec", "serviceAccountName"]) == target.name
                && bound("uid") == uid
        });
    if own {
        return Ok(());
    }
    let subject = Subject { resource: "serviceaccounts".into(), name: target.name.clone(), ..Subject::default() };
    Err(Status::forbidden(&subject, format!("node {node:?} can only ask for tokens that are bound to its own pods")))
}

/// Returns the matcher of a pair of selectors, or why the field selector cannot be used.
pub(crate) fn matcher(
    kind: &Arc<ServedKind>,
    labels: api::Selector,
    fields: FieldSelector,
) -> Result<crate::hub::Matcher, Status> {
    for (label, ..) in &fields.requirements {
        if !kind.supports_field(label) {
            return Err(Status::bad_request(format!("field label not supported: {label}")));
        }
    }
    let kind = Arc::clone(kind);
    Ok(Arc::new(move |stored| {
        labels.matches(&stored.index.labels)
            && (fields.is_empty() || fields.matches_with(|label| field_of(&kind, stored, label)))
    }))
}

fn field_of<'a>(kind: &ServedKind, stored: &'a Stored, label: &str) -> Option<&'a str> {
    match label {
        "metadata.name" => Some(&stored.index.name),
        "metadata.namespace" => Some(&stored.index.namespace),
        label => {
            let core = registry::events::core_label(label);
            let label = if kind.resource.plural == "events" { core.as_str() } else { label };
            stored.field(label, |object| kind.fields(object))
        }
    }
}
