use super::*;
use serde_json::json;

fn pod() -> Value {
    json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"}, "annotations": {"a/b": "x \"y\""}},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "other", "resources": {"limits": {"memory": "1Gi", "cpu": "1500m"}, "requests": {"memory": 1000}}},
        ]},
    })
}

fn pod_context() -> PodContext {
    PodContext {
        pod_ip: "127.88.0.7".to_owned(),
        host_ip: "127.0.0.1".to_owned(),
        allocatable: [("cpu", "4"), ("memory", "8Gi")].map(|(name, amount)| (name.to_owned(), amount.to_owned())).into(),
        base: [("PATH", "/bin"), ("HOME", "/home/me")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        uid: 1000,
        gid: 1000,
    }
}

fn references() -> References {
    let config = json!({"data": {"COLOR": "green", "bad=key": "x"}, "binaryData": {"BLOB": "/wA="}});
    let secret = json!({"data": {"PASSWORD": "c2VjcmV0", "BLOB": "/wA=", "ZERO": "YQBi"}});
    References { config_maps: [("config".to_owned(), config)].into(), secrets: [("secret".to_owned(), secret)].into() }
}

fn run(container: Value) -> Result<Resolved, ConfigError> {
    let mut container = container;
    container["name"] = json!("main");
    if container.get("command").is_none() {
        container["command"] = json!(["true"]);
    }
    resolve(&pod(), &container, &references(), &[], &pod_context())
}

fn env(entries: Value) -> BTreeMap<String, String> {
    run(json!({ "env": entries })).unwrap().env
}

fn refused(container: Value) -> String {
    run(container).unwrap_err().to_string()
}

#[test]
fn every_container_knows_its_pod() {
    let env = env(json!([]));
    for (name, value) in
        [("POD_IP", "127.88.0.7"), ("POD_NAME", "web-1"), ("POD_NAMESPACE", "shop"), ("PATH", "/bin"), ("HOME", "/home/me")]
    {
        assert_eq!(env[name], value, "{name}");
    }
}

#[test]
fn references_see_what_stands_before_them() {
    let env = env(json!([
        {"name": "A", "value": "$(B)-$(POD_NAME)-$$(A)"},
        {"name": "B", "value": "b"},
        {"name": "C", "value": "$(A) $(B)"},
        {"name": "B", "value": "again"},
        {"name": "EMPTY"},
        {"name": "PATH", "value": "/mine:$(PATH)"},
    ]));
    assert_eq!(env["A"], "$(B)-web-1-$(A)");
    assert_eq!(env["C"], "$(B)-web-1-$(A) b");
    assert_eq!(env["B"], "again");
    assert_eq!(env["EMPTY"], "");
    assert_eq!(env["PATH"], "/mine:/bin");
}

#[test]
fn fields_of_the_pod_become_values() {
    let cases = [
        ("metadata.name", "web-1"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['a/b']", "x \"y\""),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.88.0.7"),
        ("status.podIPs", "127.88.0.7"),
        ("status.hostIP", "127.0.0.1"),
    ];
    for (path, value) in cases {
        assert_eq!(env(json!([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]))["X"], value, "{path}");
    }
    for path in
        ["", "status.phase", "metadata.labels", "metadata.finalizers['x']", "spec.containers[0].name", "metadata.labels['x"]
    {
        let message = refused(json!({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]}));
        assert!(message.contains("is not supported; use metadata.name"), "{message}");
    }
}

#[test]
fn resources_are_counted_in_units_of_the_divisor() {
    let cases = [
        ("other", "limits.cpu", None, "2"),
        ("other", "limits.cpu", Some("1m"), "1500"),
        ("other", "limits.memory", Some("1Mi"), "1024"),
        ("other", "limits.memory", Some("1000M"), "2"),
        ("other", "requests.memory", None, "1000"),
        ("other", "requests.cpu", Some("1m"), "1500"),
        ("", "limits.cpu", None, "4"),
        ("", "limits.memory", Some("1Gi"), "8"),
        ("", "requests.cpu", None, "0"),
        ("", "limits.ephemeral-storage", None, "0"),
    ];
    for (container, resource, divisor, value) in cases {
        let mut reference = json!({"containerName": container, "resource": resource});
        if let Some(divisor) = divisor {
            reference["divisor"] = json!(divisor);
        }
        let env = env(json!([{"name": "X", "valueFrom": {"resourceFieldRef": reference}}]));
        assert_eq!(env["X"], value, "{container} {resource} {divisor:?}");
    }
    for reference in [
        json!({"resource": "limits.gpu"}),
        json!({"resource": "cpu"}),
        json!({"containerName": "none", "resource": "limits.cpu"}),
    ] {
        assert!(
            refused(json!({"env": [{"name": "X", "valueFrom": {"resourceFieldRef": reference}}]})).contains("resourceFieldRef")
        );
    }
}

#[test]
fn config_maps_and_secrets_give_values() {
    let key = |kind: &str, name: &str, key: &str, optional: bool| json!({"env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]});
    let value = |container| run(container).unwrap().env.get("X").cloned();
    assert_eq!(value(key("configMapKeyRef", "config", "COLOR", false)), Some("green".to_owned()));
    assert_eq!(value(key("secretKeyRef", "secret", "PASSWORD", false)), Some("secret".to_owned()));
    assert_eq!(value(key("secretKeyRef", "secret", "NONE", true)), None);
    assert_eq!(value(key("configMapKeyRef", "none", "NONE", true)), None);
    assert_eq!(
        refused(key("configMapKeyRef", "none", "COLOR", false)),
        "configmap \"none\" not found; create it in the pod's namespace or mark the reference optional"
    );
    assert_eq!(
        refused(key("secretKeyRef", "secret", "NONE", false)),
        "couldn't find key NONE in secret \"secret\"; add it or mark the reference optional"
    );
    assert!(refused(key("secretKeyRef", "secret", "BLOB", false)).contains("is not UTF-8"));
    assert!(refused(key("secretKeyRef", "secret", "ZERO", false)).contains("zero byte"));
    assert!(refused(json!({"env": [{"name": "X", "valueFrom": {"fileKeyRef": {}}}]})).contains("valueFrom.fileKeyRef"));
}

#[test]
fn whole_objects_give_variables_and_env_wins() {
    let resolved = run(json!({
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "config"}}, {"secretRef": {"name": "none", "optional": true}}],
        "env": [{"name": "P_COLOR", "value": "dark$(P_COLOR)"}],
    }))
    .unwrap();
    assert_eq!(resolved.env["P_COLOR"], "darkgreen");
    assert!(!resolved.env.contains_key("P_BLOB"), "binary data is no text");
    assert_eq!(resolved.warnings, ["keys that cannot be names of variables were skipped: P_bad=key"]);
    assert!(refused(json!({"envFrom": [{"secretRef": {"name": "none"}}]})).contains("secret \"none\" not found"));
}

#[test]
fn command_and_arguments_are_expanded() {
    let resolved = run(json!({
        "command": ["$(TOOL)"], "args": ["--address=$(POD_IP)", "$$(POD_IP)", "$(NONE)"], "workingDir": "/srv",
        "env": [{"name": "TOOL", "value": "serve"}],
    }))
    .unwrap();
    assert_eq!(resolved.command, ["serve", "--address=127.88.0.7", "$(POD_IP)", "$(NONE)"]);
    assert_eq!(resolved.working_dir, Some("/srv".into()));
    assert!(refused(json!({"command": [], "args": ["x"]})).contains("has no command; images are not pulled here"));
}

#[test]
fn services_become_variables() {
    let service = |namespace: &str, name: &str, ip: &str, ports: Value| -> api::Service {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": ip, "ports": ports},
        }))
        .unwrap()
    };
    let services = [
        service(
            "shop",
            "front-end",
            "127.96.0.5",
            json!([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]),
        ),
        service("shop", "headless", "None", json!([{"port": 80}])),
        service("elsewhere", "db", "127.96.0.6", json!([{"port": 5432}])),
        service("default", "kubernetes", "127.96.0.1", json!([{"name": "https", "port": 443}])),
    ];
    let run = |pod: &Value| {
        resolve(pod, &json!({"name": "main", "command": ["true"]}), &References::default(), &services, &pod_context())
            .unwrap()
            .env
    };
    let env = run(&pod());
    for (name, value) in [
        ("FRONT_END_SERVICE_HOST", "127.96.0.5"),
        ("FRONT_END_SERVICE_PORT", "80"),
        ("FRONT_END_SERVICE_PORT_DNS", "53"),
        ("FRONT_END_PORT", "tcp://127.96.0.5:80"),
        ("FRONT_END_PORT_53_UDP", "udp://127.96.0.5:53"),
        ("FRONT_END_PORT_53_UDP_PROTO", "udp"),
        ("FRONT_END_PORT_80_TCP_ADDR", "127.96.0.5"),
        ("KUBERNETES_SERVICE_HOST", "127.96.0.1"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
    ] {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!env.contains_key("HEADLESS_SERVICE_HOST") && !env.contains_key("DB_SERVICE_HOST"));
    let mut alone = pod();
    alone["spec"]["enableServiceLinks"] = json!(false);
    let env = run(&alone);
    assert!(env.contains_key("KUBERNETES_SERVICE_HOST") && !env.contains_key("FRONT_END_SERVICE_HOST"));
}

#[test]
fn another_user_is_for_root_alone() {
    let context = |context: Value| json!({"securityContext": context});
    assert_eq!(run(context(json!({"runAsUser": 1000, "runAsNonRoot": true}))).unwrap().user, None, "its own");
    let message = refused(context(json!({"runAsUser": 33})));
    assert_eq!(message, "runAsUser 33 needs lifesign to run as root (it runs as 1000); remove it or start lifesign as root");
    assert!(refused(context(json!({"capabilities": {"add": ["NET_ADMIN"]}}))).contains("capabilities.add NET_ADMIN"));
    assert!(refused(context(json!({"privileged": true}))).contains("privileged"));

    let root = PodContext { uid: 0, gid: 0, ..pod_context() };
    let as_root = |context: Value| {
        let container = json!({"name": "main", "command": ["true"], "securityContext": context});
        resolve(&pod(), &container, &References::default(), &[], &root)
    };
    let resolved = as_root(json!({"runAsUser": 33, "runAsGroup": 34})).unwrap();
    assert_eq!((resolved.user, resolved.group, resolved.env["HOME"].as_str()), (Some(33), Some(34), "/"));
    assert_eq!(as_root(json!({"runAsNonRoot": true})), Err(ConfigError::WouldBeRoot));
    assert!(as_root(json!({"runAsUser": -1})).is_err());
}

#[test]
fn restrictions_that_are_not_enforced_are_told() {
    let context = json!({"readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false});
    let warnings = run(json!({"securityContext": context})).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "container \"main\" runs as a plain process and is not confined by allowPrivilegeEscalation, capabilities.drop, readOnlyRootFilesystem"
        ]
    );
}

#[test]
fn all_references_of_a_pod_are_found() {
    let pod = json!({"spec": {
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}],
        "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "b"}}}, {"value": "x"}]}],
        "volumes": [
            {"configMap": {"name": "c"}}, {"secret": {"secretName": "d"}},
            {"projected": {"sources": [{"configMap": {"name": "e"}}, {"secret": {"name": "f"}}]}},
        ],
    }});
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected = references::Needed { config_maps: names(&["a", "c", "e"]), secrets: names(&["b", "d", "f"]) };
    assert_eq!(references::Needed::of(&pod), expected);
}
