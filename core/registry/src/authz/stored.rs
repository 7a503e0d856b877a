//! What depends on stored objects: a node may do something with a pod that is its own, and with what such a pod refers to.

use api::json;
use api::status::{Status, Subject};
use serde_json::Value;

use super::{Ask, Grant, Identity, authorize};
use crate::kind::ServedKind;
use crate::state::{Snapshot, Stored, key, prefix};

/// Decides about a request of an identity. `pods` is the kind of pods; `subject` is what a refusal names.
pub fn permit(
    identity: &Identity,
    ask: &Ask<'_>,
    snapshot: &Snapshot,
    pods: &ServedKind,
    subject: &Subject,
) -> Result<(), Status> {
    let grant = authorize(identity, ask)?;
    let node = identity.node().unwrap_or_default();
    let field = |pod: &Stored, name: &str, wanted: &str| pods.field_of(pod, name) == Some(wanted);
    let of_node = |pod: &Stored| field(pod, "spec.nodeName", node);
    let any_pod = |concerned: &dyn Fn(&Stored) -> bool| {
        snapshot.range(&prefix("", "pods", ask.namespace), None).any(|(_, pod)| of_node(pod) && concerned(pod))
    };
    let allowed = match grant {
        Grant::Allowed => true,
        // Without a name it is about all of them. If there is none of that name, let the answer be 404.
        Grant::IfOwnPod => {
            !ask.name.is_empty() && snapshot.get(&key("", "pods", ask.namespace, ask.name)).is_none_or(|pod| of_node(pod))
        }
        Grant::IfReferenced => any_pod(&|pod| pod.references().contains(ask.resource, ask.object())),
        // That the token is bound to such a pod is in the body: checked when it is known.
        Grant::IfAccountOfOwnPod => {
            !ask.namespace.is_empty() && any_pod(&|pod| field(pod, "spec.serviceAccountName", ask.name))
        }
    };
    if allowed {
        return Ok(());
    }
    let why = format!("User {:?} cannot {} it: no pod of this node is concerned", identity.user, ask.verb);
    Err(Status::forbidden(subject, why))
}

/// The agent of a node may ask for tokens that die with one of its own pods, and for no others.
pub fn check_node_token(
    identity: &Identity,
    namespace: &str,
    account: &str,
    request: &Value,
    snapshot: &Snapshot,
) -> Result<(), Status> {
    let Some(node) = identity.node() else { return Ok(()) };
    let bound = |field| json::text(request, &["spec", "boundObjectRef", field]);
    let pod = snapshot.get(&key("", "pods", namespace, bound("name"))).map(|pod| (pod.object(), &pod.index.uid));
    let own = bound("kind") == "Pod"
        && pod.is_some_and(|(pod, uid)| {
            json::text(&pod, &["spec", "nodeName"]) == node
                && json::text(&pod, &["spec", "serviceAccountName"]) == account
                && bound("uid") == uid
        });
    if own {
        return Ok(());
    }
    let subject = Subject { resource: "serviceaccounts".into(), name: account.to_owned(), ..Subject::default() };
    Err(Status::forbidden(&subject, format!("node {node:?} can only ask for tokens that are bound to its own pods")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::NODES;
    use crate::state::{Expect, RegistryState, WindowLimits, Write};
    use machine::Time;
    use serde_json::json;

    fn world() -> Snapshot {
        let state = RegistryState::restore(0, Vec::new(), 0, Vec::new(), WindowLimits::default());
        let pod = |namespace: &str, name: &str, node: &str| {
            let spec = json!({"nodeName": node, "serviceAccountName": "robot", "containers": [],
                "volumes": [{"name": "v", "secret": {"secretName": "password"}}]});
            let object = json!({"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec});
            Write::put(key("", "pods", namespace, name), Expect::Absent, object)
        };
        state.snapshot().stage(Time::from_secs(1), vec![pod("a", "mine", "n1"), pod("b", "theirs", "n2")]).into_parts().0
    }

    fn may(ask: &Ask<'_>) -> bool {
        let pods = kinds::resource::builtins().into_iter().find(|resource| resource.is_core("pods")).unwrap();
        let node = Identity { user: "system:node:n1".into(), groups: vec![NODES.into()], ..Identity::default() };
        permit(&node, ask, &world(), &ServedKind::builtin_kind(pods), &Subject::default()).is_ok()
    }

    #[test]
    fn a_node_has_to_do_with_its_own_pods_and_what_they_refer_to() {
        let pod = |name| Ask { verb: "get", resource: "pods", namespace: "a", name, ..Ask::default() };
        assert!(may(&pod("mine")) && may(&pod("missing")), "what is missing is answered with 404");
        assert!(!may(&Ask { namespace: "b", ..pod("theirs") }));
        assert!(!may(&pod("")) && !may(&Ask { namespace: "", ..pod("") }), "all pods");
        let secret = |namespace| Ask { verb: "get", resource: "secrets", namespace, name: "password", ..Ask::default() };
        assert!(may(&secret("a")));
        assert!(!may(&secret("b")) && !may(&secret("")), "pods of another node, all namespaces");
        let token = |namespace, name| Ask {
            verb: "create",
            resource: "serviceaccounts",
            subresource: "token",
            namespace,
            name,
            ..Ask::default()
        };
        assert!(may(&token("a", "robot")) && !may(&token("a", "other")));
        assert!(!may(&token("b", "robot")) && !may(&token("", "robot")));
    }

    #[test]
    fn a_token_must_be_bound_to_an_own_pod() {
        let node = Identity { user: "system:node:n1".into(), groups: vec![NODES.into()], ..Identity::default() };
        let ask = |namespace: &str, account: &str, kind: &str, name: &str, uid: &str| {
            let request = json!({"spec": {"boundObjectRef": {"kind": kind, "name": name, "uid": uid}}});
            check_node_token(&node, namespace, account, &request, &world()).is_ok()
        };
        assert!(ask("a", "robot", "Pod", "mine", "mine"));
        assert!(!ask("a", "other", "Pod", "mine", "mine") && !ask("b", "robot", "Pod", "theirs", "theirs"));
        assert!(!ask("a", "robot", "Pod", "mine", "") && !ask("a", "robot", "Secret", "mine", "mine"));
        assert!(check_node_token(&Identity::internal("x"), "a", "robot", &Value::Null, &world()).is_ok(), "no node");
    }
}
