//! Who may do what: four roles, no policy objects.
//!
//! The same functions decide about requests and answer reviews. A review may ask for `*`: that is allowed only if everything
//! that it stands for is.

mod node;
mod paths;
mod stored;

use std::collections::BTreeMap;

use api::status::{Status, Subject};
use kinds::resource::Resource;

pub use node::{References, check_node_write};
pub use paths::{PathRule, authorize_path, path_rules};
pub use stored::{check_node_token, permit};

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of everybody who is known.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of node agents.
pub const NODES: &str = "system:nodes";
/// The group of controllers: everything but secrets.
pub const CONTROLLERS: &str = "lifesign:controllers";
/// The group of readers: everything but secrets.
pub const VIEWERS: &str = "lifesign:viewers";
/// What the user name of a node begins with.
pub const NODE_USER: &str = "system:node:";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user; empty: nobody known.
    pub user: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// Its uid, if it has one.
    pub uid: String,
    /// What else is known, such as the pod that a token is bound to; by keys of Kubernetes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Returns the identity of this process itself.
    pub fn internal(user: &str) -> Identity {
        Identity { user: user.to_owned(), groups: vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()], ..Identity::default() }
    }

    /// Returns whether the identity is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|other| other == group)
    }

    /// Returns the node that the identity is the agent of; a node without a name is none.
    pub fn node(&self) -> Option<&str> {
        self.user.strip_prefix(NODE_USER).filter(|node| !node.is_empty() && self.is_in(NODES))
    }
}

/// The verbs of requests for resources. Nobody but an administrator may anything else, such as `impersonate`.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// What stands for everything, in a review.
pub const ALL: &str = "*";

/// A request for a resource, as far as permission is concerned. In a review any of the first four may be `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object, or empty.
    pub name: &'a str,
    /// What the query demands of `spec.nodeName`; counts for list and watch only, which it filters.
    pub selects_node: Option<&'a str>,
    /// What the query demands of `metadata.name`; counts for list and watch of a collection only, which it filters.
    pub selects_name: Option<&'a str>,
}

/// What must still be asked of the stored objects before a node may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Nothing.
    Allowed,
    /// The pod must be bound to the node.
    IfOwnPod,
    /// A pod of the node must refer to this Secret or ConfigMap.
    IfReferenced,
    /// A pod of the node must run as this service account, and the token must be bound to it.
    IfAccountOfOwnPod,
}

/// Decides; an error is the whole answer to the client.
pub fn authorize(identity: &Identity, ask: &Ask<'_>) -> Result<Grant, Status> {
    if identity.is_in(MASTERS) {
        return Ok(Grant::Allowed);
    }
    if matches!(ask.group, "authorization.k8s.io" | "authentication.k8s.io")
        && ask.resource.starts_with("selfsubject")
        && (ask.verb, ask.subresource) == ("create", "")
    {
        return Ok(Grant::Allowed); // everybody may ask about himself
    }
    if ask.verb != ALL && !VERBS.contains(&ask.verb) {
        return Err(refusal(identity, ask, None));
    }
    if let Some(node) = identity.node() {
        return node::may(node, ask).map_err(|why| refusal(identity, ask, Some(why)));
    }
    let covers = |asked: &str, known: &[&str]| asked == ALL || known.contains(&asked);
    let secret = covers(ask.group, &[""]) && (covers(ask.resource, &["secrets"]) || covers(ask.subresource, &["token"]));
    // A stream into a pod is opened with GET too, and is more than reading.
    let streams = covers(ask.subresource, &["exec", "attach", "portforward", "proxy"]);
    let reads = matches!(ask.verb, "get" | "list" | "watch") && !streams;
    if (identity.is_in(CONTROLLERS) && !secret && !streams) || (identity.is_in(VIEWERS) && reads && !secret) {
        return Ok(Grant::Allowed);
    }
    Err(refusal(identity, ask, None))
}

impl Ask<'_> {
    /// Returns the object that is asked for: by the path, or as the only one that a list or watch selects.
    pub fn object(&self) -> &str {
        match self.verb {
            "list" | "watch" if self.name.is_empty() => self.selects_name.unwrap_or_default(),
            _ => self.name,
        }
    }
}

/// One row of what an identity may do: each verb on each resource of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The verbs.
    pub verbs: Vec<&'static str>,
    /// The API group; `*`: all.
    pub group: String,
    /// Resources, and subresources as `resource/subresource`.
    pub resources: Vec<String>,
}

/// Returns what an identity may do in a namespace with what is served. For a node it depends on the object too; then the
/// rows say what holds for everything of that name.
pub fn rules<'a>(identity: &Identity, namespace: &str, served: impl IntoIterator<Item = &'a Resource>) -> Vec<Rule> {
    if identity.is_in(MASTERS) {
        return vec![Rule { verbs: vec!["*"], group: "*".to_owned(), resources: vec!["*".to_owned()] }];
    }
    let mut rows: BTreeMap<(String, Vec<&'static str>), Vec<String>> = BTreeMap::new();
    for resource in served {
        let namespace = if resource.namespaced { namespace } else { "" };
        let parts = resource.subresources.iter().map(|part| (part.name.as_str(), &part.verbs));
        for (subresource, verbs) in std::iter::once(("", &resource.verbs)).chain(parts) {
            let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
            let may = |verb: &&str| {
                let ask = Ask { verb, group, resource: plural, subresource, namespace, ..Ask::default() };
                authorize(identity, &ask) == Ok(Grant::Allowed)
            };
            let allowed: Vec<&'static str> = verbs.iter().copied().filter(may).collect();
            let shown = if subresource.is_empty() { plural.to_owned() } else { format!("{plural}/{subresource}") };
            let row = rows.entry((resource.group.clone(), allowed)).or_default();
            if !row.contains(&shown) {
                row.push(shown);
            }
        }
    }
    let allowed = rows.into_iter().filter(|((_, verbs), _)| !verbs.is_empty());
    allowed.map(|((group, verbs), resources)| Rule { verbs, group, resources }).collect()
}

fn refusal(identity: &Identity, ask: &Ask<'_>, why: Option<&'static str>) -> Status {
    let resource =
        if ask.subresource.is_empty() { ask.resource.to_owned() } else { format!("{}/{}", ask.resource, ask.subresource) };
    let place = if ask.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", ask.namespace)
    };
    let mut text =
        format!("User {:?} cannot {} resource {resource:?} in API group {:?} {place}", identity.user, ask.verb, ask.group);
    if let Some(why) = why {
        text.push_str(": ");
        text.push_str(why);
    }
    let subject = Subject {
        group: ask.group.to_owned(),
        resource: ask.resource.to_owned(),
        kind: String::new(),
        name: ask.name.to_owned(),
    };
    Status::forbidden(&subject, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: &str, group: &str) -> Identity {
        Identity { user: user.into(), groups: vec![group.into()], ..Identity::default() }
    }

    fn ask<'a>(verb: &'a str, resource: &'a str) -> Ask<'a> {
        Ask { verb, resource, namespace: "default", ..Ask::default() }
    }

    #[test]
    fn roles_have_their_limits() {
        assert!(authorize(&who("a", MASTERS), &ask("delete", "secrets")).is_ok());
        assert!(authorize(&who("c", CONTROLLERS), &ask("delete", "pods")).is_ok());
        assert!(authorize(&who("c", CONTROLLERS), &ask("get", "secrets")).is_err());
        assert!(authorize(&who("v", VIEWERS), &ask("watch", "pods")).is_ok());
        assert!(authorize(&who("v", VIEWERS), &ask("patch", "pods")).is_err());
        assert!(authorize(&who("v", VIEWERS), &Ask { subresource: "exec", ..ask("get", "pods") }).is_err());
        assert!(authorize(&who("x", "others"), &ask("get", "pods")).is_err());
    }

    #[test]
    fn a_star_is_allowed_if_everything_is() {
        let may = |group: &str, ask: Ask<'_>| authorize(&who("x", group), &ask).is_ok();
        let all = || Ask { group: ALL, ..ask(ALL, ALL) };
        assert!(may(MASTERS, all()) && may(MASTERS, Ask { subresource: ALL, ..ask("get", "pods") }));
        for group in [CONTROLLERS, VIEWERS, NODES, "others"] {
            assert!(!may(group, all()) && !may(group, ask("get", ALL)), "{group}: secrets are among it");
            assert!(!may(group, Ask { group: ALL, ..ask("get", "secrets") }), "{group}");
            assert!(!may(group, Ask { subresource: ALL, ..ask("get", "pods") }), "{group}: exec is among it");
            assert!(!may(group, ask("impersonate", "users")) && !may(group, ask("escalate", "clusterroles")), "{group}");
        }
        assert!(may(CONTROLLERS, ask(ALL, "pods")) && !may(CONTROLLERS, ask(ALL, "secrets")));
        assert!(may(CONTROLLERS, Ask { group: "apps", ..ask(ALL, ALL) }), "nothing of apps is secret");
        assert!(!may(VIEWERS, ask(ALL, "pods")) && may(VIEWERS, Ask { group: "apps", ..ask("list", ALL) }));
        let node = who("system:node:n1", NODES);
        let lease = Ask { group: "coordination.k8s.io", namespace: "kube-node-lease", name: "n1", ..ask(ALL, "leases") };
        assert!(authorize(&node, &lease).is_err(), "a node cannot delete its lease");
        assert!(authorize(&node, &ask(ALL, "services")).is_err());
    }

    #[test]
    fn a_node_sees_its_own_and_is_told_why_not_more() {
        let node = who("system:node:n1", NODES);
        let own = Ask { selects_node: Some("n1"), ..ask("watch", "pods") };
        assert_eq!(authorize(&node, &own), Ok(Grant::Allowed));
        let all = authorize(&node, &ask("list", "pods")).unwrap_err();
        assert!(all.message.contains("can only list/watch pods with spec.nodeName field selector"), "{}", all.message);
        assert_eq!(authorize(&node, &Ask { name: "p", subresource: "status", ..ask("patch", "pods") }), Ok(Grant::IfOwnPod));
        assert!(authorize(&node, &Ask { name: "n2", namespace: "", ..ask("patch", "nodes") }).is_err());
        assert!(authorize(&node, &Ask { name: "n1", namespace: "", ..ask("delete", "nodes") }).is_err());
    }

    #[test]
    fn rules_list_what_may_be_done() {
        let served = kinds::resource::builtins();
        let of = |user: &str, group: &str| rules(&who(user, group), "default", served.iter().map(AsRef::as_ref));
        let all = Rule { verbs: vec!["*"], group: "*".into(), resources: vec!["*".into()] };
        assert_eq!(of("a", MASTERS), [all]);
        let viewer = of("v", VIEWERS);
        let reads = viewer.iter().find(|rule| rule.resources.contains(&"pods".to_owned())).unwrap();
        assert_eq!(reads.verbs, ["get", "list", "watch"]);
        let secrets = |rule: &Rule| rule.resources.iter().any(|resource| resource == "secrets");
        assert!(!viewer.iter().any(secrets) && !of("c", CONTROLLERS).iter().any(secrets));
        let node = of("system:node:n1", NODES);
        assert!(node.iter().any(|rule| rule.verbs == ["get", "list", "watch"] && rule.resources == ["services"]), "{node:?}");
        assert!(of("x", "others").iter().all(|rule| rule.group.starts_with("auth")), "everybody may ask about himself");
        for rule in node.iter().chain(&viewer) {
            assert!(!rule.resources.iter().any(|resource| resource.ends_with("/exec")), "{rule:?}");
        }
    }

    #[test]
    fn a_refusal_reads_like_those_of_kubernetes() {
        let status = authorize(&who("jane", "others"), &Ask { name: "p", ..ask("get", "pods") }).unwrap_err();
        assert_eq!(
            status.message,
            r#"pods "p" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "default""#
        );
    }
}
