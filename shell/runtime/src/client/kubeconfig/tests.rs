//! What texts of kubeconfigs mean.

use std::fs;

use super::*;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nQQ==\n-----END PRIVATE KEY-----\n";

fn read_text(text: &str) -> Result<Kubeconfig, ConfigError> {
    let mut read = Kubeconfig { current: String::new(), entries: Default::default() };
    read.add(text, Path::new("/home/me/.kube")).map(|()| read)
}

/// Returns what a configuration says, in a line.
fn described(config: &Config) -> String {
    let trust = match &config.trust {
        Trust::System => "system".to_owned(),
        Trust::Authorities(authorities) => format!("{} authorities", authorities.len()),
        Trust::Everything => "everything".to_owned(),
    };
    let authorization = match &config.auth.authorization {
        Authorization::None => "nobody".to_owned(),
        Authorization::Token(token) => format!("token {token}"),
        Authorization::TokenFile { path, first } => format!("file {} {first:?}", path.display()),
        Authorization::Basic { username, password } => format!("{username}:{password}"),
        Authorization::Exec(_) => "plugin".to_owned(),
    };
    let certificate = if config.auth.certificate.is_some() { " with a certificate" } else { "" };
    let name = config.tls_server_name.as_deref().map(|name| format!(" named {name}")).unwrap_or_default();
    let headers = config.auth.impersonate.iter();
    let headers: String = headers.map(|(name, value)| format!(" {name}={}", value.to_str().unwrap())).collect();
    format!("{} {} {trust}{name}, {authorization}{certificate}{headers}", config.cluster_url, config.default_namespace)
}

/// Returns what a cluster and a user, lines of YAML each, amount to.
fn outcome(cluster: &[&str], user: &[&str]) -> String {
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("\n    {line}")).collect::<String>();
    let text = format!(
        "current-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u, namespace: shop}}\n\
         clusters:\n- name: k\n  cluster:{}\nusers:\n- name: u\n  user:{}\n",
        lines(cluster),
        lines(user)
    );
    match read_text(&text).and_then(|read| read.resolve(None)) {
        Ok((config, _)) => described(&config),
        Err(error) => error.to_string(),
    }
}

#[test]
fn clusters_say_where_the_api_is_and_whom_to_trust() {
    let data = format!("certificate-authority-data: {}", STANDARD.encode(CERTIFICATE.repeat(2)));
    let cases: &[(&[&str], &str)] = &[
        (&["server: https://10.0.0.1:6443"], "https://10.0.0.1:6443/ shop system, nobody"),
        (&["server: https://10.0.0.1/k8s/clusters/c1"], "https://10.0.0.1/k8s/clusters/c1 shop system, nobody"),
        (&["server: http://[::1]:8080"], "http://[::1]:8080/ shop system, nobody"),
        (&["server: https://h", &data], "https://h/ shop 2 authorities, nobody"),
        (&["server: https://h", "certificate-authority-data: QQ=="], "certificate-authority: there is no certificate in it"),
        (&["server: https://h", "certificate-authority-data: '*'"], "certificate-authority-data: Invalid symbol 42, offset 0."),
        (
            &["server: https://h", "certificate-authority: ca.crt"],
            "/home/me/.kube/ca.crt: No such file or directory (os error 2)",
        ),
        (&["server: https://h", "certificate-authority: /no/ca"], "/no/ca: No such file or directory (os error 2)"),
        (&["server: https://h", "insecure-skip-tls-verify: true"], "https://h/ shop everything, nobody"),
        (
            &["server: https://h", "insecure-skip-tls-verify: true", &data],
            "insecure-skip-tls-verify: certificate-authority is set too; take one of them out",
        ),
        (&["server: https://h", "tls-server-name: api"], "https://h/ shop system named api, nobody"),
        (
            &["server: https://h", "proxy-url: http://p"],
            "proxy-url is not supported; take it out of the kubeconfig, and reach the API directly or through `kubectl proxy`",
        ),
        (&["server: 10.0.0.1"], "server: \"10.0.0.1\" is no address like https://10.0.0.1:6443"),
        (&["server: unix:///x"], "server: \"unix:///x\" is no address like https://10.0.0.1:6443"),
        (&["namespace: x"], "server: \"\" is no address like https://10.0.0.1:6443"),
    ];
    for (cluster, expected) in cases {
        assert_eq!(outcome(cluster, &["token: ''"]), *expected, "{cluster:?}");
    }
}

#[test]
fn users_say_who_we_are() {
    let certificate = format!("client-certificate-data: {}", STANDARD.encode(CERTIFICATE));
    let key = format!("client-key-data: {}", STANDARD.encode(KEY));
    let cases: &[(&[&str], &str)] = &[
        (&["token: t"], "token t"),
        (&["tokenFile: t.txt"], "file /home/me/.kube/t.txt None"),
        (&["tokenFile: /t", "token: u"], "file /t Some(\"u\")"),
        (&["username: me", "password: p"], "me:p"),
        (&[&certificate, &key], "nobody with a certificate"),
        (&[&certificate, &key, "token: t"], "token t with a certificate"),
        (&["exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"], "plugin"),
        (&["exec: {apiVersion: client.authentication.k8s.io/v1, command: x}", "token: t"], "token t"),
        (
            &["as: jane", "as-uid: '7'", "as-groups: [a, b]", "as-user-extra: {Scopes: [r, w]}"],
            "nobody impersonate-user=jane impersonate-uid=7 impersonate-group=a impersonate-group=b \
             impersonate-extra-scopes=r impersonate-extra-scopes=w",
        ),
    ];
    for (user, expected) in cases {
        assert_eq!(outcome(&["server: https://h"], user), format!("https://h/ shop system, {expected}"), "{user:?}");
    }
    let cases: &[(&[&str], &str)] = &[
        (&[&certificate], "client-certificate: there is no client-key"),
        (&[&key], "client-key: there is no client-certificate"),
        (&[&certificate, "client-key-data: QQ=="], "client-key: no items found"),
        (&["as: \"a\\nb\""], "as: no header can have impersonate-user: a\nb"),
        (
            &["auth-provider: {name: oidc}"],
            "auth-provider is not supported; use a plugin (exec), such as gke-gcloud-auth-plugin or kubelogin",
        ),
    ];
    for (user, expected) in cases {
        assert_eq!(outcome(&["server: https://h"], user), *expected, "{user:?}");
    }
}

#[test]
fn what_a_context_names_must_be_there() {
    let cases = [
        ("just words", None, "this is no kubeconfig: it has no clusters, contexts and users"),
        ("", None, "it has no current-context; `kubectl config use-context NAME` sets one"),
        ("{contexts: null, users: null, clusters: null}", Some("x"), "it has no context \"x\""),
        ("{current-context: c, contexts: [{name: c}]}", None, "it has no cluster \"\""),
        ("{current-context: c, contexts: [{name: c, context: {cluster: k}}]}", None, "it has no cluster \"k\""),
        (
            "{contexts: [{name: c, context: {cluster: k, user: u}}], clusters: [{name: k, cluster: {server: https://h}}]}",
            Some("c"),
            "it has no user \"u\"",
        ),
        (
            "{contexts: [{name: c, context: {cluster: k}}], clusters: [{name: k, cluster: {server: https://h}}]}",
            Some("c"),
            "https://h/ default system, nobody",
        ),
    ];
    for (text, context, expected) in cases {
        let outcome = match read_text(text).and_then(|read| read.resolve(context)) {
            Ok((config, _)) => described(&config),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected, "{text}");
    }
    let error = read_text("a: [").err().unwrap().to_string();
    assert!(error.starts_with("this is no kubeconfig: "), "{error}");
}

#[test]
fn of_several_files_the_first_one_to_say_something_counts_and_each_is_the_beginning_of_its_paths() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let one = write(
        "one/config",
        "{users: [{name: u, user: {tokenFile: token}}], contexts: [{name: c, context: {cluster: k, user: u}}]}",
    );
    let two = write(
        "two/config",
        "{current-context: c, users: [{name: u, user: {token: other}}],
          contexts: [{name: c, context: {cluster: none}}], clusters: [{name: k, cluster: {server: https://h}}]}",
    );
    let three = write("three/config", "current-context: x");
    let list = |files: &[&PathBuf]| PathBuf::from(std::env::join_paths(files).unwrap());
    let missing = folder.path().join("missing");
    let (config, _) = Kubeconfig::read(&list(&[&one, &missing, &two, &three])).unwrap().resolve(None).unwrap();
    let token = folder.path().join("one/token");
    assert_eq!(described(&config), format!("https://h/ default system, file {} None", token.display()));
    // Names of files may have what separates them in lists.
    let odd = write("a:b", "{current-context: x, contexts: [{name: x}]}");
    assert_eq!(Kubeconfig::read(&odd).unwrap().resolve(None).err().unwrap().to_string(), "it has no cluster \"\"");
    let gone = Kubeconfig::read(&missing).err().unwrap().to_string();
    assert_eq!(gone, format!("{}: No such file or directory (os error 2)", missing.display()));
    let bad = write("bad", "words");
    let error = Kubeconfig::read(&list(&[&one, &bad])).err().unwrap().to_string();
    assert_eq!(error, format!("this is no kubeconfig: {}: it has no clusters, contexts and users", bad.display()));
}

#[test]
fn a_pod_is_its_service_account() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        |host: Option<&str>| Config::of_service_account(host.map(str::to_owned), Some("443".to_owned()), folder.path());
    assert_eq!(config(None).err().unwrap().to_string(), "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
    assert!(config(Some("10.0.0.1")).err().unwrap().to_string().contains("ca.crt"));
    fs::write(folder.path().join("ca.crt"), CERTIFICATE).unwrap();
    assert!(config(Some("10.0.0.1")).err().unwrap().to_string().contains("token"));
    fs::write(folder.path().join("token"), "t\n").unwrap();
    fs::write(folder.path().join("namespace"), "shop\n").unwrap();
    let token = folder.path().join("token");
    let expected = |host: &str| format!("https://{host}:443/ shop 1 authorities, file {} None", token.display());
    assert_eq!(described(&config(Some("10.0.0.1")).unwrap()), expected("10.0.0.1"));
    assert_eq!(described(&config(Some("fd00::1")).unwrap()), expected("[fd00::1]"));
}
