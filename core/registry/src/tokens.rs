//! Tokens of service accounts: what a TokenRequest promises, and whom a token stands for.
//!
//! Signing and checking signatures is the shell's; here are the claims. A token stops being good when it expires, when its
//! service account or the object that it is bound to is gone, or when either was made anew under the same name.

use std::collections::BTreeMap;

use api::field::{self, Path};
use api::json;
use machine::Time;
use serde_json::{Value, json};

use crate::authz::{AUTHENTICATED, Identity};
use crate::state::{Snapshot, key};
use api::status::{Status, Subject};

/// Who signs the tokens, and for whom they are if the request does not say.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

const DEFAULT_SECONDS: i64 = 3_600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The claim that Kubernetes keeps its own things in.
const PRIVATE: &str = "kubernetes.io";
/// What the user name of a service account begins with.
const USER_PREFIX: &str = "system:serviceaccount:";
const GROUP: &str = "system:serviceaccounts";

/// Returns the groups of a user that is a service account; no others are known by their name.
pub fn account_groups(user: &str) -> Vec<String> {
    let namespace = user.strip_prefix(USER_PREFIX).and_then(|rest| rest.split_once(':')).map(|(namespace, _)| namespace);
    namespace.map_or_else(Vec::new, |namespace| vec![GROUP.to_owned(), format!("{GROUP}:{namespace}")])
}

/// A token that is granted.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// What the token says.
    pub claims: Value,
    /// The answer to the request; the shell adds `status.token`.
    pub answer: Value,
}

/// Decides what a token for a service account says; `id` is its unique name.
pub fn grant(
    namespace: &str,
    account: &str,
    request: &Value,
    snapshot: &Snapshot,
    now: Time,
    id: &str,
) -> Result<Granted, Status> {
    let subject = Subject { resource: "serviceaccounts".into(), kind: "ServiceAccount".into(), ..Subject::default() };
    let stored = snapshot
        .get(&key("", "serviceaccounts", namespace, account))
        .ok_or_else(|| Status::not_found(&Subject { name: account.into(), ..subject }))?;
    let seconds = expiration(request)?;
    let mut private = json!({"namespace": namespace, "serviceaccount": {"name": account, "uid": stored.index.uid}});
    if let Some(reference) = json::at(request, &["spec", "boundObjectRef"]).filter(|reference| reference.is_object()) {
        let (claim, bound) = bind(namespace, reference, snapshot)?;
        if let Some(node) = bound.node {
            private["node"] = node;
        }
        private[claim] = bound.reference;
    }
    let wanted = json::items(request, &["spec", "audiences"]);
    let audiences = if wanted.is_empty() { json!([ISSUER]) } else { json!(wanted) };
    let issued = now.as_secs();
    let expires = issued + seconds;
    let claims = json!({
        "iss": ISSUER, "sub": format!("{USER_PREFIX}{namespace}:{account}"), "aud": audiences, "jti": id,
        "iat": issued, "nbf": issued, "exp": expires, PRIVATE: private,
    });
    let mut answer = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {"name": account, "namespace": namespace, "creationTimestamp": api::Timestamp(now).to_string()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": null},
        "status": {"expirationTimestamp": api::Timestamp(Time::from_secs(expires)).to_string()},
    });
    answer["spec"]["boundObjectRef"] = json::at(request, &["spec", "boundObjectRef"]).cloned().unwrap_or(Value::Null);
    Ok(Granted { claims, answer })
}

fn expiration(request: &Value) -> Result<i64, Status> {
    let seconds = json::int(request, &["spec", "expirationSeconds"]).unwrap_or(DEFAULT_SECONDS);
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let subject = Subject { group: "authentication.k8s.io".into(), kind: "TokenRequest".into(), ..Subject::default() };
    let path = Path::root().child("spec").child("expirationSeconds");
    Err(Status::invalid(&subject, &[field::Error::invalid(&path, seconds, why)]))
}

/// The objects that a token can be bound to: kind, resource, claim, whether it lives in a namespace.
const BINDABLE: [(&str, &str, &str, bool); 3] =
    [("Pod", "pods", "pod", true), ("Secret", "secrets", "secret", true), ("Node", "nodes", "node", false)];

/// What a token is bound to.
struct Bound {
    reference: Value,
    /// For a pod: the node that it is on, so that whoever reads the token knows where it is used.
    node: Option<Value>,
}

fn bind(namespace: &str, reference: &Value, snapshot: &Snapshot) -> Result<(&'static str, Bound), Status> {
    let text = |field: &str| json::text(reference, &[field]);
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    let (_, resource, claim, namespaced) = BINDABLE
        .into_iter()
        .find(|(known, ..)| *known == kind)
        .ok_or_else(|| Status::bad_request(format!("cannot bind token to object of type {kind:?}: use Pod, Secret or Node")))?;
    let subject = Subject { resource: resource.into(), kind: kind.into(), name: name.into(), ..Subject::default() };
    let place = if namespaced { namespace } else { "" };
    let stored = snapshot.get(&key("", resource, place, name)).ok_or_else(|| Status::not_found(&subject))?;
    if !uid.is_empty() && uid != stored.index.uid {
        let why =
            format!("the UID in the bound object reference ({uid}) does not match the UID in record ({})", stored.index.uid);
        return Err(Status::conflict(&subject, why));
    }
    let node = if claim == "pod" { node_of(&stored.object(), snapshot) } else { None };
    Ok((claim, Bound { reference: json!({"name": name, "uid": stored.index.uid}), node }))
}

/// Returns the node of a pod, if that is known.
fn node_of(pod: &Value, snapshot: &Snapshot) -> Option<Value> {
    let name = json::text(pod, &["spec", "nodeName"]);
    let node = snapshot.get(&key("", "nodes", "", name))?;
    Some(json!({"name": name, "uid": node.index.uid}))
}

/// Whom a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Who it is.
    pub identity: Identity,
    /// Those of the audiences that were asked about for which the token is.
    pub audiences: Vec<String>,
}

/// Returns those of the audiences that were asked about that are among `known`; `None` if there is none.
pub fn common_audiences<'a>(asked: &[&str], known: impl IntoIterator<Item = &'a str>) -> Option<Vec<String>> {
    let known: Vec<&str> = known.into_iter().collect();
    let common: Vec<String> = asked.iter().filter(|audience| known.contains(audience)).map(|&both| both.to_owned()).collect();
    (!common.is_empty()).then_some(common)
}

/// Returns whom the claims of a token with a good signature stand for now, for whoever is one of the audiences.
pub fn identity(claims: &Value, snapshot: &Snapshot, now: Time, audiences: &[&str]) -> Option<Known> {
    let second = now.as_secs();
    let in_time = json::int(claims, &["exp"])? > second && json::int(claims, &["nbf"])? <= second;
    if !in_time || json::text(claims, &["iss"]) != ISSUER {
        return None;
    }
    let audiences = common_audiences(audiences, json::items(claims, &["aud"]).iter().filter_map(Value::as_str))?;
    let private = claims.get(PRIVATE)?;
    let namespace = json::text(private, &["namespace"]);
    let (account, uid) = (json::text(private, &["serviceaccount", "name"]), json::text(private, &["serviceaccount", "uid"]));
    let is_there = |resource, place, name, uid: &str| {
        snapshot.get(&key("", resource, place, name)).is_some_and(|stored| stored.index.uid == uid)
    };
    if !is_there("serviceaccounts", namespace, account, uid) {
        return None;
    }
    for (_, resource, claim, namespaced) in BINDABLE {
        let place = if namespaced { namespace } else { "" };
        let part = |field| json::text(private, &[claim, field]);
        // A token of a pod says where the pod is; it is the pod that it dies with.
        let of_pod = claim == "node" && private.get("pod").is_some();
        if private.get(claim).is_some() && !of_pod && !is_there(resource, place, part("name"), part("uid")) {
            return None;
        }
    }
    let user = format!("{USER_PREFIX}{namespace}:{account}");
    let groups = account_groups(&user).into_iter().chain([AUTHENTICATED.to_owned()]).collect();
    let identity = Identity { user, groups, uid: uid.to_owned(), extra: extra(claims, private) };
    Some(Known { identity, audiences })
}

/// Returns what else a token says about its user; the keys are those of Kubernetes.
fn extra(claims: &Value, private: &Value) -> BTreeMap<String, Vec<String>> {
    let id = json::text(claims, &["jti"]);
    let mut extra = BTreeMap::new();
    let mut put = |key: &str, value: String| extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
    if !id.is_empty() {
        put("credential-id", format!("JTI={id}"));
    }
    for claim in ["pod", "node"].into_iter().filter(|claim| private.get(claim).is_some()) {
        for field in ["name", "uid"] {
            put(&format!("{claim}-{field}"), json::text(private, &[claim, field]).to_owned());
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Expect, RegistryState, WindowLimits, Write};

    const NOW: Time = Time::from_secs(1_000_000);

    fn world(objects: &[(&str, &str, &str)]) -> Snapshot {
        let state = RegistryState::restore(0, Vec::new(), 0, Vec::new(), WindowLimits::default());
        let put = |(resource, name, uid): &(&str, &str, &str)| {
            let object = json!({"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": {"nodeName": "n1"}});
            let namespace = if *resource == "nodes" { "" } else { "default" };
            Write::put(key("", resource, namespace, name), Expect::Absent, object)
        };
        state.snapshot().stage(NOW, objects.iter().map(put).collect()).into_parts().0
    }

    fn identity(claims: &Value, snapshot: &Snapshot, now: Time) -> Option<Identity> {
        super::identity(claims, snapshot, now, &[ISSUER]).map(|known| known.identity)
    }

    fn ask(spec: &Value, world: &Snapshot) -> Result<Granted, Status> {
        grant("default", "robot", &json!({"spec": spec}), world, NOW, "id-1")
    }

    #[test]
    fn a_token_stands_for_its_service_account_until_it_expires() {
        let world = world(&[("serviceaccounts", "robot", "u1")]);
        let granted = ask(&json!({}), &world).unwrap();
        assert_eq!(granted.answer["spec"]["expirationSeconds"], 3_600);
        assert_eq!(granted.answer["status"]["expirationTimestamp"], api::Timestamp(Time::from_secs(1_003_600)).to_string());
        let who = identity(&granted.claims, &world, NOW).unwrap();
        assert_eq!((who.user.as_str(), who.uid.as_str()), ("system:serviceaccount:default:robot", "u1"));
        assert!(who.is_in("system:serviceaccounts") && who.is_in("system:serviceaccounts:default"));
        assert!(identity(&granted.claims, &world, Time::from_secs(1_003_599)).is_some());
        assert!(identity(&granted.claims, &world, Time::from_secs(1_003_600)).is_none(), "expired");
        assert!(identity(&granted.claims, &world, Time::from_secs(999_999)).is_none(), "not yet");
    }

    #[test]
    fn a_token_dies_with_what_it_belongs_to() {
        let all = world(&[("serviceaccounts", "robot", "u1"), ("pods", "web", "p1")]);
        let bound = ask(&json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web"}}), &all).unwrap().claims;
        assert_eq!(bound["kubernetes.io"]["pod"], json!({"name": "web", "uid": "p1"}));
        assert!(identity(&bound, &all, NOW).is_some());
        assert!(identity(&bound, &world(&[("serviceaccounts", "robot", "u1")]), NOW).is_none(), "the pod is gone");
        let again = world(&[("serviceaccounts", "robot", "u2"), ("pods", "web", "p1")]);
        assert!(identity(&bound, &again, NOW).is_none(), "another account of the same name");
    }

    #[test]
    fn a_token_for_somebody_else_is_of_no_use_here() {
        let world = world(&[("serviceaccounts", "robot", "u1")]);
        let mut claims = ask(&json!({"audiences": ["vault"]}), &world).unwrap().claims;
        assert!(identity(&claims, &world, NOW).is_none());
        claims["aud"] = json!(["vault", ISSUER]);
        assert!(identity(&claims, &world, NOW).is_some());
        for (field, value) in [("iss", json!("https://else")), ("exp", Value::Null), ("kubernetes.io", Value::Null)] {
            let mut broken = claims.clone();
            broken[field] = value;
            assert!(identity(&broken, &world, NOW).is_none(), "{field}");
        }
    }

    #[test]
    fn a_token_is_known_to_its_audiences() {
        let world = world(&[("serviceaccounts", "robot", "u1")]);
        let claims = ask(&json!({"audiences": ["vault", "bank"]}), &world).unwrap().claims;
        let known = |audiences: &[&str]| super::identity(&claims, &world, NOW, audiences).map(|known| known.audiences);
        assert_eq!(known(&["bank", "shop"]), Some(vec!["bank".to_owned()]));
        assert_eq!(known(&["shop"]), None);
        assert_eq!(known(&[ISSUER]), None);
        assert_eq!(known(&[]), None);
    }

    #[test]
    fn a_token_says_which_pod_uses_it_and_where() {
        let all = world(&[("serviceaccounts", "robot", "u1"), ("pods", "web", "p1"), ("nodes", "n1", "m1")]);
        let claims = ask(&json!({"boundObjectRef": {"kind": "Pod", "name": "web"}}), &all).unwrap().claims;
        let extra = |claims: &Value, world: &Snapshot| {
            let found = identity(claims, world, NOW).unwrap().extra;
            found
                .into_iter()
                .map(|(key, values)| format!("{}={}", key.rsplit_once('/').unwrap().1, values.join(",")))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            extra(&claims, &all),
            ["credential-id=JTI=id-1", "node-name=n1", "node-uid=m1", "pod-name=web", "pod-uid=p1"]
        );
        let without_node = world(&[("serviceaccounts", "robot", "u1"), ("pods", "web", "p1")]);
        assert!(identity(&claims, &without_node, NOW).is_some(), "it dies with the pod, not with the Node");
        assert_eq!(extra(&ask(&json!({}), &all).unwrap().claims, &all), ["credential-id=JTI=id-1"]);
    }

    #[test]
    fn what_cannot_be_granted_is_refused_with_a_reason() {
        let world = world(&[("serviceaccounts", "robot", "u1"), ("pods", "web", "p1")]);
        let bound = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"kind": kind, "name": name, "uid": uid}});
        for (spec, code, word) in [
            (json!({"expirationSeconds": 599}), 422, "spec.expirationSeconds"),
            (json!({"expirationSeconds": (1_i64 << 32) + 1}), 422, "2^32"),
            (bound("Pod", "other", ""), 404, "other"),
            (bound("Pod", "web", "p2"), 409, "p2"),
            (bound("ConfigMap", "x", ""), 400, "ConfigMap"),
        ] {
            let status = ask(&spec, &world).unwrap_err();
            assert_eq!(status.code, code, "{spec}");
            assert!(status.message.contains(word), "{}", status.message);
        }
        let missing = grant("default", "nobody", &json!({}), &world, NOW, "id").unwrap_err();
        assert_eq!(missing.code, 404);
    }
}
