//! The state against a naive model that keeps a full copy of every revision.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn put(state: &mut RegistryState, at: Time, name: &str, expect: Expect, value: i64) -> Result<Arc<Stored>, Refused> {
    commit(state, at, Write::put(key("", "things", "ns", name), expect, json!({"metadata": {"name": name}, "v": value})))
}

fn commit(state: &mut RegistryState, at: Time, write: Write) -> Result<Arc<Stored>, Refused> {
    let (next, changes, mut answers, _) = state.snapshot().stage(at, vec![write]).into_parts();
    state.publish(next, &changes);
    answers.remove(0)
}

#[test]
fn nothing_is_visible_before_it_is_published() {
    let state = RegistryState::default();
    let write = Write::put(key("", "things", "", "a"), Expect::Absent, json!({"metadata": {"name": "a"}}));
    let staged = state.snapshot().stage(Time::ZERO, vec![write]);
    assert_eq!(staged.changes.len(), 1);
    assert_eq!(state.revision(), 0);
    assert!(state.snapshot().is_empty());
}

#[test]
fn writes_of_one_batch_see_each_other() {
    let mut state = RegistryState::default();
    let write = |expect| Write::put(key("", "things", "", "a"), expect, json!({"metadata": {"name": "a"}}));
    let staged = state.snapshot().stage(Time::ZERO, vec![write(Expect::Absent), write(Expect::Absent), write(Expect::At(1))]);
    let (next, changes, answers, _) = staged.into_parts();
    state.publish(next, &changes);
    assert_eq!(answers[1].as_ref().unwrap_err(), &Refused::Exists);
    assert_eq!(answers[2].as_ref().unwrap().revision, 2);
    assert_eq!(state.revision(), 2, "a refused write takes no revision");
}

#[test]
fn history_is_forgotten_by_age_and_size_only() {
    let limits = WindowLimits { revisions: 2, age: Duration::from_secs(10), bytes: 1 << 20 };
    let mut state = RegistryState::restore(0, [], 0, Vec::new(), limits);
    for n in 0..5 {
        put(&mut state, Time::from_secs(n), &format!("o{n}"), Expect::Absent, n).unwrap();
    }
    assert!(state.changes_after(0).is_some(), "young changes stay, however many");
    put(&mut state, Time::from_secs(100), "late", Expect::Absent, 0).unwrap();
    assert!(state.changes_after(0).is_none());
    assert!(state.changes_after(state.floor()).is_some());
    let tight = WindowLimits { bytes: 1000, ..limits };
    let mut state = RegistryState::restore(0, [], 0, Vec::new(), tight);
    for n in 0..50 {
        put(&mut state, Time::ZERO, &format!("o{n}"), Expect::Absent, n).unwrap();
    }
    assert!(state.window_bytes <= 1000 + 400, "{}", state.window_bytes);
    assert!(state.snapshot_at(1).is_none());
}

#[test]
fn ranges_are_in_key_order_and_stay_in_their_resource() {
    let mut state = RegistryState::default();
    for name in ["b", "a", "c"] {
        put(&mut state, Time::ZERO, name, Expect::Absent, 0).unwrap();
    }
    let other = Write::put(key("", "thingsx", "ns", "a"), Expect::Absent, json!({"metadata": {}}));
    commit(&mut state, Time::ZERO, other).unwrap();
    let snapshot = state.snapshot();
    let prefix = prefix("", "things", "ns");
    let names: Vec<&str> = snapshot.range(&prefix, None).map(|(_, stored)| stored.index.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let after = key("", "things", "ns", "a");
    assert_eq!(snapshot.range(&prefix, Some(&after)).count(), 2);
}

/// Returns an object that is stored with about so many bytes.
fn sized(bytes: usize) -> Value {
    json!({"metadata": {"name": "a"}, "v": "x".repeat(bytes - 60)})
}

#[test]
fn an_object_above_the_limit_is_refused_and_leaves_no_trace() {
    let mut state = RegistryState::default();
    let place = || key("", "things", "ns", "a");
    let large = Write::put(place(), Expect::Absent, sized(OBJECT_MAX + 100));
    assert_eq!(commit(&mut state, Time::ZERO, large).unwrap_err(), Refused::TooLarge);
    assert_eq!((state.revision(), state.snapshot().len()), (0, 0));
    let stored = commit(&mut state, Time::ZERO, Write::put(place(), Expect::Absent, sized(OBJECT_MAX))).unwrap();
    let small_step = Write::put(place(), Expect::At(1), sized(OBJECT_MAX + 100));
    assert_eq!(commit(&mut state, Time::ZERO, small_step).unwrap_err(), Refused::TooLarge);
    // A deletion has room for its marks, once: what is marked does not grow any more.
    let mut marked = sized(OBJECT_MAX);
    marked["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    marked["metadata"]["finalizers"] = json!(["x".repeat(200)]);
    let stored_marked = commit(&mut state, Time::ZERO, Write::put(place(), Expect::At(1), marked.clone())).unwrap();
    assert!(stored_marked.bytes.len() > stored.bytes.len() && stored_marked.bytes.len() > OBJECT_MAX);
    marked["metadata"]["annotations"] = json!({"more": "x"});
    assert_eq!(
        commit(&mut state, Time::ZERO, Write::put(place(), Expect::At(2), marked.clone())).unwrap_err(),
        Refused::TooLarge
    );
    commit(&mut state, Time::ZERO, Write::remove(place(), Expect::At(2), marked)).unwrap();
}

#[test]
fn an_object_that_was_above_the_limit_may_shrink_and_stay() {
    let stored = Arc::new(Stored::new(1, sized(OBJECT_MAX * 2)));
    let place = key("", "things", "ns", "a");
    let mut state = RegistryState::restore(1, [(Arc::clone(&place), stored)], 1, Vec::new(), WindowLimits::default());
    commit(&mut state, Time::ZERO, Write::put(Arc::clone(&place), Expect::At(1), sized(OBJECT_MAX * 2 - 50))).unwrap();
    let grown = Write::put(place, Expect::At(2), sized(OBJECT_MAX * 2));
    assert_eq!(commit(&mut state, Time::ZERO, grown).unwrap_err(), Refused::TooLarge);
}

#[test]
fn nothing_is_put_into_what_is_missing_or_going() {
    let mut state = RegistryState::default();
    let place = key("", "namespaces", "", "ns");
    let inside =
        || Write { within: vec![Arc::clone(&place)], ..Write::put(key("", "things", "ns", "a"), Expect::Absent, json!({})) };
    assert_eq!(commit(&mut state, Time::ZERO, inside()).unwrap_err(), Refused::Terminating);
    let put = |expect, object| Write::put(Arc::clone(&place), expect, object);
    commit(&mut state, Time::ZERO, put(Expect::Absent, json!({"metadata": {"name": "ns"}}))).unwrap();
    // The deletion comes first in the batch: what was prepared before it is too late.
    let going = json!({"metadata": {"name": "ns", "deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let staged = state.snapshot().stage(Time::ZERO, vec![inside(), put(Expect::At(1), going), inside()]);
    assert!(staged.answers[0].is_ok() && staged.answers[1].is_ok());
    assert_eq!(staged.answers[2].as_ref().unwrap_err(), &Refused::Exists);
    let (next, changes, _, _) = staged.into_parts();
    state.publish(next, &changes);
    let other =
        Write { within: vec![Arc::clone(&place)], ..Write::put(key("", "things", "ns", "b"), Expect::Absent, json!({})) };
    assert_eq!(commit(&mut state, Time::ZERO, other).unwrap_err(), Refused::Terminating);
}

/// A random write: which of four names, whether to put or remove, and whether the expectation is right.
fn step() -> impl Strategy<Value = (u8, bool, u8)> {
    (0..4u8, any::<bool>(), 0..4u8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(128)))]

    #[test]
    fn the_state_agrees_with_a_naive_model(steps in proptest::collection::vec(step(), 0..60)) {
        let mut state = RegistryState::default();
        // The model: every revision's objects as name -> (revision, value).
        let mut model: Vec<BTreeMap<String, (u64, i64)>> = vec![BTreeMap::new()];
        for (number, (name, remove, how)) in steps.into_iter().enumerate() {
            let name = format!("o{name}");
            let present = model.last().unwrap().clone();
            let expect = match (how, present.get(&name)) {
                (0, _) => Expect::Absent,
                (1, _) => Expect::At(9999),
                (_, Some((revision, _))) => Expect::At(*revision),
                (_, None) => Expect::Absent,
            };
            let object = json!({"metadata": {"name": name}, "v": number});
            let write = if remove { Write::remove } else { Write::put };
            if remove && expect == Expect::Absent {
                continue; // nobody removes what is not there
            }
            let answer = commit(&mut state, Time::ZERO, write(key("", "things", "ns", &name), expect, object));
            let right = match (expect, present.get(&name)) {
                (Expect::Absent, None) => true,
                (Expect::At(revision), Some((at, _))) => revision == *at,
                _ => false,
            };
            prop_assert_eq!(answer.is_ok(), right);
            if right {
                let mut next = present;
                let revision = model.len() as u64;
                if remove { next.remove(&name); } else { next.insert(name, (revision, number as i64)); }
                model.push(next);
            }
        }
        prop_assert_eq!(state.revision(), model.len() as u64 - 1);
        let seen = |snapshot: &Snapshot| -> BTreeMap<String, (u64, i64)> {
            snapshot.range("/", None).map(|(_, stored)| {
                let object = stored.object();
                (stored.index.name.clone(), (stored.revision, object["v"].as_i64().unwrap()))
            }).collect()
        };
        for (revision, expected) in model.iter().enumerate() {
            prop_assert_eq!(&seen(&state.snapshot_at(revision as u64).unwrap()), expected, "revision {}", revision);
        }
        // Replaying the changes after any revision leads from that revision to the present.
        for (revision, start) in model.iter().enumerate() {
            let mut replayed = start.clone();
            for change in state.changes_after(revision as u64).unwrap() {
                let name = change.object.index.name.clone();
                prop_assert_eq!(change.object.revision, change.revision);
                prop_assert_eq!(change.previous.as_ref().map(|p| p.revision), replayed.get(&name).map(|(r, _)| *r));
                match change.type_ {
                    ChangeType::Deleted => { replayed.remove(&name); }
                    _ => { replayed.insert(name, (change.revision, change.object.object()["v"].as_i64().unwrap())); }
                }
            }
            prop_assert_eq!(&replayed, model.last().unwrap());
        }
    }
}
