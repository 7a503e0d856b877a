use super::*;
use serde_json::json;

fn context() -> PodContext {
    let uid = rustix::process::geteuid().as_raw();
    PodContext { uid, pod_ip: "127.88.0.7".to_owned(), ..PodContext::default() }
}

fn references() -> References {
    let config = json!({"data": {"a.conf": "A", "b.conf": "B"}, "binaryData": {"blob": "/wA="}});
    let secret = json!({"data": {"key": "c2VjcmV0"}});
    References { config_maps: [("config".to_owned(), config)].into(), secrets: [("secret".to_owned(), secret)].into() }
}

fn prepared(dir: &Path, volume: Value, mounts: Value) -> Result<(), VolumeError> {
    let pod = json!({
        "metadata": {"name": "web-1", "labels": {"app": "web", "tier": "a\"b"}},
        "spec": {"volumes": [volume], "containers": [{"name": "main", "volumeMounts": mounts, "resources": {"limits": {"cpu": "2"}}}]},
    });
    prepare(&pod, dir, &references(), &context())
}

fn read(dir: &Path, path: &str) -> (String, u32) {
    let path = dir.join("v").join(path);
    (
        String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
    )
}

fn refused(volume: Value, mounts: Value) -> String {
    prepared(tempfile::tempdir().unwrap().path(), volume, mounts).unwrap_err().to_string()
}

#[test]
fn an_empty_dir_is_made_once_and_keeps_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("volumes");
    let volume = json!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}});
    prepared(&dir, volume.clone(), json!([])).unwrap();
    std::fs::write(dir.join("v/kept"), "x").unwrap();
    prepared(&dir, volume, json!([])).unwrap();
    assert_eq!(read(&dir, "kept").0, "x");
    assert_eq!(std::fs::metadata(dir.join("v")).unwrap().permissions().mode() & 0o777, 0o777);
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn config_maps_and_secrets_become_files() {
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path(), json!({"name": "v", "configMap": {"name": "config"}}), json!([])).unwrap();
    assert_eq!(read(folder.path(), "a.conf"), ("A".to_owned(), 0o644));
    assert_eq!(std::fs::read(folder.path().join("v/blob")).unwrap(), [0xff, 0]);

    let folder = tempfile::tempdir().unwrap();
    let items = json!([{"key": "key", "path": "deep/er", "mode": 0o400}]);
    prepared(folder.path(), json!({"name": "v", "secret": {"secretName": "secret", "items": items}}), json!([])).unwrap();
    assert_eq!(read(folder.path(), "deep/er"), ("secret".to_owned(), 0o400));
}

#[test]
fn what_is_missing_or_leads_out_is_refused() {
    assert!(refused(json!({"name": "v", "configMap": {"name": "none"}}), json!([])).contains("configmap \"none\" not found"));
    let item =
        |key: &str, path: &str| json!({"name": "v", "configMap": {"name": "config", "items": [{"key": key, "path": path}]}});
    assert!(refused(item("none", "x"), json!([])).contains("couldn't find key none"));
    for path in ["/etc/passwd", "../x", "a/../../x", ""] {
        assert!(refused(item("a.conf", path), json!([])).contains("must be relative"), "{path}");
    }
    for name in ["..", "a/b", "/", ""] {
        assert!(refused(json!({"name": name, "emptyDir": {}}), json!([])).contains("must be relative"), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    prepared(folder.path(), json!({"name": "v", "secret": {"secretName": "none", "optional": true}}), json!([])).unwrap();
    assert_eq!(std::fs::read_dir(folder.path().join("v")).unwrap().count(), 0, "optional: empty");
}

#[test]
fn fields_of_the_pod_become_files() {
    let folder = tempfile::tempdir().unwrap();
    let items = json!([
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
    ]);
    prepared(folder.path(), json!({"name": "v", "downwardAPI": {"items": items}}), json!([])).unwrap();
    assert_eq!(read(folder.path(), "labels").0, "app=\"web\"\ntier=\"a\\\"b\"");
    assert_eq!(read(folder.path(), "name").0, "web-1");
    assert_eq!(read(folder.path(), "ip").0, "127.88.0.7");
    assert_eq!(read(folder.path(), "cpu").0, "2");
}

#[test]
fn projected_sources_share_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let sources = json!([
        {"configMap": {"name": "config", "items": [{"key": "a.conf", "path": "a"}]}},
        {"secret": {"name": "secret"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    prepared(folder.path(), json!({"name": "v", "projected": {"defaultMode": 0o600, "sources": sources}}), json!([])).unwrap();
    assert_eq!(read(folder.path(), "a"), ("A".to_owned(), 0o600));
    assert_eq!(read(folder.path(), "key").0, "secret");
    assert_eq!(read(folder.path(), "name").0, "web-1");
    let token = json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}});
    assert!(refused(token, json!([])).contains("projected serviceAccountToken is not supported"));
}

#[test]
fn a_host_path_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let volume = |type_: &str| json!({"name": "v", "hostPath": {"path": data, "type": type_}});
    let mount = |path: &str| json!([{"name": "v", "mountPath": path}]);
    assert!(refused(volume(""), mount("/data")).contains("mountPath must be equal to path"));
    assert!(refused(volume(""), json!([{"name": "v", "mountPath": data, "subPath": "x"}])).contains("subPath empty"));
    assert!(refused(volume("Directory"), mount(data)).contains("is not of type Directory"));
    prepared(folder.path(), volume("DirectoryOrCreate"), mount(&format!("{data}/"))).unwrap();
    assert!(Path::new(data).is_dir());
    prepared(folder.path(), volume("Directory"), mount(data)).unwrap();
    assert!(refused(volume("File"), mount(data)).contains("is not of type File"));
    assert!(!folder.path().join("v").exists());
}

#[test]
fn other_kinds_are_refused() {
    let message = refused(json!({"name": "v", "persistentVolumeClaim": {"claimName": "x"}}), json!([]));
    assert!(message.contains("persistentVolumeClaim is not supported for pods that are processes; use emptyDir"), "{message}");
}

#[test]
fn a_user_who_cannot_reach_a_volume_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let dir = folder.path().join("pods/u1/volumes");
    let pod = |user: u32, mounts: Value| {
        json!({"spec": {
            "securityContext": {"runAsUser": user},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "main", "volumeMounts": mounts}],
        }})
    };
    let mounted = json!([{"name": "v", "mountPath": "/v"}]);
    let own = rustix::process::geteuid().as_raw();
    let root = PodContext { uid: own, gid: rustix::process::getegid().as_raw(), ..PodContext::default() };
    let other = own + 12_345;
    let prepare = |pod: &Value| prepare(pod, &dir, &References::default(), &root);
    let output = prepare(&pod(other, mounted.clone())).unwrap_err().to_string();
    let closed = folder.path().display().to_string();
    assert!(output.contains(&format!("runs as user {other}, which may not enter {closed:?}")), "{output}");
    // Nobody is kept from what they do not use, and the owner from nothing.
    prepare(&pod(other, json!([]))).unwrap();
    prepare(&pod(own, mounted.clone())).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o711)).unwrap();
    let reachable = folder.path().ancestors().skip(1).all(|above| may_enter(above, other, 12_345));
    assert_eq!(prepare(&pod(other, mounted)).is_ok(), reachable, "with a way to it");
}
