//! The definitions of the custom kinds: they compile, know every field, and refuse nothing that the rules accept.

use std::collections::BTreeSet;
use std::path::Path;

use api::crds;
use api::marker_rules::validate_pod_probe_marker;
use schemas::{Definition, default_definition, prune, validate, validate_definition};
use serde_json::{Value, json};
use testkit::vectors::{cases, yaml};

fn definition(text: &str) -> (Value, Definition) {
    let mut object: Value = yaml(text).unwrap();
    default_definition(&mut object);
    assert_eq!(validate_definition(&object, None), []);
    let definition = Definition::compile(&object).unwrap_or_else(|errors| panic!("{errors:?}"));
    (object, definition)
}

#[test]
fn every_definition_is_valid_and_every_rule_is_enforced() {
    for (text, name, short, columns) in [
        (crds::POD_PROBE_MARKERS, "podprobemarkers.apps.kruise.io", vec!["ppm"], vec!["Name", "Matched", "Observed", "Age"]),
        (crds::NODE_POD_PROBES, "nodepodprobes.apps.kruise.io", vec!["npp"], vec!["Name", "Age"]),
        (crds::CONFIG_NODES, "nodes.config.openshift.io", vec![], vec!["Name", "Profile", "Age"]),
    ] {
        let (object, definition) = definition(text);
        assert_eq!(object["metadata"]["name"], name);
        assert_eq!(definition.short_names, short);
        let version = &definition.versions[0];
        assert!(version.status, "{name}");
        assert_eq!(version.schema.not_enforced().len(), 0, "{name}: {:?}", version.schema.not_enforced());
        let shown: Vec<&str> = version.columns.columns().iter().map(|column| &*column.name).collect();
        assert_eq!(shown, columns);
    }
}

#[test]
fn the_schema_refuses_only_what_the_rules_refuse_too_and_prunes_nothing() {
    let (_, definition) = definition(crds::POD_PROBE_MARKERS);
    let schema = &definition.versions[0].schema;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/pod-probe-markers/validation.yaml");
    let (mut refused, mut by_schema) = (0, 0);
    for (name, case) in cases(&path).unwrap() {
        let (mut new, old) = (case["given"]["object"].clone(), case["given"].get("old"));
        let rules = validate_pod_probe_marker(&new, old);
        let errors = validate(schema, &new, old);
        refused += usize::from(!rules.is_empty());
        by_schema += usize::from(!errors.is_empty());
        assert!(errors.is_empty() || !rules.is_empty(), "{name}: {errors:?}");
        if rules.is_empty() {
            assert_eq!(prune(schema, &mut new), Vec::<String>::new(), "{name}");
        }
    }
    // Most mistakes are found on a cluster without our admission, too.
    assert!(by_schema * 10 >= refused * 7, "{by_schema} of {refused}");
}

#[test]
fn what_controller_and_agent_write_fits_the_schema() {
    let (_, definition) = definition(crds::NODE_POD_PROBES);
    let schema = &definition.versions[0].schema;
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {"name": "n"},
        "spec": {"podProbes": [{"name": "a", "namespace": "ns", "uid": "u", "IP": "", "probes": [
            {"name": "m#p", "containerName": "app", "probe": {"httpGet": {"port": 80, "path": "/x"}, "periodMilliseconds": -800}},
            {"name": "m#q", "containerName": "app", "probe": {"tcpSocket": {"port": "named", "host": "odd"}, "periodSeconds": -1}}]}]},
        "status": {"observedGeneration": 1, "podProbeStatuses": [{"name": "a", "namespace": "ns", "uid": "u", "probeStates": [
            {"name": "m#p", "state": "Failed", "lastProbeTime": "2027-01-15T08:00:00Z",
                "lastTransitionTime": "2027-01-15T08:00:00Z", "message": ""}]}]},
    });
    assert_eq!(validate(schema, &object, None), []);
    assert_eq!(prune(schema, &mut object), Vec::<String>::new());
}

#[test]
fn the_profile_object_keeps_what_it_does_not_know() {
    let (_, definition) = definition(crds::CONFIG_NODES);
    let schema = &definition.versions[0].schema;
    let mut object = json!({"metadata": {"name": "cluster"}, "spec": {"workerLatencyProfile": "Default", "cgroupMode": "v2"}});
    assert_eq!(validate(schema, &object, None), []);
    assert_eq!(prune(schema, &mut object), Vec::<String>::new());
    for bad in [
        json!({"metadata": {"name": "cluster"}, "spec": {"workerLatencyProfile": "default"}}),
        json!({"metadata": {"name": "cluster"}}),
        json!({"metadata": {"name": "other"}, "spec": {}}),
    ] {
        assert!(!validate(schema, &bad, None).is_empty(), "{bad}");
    }
}

#[test]
fn the_embedded_server_gives_the_errors_of_the_vectors() {
    let mut object: Value = yaml(crds::POD_PROBE_MARKERS).unwrap();
    let established = json!([{"type": "Established", "status": "True"}]);
    object["status"] = json!({"acceptedNames": object["spec"]["names"], "conditions": established});
    let kinds = registry::custom::kinds_of(&object);
    let custom = kinds[0].custom().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/pod-probe-markers/validation.yaml");
    for (name, case) in cases(&path).unwrap() {
        let (mut new, old) = (case["given"]["object"].clone(), case["given"].get("old"));
        custom.prune(&mut new);
        let errors = custom.validate(&new, old, kinds::builtin::Part::Main);
        let got: BTreeSet<(&str, &str)> = errors.iter().map(|error| (error.path.as_str(), error.kind.name())).collect();
        let text = |error: &'_ Value, key: &str| error[key].as_str().unwrap_or_default().to_owned();
        let expected: BTreeSet<(String, String)> = case["expect"]["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|error| (text(error, "field"), text(error, "type")))
            .collect();
        assert_eq!(got, expected.iter().map(|(field, kind)| (field.as_str(), kind.as_str())).collect(), "{name}");
    }
}

#[test]
fn fields_that_a_foreign_definition_would_prune_are_found() {
    for text in crds::ALL {
        assert_eq!(markers::missing_fields(&yaml(text).unwrap()), Vec::<String>::new());
    }
    let mut foreign: Value = yaml(crds::NODE_POD_PROBES).unwrap();
    let schema = &mut foreign["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    schema["status"]["properties"].as_object_mut().unwrap().remove("observedGeneration");
    let probe = &mut schema["spec"]["properties"]["podProbes"]["items"]["properties"]["probes"]["items"]["properties"]["probe"];
    probe["properties"].as_object_mut().unwrap().remove("periodMilliseconds");
    let missing = ["spec.podProbes.probes.probe.periodMilliseconds", "status.observedGeneration"];
    assert_eq!(markers::missing_fields(&foreign), missing);
    assert_eq!(markers::pruned_probe_fields(&foreign), ["periodMilliseconds".to_owned()].into());
    assert_eq!(markers::missing_fields(&json!({"spec": "odd"})), Vec::<String>::new());
}
