//! Paths as users write them.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "labels": {"a.b/c": "x"}},
        "spec": {"n": 3, "list": [10, 20, 30, 40], "containers": [{"name": "a", "image": "i", "p": 1}, {"name": "b", "p": 2}]},
        "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
    })
}

#[test]
fn paths_lead_where_kubectl_goes() {
    let cases = [
        (".metadata.name", json!(["p"])),
        ("{.metadata.name}", json!(["p"])),
        ("$.metadata.name", json!(["p"])),
        (".metadata.labels.a\\.b/c", json!(["x"])),
        (".metadata.labels['a.b/c']", json!(["x"])),
        (".metadata[\"name\"]", json!(["p"])),
        (".spec.list[1]", json!([20])),
        (".spec.list[-1]", json!([40])),
        (".spec.list[9]", json!([])),
        (".spec.list[-9]", json!([])),
        (".spec.list[1:3]", json!([20, 30])),
        (".spec.list[:2]", json!([10, 20])),
        (".spec.list[-2:]", json!([30, 40])),
        (".spec.list[::2]", json!([10, 30])),
        (".spec.list[0,2]", json!([10, 30])),
        (".spec.list[*]", json!([10, 20, 30, 40])),
        (".spec.containers[*].name", json!(["a", "b"])),
        (".spec.containers.*.name", json!(["a", "b"])),
        ("..name", json!(["p", "a", "b"])),
        (".spec..p", json!([1, 2])),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.type == 'Ready')].status", json!(["True"])),
        (".status.conditions[?(@.type!='Ready')].type", json!(["Other"])),
        (".spec.containers[?(@.p>=2)].name", json!(["b"])),
        (".spec.containers[?(@.p<2)].name", json!(["a"])),
        (".spec.containers[?(@.image)].name", json!(["a"])),
        (".spec.containers[?(@.name==\"none\")].name", json!([])),
        (".spec.none.deeper", json!([])),
        (".spec.n.deeper", json!([])),
    ];
    for (path, expected) in cases {
        let pod = pod();
        let found = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(json!(found.find(&pod)), expected, "{path}");
    }
    assert_eq!(JsonPath::parse(".").unwrap().find(&pod()).len(), 1);
}

#[test]
fn a_bad_path_is_refused() {
    for path in ["spec", ".spec[", ".spec[]", ".spec[x]", ".spec[?(@.a==)]", ".spec[?(@.a", ".spec['a", ".a b", ".[0:1:0]"] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

#[test]
fn only_plain_paths_have_members() {
    assert_eq!(JsonPath::parse(".spec.replicas").unwrap().members(), Some(vec!["spec", "replicas"]));
    assert_eq!(JsonPath::parse(".spec.list[0]").unwrap().members(), None);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-c.$@*\\[\\]()?:,'\"\\\\=<> 0-9-]{0,24}") {
        if let Ok(path) = JsonPath::parse(&text) {
            path.find(&pod());
        }
    }
}
