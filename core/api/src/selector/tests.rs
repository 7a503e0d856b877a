//! Selectors as users write them.

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn selectors_match_as_in_kubernetes() {
    let web = labels(&[("app", "web"), ("tier", "1")]);
    for yes in [
        "",
        "app=web",
        "app==web",
        "app!=db",
        "app in (web, db)",
        "app notin (db)",
        "app",
        "!x",
        "tier>0",
        "tier<2",
        "x!=y",
        "app=web,tier=1",
    ] {
        assert!(Selector::parse(yes).unwrap().matches(&web), "{yes}");
    }
    for no in ["app=db", "app!=web", "x", "!app", "tier>1", "x in (y)", "app="] {
        assert!(!Selector::parse(no).unwrap().matches(&web), "{no}");
    }
}

#[test]
fn bad_selectors_are_refused() {
    for bad in ["app in", "app in (", "a b", ",", "a=b,", "!", "app>x", "-a=b", "a=-", "a==b==c", "a=(", "=a"] {
        assert!(Selector::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_malformed_object_selector_selects_nothing() {
    let expression = |operator: &str, values: &[&str]| LabelSelector {
        match_expressions: vec![LabelExpression {
            key: "a".into(),
            operator: operator.into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        }],
        ..LabelSelector::default()
    };
    assert!(expression("In", &["x"]).compile().unwrap().matches(&labels(&[("a", "x")])));
    assert!(expression("In", &[]).compile().is_none());
    assert!(expression("Exists", &["x"]).compile().is_none());
    assert!(expression("Near", &["x"]).compile().is_none());
}

#[test]
fn field_selectors_know_escapes() {
    let selector = FieldSelector::parse(r"spec.nodeName=a,status.phase!=Running,x=a\,b\=c\\").unwrap();
    assert_eq!(selector.exact("spec.nodeName"), Some("a"));
    assert_eq!(selector.requirements[2], ("x".into(), r"a,b=c\".into(), true));
    assert!(FieldSelector::parse("nonsense").is_err() && FieldSelector::parse(r"a=\x").is_err());
    assert!(selector.matches_with(|f| match f {
        "spec.nodeName" => Some("a"),
        "x" => Some(r"a,b=c\"),
        _ => None,
    }));
}
