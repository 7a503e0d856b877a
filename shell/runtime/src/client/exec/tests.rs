//! Plugins that are small scripts.

use std::path::Path;

use serde_json::json;

use super::*;

/// Writes a script; returns where it is.
///
/// Another process writes it: a process that another test starts at the same moment would inherit the open file, and what is
/// open for writing cannot be run.
fn script(folder: &Path, text: &str) -> String {
    let path = folder.join("plugin");
    let written = std::process::Command::new("sh")
        .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .arg(format!("#!/bin/sh\n{text}\n"))
        .status();
    assert!(written.unwrap().success());
    path.display().to_string()
}

fn plugin(command: &str, more: Value) -> Plugin {
    let mut exec = json!({"apiVersion": VERSIONS[0], "command": command, "interactiveMode": "Never"});
    exec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let cluster = json!({
        "server": "https://10.0.0.1", "certificate-authority-data": "QQ==", "proxy-url": "",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}],
    });
    Plugin::new(&exec, &cluster).unwrap()
}

/// Returns a script that counts how often it ran, and issues that number as a token that expires at a time.
fn counting(folder: &Path, expires: &str) -> String {
    let count = folder.join("count");
    let count = count.display();
    script(
        folder,
        &format!(
            r#"echo x >> {count}
printf '{{"apiVersion":"{}","kind":"ExecCredential","status":{{"token":"t%d"{expires}}}}}' $(wc -l < {count})"#,
            VERSIONS[0]
        ),
    )
}

async fn token(plugin: &Plugin) -> String {
    plugin.issued().await.unwrap().token.clone().unwrap()
}

#[tokio::test]
async fn a_token_is_used_until_it_expires_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lasting = plugin(&counting(folder.path(), r#","expirationTimestamp":"2100-01-01T00:00:00Z""#), json!({}));
    lasting.log_in().await.unwrap();
    assert_eq!([token(&lasting).await, token(&lasting).await], ["t1", "t1"]);
    lasting.forget().await;
    assert_eq!([token(&lasting).await, token(&lasting).await], ["t2", "t2"]);
    let folder = tempfile::tempdir().unwrap();
    let over = plugin(&counting(folder.path(), r#","expirationTimestamp":"2020-01-01T00:00:00Z""#), json!({}));
    assert_eq!([token(&over).await, token(&over).await], ["t1", "t2"]);
}

#[tokio::test]
async fn a_plugin_is_told_its_arguments_its_variables_and_the_cluster_if_it_asks() {
    let folder = tempfile::tempdir().unwrap();
    // The token is what it was told, without what would end a text of JSON.
    let text = format!(
        r#"told=$(printf '%s' "$1 $2 $COLOUR $KUBERNETES_EXEC_INFO" | tr -d '"')
printf '{{"apiVersion":"{}","status":{{"token":"%s"}}}}' "$told""#,
        VERSIONS[0]
    );
    let command = script(folder.path(), &text);
    let more = json!({"args": ["get", "token"], "env": [{"name": "COLOUR", "value": "blue"}]});
    let info = format!("{{apiVersion:{},kind:ExecCredential,spec:{{interactive:false}}}}", VERSIONS[0]);
    assert_eq!(token(&plugin(&command, more)).await, format!("get token blue {info}"));
    let seen = token(&plugin(&command, json!({"provideClusterInfo": true}))).await;
    let cluster = "cluster:{certificate-authority-data:QQ==,config:{audience:us},server:https://10.0.0.1}";
    assert!(seen.contains(cluster), "{seen}");
}

#[tokio::test]
async fn a_certificate_is_issued_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let pem = "-----BEGIN CERTIFICATE-----\\nQQ==\\n-----END CERTIFICATE-----\\n";
    let key = "-----BEGIN PRIVATE KEY-----\\nQQ==\\n-----END PRIVATE KEY-----\\n";
    let print = |status: &str| {
        let printed = format!(r#"{{"apiVersion":"{}","status":{{{status}}}}}"#, VERSIONS[0]);
        plugin(&script(folder.path(), &format!("cat <<'END'\n{printed}\nEND")), json!({}))
    };
    let both = print(&format!(r#""clientCertificateData":"{pem}","clientKeyData":"{key}""#));
    assert!(both.issued().await.unwrap().certificate.is_some());
    let one = print(&format!(r#""clientCertificateData":"{pem}""#)).issued().await.err().unwrap();
    assert!(one.to_string().ends_with("printed a certificate without a key, or a key without a certificate"), "{one}");
}

#[tokio::test]
async fn what_a_plugin_does_wrong_is_said_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let printed = |text: &str| format!("printf '%s' '{text}'");
    let cases = [
        ("echo broken >&2; exit 3".to_owned(), "ended with exit status: 3: broken"),
        (printed("no"), "printed no ExecCredential: expected ident at line 1 column 2"),
        (
            printed(r#"{"apiVersion": "client.authentication.k8s.io/v1beta1"}"#),
            r#"printed "client.authentication.k8s.io/v1beta1", but the kubeconfig says "client.authentication.k8s.io/v1""#,
        ),
        (printed(r#"{"apiVersion": "client.authentication.k8s.io/v1"}"#), "printed neither a token nor a certificate"),
        (
            printed(
                r#"{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t", "expirationTimestamp": "soon"}}"#,
            ),
            "printed an expirationTimestamp that is no time",
        ),
    ];
    for (text, why) in cases {
        let command = script(folder.path(), &text);
        let error = plugin(&command, json!({})).issued().await.err().unwrap();
        assert_eq!(error.to_string(), format!("exec: {command} {why}"));
    }
    let missing = plugin("/no/plugin", json!({"installHint": "get it from there\n"})).issued().await.err().unwrap();
    let error = missing.to_string();
    assert!(error.starts_with("exec: /no/plugin cannot be run: ") && error.ends_with("; get it from there"), "{error}");
    let asking = plugin("/no/plugin", json!({"interactiveMode": "Always"})).issued().await.err().unwrap();
    assert_eq!(asking.to_string(), "exec: /no/plugin must be run from a terminal: it asks for input");
}

#[test]
fn versions_that_nobody_understands_are_refused() {
    let read = |exec: Value| Plugin::new(&exec, &Value::Null).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(read(json!({"apiVersion": VERSIONS[1], "command": "x"})), "");
    assert_eq!(
        read(json!({"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"})),
        "exec: apiVersion \"client.authentication.k8s.io/v1alpha1\" is not supported; update the plugin to client.authentication.k8s.io/v1"
    );
    assert_eq!(read(json!({"apiVersion": VERSIONS[0]})), "exec: it has no command");
}
