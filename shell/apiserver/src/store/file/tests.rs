//! The store on disk: restarts, damage, torn commits, a full disk.

use super::*;
use machine::Time;
use registry::state::{Expect, Write, key};
use serde_json::json;

fn write(store: &mut FileStore, state: &mut RegistryState, write: Write) {
    let (next, changes, answers, _) = state.snapshot().stage(Time::from_secs(7), vec![write]).into_parts();
    assert!(answers[0].is_ok());
    store.commit(&changes, state.floor(), Room::Free).unwrap();
    state.publish(next, &changes);
}

fn put(name: &str, expect: Expect, value: u64) -> Write {
    Write::put(key("", "things", "ns", name), expect, json!({"metadata": {"name": name}, "v": value}))
}

#[test]
fn everything_comes_back_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut state;
    {
        let mut store = FileStore::open(directory.path()).unwrap();
        state = store.load(WindowLimits::default()).unwrap();
        write(&mut store, &mut state, put("a", Expect::Absent, 1));
        write(&mut store, &mut state, put("b", Expect::Absent, 2));
        write(&mut store, &mut state, put("a", Expect::At(1), 3));
        let last = json!({"metadata": {"name": "b"}, "last": true});
        let gone = Write::remove(key("", "things", "ns", "b"), Expect::At(2), last);
        write(&mut store, &mut state, gone);
    }
    let mut store = FileStore::open(directory.path()).unwrap();
    let back = store.load(WindowLimits::default()).unwrap();
    assert_eq!(back.revision(), 4);
    let describe = |state: &RegistryState| -> Vec<String> {
        let changes = state.changes_after(0).unwrap();
        changes.map(|c| format!("{c:?}")).collect()
    };
    assert_eq!(describe(&back), describe(&state));
    assert_eq!(back.snapshot_at(2).unwrap().len(), 2);
    assert_eq!(back.snapshot().len(), 1);
}

#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _first = FileStore::open(directory.path()).unwrap();
    assert!(matches!(FileStore::open(directory.path()), Err(StoreError::Locked(_))));
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    std::fs::write(&path, b"this is not a database, it is a letter").unwrap();
    let error = FileStore::open(directory.path()).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"this is not a database, it is a letter");
}

#[test]
fn damage_anywhere_is_found_or_does_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    {
        let mut store = FileStore::open(directory.path()).unwrap();
        let mut state = store.load(WindowLimits::default()).unwrap();
        for number in 0..40 {
            write(&mut store, &mut state, put(&format!("o{number}"), Expect::Absent, number));
        }
    }
    let describe =
        |state: &RegistryState| format!("{:?} {:?}", state.snapshot(), state.changes_after(0).unwrap().collect::<Vec<_>>());
    let good = std::fs::read(&path).unwrap();
    let expected = describe(&FileStore::open(directory.path()).unwrap().load(WindowLimits::default()).unwrap());
    let mut rng = machine::Rng::new(3);
    let mut found = 0;
    for _ in 0..40 {
        let mut bad = good.clone();
        let at = usize::try_from(rng.below(good.len() as u64)).unwrap();
        let end = (at + 64).min(bad.len());
        bad[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, &bad).unwrap();
        match FileStore::open(directory.path()) {
            Err(_) => {
                found += 1;
                assert!(std::fs::read(&path).unwrap() == bad, "the file was changed");
            }
            Ok(mut store) => assert_eq!(describe(&store.load(WindowLimits::default()).unwrap()), expected, "at {at}"),
        }
    }
    assert!(found > 0, "no damage hit anything");
}

#[test]
fn a_crash_at_the_first_start_leaves_nothing_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    create_beside(&directory.path().join("store.redb")).unwrap();
    let state = FileStore::open(directory.path()).unwrap().load(WindowLimits::default()).unwrap();
    assert_eq!(state.revision(), 0);
    let mut names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["lock", "store.redb", "store.reserve"]);
}

#[test]
fn everything_is_for_the_owner_alone_also_what_was_not() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    drop(FileStore::open(directory.path()).unwrap());
    std::fs::set_permissions(directory.path().join("store.redb"), PermissionsExt::from_mode(0o644)).unwrap();
    drop(FileStore::open(directory.path()).unwrap());
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    {
        let store = FileStore::open(directory.path()).unwrap();
        let transaction = store.database().begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
        transaction.commit().unwrap();
    }
    let bytes = std::fs::read(directory.path().join("store.redb")).unwrap();
    let error = FileStore::open(directory.path()).err().unwrap();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert!(std::fs::read(directory.path().join("store.redb")).unwrap() == bytes, "the file was changed");
}

/// Returns what a kill leaves: the file of a store that is still open.
fn killed(store: &FileStore) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(&store.path, directory.path().join("store.redb")).unwrap();
    directory
}

fn flip(directory: &Path, at: usize) {
    let path = directory.join("store.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
}

/// Returns the place of the commit slot that the file says is the newer one.
fn newer_slot(directory: &Path) -> usize {
    let bytes = std::fs::read(directory.join("store.redb")).unwrap();
    if bytes[9] & 1 == 0 { 64 } else { 192 }
}

#[test]
fn a_killed_store_that_is_whole_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = FileStore::open(directory.path()).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    for number in 0..5 {
        write(&mut store, &mut state, put(&format!("o{number}"), Expect::Absent, number));
        let killed = killed(&store);
        let mut again = FileStore::open(killed.path()).unwrap();
        assert_eq!((again.fallback(), again.fallbacks()), (None, 0));
        let back = again.load(WindowLimits::default()).unwrap();
        assert_eq!((back.revision(), back.changes_after(0).unwrap().count() as u64), (number + 1, number + 1));
    }
}

#[test]
fn a_commit_that_does_not_hold_is_told_and_its_revisions_are_never_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = FileStore::open(directory.path()).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    for number in 0..5 {
        write(&mut store, &mut state, put(&format!("o{number}"), Expect::Absent, number));
    }
    // Any bit of the slot: a root, the number of the transaction, the checksum itself. One of the version makes it a file of
    // a later version, which is refused.
    for inside in [1, 8, 20, 40, 104, 112, 127] {
        let killed = killed(&store);
        flip(killed.path(), newer_slot(killed.path()) + inside);
        for start in 1..=3 {
            let mut again = FileStore::open(killed.path()).unwrap();
            let lost = if start == 1 { again.fallback() } else { None };
            let back = again.load(WindowLimits::default()).unwrap();
            assert_eq!(back.snapshot().len(), 4, "bit in byte {inside}");
            assert!(back.revision() > state.revision() && back.revision() > 10_000, "{} is new", back.revision());
            assert!(back.changes_after(state.revision()).is_none(), "whoever has seen what is lost must ask again");
            assert_eq!(again.fallbacks(), 1, "it is counted once, and told at the start that found it");
            assert_eq!(lost.map(|lost| lost.kept), (start == 1).then_some(4));
            if start == 2 {
                // Also after a crash before anything was written.
                std::mem::forget(again);
                let copy = std::fs::read(killed.path().join("store.redb")).unwrap();
                std::fs::remove_file(killed.path().join("lock")).unwrap();
                std::fs::remove_file(killed.path().join("store.redb")).unwrap();
                std::fs::write(killed.path().join("store.redb"), copy).unwrap();
            }
        }
        let mut again = FileStore::open(killed.path()).unwrap();
        let mut back = again.load(WindowLimits::default()).unwrap();
        let before = back.revision();
        write(&mut again, &mut back, put("new", Expect::Absent, 1));
        assert_eq!(back.revision(), before + 1);
    }
}

#[test]
fn a_crash_after_the_repair_does_not_hide_what_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = FileStore::open(directory.path()).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    for number in 0..3 {
        write(&mut store, &mut state, put(&format!("o{number}"), Expect::Absent, number));
    }
    let killed = killed(&store);
    flip(killed.path(), newer_slot(killed.path()) + 112);
    // The database has repaired the file; the process has set its mark and nothing else.
    FallbackMark(killed.path().join("store.fallback")).set();
    drop(RealDisk.open(&killed.path().join("store.redb")).unwrap());
    let mut again = FileStore::open(killed.path()).unwrap();
    assert_eq!(again.fallback().map(|lost| lost.kept), Some(2));
    assert!(again.load(WindowLimits::default()).unwrap().revision() > 10_000);
    assert!(!killed.path().join("store.fallback").exists());
}

#[test]
fn every_revision_was_reserved_by_an_earlier_commit() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = FileStore::open(directory.path()).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    let mut promised = 0;
    for batch in 0..60 {
        let writes = (0..250).map(|number| put(&format!("b{batch}-{number}"), Expect::Absent, number)).collect();
        let (next, changes, _, _) = state.snapshot().stage(Time::from_secs(7), writes).into_parts();
        let before = store.written.reserved;
        store.commit(&changes, state.floor(), Room::Free).unwrap();
        state.publish(next, &changes);
        if batch > 0 {
            assert!(state.revision() <= before, "{} was reserved up to {before}", state.revision());
        }
        promised = promised.max(store.written.reserved);
    }
    assert!(promised > 15_000 && promised <= 15_000 + REVISIONS_BLOCK);
}

fn large(name: &str) -> Write {
    Write::put(key("", "things", "ns", name), Expect::Absent, json!({"metadata": {"name": name}, "v": "x".repeat(50_000)}))
}

/// Commits one write and publishes it if it was taken.
fn commit(store: &mut FileStore, state: &mut RegistryState, write: Write, room: Room) -> Result<(), StoreError> {
    let (next, changes, answers, _) = state.snapshot().stage(Time::from_secs(7), vec![write]).into_parts();
    assert!(answers[0].is_ok());
    store.commit(&changes, state.floor(), room)?;
    state.publish(next, &changes);
    Ok(())
}

#[test]
fn a_full_disk_refuses_writes_and_takes_deletions_until_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let disk = super::super::disk::small::SmallDisk::of(24 << 20);
    let mut store = FileStore::open_on(directory.path(), Box::new(disk.clone())).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    for number in 0..40 {
        write(&mut store, &mut state, large(&format!("o{number}")));
    }
    disk.fill();
    let mut stored = state.snapshot().len();
    let full = loop {
        match commit(&mut store, &mut state, large(&format!("p{stored}")), Room::Free) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1_000, "a full disk takes no end of objects");
    };
    assert!(matches!(full, StoreError::Full(_)), "{full}");
    assert_eq!(state.snapshot().len(), stored, "what was refused is not there");
    // Somebody else takes what is left, down to the last byte; deletions go on with what was set aside.
    disk.fill();
    let all: Vec<_> = state.snapshot().range("/", None).map(|(key, stored)| (key.clone(), stored.clone())).collect();
    for (key, object) in &all {
        let gone = Write::remove(key.clone(), Expect::At(object.revision), object.object());
        commit(&mut store, &mut state, gone, Room::Reserve).unwrap();
    }
    assert!(state.snapshot().is_empty());
    disk.fill();
    let revision = state.revision();
    // A start on the full disk works, and finds everything that was acknowledged.
    drop(store);
    let mut store = FileStore::open_on(directory.path(), Box::new(disk.clone())).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    assert_eq!((state.revision(), state.snapshot().len()), (revision, 0));
    assert_eq!(store.fallback(), None);
    // Room comes back: everything is as before, with room set aside again.
    disk.0.lock().unwrap().others = 0;
    for number in 0..40 {
        write(&mut store, &mut state, large(&format!("q{number}")));
    }
    assert!(disk.give_back(Path::new("")).unwrap());
}

#[test]
fn a_disk_that_stays_full_is_not_tried_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let disk = super::super::disk::small::SmallDisk::of(24 << 20);
    let mut store = FileStore::open_on(directory.path(), Box::new(disk.clone())).unwrap();
    let mut state = store.load(WindowLimits::default()).unwrap();
    disk.fill();
    let mut refused = 0;
    for number in 0..200 {
        if commit(&mut store, &mut state, large(&format!("o{number}")), Room::Free).is_err() {
            refused += 1;
        }
    }
    assert!(refused > 150);
    disk.0.lock().unwrap().others = 0;
    commit(&mut store, &mut state, large("late"), Room::Free).unwrap();
    assert_eq!(store.full, None);
}
