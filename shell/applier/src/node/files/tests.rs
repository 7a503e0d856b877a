use std::time::Duration;

use serde_json::json;

use super::*;

fn kubelet(root: &Path, words: &[&str]) -> KubeletFiles {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    KubeletFiles { root: root.to_owned(), command, configz: None }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let drop_ins = root.path().join("etc/kubelet.conf.d");
    std::fs::create_dir_all(&drop_ins).unwrap();
    (root, drop_ins)
}

#[test]
fn a_kubelet_with_a_folder_of_drop_ins_gets_one_and_another_one_its_main_file() {
    let (root, drop_ins) = folder();
    let medium = KubeletValues::of(Duration::from_secs(20));
    let main = root.path().join("config.yaml");
    std::fs::write(
        &main,
        "kind: KubeletConfiguration\nevictionHard: {memory.available: 0%}\nx: \"yes\"\nnodeStatusUpdateFrequency: 10s\n",
    )
    .unwrap();
    let change = kubelet(root.path(), &["kubelet", "--config=/config.yaml", "--config-dir", "/etc/kubelet.conf.d"])
        .change(&medium)
        .unwrap();
    assert_eq!(change.path, drop_ins.join(DROP_IN));
    let text = String::from_utf8(change.content.unwrap()).unwrap();
    assert!(text.contains("\"nodeLeaseDurationSeconds\": 80") && text.contains("\"apiVersion\""), "{text}");
    let change = kubelet(root.path(), &["kubelet", "--config=/config.yaml"]).change(&medium).unwrap();
    assert_eq!(change.path, main);
    let config: Value = serde_saphyr::from_slice(&change.content.unwrap()).unwrap();
    assert_eq!(
        config,
        json!({"kind": "KubeletConfiguration", "evictionHard": {"memory.available": "0%"}, "x": "yes",
            "nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "5m0s", "nodeLeaseDurationSeconds": 80})
    );
    assert!(kubelet(root.path(), &["kubelet"]).change(&medium).is_err(), "it has no file");
}

#[test]
fn what_would_win_over_our_file_is_found_and_named() {
    let (root, drop_ins) = folder();
    let words = ["kubelet", "--config-dir=/etc/kubelet.conf.d"];
    std::fs::write(drop_ins.join("10-other.conf"), "kind: KubeletConfiguration\nnodeStatusUpdateFrequency: 7s\n").unwrap();
    kubelet(root.path(), &words).check().unwrap();
    let flag = kubelet(root.path(), &["kubelet", "--config-dir=/etc/kubelet.conf.d", "--node-status-update-frequency=4s"]);
    assert!(flag.check().unwrap_err().0.contains("--node-status-update-frequency"));
    std::fs::write(drop_ins.join("95-late.conf"), "kind: KubeletConfiguration\nnodeLeaseDurationSeconds: 40\n").unwrap();
    assert!(kubelet(root.path(), &words).check().unwrap_err().0.contains("95-late.conf sorts after"));
    std::fs::write(drop_ins.join("95-late.conf"), "nonsense").unwrap();
    assert!(kubelet(root.path(), &words).check().unwrap_err().0.contains("would not start"));
}

#[test]
fn static_pods_are_found_by_their_container_and_asked_as_their_probe_asks() {
    let root = tempfile::tempdir().unwrap();
    let manifest = "kind: Pod\nspec:\n  containers:\n  - name: kube-apiserver\n    command: [kube-apiserver, --v=2]\n    \
                    livenessProbe: {httpGet: {host: 10.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}}\n    \
                    ports: [{name: probe-port, containerPort: 6443}]\n";
    std::fs::write(root.path().join("some-name.yaml"), manifest).unwrap();
    std::fs::write(root.path().join(".hidden.yaml"), manifest).unwrap();
    let pod = StaticPod::find(root.path(), Component::ApiServer).unwrap().expect("it is there");
    assert_eq!(pod.health_url().as_deref(), Some("https://10.0.0.1:6443/readyz"));
    let values = ComponentValues::ApiServer { not_ready_seconds: 60, unreachable_seconds: 60 };
    let content = pod.change(&values).unwrap().content.unwrap();
    let given = values.arguments().into_iter().collect();
    assert_eq!(settings(Component::ApiServer, Some(&content)), Some(given));
    assert!(StaticPod::find(root.path(), Component::ControllerManager).unwrap().is_none());
    std::fs::write(root.path().join("twice.yaml"), manifest).unwrap();
    assert!(StaticPod::find(root.path(), Component::ApiServer).unwrap_err().0.contains("twice.yaml"));
}

#[test]
fn what_a_kubelet_uses_is_what_it_says() {
    let configz =
        json!({"nodeStatusUpdateFrequency": "20s", "nodeStatusReportFrequency": "5m0s", "nodeLeaseDurationSeconds": 80});
    assert_eq!(kubelet_values(&configz), Some(KubeletValues::of(Duration::from_secs(20))));
    assert_eq!(kubelet_values(&json!({"nodeStatusUpdateFrequency": "20s"})), None, "unknown, not assumed");
}

#[test]
fn what_a_file_says_explicitly_is_told_from_what_is_built_in() {
    let manifest = |words: &str| {
        let text = format!("kind: Pod\nspec:\n  containers:\n  - name: kube-apiserver\n    command: [kube-apiserver{words}]\n");
        settings(Component::ApiServer, Some(text.as_bytes())).expect("a manifest")
    };
    let (none, explicit) = (manifest(""), manifest(", --default-not-ready-toleration-seconds, '300'"));
    assert_eq!(none, BTreeMap::new());
    assert_ne!(none, explicit, "300 is built in, and yet the process must be another one");
    let running = ["kube-apiserver", "--default-not-ready-toleration-seconds=300"].map(str::to_owned);
    assert_eq!(explicit_arguments(Component::ApiServer, &running), explicit, "however it is written");
    assert_ne!(manifest(", --default-not-ready-toleration-seconds=60"), explicit);
    let kubelet = |text: &str| settings(Component::Kubelet, Some(text.as_bytes()));
    let fields = kubelet("kind: KubeletConfiguration\nnodeLeaseDurationSeconds: 40\nx: y\n");
    assert_eq!(fields, Some([("nodeLeaseDurationSeconds", "40".to_owned())].into()));
    assert_eq!((kubelet("edited"), settings(Component::ApiServer, Some(b"kind: Pod\n"))), (None, None));
    assert_eq!(settings(Component::Kubelet, None), Some(BTreeMap::new()), "no file says nothing");
}
