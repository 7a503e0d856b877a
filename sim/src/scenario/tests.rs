//! Scenario files: what is understood, what is refused.

use serde_json::json;

use super::*;

#[test]
fn every_key_of_the_specification_is_understood() {
    let scenario: Scenario = serde_json::from_value(json!({
        "seed": 7, "days": 0.5, "zones": {"east": 3, "west": 2},
        "values": {"interval": 20, "grace": 120, "monitorPeriod": 5, "notReady": 60, "unreachable": 60, "attempts": 5,
            "spacing": "spread", "leaseAwareGrace": false, "reportInterval": 300},
        "link": {"latency": {"lognormal": {"median": 0.02, "sigma": 0.5}}, "loss": 0.01,
            "burst": {"pEnter": 0.001, "pLeave": 0.1, "loss": 0.9}},
        "outages": [{"perDay": 2, "seconds": 30, "scope": "zone"},
            {"perDay": 1, "lognormal": {"median": 20, "sigma": 1}, "scope": "controlPlane"}],
        "deaths": {"perNodeDay": 0.1, "downSeconds": 600},
        "restarts": {"component": "kcm", "perDay": 1, "seconds": 30},
    }))
    .expect("all keys are known");
    assert_eq!(scenario.validate(), Ok(()));
    assert_eq!(scenario.restarts.len(), 1, "one restart needs no list");
    let again: Scenario = serde_json::from_value(serde_json::to_value(&scenario).unwrap()).unwrap();
    assert_eq!(again, scenario, "a scenario survives writing and reading");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_field() {
    let refused = |value: serde_json::Value| match serde_json::from_value::<Scenario>(value) {
        Err(error) => error.to_string(),
        Ok(scenario) => scenario.validate().expect_err("must be refused").to_string(),
    };
    assert!(refused(json!({"nods": 3})).contains("nods"));
    assert!(refused(json!({"outages": [{"perDay": 1, "scope": "node"}]})).contains("either `seconds` or `lognormal`"));
    assert!(refused(json!({"nodes": 3, "zones": {"a": 1}})).contains("either `nodes` or `zones`"));
    assert!(refused(json!({"profile": "Default", "values": {}})).contains("only one of"));
    assert!(refused(json!({"profile": "Turbo"})).contains("Turbo"));
    assert!(refused(json!({"days": 0})).starts_with("days: 0"));
    assert!(refused(json!({"values": {"interval": 0}})).starts_with("values.interval"));
    assert!(refused(json!({"link": {"loss": 1.5}})).starts_with("link.loss: 1.5"));
    assert!(refused(json!({"link": {"latency": {"uniform": {"a": 2, "b": 1}}}})).starts_with("link.latency"));
    assert!(
        refused(json!({"transition": {"from": "", "to": "LowUpdateSlowReaction", "day": 1}})).starts_with("transition.day")
    );
}

#[test]
fn without_anything_it_is_a_day_of_default() {
    let start = Scenario::default().start().unwrap();
    assert_eq!(start, Start { values: Values::of(Profile::Default), rollout: None });
    assert_eq!(Scenario::default().fleet(), Ok(vec![("-".to_owned(), 100)]));
}
