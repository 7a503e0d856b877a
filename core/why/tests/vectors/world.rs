//! A cluster made of the objects of a case: answers questions as an API server does.

use api::json;
use api::{FieldSelector, Selector};
use serde_json::{Value, json};
use why::{Query, Reply, Resource};

pub(crate) struct World {
    objects: Vec<Value>,
    forbidden: Vec<String>,
    agent: Option<Value>,
}

impl World {
    pub(crate) fn new(objects: &[Value], forbidden: &[String], agent: Option<&Value>) -> World {
        let mut objects = objects.to_vec();
        for object in &mut objects {
            // Cases leave out what every object has.
            let kind = json::text(object, &["kind"]).to_owned();
            let name = json::text(object, &["metadata", "name"]).to_owned();
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            if !["Node", "Namespace"].contains(&kind.as_str()) {
                metadata.entry("namespace").or_insert(json!("default"));
            }
            metadata.entry("uid").or_insert(json!(format!("uid-{kind}-{name}")));
        }
        World { objects, forbidden: forbidden.to_vec(), agent: agent.cloned() }
    }

    fn of(&self, resource: Resource, namespace: &str) -> impl Iterator<Item = &Value> {
        let (_, _, kind) = resource.names();
        let config = resource == Resource::ConfigNodes;
        let version = json::text;
        self.objects.iter().filter(move |object| {
            json::text(object, &["kind"]) == kind
                && (version(object, &["apiVersion"]).starts_with("config.openshift.io") == config)
                && (namespace.is_empty() || json::text(object, &["metadata", "namespace"]) == namespace)
        })
    }

    pub(crate) fn reply(&self, query: &Query) -> Reply {
        let refused = |resource: &Resource| self.forbidden.iter().any(|plural| plural == resource.plural());
        match query {
            Query::Get { resource, .. } | Query::List { resource, .. } if refused(resource) => Reply::Refused {
                code: 403,
                message: format!("{} is forbidden: User \"dev\" cannot list resource", resource.plural()),
            },
            Query::Get { resource, namespace, name } => {
                let found = self.of(*resource, namespace).find(|object| json::text(object, &["metadata", "name"]) == name);
                found.map_or(Reply::Missing, |object| Reply::Object(object.clone()))
            }
            Query::List { resource, namespace, labels, fields, limit } => {
                let selector = Selector::parse(labels).expect("a label selector");
                let fields = FieldSelector::parse(fields).expect("a field selector");
                let good = |object: &&Value| {
                    selector.matches_with(|key| object["metadata"]["labels"][key].as_str())
                        && fields.matches_with(|path| Some(json::text(object, &path.split('.').collect::<Vec<_>>())))
                };
                let all: Vec<Value> = self.of(*resource, namespace).filter(good).cloned().collect();
                let limit = *limit as usize;
                Reply::List { more: all.len().saturating_sub(limit) as u64, items: all.into_iter().take(limit).collect() }
            }
            Query::Attempts { .. } => match &self.agent {
                Some(agent) => Reply::Object(agent.clone()),
                None => Reply::Refused { code: 0, message: "connection refused".to_owned() },
            },
        }
    }
}
