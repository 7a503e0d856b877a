//! What a request asks for, read from its method and path.

use http::Method;
use registry::query::{Parameters, decode_segment};

/// A request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster scope and for lists over all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// What follows `proxy` in the path: a path at the node.
    pub(crate) beyond: String,
    /// The old form `/watch/` in the path.
    pub(crate) watch: bool,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/api`, `/apis`, `/apis/G`, `/api/v1`, `/apis/G/V`.
    Discovery(Discovery),
    /// `/openapi/v3` and below: what follows it, without a slash in front.
    OpenApi(String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/version`.
    Version,
    /// `/livez`, `/readyz`, `/healthz`: which one, and the check that is asked for.
    Health(&'static str, String),
    /// `/metrics`.
    Metrics,
    /// All objects, for `lifesign apiserver --backup`.
    Backup,
    /// `/configz`: what the server uses.
    Configz,
    /// A resource.
    Resource(Target),
    /// Nothing that we serve.
    Unknown,
}

/// A document of discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    Core,
    Groups,
    Group(String),
    Resources { group: String, version: String },
}

/// Reads a path.
pub(crate) fn route(path: &str) -> Route {
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decode_segment).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["version"] => Route::Version,
        ["metrics"] => Route::Metrics,
        ["debug", "backup"] => Route::Backup,
        ["configz"] => Route::Configz,
        ["livez", check @ ..] => Route::Health("livez", check.join("/")),
        ["readyz", check @ ..] => Route::Health("readyz", check.join("/")),
        ["healthz", check @ ..] => Route::Health("healthz", check.join("/")),
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3", rest @ ..] => Route::OpenApi(rest.join("/")),
        ["api"] => Route::Discovery(Discovery::Core),
        ["apis"] => Route::Discovery(Discovery::Groups),
        ["apis", group] => Route::Discovery(Discovery::Group((*group).to_owned())),
        ["api", version] => Route::Discovery(Discovery::Resources { group: String::new(), version: (*version).to_owned() }),
        ["apis", group, version] => {
            Route::Discovery(Discovery::Resources { group: (*group).to_owned(), version: (*version).to_owned() })
        }
        ["api", version, rest @ ..] => target("", version, rest, path.ends_with('/')),
        ["apis", group, version, rest @ ..] => target(group, version, rest, path.ends_with('/')),
        _ => Route::Unknown,
    }
}

fn target(group: &str, version: &str, rest: &[&str], slash: bool) -> Route {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    // `namespaces/NS/RESOURCE` is a resource in a namespace; `namespaces/NS` and its own subresources are the namespace.
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !is_of_namespace(group, rest) => (*namespace, rest),
        rest => ("", rest),
    };
    let mut beyond = String::new();
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, "", String::new()),
        [resource, name] => (*resource, *name, String::new()),
        [resource, name, "proxy", beyond_proxy @ ..] => {
            beyond = beyond_proxy.join("/");
            // A path with a slash at its end is another one, to whom it leads.
            if slash && !beyond.is_empty() {
                beyond.push('/');
            }
            (*resource, *name, "proxy".to_owned())
        }
        [resource, name, subresource @ ..] => (*resource, *name, subresource.join("/")),
        [] => return Route::Unknown,
    };
    Route::Resource(Target {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource,
        beyond,
        watch,
    })
}

/// Returns whether what follows a namespace in a path is a subresource of the namespace itself.
fn is_of_namespace(group: &str, rest: &[&str]) -> bool {
    group.is_empty() && matches!(rest, ["status" | "finalize"])
}

/// Returns the verb of a request for a resource; `None`: the method means nothing here.
pub(crate) fn verb(method: &Method, target: &Target, parameters: &Parameters) -> Option<&'static str> {
    let collection = target.name.is_empty();
    Some(match (method, collection) {
        (&Method::GET | &Method::HEAD, _) if target.watch || (collection && parameters.flag("watch")) => "watch",
        (&Method::GET | &Method::HEAD, true) => "list",
        (&Method::GET | &Method::HEAD, false) => "get",
        (&Method::POST, true) => "create",
        (&Method::POST, false) if !target.subresource.is_empty() => "create",
        (&Method::PUT, false) => "update",
        (&Method::PATCH, false) => "patch",
        (&Method::DELETE, false) => "delete",
        (&Method::DELETE, true) => "deletecollection",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> Target {
        match route(path) {
            Route::Resource(target) => target,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_their_targets() {
        let pod = resource("/api/v1/namespaces/ns/pods/p/status");
        assert_eq!(
            (pod.namespace.as_str(), pod.resource.as_str(), pod.name.as_str(), pod.subresource.as_str()),
            ("ns", "pods", "p", "status")
        );
        let namespace = resource("/api/v1/namespaces/ns");
        assert_eq!((namespace.resource.as_str(), namespace.name.as_str()), ("namespaces", "ns"));
        let status = resource("/api/v1/namespaces/ns/finalize");
        assert_eq!(
            (status.resource.as_str(), status.name.as_str(), status.subresource.as_str()),
            ("namespaces", "ns", "finalize")
        );
        let old = resource("/apis/apps/v1/watch/namespaces/ns/deployments");
        assert!(old.watch && old.namespace == "ns" && old.resource == "deployments");
        assert_eq!(
            route("/apis/apps/v1"),
            Route::Discovery(Discovery::Resources { group: "apps".into(), version: "v1".into() })
        );
        let node = resource("/api/v1/nodes/n1/proxy/debug/probes");
        assert_eq!((node.name.as_str(), node.subresource.as_str(), node.beyond.as_str()), ("n1", "proxy", "debug/probes"));
        assert_eq!(resource("/api/v1/nodes/n1/proxy/logs/").beyond, "logs/");
        assert_eq!(resource("/api/v1/nodes/n1/proxy/").beyond, "");
        assert_eq!(resource("/api/v1/nodes/https:n1:10250/proxy/pods").name, "https:n1:10250");
        assert_eq!(route("/nothing/here"), Route::Unknown);
        assert_eq!(route("/readyz/ping"), Route::Health("readyz", "ping".into()));
    }

    #[test]
    fn methods_are_verbs() {
        let list = resource("/api/v1/pods");
        let parse = Parameters::parse;
        assert_eq!(verb(&Method::GET, &list, &parse("watch=1")), Some("watch"));
        assert_eq!(verb(&Method::GET, &list, &parse("watch=0")), Some("list"));
        assert_eq!(verb(&Method::DELETE, &list, &parse("")), Some("deletecollection"));
        assert_eq!(verb(&Method::POST, &resource("/api/v1/namespaces/n/pods/p"), &parse("")), None);
        assert_eq!(verb(&Method::POST, &resource("/api/v1/namespaces/n/pods/p/binding"), &parse("")), Some("create"));
    }
}
