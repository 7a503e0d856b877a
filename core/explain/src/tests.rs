//! Every finding, found and not found; what the report says about whole objects.

use api::{FeatureGates, Gate};
use serde_json::json;

use crate::*;
use probe::timing::SubSecondProbePolicy;

fn pod(container: Value) -> Value {
    let mut container = container;
    container["name"] = "app".into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"containers": [container]}})
}

fn http(mut rest: Value) -> Value {
    rest["httpGet"] = json!({"path": "/", "port": 8080});
    rest
}

fn options() -> Options {
    Options::default()
}

fn found(objects: &[Value], options: &Options) -> Vec<(Severity, &'static str, String)> {
    let report = explain(objects, options);
    report.findings().map(|finding| (finding.severity, finding.id, finding.path.clone())).collect()
}

fn severity(id: &str, objects: &[Value], options: &Options) -> Option<Severity> {
    found(objects, options).into_iter().find(|(_, found, _)| *found == id).map(|(severity, ..)| severity)
}

#[track_caller]
fn assert_found(id: &str, expected: Option<Severity>, object: Value) {
    assert_eq!(severity(id, &[object], &options()), expected, "{id}");
}

#[test]
fn a_good_pod_has_no_findings() {
    let good = pod(json!({
        "startupProbe": http(json!({"periodSeconds": 2, "failureThreshold": 30})),
        "readinessProbe": http(json!({"periodSeconds": 5})),
        "livenessProbe": http(json!({"periodSeconds": 10, "failureThreshold": 6})),
    }));
    assert_eq!(found(&[good], &options()), []);
}

#[test]
fn broken_rules_are_found_with_their_path() {
    let bad = pod(json!({"readinessProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": -900}))}));
    let path = "spec.containers[0].readinessProbe.periodMilliseconds".to_owned();
    assert!(found(&[bad], &options()).contains(&(Severity::Error, "invalid", path)));
    let deployment = json!({"kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "a", "readinessProbe": {}}]}}}});
    let path = "spec.template.spec.containers[0].readinessProbe".to_owned();
    assert!(found(&[deployment], &options()).contains(&(Severity::Error, "invalid", path)));
}

#[test]
fn what_cannot_be_read_is_found_and_the_rest_is_explained() {
    let bad = pod(json!({"readinessProbe": http(json!({"periodSeconds": "5"})), "livenessProbe": http(json!({}))}));
    let report = explain(&[bad], &options());
    assert!(
        report.findings().any(|finding| finding.id == "unreadable" && finding.path.ends_with("readinessProbe.periodSeconds"))
    );
    assert_eq!(report.workloads[0].containers[0].probes.len(), 1);
    for odd in [
        json!(null),
        json!(7),
        json!({"kind": "Pod"}),
        json!({"kind": "Pod", "spec": {"containers": [1, null, {"livenessProbe": 3}]}}),
    ] {
        let text = table(&explain(std::slice::from_ref(&odd), &options()), &options(), Look { width: 100, ..Look::default() });
        assert!(!text.is_empty(), "{odd}");
    }
    assert_found(
        "unreadable",
        Some(Severity::Error),
        pod(json!({"readinessProbe": http(json!({"periodSeconds": 1i64 << 31}))})),
    );
    assert_found("no-containers", Some(Severity::Error), json!({"kind": "Pod", "spec": {}}));
}

#[test]
fn a_misspelt_field_is_found() {
    assert_found("unknown-field", Some(Severity::Error), pod(json!({"readinessProbe": http(json!({"periodSecond": 5}))})));
}

#[test]
fn a_field_whose_gate_is_off_is_found() {
    let fast = pod(json!({"readinessProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": -800}))}));
    let off = Options {
        node: NodePolicy { gates: FeatureGates::default().with(Gate::SubSecondProbes, false), ..NodePolicy::default() },
        ..options()
    };
    assert_eq!(severity("field-ignored", std::slice::from_ref(&fast), &off), Some(Severity::Warning));
    assert_eq!(severity("field-ignored", &[fast], &options()), None);
    assert_found(
        "field-ignored",
        Some(Severity::Warning),
        pod(json!({"readinessProbe": http(json!({"timeoutMilliseconds": -500}))})),
    );
}

#[test]
fn liveness_that_is_not_weaker_than_readiness_is_found() {
    let both = |liveness: Value, readiness: Value| pod(json!({"livenessProbe": liveness, "readinessProbe": readiness}));
    let id = "liveness-not-weaker";
    assert_found(id, Some(Severity::Warning), both(http(json!({})), http(json!({}))));
    assert_found(id, Some(Severity::Warning), both(http(json!({"periodSeconds": 3})), http(json!({}))));
    assert_found(id, None, both(http(json!({"failureThreshold": 6})), http(json!({}))));
    let other = json!({"tcpSocket": {"port": 8080}});
    assert_found(id, Some(Severity::Info), both(other, http(json!({}))));
}

#[test]
fn a_budget_shorter_than_the_start_is_found() {
    let late = Options { listen_after: Some(Duration::from_millis(4_001)), ..options() };
    let startup = pod(json!({"startupProbe": http(json!({"periodSeconds": 2, "failureThreshold": 3}))}));
    let id = "startup-budget-short";
    assert_eq!(severity(id, std::slice::from_ref(&startup), &late), Some(Severity::Error));
    let just = Options { listen_after: Some(Duration::from_secs(4)), ..options() };
    assert_eq!(severity(id, std::slice::from_ref(&startup), &just), None, "the third attempt begins at 4 s");
    assert_eq!(explain(&[startup], &just).workloads[0].containers[0].ready_at_ms, Some(4_000));
    let liveness = pod(json!({"livenessProbe": http(json!({"periodSeconds": 2, "failureThreshold": 3}))}));
    assert_eq!(severity("liveness-before-listening", &[liveness], &late), Some(Severity::Error));
}

#[test]
fn a_startup_budget_that_an_offset_makes_small_is_found() {
    let with = |offset: i64, failures: i64| {
        pod(
            json!({"startupProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": offset, "failureThreshold": failures}))}),
        )
    };
    assert_found("startup-budget-small", Some(Severity::Warning), with(-800, 10));
    assert_found("startup-budget-small", None, with(-800, 60));
    assert_found("startup-budget-small", None, with(200, 3));
}

#[test]
fn a_timeout_beyond_the_period_is_found() {
    let id = "timeout-beyond-period";
    let with = |timeout: i64, period: i64| {
        pod(json!({"readinessProbe": http(json!({"timeoutSeconds": timeout, "periodSeconds": period}))}))
    };
    assert_found(id, Some(Severity::Warning), with(6, 5));
    assert_found(id, None, with(5, 5));
    let fast = pod(json!({"readinessProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": -800}))}));
    // Nobody can make it shorter.
    assert_eq!(severity(id, std::slice::from_ref(&fast), &options()), None);
    let gates = FeatureGates::default().with(Gate::SubSecondProbeTimeouts, true);
    let on = Options { node: NodePolicy { gates, ..NodePolicy::default() }, ..options() };
    assert_eq!(severity(id, &[fast], &on), Some(Severity::Warning));
}

#[test]
fn a_command_below_a_second_is_found() {
    let fast = pod(json!({"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1, "periodMilliseconds": -500}}));
    let always = Options { node: NodePolicy { policy: SubSecondProbePolicy::Always, ..NodePolicy::default() }, ..options() };
    assert_eq!(severity("exec-sub-second", std::slice::from_ref(&fast), &always), Some(Severity::Warning));
    assert_found("exec-sub-second", Some(Severity::Info), fast);
    assert_found("exec-sub-second", None, pod(json!({"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}})));
}

#[test]
fn a_service_in_front_of_a_container_without_readiness_is_found() {
    let service = |selector: Value, spec: Value| {
        let mut spec = spec;
        spec["selector"] = selector;
        json!({"kind": "Service", "metadata": {"name": "web"}, "spec": spec})
    };
    let plain = pod(json!({"ports": [{"name": "http", "containerPort": 8080}]}));
    let ports = json!({"ports": [{"port": 80, "targetPort": "http"}]});
    let id = "no-readiness-probe";
    let front = service(json!({"app": "web"}), ports.clone());
    assert_eq!(severity(id, &[plain.clone(), front.clone()], &options()), Some(Severity::Warning));
    assert_eq!(severity(id, std::slice::from_ref(&plain), &options()), None);
    assert_eq!(severity(id, &[plain.clone(), service(json!({"app": "db"}), ports.clone())], &options()), None);
    assert_eq!(severity(id, &[plain.clone(), service(json!({}), ports.clone())], &options()), None);
    let other_port = service(json!({"app": "web"}), json!({"ports": [{"port": 81}]}));
    assert_eq!(severity(id, &[plain.clone(), other_port], &options()), None, "another container serves that");
    let unready = service(json!({"app": "web"}), json!({"publishNotReadyAddresses": true}));
    assert_eq!(severity(id, &[plain, unready], &options()), None);
    assert_eq!(severity(id, &[pod(json!({})), front.clone()], &options()), Some(Severity::Warning), "no ports declared");
    assert_eq!(severity(id, &[pod(json!({"readinessProbe": http(json!({}))})), front], &options()), None);
}

#[test]
fn a_delay_that_a_startup_probe_would_replace_is_found() {
    let id = "delay-instead-of-startup";
    let slow = http(json!({"initialDelaySeconds": 30}));
    assert_found(id, Some(Severity::Info), pod(json!({"livenessProbe": slow})));
    assert_found(id, Some(Severity::Info), pod(json!({"readinessProbe": slow})));
    assert_found(id, None, pod(json!({"livenessProbe": slow, "startupProbe": http(json!({}))})));
}

#[test]
fn liveness_with_one_failure_is_found() {
    let id = "liveness-threshold-one";
    assert_found(id, Some(Severity::Warning), pod(json!({"livenessProbe": http(json!({"failureThreshold": 1}))})));
    assert_found(id, None, pod(json!({"readinessProbe": http(json!({"failureThreshold": 1}))})));
}

#[test]
fn a_port_name_that_nobody_declares_is_found() {
    let with = |port: Value| {
        pod(json!({"ports": [{"name": "http", "containerPort": 1}], "readinessProbe": {"tcpSocket": {"port": port}}}))
    };
    assert_found("undeclared-port", Some(Severity::Error), with("admin".into()));
    assert_found("undeclared-port", None, with("http".into()));
    assert_found("undeclared-port", None, with(8080.into()));
}

#[test]
fn fields_that_a_rollback_loses_are_found() {
    let deployment = |offset: Value| {
        json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [
            {"name": "a", "readinessProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": offset}))}]}}}})
    };
    assert_found("lost-by-undo", Some(Severity::Info), deployment((-500).into()));
    assert_found("lost-by-undo", None, deployment(Value::Null));
}

#[test]
fn every_admission_warning_has_its_finding() {
    let gates = FeatureGates::default().with(Gate::SubSecondProbeTimeouts, true);
    let on = Options { node: NodePolicy { gates: gates.clone(), ..NodePolicy::default() }, ..options() };
    let bad = pod(json!({
        "startupProbe": {"tcpSocket": {"port": "nope"}, "periodSeconds": 1, "periodMilliseconds": -800},
        "readinessProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": -800})),
    }));
    let warned = api::probe_rules::probe_warnings("Pod", &bad, &gates);
    assert_eq!(warned.len(), 4, "{warned:?}");
    let ids: Vec<&str> = found(&[bad], &on).into_iter().map(|(_, id, _)| id).collect();
    assert_eq!(ids, ["undeclared-port", "timeout-beyond-period", "timeout-beyond-period", "startup-budget-small"]);
}

#[test]
fn markers_are_explained_and_checked_against_the_pods_that_they_select() {
    let marker = |container: &str, port: Value| {
        json!({"kind": "PodProbeMarker", "metadata": {"name": "m"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "probes": [{"name": "idle", "containerName": container, "podConditionType": "example.com/idle",
                "probe": {"tcpSocket": {"port": port}, "periodSeconds": 1, "periodMilliseconds": -500}}]}})
    };
    let report = explain(&[marker("app", 80.into())], &options());
    let probe = &report.workloads[0].containers[0].probes[0];
    let times = probe.times;
    assert_eq!(
        (times.delay_ms, times.period_ms, times.period_after_success_ms, times.failure_threshold),
        (1_000, 500, 1_000, 1)
    );
    assert_eq!((probe.action, report.workloads[0].containers[0].ready), (Action::Mark, None));
    let web = pod(json!({}));
    assert_eq!(severity("marker-target-missing", &[marker("db", 80.into()), web.clone()], &options()), Some(Severity::Warning));
    assert_eq!(severity("marker-target-missing", &[marker("app", 80.into()), web.clone()], &options()), None);
    assert_eq!(severity("undeclared-port", &[marker("app", "http".into()), web], &options()), Some(Severity::Error));
    assert_found("invalid", Some(Severity::Error), json!({"kind": "PodProbeMarker", "metadata": {"name": "m"}, "spec": {}}));
}

#[test]
fn every_kind_with_a_template_is_explained_and_others_are_named() {
    let spec = json!({"containers": [{"name": "a", "readinessProbe": http(json!({}))}]});
    let mut objects: Vec<Value> = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"]
        .map(|kind| json!({"kind": kind, "metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}))
        .to_vec();
    objects.push(
        json!({"kind": "CronJob", "metadata": {"name": "x"}, "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}),
    );
    objects.push(json!({"kind": "PodTemplate", "metadata": {"name": "x"}, "template": {"spec": spec}}));
    objects.push(json!({"kind": "ConfigMap", "metadata": {"name": "x"}}));
    let report = explain(&objects, &options());
    assert_eq!(report.workloads.len(), 7);
    assert!(report.workloads.iter().all(|workload| workload.containers[0].probes.len() == 1));
    assert_eq!(report.skipped, [Skipped { api_version: String::new(), kind: "ConfigMap".to_owned(), name: "x".to_owned() }]);
}

#[test]
fn the_effect_of_the_gate_and_of_the_grace_is_told() {
    let mut object = pod(json!({
        "readinessProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": -800})),
        "livenessProbe": http(json!({"terminationGracePeriodSeconds": 1, "failureThreshold": 9})),
    }));
    object["spec"]["restartPolicy"] = "Never".into();
    let report = explain(&[object], &options());
    let container = &report.workloads[0].containers[0];
    assert_eq!(container.ready.map(|ready| (ready.earliest_ms, ready.lag_ms, ready.lag_worst_ms)), Some((0, 200, 2_020)));
    assert_eq!(container.ready_without_sub_second.map(|ready| ready.lag_ms), Some(1_000));
    assert_eq!(container.probes[0].times.period_after_success_ms, 1_000);
    assert_eq!(container.probes[1].action, Action::Kill { grace_ms: 2_000, restart: false });
    assert_eq!(container.budget_ms, Some(80_000));
}

#[test]
fn no_number_makes_a_table_wider_than_asked_for() {
    for huge in [i64::MAX, i64::MAX / 1_000, 1 << 40, 0, 1] {
        let probe =
            http(json!({"periodSeconds": huge, "initialDelaySeconds": huge, "failureThreshold": huge, "timeoutSeconds": huge}));
        let object = pod(json!({"startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe}));
        for listen_after in [None, Some(Duration::from_millis(1_370)), Some(Duration::MAX)] {
            let options = Options { listen_after, ..options() };
            let report = explain(std::slice::from_ref(&object), &options);
            let timeline = crate::timeline::timeline(&report.workloads[0].containers[0], options.listens_ms(), 90);
            assert!(timeline.iter().all(|line| line.chars().count() <= 91), "{timeline:#?}");
            assert!(table(&report, &options, Look { width: 100, ..Look::default() }).contains("readiness"));
        }
    }
}

#[test]
fn a_timeline_shows_delays_attempts_and_when_it_is_ready() {
    let object = pod(json!({
        "startupProbe": http(json!({"periodSeconds": 1, "periodMilliseconds": -800, "failureThreshold": 20})),
        "readinessProbe": http(json!({"periodSeconds": 1, "initialDelaySeconds": 2})),
        "livenessProbe": http(json!({"periodSeconds": 3})),
    }));
    let report = explain(&[object], &options());
    let lines = crate::timeline::timeline(&report.workloads[0].containers[0], Some(1_370), 60);
    assert_eq!(
        lines,
        [
            "           0s        2s        4s        6s        8s",
            "startup    ||||||S            K",
            "readiness  ~~~~~~~...R====|====|====|====|====|====|====|===",
            "liveness   ~~~~~~~              |              |",
        ]
    );
}

#[test]
fn knocks_are_told_drawn_and_counted_on() {
    let object = pod(json!({"readinessProbe": http(json!({"successThreshold": 2}))}));
    let options = Options { listen_after: Some(Duration::from_millis(4_321)), ..options() };
    let report = explain(std::slice::from_ref(&object), &options);
    let container = &report.workloads[0].containers[0];
    assert_eq!(container.ready_at_ms, Some(14_330), "a knock, and an attempt one period later");
    assert_eq!(container.ready.and_then(|ready| ready.lag_on_listen_ms), Some(10_010));
    let lines = crate::timeline::timeline(container, options.listens_ms(), 90);
    assert_eq!(lines[1], "readiness  |:|:::::|                   R===================|===================|==========");
    let text = table(&report, &options, Look { width: 100, ..Look::default() });
    assert!(text.contains("about 10.01s after it listens"), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    let shown = &json["workloads"][0]["containers"][0];
    assert_eq!(
        (&shown["ready"]["lagOnListenMs"], &shown["probes"][0]["times"]["probeOnListen"]),
        (&json!(10_010), &json!(true))
    );

    let gates = FeatureGates::default().with(Gate::ProbeOnListen, false);
    let off = Options { node: NodePolicy { gates, ..NodePolicy::default() }, ..options };
    let report = explain(&[object], &off);
    let container = &report.workloads[0].containers[0];
    assert_eq!((container.ready_at_ms, container.ready.and_then(|ready| ready.lag_on_listen_ms)), (Some(20_000), None));
    assert!(!table(&report, &off, Look { width: 100, ..Look::default() }).contains("after it listens"));
}

#[test]
fn nothing_that_a_manifest_may_hold_makes_it_panic() {
    let fields = [
        "exec",
        "httpGet",
        "tcpSocket",
        "grpc",
        "initialDelaySeconds",
        "periodSeconds",
        "timeoutSeconds",
        "successThreshold",
        "failureThreshold",
        "terminationGracePeriodSeconds",
        "initialDelayMilliseconds",
        "periodMilliseconds",
        "timeoutMilliseconds",
    ];
    let odd = [
        json!(null),
        json!(-1),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1.5),
        json!("x"),
        json!([]),
        json!({}),
    ];
    for field in fields {
        for value in &odd {
            let mut probe = http(json!({"periodSeconds": 1}));
            probe[field] = value.clone();
            let all = json!({"startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe, "ports": value});
            let marker = json!({"kind": "PodProbeMarker", "metadata": value, "spec": {"selector": {"matchLabels": {"app": "web"}},
                "probes": [{"name": "a", "containerName": "app", "probe": probe}, value]}});
            let service = json!({"kind": "Service", "spec": {"selector": {"app": "web"}, "ports": [value]}});
            let objects = [pod(all), marker, service];
            for listen_after in [None, Some(Duration::from_secs(3))] {
                let options = Options { listen_after, ..options() };
                let report = explain(&objects, &options);
                assert_eq!(report.workloads.len(), 2);
                assert!(table(&report, &options, Look { width: 100, ..Look::default() }).contains("\n\nPod default/web\n"));
                serde_json::to_string(&report).unwrap();
            }
        }
    }
}
