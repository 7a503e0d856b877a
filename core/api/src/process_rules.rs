//! What becomes of every field of a pod where pods are processes: honoured, refused, or accepted and told.
//!
//! A plane whose pods are processes says this in the answer to whoever makes the pod, and its agent in an event of the pod.
//! What would change what a program does (most kinds of volumes, another user) is refused by the agent; the answer says that as
//! well.

mod fields;

use serde_json::Value;

use crate::field::Path;
use crate::json;

pub use fields::FIELDS;

/// What becomes of a field; a text says why, or what to do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Does what it does on Kubernetes.
    Honoured(&'static str),
    /// Honoured if lifesign runs as that, else refused by the agent.
    Needs(&'static str),
    /// Accepted, not honoured, and told.
    Warned(When, &'static str),
    /// Would confine a process: accepted, not honoured, and told, together with the others of a container.
    Confines(When),
    /// Where a volume is mounted: told with the place where it is found.
    Mounted,
    /// The pod is not started; [`refusal`] says so.
    Refused(When, &'static str),
    /// The pod is not started; found by the code that would have to provide it.
    Unsupported(&'static str),
}

/// Which values of a field ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All but null, false, zero and empty ones.
    Set,
    /// Only `false`.
    False,
    /// All but empty ones and these.
    Except(&'static [&'static str]),
}

impl When {
    fn matches(self, value: &Value) -> bool {
        let set = match value {
            Value::Bool(flag) => *flag,
            Value::Number(number) => number.as_i64() != Some(0),
            value => !json::same_but_empties(Some(value), None),
        };
        match self {
            When::Set => set,
            When::False => *value == Value::Bool(false),
            When::Except(values) => set && !value.as_str().is_some_and(|text| values.contains(&text)),
        }
    }
}

/// Returns what of a pod is accepted and not honoured, and what keeps it from starting; each names the field.
pub fn warnings(spec: &Value, path: &Path) -> Vec<String> {
    let refused = FIELDS.iter().flat_map(|(field, treatment)| match treatment {
        Treatment::Refused(when, why) => found(spec, field, *when, path, why),
        Treatment::Unsupported(why) => found(spec, field, When::Set, path, why),
        _ => Vec::new(),
    });
    let mut all: Vec<String> =
        refused.map(|(path, why)| format!("{path}: the pod will not start where pods are processes: {why}")).collect();
    all.extend(pod_not_honoured(spec, path));
    for list in ["initContainers", "containers"] {
        for (index, container) in json::items(spec, &[list]).iter().enumerate() {
            all.extend(container_not_honoured(spec, container, &path.child(list).index(index)));
        }
    }
    all
}

/// Returns why a pod is not started at all.
pub fn refusal(spec: &Value) -> Option<String> {
    let refused = FIELDS.iter().filter_map(|(field, treatment)| match treatment {
        Treatment::Refused(when, why) => found(spec, field, *when, &Path::new("spec"), why).into_iter().next(),
        _ => None,
    });
    refused.map(|(path, why)| format!("{path} is not supported for pods that are processes: {why}")).next()
}

/// Returns what of the pod itself is not honoured.
pub fn pod_not_honoured(spec: &Value, path: &Path) -> Vec<String> {
    let warned = FIELDS.iter().flat_map(|(field, treatment)| match treatment {
        Treatment::Warned(when, why) if !field.starts_with(CONTAINERS) => found(spec, field, *when, path, why),
        _ => Vec::new(),
    });
    warned.map(|(path, why)| not_honoured(&path, why)).collect()
}

/// Returns what of a container is not honoured.
pub fn container_not_honoured(spec: &Value, container: &Value, path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for (field, treatment) in FIELDS {
        let Some(field) = field.strip_prefix(CONTAINERS) else { continue };
        match treatment {
            Treatment::Warned(when, why) => {
                all.extend(found(container, field, *when, path, why).iter().map(|(path, why)| not_honoured(path, why)));
            }
            Treatment::Mounted => all.extend(mounts(spec, container, path)),
            _ => {}
        }
    }
    all.extend(not_confined(spec, container));
    all
}

/// How the paths of fields of containers begin.
const CONTAINERS: &str = "containers.";
/// How the paths of what confines begin, in a container and in a pod.
const SECURITY: &str = "securityContext.";

fn not_honoured(path: &Path, why: &str) -> String {
    format!("{path}: not honoured where pods are processes: {why}")
}

/// Returns every place where a field asks for something.
fn found<'a>(object: &Value, field: &str, when: When, path: &Path, why: &'a str) -> Vec<(Path, &'a str)> {
    let (name, rest) = field.split_once('.').map_or((field, None), |(name, rest)| (name, Some(rest)));
    // What is said of containers holds for those that come first, too.
    let names: &[&str] = if name == "containers" { &["initContainers", "containers"] } else { &[name] };
    let mut all = Vec::new();
    for name in names {
        let Some(value) = json::get(object, name) else { continue };
        let path = path.child(name);
        match (rest, value) {
            (None, value) if when.matches(value) => all.push((path, why)),
            (None, _) => {}
            (Some(rest), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    all.extend(found(item, rest, when, &path.index(index), why));
                }
            }
            (Some(rest), value) => all.extend(found(value, rest, when, &path, why)),
        }
    }
    all
}

/// Returns where the volumes of a container are found.
fn mounts(spec: &Value, container: &Value, path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for (index, mount) in json::items(container, &["volumeMounts"]).iter().enumerate() {
        let (name, place) = (json::text(mount, &["name"]), json::text(mount, &["mountPath"]));
        let volume = json::items(spec, &["volumes"]).iter().find(|volume| json::text(volume, &["name"]) == name);
        // Of a hostPath the agent demands that both are equal.
        if volume.is_none_or(|volume| json::object(volume, &["hostPath"]).is_none()) {
            let why = format!("a process finds this volume at $LIFESIGN_VOLUMES/{name}, not at {place}");
            all.push(not_honoured(&path.child("volumeMounts").index(index).child("mountPath"), &why));
        }
    }
    all
}

/// Returns what a container is not held to, by its own wish or that of its pod: the program works the same, but nobody should
/// believe that it is confined.
fn not_confined(spec: &Value, container: &Value) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for (field, treatment) in FIELDS {
        let Treatment::Confines(when) = treatment else { continue };
        let of_pod = !field.starts_with(CONTAINERS);
        let (object, field) = field.strip_prefix(CONTAINERS).map_or((spec, *field), |field| (container, field));
        // The container's own profile counts in place of the pod's.
        let profile = field.strip_prefix(SECURITY).unwrap_or(field);
        let first = profile.split('.').next().unwrap_or(profile);
        let own = json::at(container, &["securityContext", first]).is_some();
        if of_pod && own {
            continue;
        }
        // Details of a profile are not a restriction of their own.
        let name = if profile.starts_with("capabilities") { profile } else { first };
        if !names.contains(&name) && !found(object, field, *when, &Path::root(), "").is_empty() {
            names.push(name);
        }
    }
    let name = json::text(container, &["name"]);
    (!names.is_empty())
        .then(|| format!("container {name:?} runs as a plain process and is not confined by {}", names.join(", ")))
}

/// Returns the table of `docs/pods.md`.
pub fn table() -> String {
    let mut text = "| field | what becomes of it |\n|---|---|\n".to_owned();
    for (field, treatment) in FIELDS {
        let more = |word: &str, why: &str| if why.is_empty() { word.to_owned() } else { format!("{word}: {why}") };
        let values = |when: &When| match when {
            When::Set => String::new(),
            When::False => " if `false`".to_owned(),
            When::Except(values) => format!(" unless `{}`", values.join("` or `")),
        };
        let becomes = match treatment {
            Treatment::Honoured(note) => more("honoured", note),
            Treatment::Needs(what) => format!("honoured if lifesign runs as {what}; else refused"),
            Treatment::Warned(when, why) => more(&format!("**warning**{}", values(when)), why),
            Treatment::Confines(when) => format!("**warning**{}: the process is not confined", values(when)),
            Treatment::Mounted => "**warning**: a process finds the volume at `$LIFESIGN_VOLUMES/NAME`".to_owned(),
            Treatment::Refused(when, why) => more(&format!("refused{}", values(when)), why),
            Treatment::Unsupported(why) => more("refused", why),
        };
        text.push_str(&format!("| `{field}` | {becomes} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_process_does_not_get_is_named() {
        let spec = json!({
            "affinity": {"nodeAffinity": {"x": 1}}, "hostAliases": [], "hostUsers": true, "dnsPolicy": "ClusterFirst",
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv"}}],
            "containers": [{
                "name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "host", "mountPath": "/srv"}],
            }],
        });
        let found = warnings(&spec, &Path::new("spec"));
        let fields: Vec<&str> = found.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(
            fields,
            [
                "spec.affinity",
                "spec.containers[0].ports[1].hostPort",
                "spec.containers[0].resources.limits",
                "spec.containers[0].volumeMounts[0].mountPath"
            ]
        );
        assert!(found[3].contains("$LIFESIGN_VOLUMES/data"), "{}", found[3]);
        assert!(warnings(&json!({"containers": [{"name": "c"}]}), &Path::new("spec")).is_empty());
    }

    #[test]
    fn what_does_not_confine_is_told_once_for_a_container() {
        let spec =
            json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "seLinuxOptions": {"level": "s0"}}});
        let container = json!({"name": "c", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "Unconfined"},
        }});
        let warned = container_not_honoured(&spec, &container, &Path::new("spec"));
        let expected = "container \"c\" runs as a plain process and is not confined by allowPrivilegeEscalation, \
                        capabilities.drop, seLinuxOptions";
        assert_eq!(warned, [expected]);
    }

    #[test]
    fn what_keeps_a_pod_from_starting_is_told_and_refused() {
        let spec = json!({"os": {"name": "windows"}, "volumes": [{"name": "v", "nfs": {"server": "s", "path": "/"}}]});
        let warned = warnings(&spec, &Path::new("spec"));
        assert_eq!(warned[0], "spec.os.name: the pod will not start where pods are processes: processes run on Linux");
        assert!(warned[1].starts_with("spec.volumes[0].nfs: the pod will not start"), "{warned:?}");
        assert_eq!(
            refusal(&spec).as_deref(),
            Some("spec.os.name is not supported for pods that are processes: processes run on Linux")
        );
        assert_eq!(refusal(&json!({"os": {"name": "linux"}})), None);
    }
}
