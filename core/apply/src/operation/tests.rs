use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{KIND, T};

/// A world of one object.
struct World {
    object: Value,
    managers: Managers,
    now: i64,
}

fn empty() -> Value {
    json!({"apiVersion": "v1", "kind": "Thing"})
}

impl World {
    fn new() -> World {
        World { object: empty(), managers: Managers::default(), now: 1_700_000_000 }
    }

    fn write<R>(&mut self, manager: &str, act: impl FnOnce(&Write<'_, T>, &Value, Managers) -> R) -> R {
        self.now += 1;
        let empty = empty();
        let write = Write {
            manager,
            subresource: "",
            version: "v1",
            now: Time::from_secs(self.now),
            types: &|version| (version == "v1").then_some(KIND),
            empty: &empty,
            ignored: &Set::default().with(&["status"]),
            tracks_updates: true,
        };
        act(&write, &self.object, self.managers.clone())
    }

    fn apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<(), Refusal> {
        let mut config = config.clone();
        config["apiVersion"] = "v1".into();
        config["kind"] = "Thing".into();
        let applied = self.write(manager, |write, live, managers| apply(write, live, &config, managers, force))?;
        (self.object, self.managers) = (applied.object, applied.managers);
        Ok(())
    }

    fn update(&mut self, manager: &str, object: &Value) {
        let mut object = object.clone();
        object["apiVersion"] = "v1".into();
        object["kind"] = "Thing".into();
        self.managers = self.write(manager, |write, live, managers| update(write, live, &object, managers));
        self.object = object;
    }

    fn owned(&self, manager: &str, operation: Operation) -> String {
        self.managers.0.get(&Id::new(manager, operation, "v1", "")).map_or_else(String::new, |owned| owned.fields.to_string())
    }

    fn time(&self, manager: &str) -> Option<Time> {
        self.managers.0.get(&Id::new(manager, Operation::Apply, "v1", "")).and_then(|owned| owned.time)
    }
}

fn data(data: Value) -> Value {
    json!({"spec": {"data": data}})
}

fn conflicts(refusal: Refusal) -> Vec<(String, String)> {
    match refusal {
        Refusal::Conflicts(conflicts) => conflicts.iter().map(|one| (one.owner.shown(), one.field())).collect(),
        Refusal::Mismatch(mismatches) => panic!("{mismatches:?}"),
    }
}

#[test]
fn who_applies_owns_what_is_applied_and_no_metadata_of_the_server() {
    let mut world = World::new();
    world.apply("one", &json!({"metadata": {"name": "a", "labels": {"l": "m"}}, "spec": {"data": {"k": "1"}}}), false).unwrap();
    assert_eq!(world.owned("one", Operation::Apply), ".metadata.labels.l\n.spec.data.k");
    assert_eq!(world.managers.0.len(), 1, "nobody was there before");
}

#[test]
fn another_value_conflicts_and_force_takes_the_field() {
    let mut world = World::new();
    world.apply("one", &data(json!({"k": "1", "own": "x"})), false).unwrap();
    let refusal = world.apply("two", &data(json!({"k": "2"})), false).unwrap_err();
    assert_eq!(conflicts(refusal), [("\"one\"".to_owned(), ".spec.data.k".to_owned())]);
    world.apply("two", &data(json!({"k": "2"})), true).unwrap();
    assert_eq!(world.object["spec"]["data"], json!({"k": "2", "own": "x"}));
    assert_eq!(world.owned("one", Operation::Apply), ".spec.data.own");
    assert_eq!(world.owned("two", Operation::Apply), ".spec.data.k");
}

#[test]
fn the_same_value_is_shared_and_stays_until_the_last_owner_drops_it() {
    let mut world = World::new();
    world.apply("one", &data(json!({"k": "1"})), false).unwrap();
    world.apply("two", &data(json!({"k": "1"})), false).unwrap();
    world.apply("one", &data(json!({"z": "9"})), false).unwrap();
    assert_eq!(world.object["spec"]["data"], json!({"k": "1", "z": "9"}));
    world.apply("two", &data(json!({"y": "1"})), false).unwrap();
    assert_eq!(world.object["spec"]["data"], json!({"y": "1", "z": "9"}));
}

#[test]
fn what_is_no_longer_applied_goes_with_the_branch_that_it_leaves_empty() {
    let mut world = World::new();
    let both =
        json!({"metadata": {"labels": {"l": "m"}}, "spec": {"data": {"k": "1"}, "items": [{"name": "a", "image": "i"}]}});
    world.apply("one", &both, false).unwrap();
    world.apply("one", &data(json!({"k": "1"})), false).unwrap();
    assert_eq!(world.object, json!({"apiVersion": "v1", "kind": "Thing", "spec": {"data": {"k": "1"}}}));
}

#[test]
fn what_was_filled_in_below_an_applied_element_goes_with_it_and_what_others_own_stays() {
    let mut world = World::new();
    let items = |items: Value| json!({"spec": {"items": items}});
    world.apply("one", &items(json!([{"name": "a", "image": "i"}, {"name": "b"}])), false).unwrap();
    // The server fills in something that nobody owns.
    world.object["spec"]["items"][0]["args"] = json!(["default"]);
    world.apply("two", &items(json!([{"name": "b", "image": "j"}])), false).unwrap();
    world.apply("one", &items(json!([])), false).unwrap();
    assert_eq!(world.object["spec"]["items"], json!([{"name": "b", "image": "j"}]));
}

#[test]
fn an_update_owns_what_it_sets_and_takes_what_it_changes() {
    let mut world = World::new();
    world.update("creator", &data(json!({"k": "1"})));
    assert_eq!(world.owned("creator", Operation::Update), ".spec\n.spec.data\n.spec.data.k");
    world.update("patcher", &data(json!({"k": "2"})));
    assert_eq!(world.owned("creator", Operation::Update), ".spec\n.spec.data");
    assert_eq!(world.owned("patcher", Operation::Update), ".spec.data.k");
    let refusal = world.apply("applier", &data(json!({"k": "3"})), false).unwrap_err();
    assert_eq!(conflicts(refusal), [("\"patcher\" using v1".to_owned(), ".spec.data.k".to_owned())]);
    world.update("remover", &data(json!({})));
    assert_eq!(world.owned("patcher", Operation::Update), "");
    assert_eq!(world.owned("remover", Operation::Update), "", "who only removes owns nothing");
}

#[test]
fn the_status_is_not_owned_through_the_main_endpoint() {
    let mut world = World::new();
    world.update("creator", &json!({"spec": {"replicas": 1}, "status": {"phase": "Fine"}}));
    assert_eq!(world.owned("creator", Operation::Update), ".spec\n.spec.replicas");
    world.apply("applier", &json!({"status": {"phase": "Bad"}}), false).unwrap();
    assert_eq!(world.owned("applier", Operation::Apply), "");
}

#[test]
fn what_nobody_was_known_to_own_belongs_to_before_first_apply() {
    let mut world = World::new();
    world.object = json!({"apiVersion": "v1", "kind": "Thing", "spec": {"data": {"k": "1", "j": "1"}}});
    let refusal = world.apply("one", &data(json!({"k": "2"})), false).unwrap_err();
    assert_eq!(conflicts(refusal), [("\"before-first-apply\" using v1".to_owned(), ".spec.data.k".to_owned())]);
    world.apply("one", &data(json!({"k": "2"})), true).unwrap();
    assert_eq!(world.owned(BEFORE_FIRST_APPLY, Operation::Update), ".spec\n.spec.data\n.spec.data.j");
}

#[test]
fn times_move_with_what_a_manager_changes() {
    let mut world = World::new();
    world.apply("one", &data(json!({"k": "1"})), false).unwrap();
    let first = world.time("one");
    world.apply("one", &data(json!({"k": "1"})), false).unwrap();
    assert_eq!(world.time("one"), first, "nothing has changed");
    world.apply("two", &data(json!({"k": "2"})), true).unwrap();
    world.apply("one", &data(json!({"k": "2", "j": "1"})), false).unwrap();
    let second = world.time("one");
    assert!(second > first);
    world.apply("two", &data(json!({"k": "2", "j": "2"})), true).unwrap();
    assert_eq!(world.time("one"), second, "another has taken a field");
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    let mut world = World::new();
    let config =
        json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"data": {"k": "1", "j": "<1>"}}});
    let mut object = config.clone();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: config.to_string()});
    world.update("kubectl-client-side-apply", &object);
    let refusal = world.apply("other", &data(json!({"k": "2"})), false).unwrap_err();
    assert_eq!(conflicts(refusal).len(), 1, "only kubectl is upgraded");
    world.update("edit", &{
        let mut edited = object.clone();
        edited["spec"]["data"]["j"] = "9".into();
        edited
    });
    let refusal = world.apply("kubectl", &data(json!({"k": "2", "j": "<2>"})), false).unwrap_err();
    assert_eq!(conflicts(refusal), [("\"edit\" using v1".to_owned(), ".spec.data.j".to_owned())]);
    world.apply("kubectl", &data(json!({"k": "2", "j": "9", "l": "<&>"})), false).unwrap();
    let text = world.object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(
        text,
        "{\"apiVersion\":\"v1\",\"kind\":\"Thing\",\"spec\":{\"data\":{\"j\":\"9\",\"k\":\"2\",\"l\":\"\\u003c\\u0026\\u003e\"}}}\n"
    );
}

#[test]
fn who_wrote_a_version_that_is_gone_owns_nothing() {
    let mut world = World::new();
    world.apply("one", &data(json!({"k": "1"})), false).unwrap();
    let owned = world.managers.0.values_mut().next().unwrap();
    owned.version = "v0".to_owned();
    world.apply("two", &data(json!({"k": "2"})), false).unwrap();
    assert_eq!(world.managers.0.len(), 1);
}

#[test]
fn without_entries_of_updates_appliers_still_lose_what_others_change() {
    let mut world = World::new();
    world.apply("one", &data(json!({"k": "1", "j": "1"})), false).unwrap();
    let new = json!({"apiVersion": "v1", "kind": "Thing", "spec": {"data": {"k": "2", "j": "1"}}});
    world.managers = world.write("two", |write, live, managers| {
        let quiet = Write { tracks_updates: false, ..*write };
        update(&quiet, live, &new, managers)
    });
    assert_eq!(world.owned("one", Operation::Apply), ".spec.data.j");
    assert_eq!(world.managers.0.len(), 1);
}

/// A configuration: some fields of each kind that a type can have.
fn config() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just("1"), Just("2")];
    let keys = proptest::collection::btree_map(prop_oneof![Just("a"), Just("b")], text.clone(), 0..3);
    let item =
        (prop_oneof![Just("x"), Just("y")], proptest::option::of(text.clone()), proptest::option::of(Just(json!(["q"]))));
    let items = proptest::collection::vec(item, 0..3);
    let finalizers = proptest::sample::subsequence(vec!["f/a", "f/b"], 0..=2);
    (keys, items, finalizers, proptest::option::of(0..3), proptest::option::of(Just(json!({"s": "t"})))).prop_map(
        |(data, items, finalizers, replicas, selector)| {
            let mut seen = std::collections::BTreeSet::new();
            let items: Vec<Value> = items
                .into_iter()
                .filter(|(name, ..)| seen.insert(*name))
                .map(|(name, image, args)| {
                    let mut item = json!({"name": name});
                    if let Some(image) = image {
                        item["image"] = image.into();
                    }
                    if let Some(args) = args {
                        item["args"] = args;
                    }
                    item
                })
                .collect();
            let mut spec = serde_json::Map::new();
            if !data.is_empty() {
                spec.insert("data".to_owned(), json!(data));
            }
            if !items.is_empty() {
                spec.insert("items".to_owned(), items.into());
            }
            if let Some(replicas) = replicas {
                spec.insert("replicas".to_owned(), json!(replicas));
            }
            if let Some(selector) = selector {
                spec.insert("selector".to_owned(), selector);
            }
            let mut config = json!({});
            if !spec.is_empty() {
                config["spec"] = spec.into();
            }
            if !finalizers.is_empty() {
                config["metadata"] = json!({"finalizers": finalizers});
            }
            config
        },
    )
}

/// The leaves of an object, those of the type apart: what somebody must own.
fn leaves(object: &Value) -> Set {
    walk::fields(KIND, object).unwrap().difference(&unowned())
}

/// Sorts the lists whose order says nothing.
fn sorted(mut object: Value) -> Value {
    for pointer in ["/spec/items", "/metadata/finalizers"] {
        if let Some(items) = object.pointer_mut(pointer).and_then(Value::as_array_mut) {
            items.sort_by(crate::element::compare);
        }
    }
    object
}

proptest! {
    #[test]
    fn apply_is_idempotent_and_what_is_owned_already_writes_nothing(first in config(), second in config()) {
        let mut world = World::new();
        world.apply("other", &first, false).unwrap();
        world.apply("me", &second, true).unwrap();
        let (object, managers) = (world.object.clone(), world.managers.clone());
        world.apply("me", &second, false).unwrap();
        prop_assert_eq!(&world.object, &object);
        prop_assert_eq!(&world.managers, &managers, "times included");
    }

    #[test]
    fn two_managers_in_any_order_give_the_same_object_unless_they_conflict(first in config(), second in config()) {
        let run = |order: [(&str, &Value); 2]| {
            let mut world = World::new();
            order.iter().try_for_each(|(manager, config)| world.apply(manager, config, false)).map(|()| world)
        };
        match (run([("a", &first), ("b", &second)]), run([("b", &second), ("a", &first)])) {
            (Ok(left), Ok(right)) => {
                prop_assert_eq!(sorted(left.object), sorted(right.object));
                prop_assert!(left.managers.same_but_times(&right.managers));
            }
            (left, right) => prop_assert!(left.is_err() && right.is_err(), "a conflict is one in either order"),
        }
    }

    #[test]
    fn the_owners_of_an_object_are_exactly_the_leaves_that_were_set(configs in proptest::collection::vec((0..3usize, config()), 1..6)) {
        let mut world = World::new();
        for (manager, config) in &configs {
            world.apply(["a", "b", "c"][*manager], config, true).unwrap();
            let owned = world.managers.0.values().fold(Set::default(), |all, owned| all.union(&owned.fields));
            prop_assert_eq!(owned.to_string(), leaves(&world.object).to_string());
        }
    }

    #[test]
    fn what_a_manager_no_longer_applies_is_as_if_it_had_never_been(first in config(), second in config()) {
        let mut world = World::new();
        world.apply("a", &first, false).unwrap();
        let before = world.object.clone();
        if world.apply("b", &second, false).is_ok() {
            world.apply("b", &json!({}), false).unwrap();
            prop_assert_eq!(sorted(world.object), sorted(before));
            prop_assert_eq!(world.managers.0.len(), usize::from(!leaves(&first).is_empty()));
        }
    }

    #[test]
    fn updates_never_leave_a_field_with_an_owner_that_is_not_there(objects in proptest::collection::vec((0..3usize, config()), 1..6)) {
        let mut world = World::new();
        for (manager, object) in &objects {
            world.update(["a", "b", "c"][*manager], object);
            let present = walk::compare(KIND, &json!({}), &world.object).unwrap().changed;
            for owned in world.managers.0.values() {
                prop_assert_eq!(owned.fields.difference(&present).to_string(), "");
            }
        }
    }
}
