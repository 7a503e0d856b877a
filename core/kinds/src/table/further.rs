//! Columns of further kinds, as data: a heading, its type, whether it is wide, and where its cell comes from.
//!
//! A cell is a text with paths in braces; a missing number is 0, any other missing value is `<none>`. A few cells are made by
//! name, with a leading `@`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::json::{items, text};
use machine::Time;
use serde_json::Value;

use super::kinds::{created, template};
use super::{Column, since};

/// A column: heading, type (`wide` before it: only in wide output), cell.
type Entry = (&'static str, &'static str, &'static str);

const AGE: Entry = ("Age", "string", "@age");
const CONTAINERS: Entry = ("Containers", "wide string", "@containers");
const IMAGES: Entry = ("Images", "wide string", "@images");
const SELECTOR: Entry = ("Selector", "wide string", "@selector");

/// The columns after the name, by kind; as kubectl shows them for Kubernetes v1.36.
const TABLES: &[(&str, &[Entry])] = &[
    (
        "PodTemplate",
        &[("Containers", "string", "@containers"), ("Images", "string", "@images"), ("Pod Labels", "string", "@labels")],
    ),
    (
        "ReplicationController",
        &[
            ("Desired", "integer", "{spec.replicas}"),
            ("Current", "integer", "{status.replicas}"),
            ("Ready", "integer", "{status.readyReplicas}"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "DaemonSet",
        &[
            ("Desired", "integer", "{status.desiredNumberScheduled}"),
            ("Current", "integer", "{status.currentNumberScheduled}"),
            ("Ready", "integer", "{status.numberReady}"),
            ("Up-to-date", "integer", "{status.updatedNumberScheduled}"),
            ("Available", "integer", "{status.numberAvailable}"),
            ("Node Selector", "string", "@nodeSelector"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    ("StatefulSet", &[("Ready", "string", "{#status.readyReplicas}/{#spec.replicas}"), AGE, CONTAINERS, IMAGES]),
    ("ControllerRevision", &[("Controller", "string", "@controller"), ("Revision", "string", "{#revision}"), AGE]),
    (
        "Job",
        &[
            ("Status", "string", "@jobStatus"),
            ("Completions", "string", "{#status.succeeded}/{#spec.completions}"),
            ("Duration", "string", "@jobDuration"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "CronJob",
        &[
            ("Schedule", "string", "{spec.schedule}"),
            ("Timezone", "string", "{spec.timeZone}"),
            ("Suspend", "boolean", "{spec.suspend}"),
            ("Active", "integer", "{status.active}"),
            ("Last Schedule", "string", "{status.lastScheduleTime}"),
            AGE,
        ],
    ),
    ("Endpoints", &[("Endpoints", "string", "@endpoints"), AGE]),
    (
        "PersistentVolume",
        &[
            ("Capacity", "string", "{spec.capacity.storage}"),
            ("Access Modes", "string", "{spec.accessModes}"),
            ("Reclaim Policy", "string", "{spec.persistentVolumeReclaimPolicy}"),
            ("Status", "string", "{status.phase}"),
            ("Claim", "string", "{spec.claimRef.name}"),
            ("StorageClass", "string", "{spec.storageClassName}"),
            AGE,
            ("VolumeMode", "wide string", "{spec.volumeMode}"),
        ],
    ),
    (
        "PersistentVolumeClaim",
        &[
            ("Status", "string", "{status.phase}"),
            ("Volume", "string", "{spec.volumeName}"),
            ("Capacity", "string", "{status.capacity.storage}"),
            ("Access Modes", "string", "{status.accessModes}"),
            ("StorageClass", "string", "{spec.storageClassName}"),
            AGE,
            ("VolumeMode", "wide string", "{spec.volumeMode}"),
        ],
    ),
    (
        "HorizontalPodAutoscaler",
        &[
            ("Reference", "string", "{spec.scaleTargetRef.kind}/{spec.scaleTargetRef.name}"),
            ("MinPods", "string", "{#spec.minReplicas}"),
            ("MaxPods", "integer", "{spec.maxReplicas}"),
            ("Replicas", "integer", "{status.currentReplicas}"),
            AGE,
        ],
    ),
    (
        "StorageClass",
        &[
            ("Provisioner", "string", "{provisioner}"),
            ("ReclaimPolicy", "string", "{reclaimPolicy}"),
            ("VolumeBindingMode", "string", "{volumeBindingMode}"),
            ("AllowVolumeExpansion", "boolean", "{allowVolumeExpansion}"),
            AGE,
        ],
    ),
    (
        "PriorityClass",
        &[
            ("Value", "integer", "{value}"),
            ("Global-Default", "boolean", "{globalDefault}"),
            AGE,
            ("PreemptionPolicy", "string", "{preemptionPolicy}"),
        ],
    ),
    ("RuntimeClass", &[("Handler", "string", "{handler}"), AGE]),
    ("CSINode", &[("Drivers", "integer", "{spec.drivers}"), AGE]),
    (
        "VolumeAttachment",
        &[
            ("Attacher", "string", "{spec.attacher}"),
            ("PV", "string", "{spec.source.persistentVolumeName}"),
            ("Node", "string", "{spec.nodeName}"),
            ("Attached", "boolean", "{status.attached}"),
            AGE,
        ],
    ),
    ("RoleBinding", &[("Role", "string", "{roleRef.kind}/{roleRef.name}"), AGE]),
    ("ClusterRoleBinding", &[("Role", "string", "{roleRef.kind}/{roleRef.name}"), AGE]),
    ("IngressClass", &[("Controller", "string", "{spec.controller}"), AGE]),
    ("Ingress", &[("Class", "string", "{spec.ingressClassName}"), AGE]),
    ("ServiceCIDR", &[("CIDRs", "string", "{spec.cidrs}"), AGE]),
    ("ResourceSlice", &[("Node", "string", "{spec.nodeName}"), ("Driver", "string", "{spec.driver}"), AGE]),
    ("ResourceClaimTemplate", &[AGE]),
    ("DeviceClass", &[AGE]),
];

static COLUMNS: LazyLock<BTreeMap<&str, Vec<Column>>> = LazyLock::new(|| {
    let column = |(name, kind, _): &Entry| {
        let (priority, kind) = kind.strip_prefix("wide ").map_or((0, *kind), |kind| (1, kind));
        Column {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(""),
            description: Cow::Borrowed("As the object says it."),
            priority,
        }
    };
    let of = |entries: &&[Entry]| std::iter::once(Column::name()).chain(entries.iter().map(column)).collect();
    TABLES.iter().map(|(kind, entries)| (*kind, of(entries))).collect()
});

/// Returns the columns of a further kind, if it has its own.
pub(super) fn columns(kind: &str) -> Option<&'static [Column]> {
    COLUMNS.get(kind).map(Vec::as_slice)
}

/// Returns the cells of a further kind, if it has its own columns.
pub(super) fn cells(kind: &str, object: &Value, now: Time) -> Option<Vec<Value>> {
    let (_, entries) = TABLES.iter().find(|(known, _)| *known == kind)?;
    let name = text(object, &["metadata", "name"]).into();
    let cell = |(_, kind, form): &Entry| match form.strip_prefix('@') {
        Some(made) => special(made, object, now),
        None => formed(form, kind.ends_with("integer"), kind.ends_with("boolean"), object),
    };
    Some(std::iter::once(name).chain(entries.iter().map(cell)).collect())
}

fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key)).filter(|value| !value.is_null())
}

fn formed(form: &str, number: bool, truth: bool, object: &Value) -> Value {
    let only = form.strip_prefix('{').and_then(|form| form.strip_suffix('}')).filter(|path| !path.contains('{'));
    if let Some(path) = only.filter(|_| number || truth) {
        return match find(object, path) {
            Some(Value::Array(items)) => items.len().into(),
            Some(found) => found.clone(),
            None if number => 0.into(),
            None => false.into(),
        };
    }
    let mut shown = String::new();
    for part in form.split('{') {
        let Some((path, rest)) = part.split_once('}') else {
            shown.push_str(part);
            continue;
        };
        let (path, missing) = path.strip_prefix('#').map_or((path, "<none>"), |path| (path, "0"));
        shown.push_str(&find(object, path).map_or_else(|| missing.to_owned(), plain));
        shown.push_str(rest);
    }
    shown.into()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<String>>().join(","),
        other => other.to_string(),
    }
}

fn special(made: &str, object: &Value, now: Time) -> Value {
    let pairs = |path: &str| {
        let members = find(object, path).and_then(Value::as_object).into_iter().flatten();
        let all: Vec<String> = members.map(|(key, value)| format!("{key}={}", plain(value))).collect();
        if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
    };
    match made {
        "age" => created(object, now),
        "containers" | "images" | "selector" => {
            // The template of a PodTemplate and the labels of a ReplicationController stand one level higher.
            let template_of = find(object, "spec.template").or_else(|| find(object, "template")).cloned();
            let labels = find(object, "spec.selector").cloned().unwrap_or_default();
            let plain = labels.as_object().is_some_and(|labels| labels.values().all(Value::is_string));
            let selector = if plain { serde_json::json!({"matchLabels": labels}) } else { labels };
            let whole = serde_json::json!({"spec": {"template": template_of, "selector": selector}});
            let place = ["containers", "images", "selector"].iter().position(|name| *name == made).unwrap_or(0);
            template(&whole).into_iter().nth(place).unwrap_or(Value::Null)
        }
        "labels" => pairs("template.metadata.labels").into(),
        "nodeSelector" => pairs("spec.template.spec.nodeSelector").into(),
        "controller" => {
            let owner = items(object, &["metadata", "ownerReferences"]).first();
            owner.map_or("<none>".into(), |owner| {
                format!("{}/{}", text(owner, &["kind"]).to_lowercase(), text(owner, &["name"])).into()
            })
        }
        "endpoints" => endpoints(object).into(),
        "jobStatus" => job_status(object).into(),
        "jobDuration" => {
            let stamp = |key| api::Timestamp::parse(text(object, &["status", key])).ok().map(|stamp| stamp.0);
            stamp("startTime").map_or("".into(), |start| since(stamp("completionTime").unwrap_or(now), start).into())
        }
        _ => Value::Null,
    }
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(object, &["subsets"]) {
        for address in items(subset, &["addresses"]) {
            for port in items(subset, &["ports"]) {
                all.push(format!("{}:{}", text(address, &["ip"]), port["port"]));
            }
        }
    }
    match all.len() {
        0 => "<none>".to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| {
        let conditions = items(job, &["status", "conditions"]).iter();
        conditions.into_iter().any(|one| text(one, &["type"]) == kind && text(one, &["status"]) == "True")
    };
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if !text(job, &["metadata", "deletionTimestamp"]).is_empty() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Time = Time::from_secs(1_000_000);

    #[test]
    fn every_table_is_of_a_kind_that_is_served_and_has_as_many_cells_as_columns() {
        for (kind, _) in TABLES {
            assert!(crate::further::KINDS.iter().any(|further| further.kind == *kind), "{kind}");
            let cells = cells(kind, &json!({"metadata": {"name": "a"}}), NOW).unwrap();
            assert_eq!(cells.len(), columns(kind).unwrap().len(), "{kind}");
        }
    }

    #[test]
    fn cells_come_from_paths_and_missing_ones_are_shown() {
        let set = json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let cells = cells("StatefulSet", &set, NOW).unwrap();
        assert_eq!(cells, ["db", "0/3", "<unknown>", "c", "i"]);
        let job = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}, "spec": {"completions": 1}});
        assert_eq!(super::cells("Job", &job, NOW).unwrap()[1..3], ["Complete", "1/1"]);
        let endpoints = json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 6443}]}]});
        assert_eq!(super::cells("Endpoints", &endpoints, NOW).unwrap()[1], "10.0.0.1:6443");
        let class = super::cells("PriorityClass", &json!({"value": 7}), NOW).unwrap();
        assert_eq!(class[1..3], [json!(7), json!(false)]);
    }
}
