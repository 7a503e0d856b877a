//! `deploy/install.yaml` and `deploy/install-profiles.yaml` are what `lifesign install` prints: a right or a flag cannot change unnoticed.

use crate::{lifesign, written};

#[test]
fn deploy_install_yaml_is_what_install_prints() {
    let home = tempfile::tempdir().unwrap();
    let output = lifesign(home.path()).arg("install").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("manifests are text");
    written("deploy/install.yaml", &text);
}

#[test]
fn deploy_install_profiles_yaml_is_what_install_prints_with_profiles() {
    let home = tempfile::tempdir().unwrap();
    let output = lifesign(home.path()).args(["install", "--features", "markers,probes,profiles"]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    written("deploy/install-profiles.yaml", &String::from_utf8(output.stdout).expect("manifests are text"));
}

#[test]
fn what_cannot_be_installed_is_refused_before_anything_is_printed() {
    let home = tempfile::tempdir().unwrap();
    for (arguments, why) in [
        (&["install", "--namespace", "kube-system"][..], "choose a namespace of its own"),
        (&["install", "--features", "everything"], "possible values: markers, probes, profiles"),
        (&["install", "--cri", "containerd.sock"], "absolute path"),
        (&["install", "--check", "--delete-plan"], "cannot be used with"),
        (&["install", "--check", "--kubeconfig", "none"], "none: "),
    ] {
        let output = lifesign(home.path()).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
}
