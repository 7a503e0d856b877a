//! The handlers: one file per kind of request.

pub(crate) mod apply;
pub(crate) mod body;
pub(crate) mod delete;
pub(crate) mod documents;
mod eviction;
pub(crate) mod health;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod reviews;
pub(crate) mod subresources;
pub(crate) mod watch;
pub(crate) mod write;
mod written;

use std::sync::Arc;

use api::FieldSelector;
use api::status::{Status, Subject};
use registry::authz::{self, Ask, Identity};
use registry::kind::ServedKind;

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
        "patch" => patch::patch(server, kind, target, call).await,
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
    let catalog = server.catalog();
    let pods = catalog.find("", "v1", "pods").expect("pods are built in");
    authz::permit(identity, ask, &server.0.hub.snapshot(), pods, subject)
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
        labels.matches(&stored.index.labels) && (fields.is_empty() || fields.matches_with(|label| kind.field_of(stored, label)))
    }))
}
