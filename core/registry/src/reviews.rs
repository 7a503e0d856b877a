//! Reviews: whom they are about, what they ask, and what is answered. Nothing of them is stored.

use api::field::{Error, Path};
use api::json;
use api::status::{Status, Subject};
use kinds::resource::Resource;
use serde_json::{Value, json};

use crate::authz::{self, ALL, Ask, Identity};
use crate::tokens::{ISSUER, Known};

/// What a review of access asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// A resource.
    Resource(Ask<'a>),
    /// A path that is none.
    Path {
        /// The method of HTTP in small letters.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// Reads what a review of access asks about.
pub fn question(review: &Value) -> Question<'_> {
    if json::at(review, &["spec", "resourceAttributes"]).is_none() {
        let text = |field: &str| json::text(review, &["spec", "nonResourceAttributes", field]);
        return Question::Path { verb: text("verb"), path: text("path") };
    }
    let text = |field: &str| json::text(review, &["spec", "resourceAttributes", field]);
    let requirements = json::items(review, &["spec", "resourceAttributes", "fieldSelector", "requirements"]);
    let selects = |key: &str| {
        let of_key =
            |requirement: &&Value| json::text(requirement, &["key"]) == key && json::text(requirement, &["operator"]) == "In";
        match json::items(requirements.iter().find(of_key)?, &["values"]) {
            [only] => only.as_str(),
            _ => None,
        }
    };
    Question::Resource(Ask {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        selects_node: selects("spec.nodeName"),
        selects_name: selects("metadata.name"),
    })
}

/// Answers a review of access with what the check of a request said; `known`: such a resource is served.
pub fn access(decision: &Result<(), Status>, question: &Question<'_>, known: bool) -> Value {
    let unserved = match question {
        Question::Resource(ask) => !known && ask.resource != ALL && ask.group != ALL,
        Question::Path { .. } => false,
    };
    match decision {
        Ok(()) => json!({"allowed": true}),
        Err(_) if unserved => json!({"allowed": false, "reason": "no such resource is served"}),
        Err(status) => json!({"allowed": false, "reason": status.message}),
    }
}

/// Returns whom a review is about; `namespace`: where it was sent, if it is one of a namespace.
pub fn subject_of(review: &Value, subject: &Subject, namespace: Option<&str>) -> Result<Identity, Status> {
    let text = |path: &[&str]| json::text(review, path).to_owned();
    let texts = |values: &[Value]| values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let extra = json::object(review, &["spec", "extra"]).into_iter().flatten();
    let identity = Identity {
        user: text(&["spec", "user"]),
        groups: texts(json::items(review, &["spec", "groups"])),
        uid: text(&["spec", "uid"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(json::items(values, &[])))).collect(),
    };
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    if identity.user.is_empty() && identity.groups.is_empty() {
        errors.push(Error::invalid(&spec.child("user"), "", "at least one of user or group must be specified"));
    }
    let of_resource = json::at(review, &["spec", "resourceAttributes"]).is_some();
    if of_resource == json::at(review, &["spec", "nonResourceAttributes"]).is_some() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(Error::invalid(&spec.child("resourceAttributes"), Value::Null, detail));
    }
    let asked = json::text(review, &["spec", "resourceAttributes", "namespace"]);
    if let Some(namespace) = namespace.filter(|namespace| *namespace != asked) {
        let path = spec.child("resourceAttributes").child("namespace");
        errors.push(Error::invalid(&path, asked, format!("must match metadata.namespace: {namespace}")));
    }
    if errors.is_empty() { Ok(identity) } else { Err(Status::invalid(subject, &errors)) }
}

/// Returns the token that a review is about, and for whom it is to be good.
pub fn token_of<'a>(review: &'a Value, subject: &Subject) -> Result<(&'a str, Vec<&'a str>), Status> {
    let token = json::text(review, &["spec", "token"]);
    if token.is_empty() {
        return Err(Status::invalid(subject, &[Error::required(&Path::new("spec").child("token"), "")]));
    }
    let asked: Vec<&str> = json::items(review, &["spec", "audiences"]).iter().filter_map(Value::as_str).collect();
    Ok((token, if asked.is_empty() { vec![ISSUER] } else { asked }))
}

/// Says whom a token stands for.
pub fn token(known: Option<&Known>) -> Value {
    match known {
        Some(Known { identity, audiences }) => {
            json!({"authenticated": true, "user": user_info(identity), "audiences": audiences})
        }
        None => json!({"authenticated": false, "user": {}, "error": "the token is not one of this server, or no longer"}),
    }
}

/// Returns an identity as the API shows it.
pub fn user_info(identity: &Identity) -> Value {
    let mut info = json!({"username": identity.user, "groups": identity.groups});
    if !identity.uid.is_empty() {
        info["uid"] = identity.uid.clone().into();
    }
    if !identity.extra.is_empty() {
        info["extra"] = json!(identity.extra);
    }
    info
}

/// Lists what an identity may do in a namespace with what is served.
pub fn rules<'a>(identity: &Identity, namespace: &str, served: impl IntoIterator<Item = &'a Resource>) -> Value {
    let resource = |rule: authz::Rule| json!({"verbs": rule.verbs, "apiGroups": [rule.group], "resources": rule.resources});
    let path = |rule: authz::PathRule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths});
    let resources: Vec<Value> = authz::rules(identity, namespace, served).into_iter().map(resource).collect();
    let paths: Vec<Value> = authz::path_rules(identity).into_iter().map(path).collect();
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if identity.node().is_some() {
        status["incomplete"] = true.into();
        status["evaluationError"] = "a node may do more with its own objects and those of its pods".into();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_asks_about_a_resource_or_a_path() {
        let selector = json!({"requirements": [
            {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
            {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
        ]});
        let review = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}});
        let ask = Ask { verb: "list", resource: "pods", selects_node: Some("n1"), ..Ask::default() };
        assert_eq!(question(&review), Question::Resource(ask));
        let review = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}});
        assert_eq!(question(&review), Question::Path { verb: "get", path: "/metrics" });
    }

    #[test]
    fn a_refusal_says_why() {
        let ask = |resource| Question::Resource(Ask { verb: "get", resource, ..Ask::default() });
        let refused = || Err(Status::forbidden(&Subject::default(), "because"));
        assert_eq!(access(&Ok(()), &ask("pods"), true), json!({"allowed": true}));
        assert!(access(&refused(), &ask("pods"), true)["reason"].as_str().unwrap().contains("because"));
        assert_eq!(access(&refused(), &ask("nothing"), false)["reason"], "no such resource is served");
        assert!(access(&refused(), &ask(ALL), false)["reason"].as_str().unwrap().contains("because"), "that is everything");
    }

    #[test]
    fn a_review_is_about_somebody() {
        let of = |spec: Value, namespace| subject_of(&json!({"spec": spec}), &Subject::default(), namespace);
        let spec = json!({"user": "jane", "extra": {"scopes": ["a", "b"]}, "resourceAttributes": {"namespace": "n"}});
        let jane = of(spec.clone(), Some("n")).unwrap();
        assert_eq!((jane.user.as_str(), &jane.extra["scopes"]), ("jane", &vec!["a".to_owned(), "b".to_owned()]));
        assert!(of(spec, Some("other")).unwrap_err().message.contains("must match metadata.namespace: other"));
        assert_eq!(of(json!({"resourceAttributes": {}}), None).unwrap_err().code, 422, "about nobody");
        assert_eq!(of(json!({"user": "jane"}), None).unwrap_err().code, 422, "about nothing");
    }

    #[test]
    fn a_token_is_for_this_server_unless_the_review_says_for_whom() {
        let of = |spec: Value| {
            let review = json!({"spec": spec});
            token_of(&review, &Subject::default()).map(|(_, audiences)| audiences.join(" "))
        };
        assert_eq!(of(json!({"token": "t"})).unwrap(), ISSUER);
        assert_eq!(of(json!({"token": "t", "audiences": ["a", "b"]})).unwrap(), "a b");
        assert_eq!(of(json!({})).unwrap_err().code, 422);
    }
}
