//! Scenarios with failures and time.

use std::time::Duration;

use api::endpointslice::TRIGGER_TIME_ANNOTATION;
use endpoints::Config;
use endpoints::controller::{Effect, FAILED_TO_UPDATE, HINTS_DISABLED, Input, Resource};
use endpoints::hints::TOPOLOGY_MODE;
use endpoints::metrics::{Metric, SyncResult};
use endpoints::transitions::EndpointState;
use machine::Machine;
use serde_json::{Value, json};

use crate::world::{Fault, World};

const SECOND: Duration = Duration::from_secs(1);

fn pod(name: &str) -> Value {
    let number: u32 = name.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().expect("a number");
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-uid"), "labels": {"app": "web"}},
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running", "podIPs": [{"ip": format!("10.0.0.{number}")}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-12T13:46:30Z"}],
        },
    })
}

fn unready(name: &str, transition: &str) -> Value {
    let mut pod = pod(name);
    pod["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "lastTransitionTime": transition});
    pod
}

fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "web-uid", "creationTimestamp": "1970-01-12T13:00:00Z"},
        "spec": {
            "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    })
}

/// A world with a node, a Service and ready pods, three to a slice.
fn world(pods: &[&str]) -> World {
    world_with(pods, Duration::ZERO)
}

fn world_with(pods: &[&str], batch: Duration) -> World {
    let mut config = Config { batch, ..Config::default() };
    config.settings.max_endpoints_per_slice = 3;
    let mut world = World::new(config);
    world.put_node("n1", Some("za"));
    for name in pods {
        world.put_pod(pod(name));
    }
    world.put_service(service());
    assert_eq!(world.writes_done(), (0, 0, 0), "nothing is written before everything was listed");
    world.start();
    world.metrics();
    world
}

fn results(world: &mut World) -> Vec<&'static str> {
    let result = |metric: Metric| match metric {
        Metric::Sync { result, .. } => Some(result.name()),
        _ => None,
    };
    world.metrics().into_iter().filter_map(result).collect()
}

fn trigger(world: &World, slice: &str) -> Value {
    world.slices[slice]["metadata"]["annotations"][TRIGGER_TIME_ANNOTATION].clone()
}

#[test]
fn a_flip_is_one_update_with_the_time_of_the_transition() {
    let mut world = world(&["p1", "p2", "p3", "p4", "p5"]);
    assert_eq!(world.writes_done(), (2, 0, 0));
    assert_eq!(trigger(&world, "web-0001"), json!("1970-01-12T13:00:00Z"));
    world.put_pod(unready("p4", "1970-01-12T13:46:40Z"));
    assert_eq!(world.writes_done(), (0, 1, 0));
    assert_eq!(trigger(&world, "web-0002"), json!("1970-01-12T13:46:40Z"));
    assert_eq!(world.slices["web-0002"]["endpoints"][0]["conditions"]["ready"], json!(false));
    assert_eq!(results(&mut world), ["success"]);
}

#[test]
fn a_graceful_deletion_is_counted_step_by_step() {
    let mut world = world(&["p1", "p2"]);
    let mut leaving = pod("p2");
    leaving["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:47:10Z");
    leaving["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    world.put_pod(leaving.clone());
    assert_eq!(trigger(&world, "web-0001"), json!("1970-01-12T13:46:40Z"));
    leaving["status"]["conditions"][0]["status"] = json!("False");
    world.put_pod(leaving);
    assert_eq!(world.controller.gauges().published[0b110], 1);
    assert_eq!(world.controller.gauges().published[0b001], 1);
    world.pass(SECOND);
    world.delete_pod("p2");
    assert_eq!(trigger(&world, "web-0001"), json!("1970-01-12T13:46:41Z"));
    let transition = |metric: Metric| match metric {
        Metric::Transition { from, to, count } => Some((from, to, count)),
        _ => None,
    };
    let counted: Vec<_> = world.metrics().into_iter().filter_map(transition).collect();
    let expected = [
        (EndpointState::Ready, EndpointState::TerminatingServing, 1),
        (EndpointState::TerminatingServing, EndpointState::TerminatingNotServing, 1),
        (EndpointState::TerminatingNotServing, EndpointState::Absent, 1),
    ];
    assert_eq!(counted, expected);
    assert_eq!(world.controller.gauges().published.iter().sum::<usize>(), 1);
}

#[test]
fn a_batch_begins_with_its_first_event_and_is_not_extended() {
    let mut world = world_with(&["p1", "p2", "p3"], SECOND);
    world.writes_done();
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    world.pass(Duration::from_millis(900));
    world.put_pod(unready("p2", "1970-01-12T13:46:41Z"));
    assert_eq!(world.writes_done(), (0, 0, 0));
    world.pass(Duration::from_millis(100));
    assert_eq!(world.writes_done(), (0, 1, 0));
    assert_eq!(trigger(&world, "web-0001"), json!("1970-01-12T13:46:40Z"));
    assert!(world.controller.idle());
}

#[test]
fn a_conflict_waits_for_newer_news_and_is_nobodys_event() {
    let mut world = world(&["p1", "p2"]);
    world.writes_done();
    world.late = true;
    let mut annotated = world.slices["web-0001"].clone();
    annotated["metadata"]["annotations"] = json!({"somebody": "else"});
    world.meddle("web-0001", Some(annotated));
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    assert_eq!(world.writes_done(), (0, 0, 0));
    world.put_pod(unready("p2", "1970-01-12T13:46:40Z"));
    assert_eq!(results(&mut world), ["stale", "stale"], "the old view is not acted upon again");
    world.deliver_events();
    assert_eq!(world.writes_done(), (0, 1, 0), "the event that makes the view current starts the sync");
    assert_eq!(world.slices["web-0001"]["metadata"]["annotations"]["somebody"], json!("else"));
    assert_eq!(results(&mut world), ["success"]);
    assert_eq!(world.events(), []);
}

#[test]
fn a_conflict_without_news_is_tried_again_later() {
    let mut world = world(&["p1"]);
    world.late = true;
    let annotated = world.slices["web-0001"].clone();
    world.meddle("web-0001", Some(annotated));
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    world.pass(SECOND);
    world.pass(SECOND * 2);
    assert_eq!(results(&mut world), ["stale", "stale", "stale"]);
}

#[test]
fn a_slice_that_is_gone_is_made_again_at_once() {
    let mut world = world(&["p1"]);
    world.writes_done();
    world.late = true;
    world.meddle("web-0001", None);
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    assert_eq!(world.writes_done(), (1, 0, 0));
    assert_eq!(world.events(), []);
    world.deliver_events();
    world.pass(SECOND * 5);
    assert_eq!((world.writes_done(), world.slices.len()), ((0, 0, 0), 1));
}

#[test]
fn a_refused_write_does_not_stop_the_others_but_holds_back_deletes() {
    let mut world = world_with(&["p1", "p2", "p3", "p4", "p5", "p6", "p7"], SECOND);
    world.writes_done();
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    world.put_pod(unready("p4", "1970-01-12T13:46:40Z"));
    world.delete_pod("p7");
    world.faults.push_back(Fault::Refused);
    world.pass(SECOND);
    assert_eq!(world.writes_done(), (0, 1, 0));
    let [(reason, message)] = world.events().try_into().unwrap();
    assert_eq!(reason, FAILED_TO_UPDATE);
    assert!(message.contains("default/web") && message.contains("web-0001") && message.contains("refused"), "{message}");
    world.pass(Duration::from_millis(999));
    assert_eq!(world.writes_done(), (0, 0, 0));
    world.pass(Duration::from_millis(1));
    assert_eq!(world.writes_done(), (0, 1, 1), "the retry writes what was refused, then deletes");
    assert_eq!(trigger(&world, "web-0001"), json!("1970-01-12T13:46:40Z"), "the time of the change survives the failure");
    assert_eq!(results(&mut world), ["error", "success"]);
}

#[test]
fn retries_back_off() {
    let mut world = world(&["p1"]);
    world.faults.extend([Fault::Refused; 4]);
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    let mut tries = Vec::new();
    for millisecond in 0..20_000u64 {
        world.pass(Duration::from_millis(1));
        if !results(&mut world).is_empty() {
            tries.push(millisecond + 1);
        }
    }
    assert_eq!(tries, [1, 1_000, 3_000, 7_000, 15_000]);
}

#[test]
fn an_answer_that_is_lost_leaves_no_second_slice() {
    let mut world = World::new(Config::default());
    world.put_node("n1", None);
    world.put_pod(pod("p1"));
    world.put_service(service());
    world.faults.push_back(Fault::Lost);
    world.start();
    assert_eq!(world.slices.len(), 1);
    world.pass(SECOND * 2);
    assert_eq!((world.writes_done(), world.slices.len()), ((1, 0, 0), 1));
    // The event of the first one may come after the second was made.
    let copy = world.slices["web-0001"].clone();
    world.meddle("web-9999", Some(copy));
    world.pass(SECOND * 2);
    assert_eq!((world.writes_done(), world.slices.len()), ((0, 0, 1), 1));
}

#[test]
fn a_namespace_that_goes_ends_the_sync_without_error() {
    let mut world = World::new(Config::default());
    world.put_node("n1", None);
    world.put_service(service());
    world.faults.push_back(Fault::NamespaceTerminating);
    world.start();
    assert_eq!(results(&mut world), ["success"]);
    assert_eq!(world.events(), []);
    world.pass(SECOND * 3_000);
    assert_eq!(world.writes_done(), (0, 0, 0));
}

#[test]
fn a_recycled_slice_keeps_what_others_put_there() {
    let mut world = world(&["p1"]);
    let mut marked = world.slices["web-0001"].clone();
    marked["metadata"]["annotations"] = json!({"somebody": "else"});
    marked["metadata"]["finalizers"] = json!(["somebody/else"]);
    world.meddle("web-0001", Some(marked));
    world.delete_pod("p1");
    let placeholder = &world.slices["web-0001"];
    assert_eq!((&placeholder["endpoints"], &placeholder["ports"]), (&json!([]), &json!([])));
    world.put_pod(pod("p2"));
    let metadata = &world.slices["web-0001"]["metadata"];
    assert_eq!(metadata["annotations"]["somebody"], json!("else"));
    assert_eq!(metadata["finalizers"], json!(["somebody/else"]));
    assert_eq!(metadata["generateName"], json!("web-"));
}

#[test]
fn a_pod_on_an_unknown_node_waits_for_it() {
    let mut world = world(&["p1"]);
    world.writes_done();
    let mut stray = pod("p2");
    stray["spec"]["nodeName"] = json!("n2");
    world.put_pod(stray);
    assert_eq!(world.writes_done(), (0, 0, 0));
    assert_eq!(results(&mut world), ["error"]);
    let [(reason, message)] = world.events().try_into().unwrap();
    assert!(reason == FAILED_TO_UPDATE && message.contains("p2"), "{message}");
    world.put_node("n2", Some("zb"));
    assert_eq!(world.writes_done(), (0, 1, 0));
    assert_eq!(world.slices["web-0001"]["endpoints"][1]["zone"], json!("zb"));
    assert_eq!(results(&mut world), ["success"]);
}

#[test]
fn a_late_zone_label_is_corrected_and_a_deleted_node_is_no_hurry() {
    let mut world = world(&["p1"]);
    world.writes_done();
    world.put_node("n1", Some("zq"));
    assert_eq!(world.writes_done(), (0, 1, 0));
    assert_eq!(world.slices["web-0001"]["endpoints"][0]["zone"], json!("zq"));
    world.put_node("n1", Some("zq"));
    world.delete_node("n1");
    world.pass(SECOND * 100);
    assert_eq!(world.writes_done(), (0, 0, 0), "a node may come back");
    world.put_pod(unready("p1", "1970-01-12T13:46:40Z"));
    assert_eq!(world.slices["web-0001"]["endpoints"], json!([]), "the next sync takes its pods out");
}

#[test]
fn hints_by_share_are_refused_once() {
    let mut world = world(&["p1"]);
    let mut auto = service();
    auto["metadata"]["annotations"] = json!({TOPOLOGY_MODE: "Auto"});
    world.put_service(auto.clone());
    world.put_pod(pod("p2"));
    let [(reason, _)] = world.events().try_into().unwrap();
    assert_eq!(reason, HINTS_DISABLED);
    world.put_service(service());
    world.put_service(auto);
    assert_eq!(world.events().len(), 1);
}

#[test]
fn another_service_of_the_same_name_gets_its_own_slices() {
    let mut world = world(&["p1", "p2"]);
    world.writes_done();
    world.delete_service("web");
    assert_eq!(world.writes_done(), (0, 0, 0), "garbage collection deletes them");
    assert_eq!(world.controller.gauges(), &Default::default());
    let mut again = service();
    again["metadata"]["uid"] = json!("another-uid");
    again["metadata"]["creationTimestamp"] = json!("1970-01-12T13:30:00Z");
    world.put_service(again);
    assert_eq!(world.writes_done(), (1, 0, 1));
    assert_eq!(trigger(&world, "web-0002"), json!("1970-01-12T13:30:00Z"));
}

#[test]
fn a_slice_on_its_way_out_is_replaced() {
    let mut world = world(&["p1"]);
    let mut leaving = world.slices["web-0001"].clone();
    leaving["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
    leaving["metadata"]["finalizers"] = json!(["somebody/else"]);
    world.writes_done();
    world.meddle("web-0001", Some(leaving));
    world.pass(SECOND * 2);
    assert_eq!(world.writes_done(), (1, 0, 0));
    world.meddle("web-0001", None);
    world.pass(SECOND * 2);
    assert_eq!(world.writes_done(), (0, 0, 0));
}

#[test]
fn what_a_new_list_does_not_name_is_gone() {
    let mut world = world(&["p1", "p2"]);
    world.writes_done();
    world.pods.remove("p2");
    world.relist(Resource::Pods);
    assert_eq!(world.writes_done(), (0, 1, 0));
    world.services.clear();
    world.relist(Resource::Services);
    assert_eq!(world.controller.gauges().slices, 0);
}

#[test]
fn no_more_services_than_allowed_are_synced_at_a_time() {
    let config = Config { concurrent_syncs: 2, ..Config::default() };
    let mut controller = endpoints::Controller::new(config);
    let mut effects = Vec::new();
    let now = machine::Time::from_secs(1);
    for name in ["a", "b", "c"] {
        let mut service = service();
        service["metadata"]["name"] = json!(name);
        service["metadata"]["uid"] = json!(name);
        let service: api::Service = serde_json::from_value(service).unwrap();
        controller.step(now, Some(Input::Service(service.into())), &mut effects);
    }
    for resource in [Resource::Pods, Resource::Services, Resource::Nodes, Resource::Slices] {
        controller.step(now, Some(Input::ListEnded(resource)), &mut effects);
    }
    let writes: Vec<_> = effects
        .drain(..)
        .filter_map(|effect| match effect {
            Effect::Write { write, .. } => Some(write),
            _ => None,
        })
        .collect();
    assert_eq!(writes.len(), 2);
    assert_eq!(controller.deadline(), None, "an answer must come first");
    let meta = api::ObjectMeta { name: "a-1".into(), uid: "u".into(), generation: 1, ..Default::default() };
    let answer = endpoints::controller::Answer::Written(meta.into());
    controller.step(now, Some(Input::Answered { id: writes[0].id, answer }), &mut effects);
    let third = effects.iter().any(|effect| matches!(effect, Effect::Write { service, .. } if &*service.name == "c"));
    assert!(third, "{effects:?}");
    let over = |effect: &Effect| matches!(effect, Effect::Metric(Metric::Sync { result: SyncResult::Success, .. }));
    assert_eq!(effects.iter().filter(|effect| over(effect)).count(), 1);
}
