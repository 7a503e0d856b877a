//! What is asked about: `pod/web`, `svc web`, `node/n1`, `deploy/web`.

use crate::facts::Resource;

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pod.
    Pod,
    /// A Service.
    Service,
    /// A node.
    Node,
    /// What makes pods; its pods are examined.
    Workload(Resource),
}

impl Kind {
    /// Returns the resource.
    pub const fn resource(self) -> Resource {
        match self {
            Kind::Pod => Resource::Pods,
            Kind::Service => Resource::Services,
            Kind::Node => Resource::Nodes,
            Kind::Workload(resource) => resource,
        }
    }
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Where it is; empty for a node.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a target cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The kind is not one that we know.
    #[error("unknown kind {0:?}: use pod/NAME, svc/NAME, node/NAME, deploy/NAME, rs/NAME, sts/NAME, ds/NAME or job/NAME")]
    Kind(String),
    /// There is no name.
    #[error("{0:?} names no object: use for example pod/NAME")]
    Name(String),
    /// There is more than a kind and a name.
    #[error("one object at a time: {0:?} is too much")]
    TooMany(String),
    /// No object can have that name.
    #[error("no object can be named {0:?}: {1}")]
    Invalid(String, &'static str),
}

fn kind(word: &str) -> Option<Kind> {
    // `deployments.apps` and `deployment.v1.apps` are what kubectl prints and takes.
    let (word, group) = word.split_once('.').unwrap_or((word, ""));
    let kind = match word.to_ascii_lowercase().as_str() {
        "po" | "pod" | "pods" => Kind::Pod,
        "svc" | "service" | "services" => Kind::Service,
        "no" | "node" | "nodes" => Kind::Node,
        "deploy" | "deployment" | "deployments" => Kind::Workload(Resource::Deployments),
        "rs" | "replicaset" | "replicasets" => Kind::Workload(Resource::ReplicaSets),
        "sts" | "statefulset" | "statefulsets" => Kind::Workload(Resource::StatefulSets),
        "ds" | "daemonset" | "daemonsets" => Kind::Workload(Resource::DaemonSets),
        "job" | "jobs" => Kind::Workload(Resource::Jobs),
        _ => return None,
    };
    let (version, ..) = kind.resource().names();
    let own = version.split_once('/').map_or("", |(group, _)| group);
    let fits = group.is_empty() || group == own || group.split_once('.').is_some_and(|(_, rest)| rest == own);
    fits.then_some(kind)
}

impl Target {
    /// Reads the words of a command line: `pod/NAME`, `pod NAME`, or only `NAME` for a pod.
    pub fn parse(words: &[String], namespace: &str) -> Result<Target, TargetError> {
        let (kind_word, name) = match words {
            [] => return Err(TargetError::Name(String::new())),
            [one] => match one.split_once('/') {
                Some((kind, name)) => (kind, name),
                None if kind(one).is_some() => return Err(TargetError::Name(one.clone())),
                None => ("pod", one.as_str()),
            },
            [kind, name] if !kind.contains('/') => (kind.as_str(), name.as_str()),
            [_, second, ..] => return Err(TargetError::TooMany(second.clone())),
        };
        let kind = kind(kind_word).ok_or_else(|| TargetError::Kind(kind_word.to_owned()))?;
        if name.is_empty() {
            return Err(TargetError::Name(words.join(" ")));
        }
        if let Some(why) = api::names::dns1123_subdomain(name) {
            return Err(TargetError::Invalid(name.to_owned(), why));
        }
        let namespace = if kind == Kind::Node { "" } else { namespace };
        Ok(Target { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Returns the target as kubectl would be given it.
    pub fn short(&self) -> String {
        format!("{}/{}", self.kind.resource().short(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<String, TargetError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Target::parse(&words, "ns").map(|target| format!("{} {}", target.short(), target.namespace))
    }

    #[test]
    fn kinds_are_written_as_for_kubectl() {
        for (words, expected) in [
            (&["pod/web"][..], "pod/web ns"),
            (&["po", "web"], "pod/web ns"),
            (&["web-7d9f"], "pod/web-7d9f ns"),
            (&["Services/web"], "svc/web ns"),
            (&["node/n1"], "node/n1 "),
            (&["deployment.apps/web"], "deploy/web ns"),
            (&["deployments.v1.apps", "web"], "deploy/web ns"),
            (&["job.batch/a"], "job/a ns"),
        ] {
            assert_eq!(parse(words).as_deref(), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused_by_name() {
        assert_eq!(parse(&["ingress/web"]), Err(TargetError::Kind("ingress".into())));
        assert_eq!(parse(&["pod.example.com/web"]), Err(TargetError::Kind("pod.example.com".into())));
        assert_eq!(parse(&["pod"]), Err(TargetError::Name("pod".into())));
        assert_eq!(parse(&["pod/"]), Err(TargetError::Name("pod/".into())));
        assert_eq!(parse(&["pod/a", "pod/b"]), Err(TargetError::TooMany("pod/b".into())));
        assert!(matches!(parse(&["pod/A_b"]), Err(TargetError::Invalid(..))));
    }
}
