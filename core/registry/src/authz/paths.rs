//! Who may read the documents that are no resources: one table for requests, reviews and lists of rules.

use api::status::{Status, Subject};

use super::{ALL, AUTHENTICATED, CONTROLLERS, Identity, MASTERS, VIEWERS};

/// The group that reads metrics; Kubernetes.
const MONITORING: &str = "system:monitoring";

/// What the groups may read, and what lies below it. Administrators may do everything with every path.
const READABLE: [(&[&str], &[&str]); 2] = [
    (&["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"], &[AUTHENTICATED]),
    (&["/configz", "/metrics"], &[CONTROLLERS, VIEWERS, MONITORING]),
];

/// One row of what an identity may do with paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// The verbs: methods of HTTP in small letters.
    pub verbs: Vec<&'static str>,
    /// The paths; one that ends with `*` stands for all that begin so.
    pub paths: Vec<String>,
}

/// Decides about a path that is no resource; `verb` is the method of HTTP in small letters.
pub fn authorize_path(identity: &Identity, verb: &str, path: &str) -> Result<(), Status> {
    // As requests are routed: without what is empty between slashes.
    let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let below = |known: &&str| path.first().is_some_and(|first| known.strip_prefix('/') == Some(*first));
    let readable = READABLE.iter().filter(|(_, groups)| is_in_any(identity, groups)).flat_map(|(paths, _)| paths.iter());
    if identity.is_in(MASTERS) || (matches!(verb, "get" | "head") && readable.into_iter().any(below)) {
        return Ok(());
    }
    let why = format!("User {:?} cannot {verb} path \"/{}\"", identity.user, path.join("/"));
    Err(Status::forbidden(&Subject::default(), why))
}

/// Returns what an identity may do with paths.
pub fn path_rules(identity: &Identity) -> Vec<PathRule> {
    if identity.is_in(MASTERS) {
        return vec![PathRule { verbs: vec![ALL], paths: vec![ALL.to_owned()] }];
    }
    let granted = READABLE.iter().filter(|(_, groups)| is_in_any(identity, groups));
    let row = |(paths, _): &(&[&str], &[&str])| PathRule {
        verbs: vec!["get"],
        paths: paths.iter().flat_map(|path| [(*path).to_owned(), format!("{path}/*")]).collect(),
    };
    granted.map(row).collect()
}

fn is_in_any(identity: &Identity, groups: &[&str]) -> bool {
    groups.iter().any(|group| identity.is_in(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::NODES;

    fn who(group: &str) -> Identity {
        Identity { user: "x".into(), groups: vec![group.into(), AUTHENTICATED.into()], ..Identity::default() }
    }

    #[test]
    fn everybody_who_is_known_reads_discovery_and_some_read_metrics() {
        let may = |group: &str, verb: &str, path: &str| authorize_path(&who(group), verb, path).is_ok();
        for group in [MASTERS, CONTROLLERS, VIEWERS, NODES, "others"] {
            for path in ["/api", "/apis/apps/v1", "/openapi/v3/api/v1", "/version", "/readyz/ping", "//livez/"] {
                assert!(may(group, "get", path), "{group} {path}");
            }
            let trusted = matches!(group, MASTERS | CONTROLLERS | VIEWERS);
            for path in ["/metrics", "/metrics/", "/configz"] {
                assert_eq!(may(group, "get", path), trusted, "{group} {path}");
            }
            for (verb, path) in [
                ("get", "/debug/backup"),
                ("get", "/apifoo"),
                ("get", "/api-of-mine/x"),
                ("get", "/"),
                ("get", ""),
                ("post", "/api"),
                (ALL, "/api"),
                ("get", ALL),
                ("get", "/nothing"),
            ] {
                assert_eq!(may(group, verb, path), group == MASTERS, "{group} {verb} {path}");
            }
        }
        assert!(may("system:monitoring", "get", "/metrics"));
        assert!(authorize_path(&Identity::default(), "get", "/api").is_err(), "nobody");
    }

    #[test]
    fn what_is_listed_is_what_is_decided() {
        for group in [MASTERS, CONTROLLERS, VIEWERS, NODES, "others"] {
            let rules = path_rules(&who(group));
            for path in ["/api", "/apis/x", "/metrics", "/configz", "/debug/backup", "/openapi/v2", "/version"] {
                let matches =
                    |rule: &String| rule == path || rule.strip_suffix('*').is_some_and(|start| path.starts_with(start));
                let listed = rules.iter().any(|rule| rule.paths.iter().any(matches));
                assert_eq!(listed, authorize_path(&who(group), "get", path).is_ok(), "{group} {path}");
            }
        }
    }

    #[test]
    fn a_refusal_reads_like_those_of_kubernetes() {
        let status = authorize_path(&who("others"), "get", "/metrics").unwrap_err();
        assert_eq!(status.code, 403);
        assert_eq!(status.message, "forbidden: User \"x\" cannot get path \"/metrics\"");
    }
}
