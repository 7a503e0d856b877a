//! Who am I, what may I: `auth whoami`, `auth can-i`, and the roles of `lifesign kubeconfig`.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Kubectl, On};

impl Kubectl {
    /// Takes another role on the same plane.
    fn become_role(&mut self, arguments: &[&str]) {
        let output = self.plane().unwrap().command("kubeconfig").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.kubeconfig = self.folder().join("role");
        std::fs::write(&self.kubeconfig, output.stdout).unwrap();
    }

    /// Speaks as a node: with its certificate, or on a cluster as the administrator who impersonates it.
    fn become_node(&mut self, name: &str) {
        if self.plane().is_some() {
            self.become_role(&["--node", name]);
        } else {
            self.flags = vec![format!("--as=system:node:{name}"), "--as-group=system:nodes".to_owned()];
        }
    }

    /// Speaks as whoever has a token.
    fn become_bearer(&mut self, token: &str) {
        let mut config: Value = serde_json::from_str(&self.run("config view --raw --minify -o json")).unwrap();
        config["users"][0]["user"] = json!({"token": token});
        self.kubeconfig = self.folder().join("bearer");
        std::fs::write(&self.kubeconfig, config.to_string()).unwrap();
    }
}

pub(crate) fn the_administrator_may_do_everything(on: On) {
    let kubectl = Kubectl::start(on);
    let who = kubectl.table("auth whoami");
    assert!(who.starts_with("ATTRIBUTE | VALUE\nUsername | "), "{who}");
    assert!(who.contains("\nGroups | [system:masters system:authenticated]"), "{who}");
    if kubectl.plane().is_some() {
        assert!(who.contains("Username | lifesign-admin\n"), "{who}");
    }
    assert_eq!(kubectl.run("auth can-i create pods"), "yes\n");
    assert_eq!(kubectl.run("auth can-i get /metrics"), "yes\n");
    let rules = kubectl.table("auth can-i --list");
    assert!(
        rules.starts_with("Resources | Non-Resource URLs | Resource Names | Verbs\n*.* | [] | [] | [*]\n | [*] | [] | [*]"),
        "{rules}"
    );
}

pub(crate) fn a_viewer_reads_all_but_secrets_and_changes_nothing() {
    let mut kubectl = Kubectl::start(On::Plane);
    kubectl.run("create secret generic password --from-literal=a=1");
    kubectl.become_role(&["--role", "viewer"]);
    assert_eq!(kubectl.run("get pods -A -o name"), "");
    assert!(kubectl.refused("get secrets").contains("Forbidden"));
    assert!(kubectl.refused("create configmap c").contains("forbidden"));
    assert!(kubectl.try_run("auth can-i delete pods").stdout.starts_with("no"));
    let rules = kubectl.table("auth can-i --list");
    assert!(rules.contains("pods") && !rules.contains("secrets") && !rules.contains("delete"), "{rules}");
    assert_eq!(kubectl.try_run("auth can-i watch services").stdout, "yes\n");
    assert_eq!(kubectl.try_run("auth can-i get /metrics").stdout, "yes\n");
    assert!(kubectl.run("get --raw /metrics").contains("apiserver_request_total"));
    assert!(kubectl.try_run("auth can-i get *").stdout.starts_with("no"), "secrets are among it");
}

pub(crate) fn controllers_write_everything_but_secrets() {
    let mut kubectl = Kubectl::start(On::Plane);
    kubectl.become_role(&["--role", "controllers"]);
    kubectl.run("create configmap c");
    assert!(kubectl.refused("get secrets").contains("Forbidden"));
    assert!(kubectl.try_run("auth can-i * *").stdout.starts_with("no"), "secrets are among it");
    assert_eq!(kubectl.try_run("auth can-i * pods").stdout, "yes\n");
}

pub(crate) fn a_node_sees_its_own_pods_only(on: On) {
    let mut kubectl = Kubectl::start(on);
    kubectl.running_pod("mine", "n1");
    kubectl.running_pod("theirs", "n2");
    let n1 = kubectl.node("n1");
    kubectl.become_node(&n1);
    assert_eq!(kubectl.run(&format!("get pods --field-selector spec.nodeName={n1} -o name")), "pod/mine\n");
    assert!(kubectl.refused("get pods").contains("spec.nodeName"));
    assert!(kubectl.refused("get pod theirs").contains("Forbidden"));
    assert!(kubectl.refused("get nodes n2").contains("Forbidden"));
    assert!(kubectl.try_run("auth can-i get /metrics").stdout.starts_with("no"));
    assert!(kubectl.refused("get --raw /metrics").contains("cannot get path"));
}

pub(crate) fn components_find_out_whose_certificates_are_good(on: On) {
    let kubectl = Kubectl::start(on);
    let map = "get configmap extension-apiserver-authentication -n kube-system";
    let published = kubectl.run(&format!("{map} -o jsonpath='{{.data.client-ca-file}}'"));
    let authority = kubectl.run("config view --raw --minify -o jsonpath={.clusters[0].cluster.certificate-authority-data}");
    let authority = String::from_utf8(STANDARD.decode(authority).unwrap()).unwrap();
    assert_eq!(published.trim(), authority.trim());
    kubectl.run("delete configmap extension-apiserver-authentication -n kube-system");
    kubectl.run("wait --for=create configmap/extension-apiserver-authentication -n kube-system --timeout=120s");
}

pub(crate) fn a_token_stands_for_its_service_account(on: On) {
    let mut kubectl = Kubectl::start(on);
    let administrator = kubectl.kubeconfig.clone();
    kubectl.run("create serviceaccount robot");
    let token = kubectl.run("create token robot --duration=20m").trim().to_owned();
    assert!(kubectl.refused("create token nobody").contains("\"nobody\" not found"));
    assert!(kubectl.refused("create token robot --duration=1m").contains("10 minutes"));
    let elsewhere = kubectl.run("create token robot --audience=vault").trim().to_owned();
    assert!(kubectl.run("api-resources").contains("serviceaccounts"));
    kubectl.become_bearer(&token);
    let who = kubectl.table("auth whoami");
    assert!(who.contains("Username | system:serviceaccount:default:robot"), "{who}");
    assert!(who.contains("[system:serviceaccounts system:serviceaccounts:default system:authenticated]"), "{who}");
    assert!(who.contains("Extra: authentication.kubernetes.io/credential-id | [JTI="), "{who}");
    assert!(kubectl.refused("get pods").contains("forbidden"), "it has no role");
    kubectl.become_bearer(&elsewhere);
    assert!(kubectl.refused("auth whoami").contains("logged in"), "it is for somebody else");
    kubectl.become_bearer(&format!("{token}x"));
    assert!(kubectl.refused("auth whoami").contains("logged in"));
    kubectl.kubeconfig = administrator;
    kubectl.run("delete serviceaccount robot");
    kubectl.become_bearer(&token);
    // kube-apiserver remembers for ten seconds whom it has let in.
    let deadline = Instant::now() + crate::PATIENCE;
    while kubectl.plane().is_none() && kubectl.try_run("auth whoami").good && Instant::now() < deadline {}
    assert!(kubectl.refused("auth whoami").contains("logged in"), "a token dies with its account");
}
