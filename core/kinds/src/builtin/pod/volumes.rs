//! Volumes of pods and where containers mount them.

use std::collections::BTreeSet;

use api::field::{Error, Path};
use api::{json, names};
use serde_json::Value;

use super::env::validate_file_source;
use crate::builtin::check::{
    Errors, between, config_key, each, inner_path, no_backsteps, one_of, required, required_shaped, shaped,
};
use crate::builtin::resources::validate_amount;

const HOST_PATH_TYPES: [&str; 7] =
    ["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
/// The most that permission bits can be: 0777.
const MODE_MAX: i64 = 0o777;

/// Judges the volumes of a pod spec; returns their names.
pub(super) fn validate_volumes<'a>(spec: &'a Value, path: &Path, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::new();
    for (volume, path) in each(spec, "volumes", path) {
        if let Some(name) = required_shaped(volume, "name", names::dns1123_label, &path, errors)
            && !known.insert(name)
        {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        validate_source(volume, &path, errors);
    }
    known
}

fn validate_source(volume: &Value, path: &Path, errors: &mut Errors) {
    let sources = volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
    let mut seen = false;
    for (key, source) in sources {
        let here = path.child(key);
        if std::mem::replace(&mut seen, true) {
            errors.push(Error::forbidden(&here, "may not specify more than 1 volume type"));
            continue;
        }
        match key.as_str() {
            "emptyDir" => {
                if let Some(limit) = json::get(source, "sizeLimit") {
                    validate_amount(limit, &here.child("sizeLimit"), errors);
                }
            }
            "hostPath" => {
                required_shaped(source, "path", no_backsteps, &here, errors);
                one_of(source, "type", &HOST_PATH_TYPES, &here, errors);
            }
            "configMap" => {
                required(source, "name", &here, errors);
                validate_files(source, &here, errors);
            }
            "secret" => {
                required(source, "secretName", &here, errors);
                validate_files(source, &here, errors);
            }
            "downwardAPI" => validate_downward(source, &here, errors),
            "projected" => validate_projected(source, &here, errors),
            "persistentVolumeClaim" => {
                required(source, "claimName", &here, errors);
            }
            "csi" => {
                required(source, "driver", &here, errors);
            }
            "nfs" => {
                required(source, "server", &here, errors);
                required(source, "path", &here, errors);
            }
            "ephemeral" if json::get(source, "volumeClaimTemplate").is_none() => {
                errors.push(Error::required(&here.child("volumeClaimTemplate"), ""));
            }
            _ => {}
        }
    }
    if !seen {
        errors.push(Error::required(path, "must specify a volume type"));
    }
}

fn validate_mode(source: &Value, key: &str, path: &Path, errors: &mut Errors) {
    if let Some(mode) = json::int(source, &[key])
        && !(0..=MODE_MAX).contains(&mode)
    {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(Error::invalid(&path.child(key), mode, detail));
    }
}

/// Files made of the keys of a ConfigMap or Secret.
fn validate_files(source: &Value, path: &Path, errors: &mut Errors) {
    validate_mode(source, "defaultMode", path, errors);
    for (item, path) in each(source, "items", path) {
        required_shaped(item, "key", config_key, &path, errors);
        validate_file(item, &path, errors);
    }
}

fn validate_file(item: &Value, path: &Path, errors: &mut Errors) {
    required_shaped(item, "path", inner_path, path, errors);
    validate_mode(item, "mode", path, errors);
}

fn validate_downward(source: &Value, path: &Path, errors: &mut Errors) {
    validate_mode(source, "defaultMode", path, errors);
    for (item, path) in each(source, "items", path) {
        validate_file(item, &path, errors);
        validate_file_source(item, &path, errors);
    }
}

fn validate_projected(source: &Value, path: &Path, errors: &mut Errors) {
    validate_mode(source, "defaultMode", path, errors);
    for (projection, path) in each(source, "sources", path) {
        let given: Vec<(&String, &Value)> =
            projection.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).collect();
        match given.as_slice() {
            [] => errors.push(Error::required(&path, "must specify a volume source")),
            [(_, _)] => {}
            [_, (key, _), ..] => {
                errors.push(Error::forbidden(&path.child(key), "may not specify more than 1 volume type per source"))
            }
        }
        for (key, source) in given {
            let path = path.child(key);
            match key.as_str() {
                "configMap" | "secret" => {
                    required(source, "name", &path, errors);
                    validate_files(source, &path, errors);
                }
                "downwardAPI" => validate_downward(source, &path, errors),
                "serviceAccountToken" => {
                    between(source, "expirationSeconds", 600, 1 << 32, &path, errors);
                    required_shaped(source, "path", inner_path, &path, errors);
                }
                _ => {}
            }
        }
    }
}

/// Judges where a container mounts volumes.
pub(super) fn validate_mounts(container: &Value, volumes: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    let mut places = BTreeSet::new();
    for (mount, path) in each(container, "volumeMounts", path) {
        if let Some(name) = required(mount, "name", &path, errors)
            && !volumes.contains(name)
        {
            errors.push(Error::not_found(&path.child("name"), name));
        }
        if let Some(place) = required(mount, "mountPath", &path, errors)
            && !places.insert(place)
        {
            errors.push(Error::invalid(&path.child("mountPath"), place, "must be unique"));
        }
        shaped(mount, "subPath", inner_path, &path, errors);
        shaped(mount, "subPathExpr", inner_path, &path, errors);
        if !json::text(mount, &["subPath"]).is_empty() && !json::text(mount, &["subPathExpr"]).is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid(&path.child("subPathExpr"), json::text(mount, &["subPathExpr"]), detail));
        }
        one_of(mount, "mountPropagation", &PROPAGATIONS, &path, errors);
    }
    let mut devices = BTreeSet::new();
    for (device, path) in each(container, "volumeDevices", path) {
        if let Some(name) = required(device, "name", &path, errors)
            && !volumes.contains(name)
        {
            errors.push(Error::not_found(&path.child("name"), name));
        }
        if let Some(place) = required(device, "devicePath", &path, errors)
            && (!devices.insert(place) || places.contains(place))
        {
            errors.push(Error::invalid(&path.child("devicePath"), place, "must be unique"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(volumes: Value) -> Vec<(String, &'static str)> {
        let mut errors = Vec::new();
        validate_volumes(&json!({ "volumes": volumes }), &Path::new("spec"), &mut errors);
        errors.into_iter().map(|error| (error.path, error.kind.name())).collect()
    }

    #[test]
    fn good_volumes_pass() {
        let volumes = json!([
            {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "b", "configMap": {"name": "m", "defaultMode": 420, "items": [{"key": "k", "path": "d/k"}]}},
            {"name": "c", "secret": {"secretName": "s"}},
            {"name": "d", "hostPath": {"path": "/var/x", "type": ""}},
            {"name": "e", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]}},
            {"name": "f", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}, {"configMap": {"name": "m"}}]}},
            {"name": "g", "persistentVolumeClaim": {"claimName": "p"}},
        ]);
        assert_eq!(errors(volumes), []);
    }

    #[test]
    fn a_volume_has_one_name_and_one_source() {
        let volumes = json!([
            {"name": "a", "emptyDir": {}},
            {"name": "a", "emptyDir": {}},
            {"name": "B", "emptyDir": {}, "secret": {"secretName": "s"}},
            {"name": "c", "emptyDir": null},
            {"emptyDir": {}},
        ]);
        let expected = [
            ("spec.volumes[1].name", "Duplicate"),
            ("spec.volumes[2].name", "Invalid"),
            ("spec.volumes[2].secret", "Forbidden"),
            ("spec.volumes[3]", "Required"),
            ("spec.volumes[4].name", "Required"),
        ];
        assert_eq!(errors(volumes), expected.map(|(path, kind)| (path.to_owned(), kind)));
    }

    #[test]
    fn sources_are_judged() {
        let volumes = json!([
            {"name": "a", "configMap": {"items": [{"key": "k", "path": "../k", "mode": 4096}]}},
            {"name": "b", "hostPath": {"path": "", "type": "Door"}},
            {"name": "c", "emptyDir": {"sizeLimit": "-1"}},
            {"name": "d", "projected": {"sources": [{}]}},
        ]);
        let expected = [
            ("spec.volumes[0].configMap.name", "Required"),
            ("spec.volumes[0].configMap.items[0].path", "Invalid"),
            ("spec.volumes[0].configMap.items[0].mode", "Invalid"),
            ("spec.volumes[1].hostPath.path", "Required"),
            ("spec.volumes[1].hostPath.type", "NotSupported"),
            ("spec.volumes[2].emptyDir.sizeLimit", "Invalid"),
            ("spec.volumes[3].projected.sources[0]", "Required"),
        ];
        assert_eq!(errors(volumes), expected.map(|(path, kind)| (path.to_owned(), kind)));
    }

    #[test]
    fn a_mount_names_a_volume_and_a_place() {
        let container = json!({"volumeMounts": [
            {"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/a"}, {"name": "a", "subPath": "/x"},
        ]});
        let mut errors = Vec::new();
        validate_mounts(&container, &BTreeSet::from(["a"]), &Path::new("c"), &mut errors);
        let found: Vec<_> = errors.iter().map(|error| (error.path.as_str(), error.kind.name())).collect();
        let expected = [
            ("c.volumeMounts[1].name", "NotFound"),
            ("c.volumeMounts[1].mountPath", "Invalid"),
            ("c.volumeMounts[2].mountPath", "Required"),
            ("c.volumeMounts[2].subPath", "Invalid"),
        ];
        assert_eq!(found, expected);
    }
}
