//! Who am I, what may I: `auth whoami`, `auth can-i`, and the roles of `lifesign kubeconfig`.

use super::Kubectl;

impl Kubectl {
    /// Returns a kubectl of another role on the same plane.
    fn become_role(&mut self, arguments: &[&str]) {
        let output = self.plane.command("kubeconfig").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.kubeconfig = self.plane.folder().join("role");
        std::fs::write(&self.kubeconfig, output.stdout).unwrap();
    }
}

pub(crate) fn the_administrator_may_do_everything() {
    let kubectl = Kubectl::start();
    insta::assert_snapshot!(super::table(&kubectl.run("auth whoami")), @"
    ATTRIBUTE | VALUE
    Username | lifesign-admin
    Groups | [system:masters system:authenticated]
    ");
    assert_eq!(kubectl.run("auth can-i create pods"), "yes\n");
    assert_eq!(kubectl.run("auth can-i get /metrics"), "yes\n");
    insta::assert_snapshot!(super::table(&kubectl.run("auth can-i --list")), @"
    Resources | Non-Resource URLs | Resource Names | Verbs
    *.* | [] | [] | [*]
     | [*] | [] | [*]
    ");
}

pub(crate) fn a_viewer_reads_all_but_secrets_and_changes_nothing() {
    let mut kubectl = Kubectl::start();
    kubectl.run("create secret generic password --from-literal=a=1");
    kubectl.become_role(&["--role", "viewer"]);
    assert_eq!(kubectl.run("get pods -A -o name"), "");
    assert!(kubectl.refused("get secrets").contains("Forbidden"));
    assert!(kubectl.refused("create configmap c").contains("forbidden"));
    assert!(kubectl.try_run("auth can-i delete pods").stdout.starts_with("no"));
    let rules = super::table(&kubectl.run("auth can-i --list"));
    assert!(rules.contains("pods") && !rules.contains("secrets") && !rules.contains("delete"), "{rules}");
    assert_eq!(kubectl.try_run("auth can-i watch services").stdout, "yes\n");
}

pub(crate) fn controllers_write_everything_but_secrets() {
    let mut kubectl = Kubectl::start();
    kubectl.become_role(&["--role", "controllers"]);
    kubectl.run("create configmap c");
    assert!(kubectl.refused("get secrets").contains("Forbidden"));
}

pub(crate) fn a_node_sees_its_own_pods_only() {
    let mut kubectl = Kubectl::start();
    kubectl.running_pod("mine", "n1");
    kubectl.running_pod("theirs", "n2");
    kubectl.become_role(&["--node", "n1"]);
    assert_eq!(kubectl.run("get pods --field-selector spec.nodeName=n1 -o name"), "pod/mine\n");
    assert!(kubectl.refused("get pods").contains("spec.nodeName"));
    assert!(kubectl.refused("get pod theirs").contains("Forbidden"));
    assert!(kubectl.refused("get nodes n2").contains("Forbidden"));
}

pub(crate) fn a_token_stands_for_its_service_account() {
    let mut kubectl = Kubectl::start();
    kubectl.run("create serviceaccount robot");
    let token = kubectl.run("create token robot --duration=20m").trim().to_owned();
    assert!(kubectl.refused("create token nobody").contains("\"nobody\" not found"));
    assert!(kubectl.refused("create token robot --duration=1m").contains("10 minutes"));
    assert!(kubectl.run("api-resources").contains("serviceaccounts"));
    let login = |kubectl: &mut Kubectl, token: &str| {
        let ca = kubectl.plane.data_dir().join("pki/ca.crt");
        let text = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": kubectl.plane.url(), "certificate-authority": ca}}],
            "users": [{"name": "c", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        kubectl.kubeconfig = kubectl.plane.folder().join("robot");
        std::fs::write(&kubectl.kubeconfig, text.to_string()).unwrap();
    };
    login(&mut kubectl, &token);
    let who = super::table(&kubectl.run("auth whoami"));
    assert!(who.contains("Username | system:serviceaccount:default:robot"), "{who}");
    assert!(who.contains("[system:serviceaccounts system:serviceaccounts:default system:authenticated]"), "{who}");
    assert!(kubectl.refused("get pods").contains("forbidden"), "it has no role");
    login(&mut kubectl, &format!("{token}x"));
    assert!(kubectl.refused("auth whoami").contains("logged in"));
    kubectl.kubeconfig = kubectl.plane.kubeconfig();
    kubectl.run("delete serviceaccount robot");
    login(&mut kubectl, &token);
    assert!(kubectl.refused("auth whoami").contains("logged in"), "a token dies with its account");
}
