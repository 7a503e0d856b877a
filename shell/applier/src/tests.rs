//! Faults: the applier is killed before, in the middle of and after every operation, on a real folder and on a disk that
//! forgets what was not synced. Whatever happens, the next applier leaves exactly the old or exactly the new state.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;

const OLD: &[u8] = b"old: \xff state\n";
const NEW: &[u8] = b"new: state, which is longer\n";

/// Where an operation is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Before,
    Middle,
    After,
}

/// The life of one applier: it ends with the operation of this number.
#[derive(Clone, Debug)]
struct Life {
    left: Rc<Cell<Option<usize>>>,
    cut: Cut,
}

impl Life {
    fn endless() -> Life {
        Life { left: Rc::new(Cell::new(None)), cut: Cut::Before }
    }

    fn ending_at(operation: usize, cut: Cut) -> Life {
        Life { left: Rc::new(Cell::new(Some(operation))), cut }
    }

    fn over(&self) -> bool {
        self.left.get() == Some(0)
    }

    /// Does an operation, or is killed; `half` is what of it happens if it is killed in the middle.
    fn act<T>(&self, whole: impl FnOnce() -> io::Result<T>, half: impl FnOnce()) -> io::Result<T> {
        let killed = || io::Error::other("killed");
        match self.left.get() {
            None => whole(),
            Some(0) => Err(killed()),
            Some(1) => {
                self.left.set(Some(0));
                match self.cut {
                    Cut::Before => {}
                    Cut::Middle => half(),
                    Cut::After => drop(whole()?),
                }
                Err(killed())
            }
            Some(left) => {
                self.left.set(Some(left - 1));
                whole()
            }
        }
    }
}

/// Files under a life.
struct Mortal<F> {
    files: F,
    life: Life,
}

impl<F: Files + Clone> Files for Mortal<F> {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let mut files = self.files.clone();
        self.life.act(|| files.read(path), || ())
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (mut files, mut torn) = (self.files.clone(), self.files.clone());
        self.life.act(|| files.write(path, content), || drop(torn.write(path, &content[..content.len() / 2])))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.clone();
        self.life.act(|| files.rename(from, to), || ())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let mut files = self.files.clone();
        self.life.act(|| files.remove(path), || ())
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut files = self.files.clone();
        self.life.act(|| files.sync_folder(path), || ())
    }
}

/// A disk that forgets names that were not synced when the power goes.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<(Names, Names)>>);

/// Which name has which content: now, and after a power cut.
type Names = BTreeMap<PathBuf, Vec<u8>>;

impl Memory {
    fn power_cut(&self) {
        let mut maps = self.0.borrow_mut();
        maps.0 = maps.1.clone();
    }
}

impl Files for Memory {
    fn read(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.borrow().0.get(path).cloned())
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().0.insert(path.to_owned(), content.to_vec());
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut maps = self.0.borrow_mut();
        let content = maps.0.remove(from).ok_or(io::ErrorKind::NotFound)?;
        maps.0.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.0.borrow_mut().0.remove(path);
        Ok(())
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut maps = self.0.borrow_mut();
        let folder = path.parent();
        let (now, durable) = &mut *maps;
        durable.retain(|path, _| path.parent() != folder);
        durable.extend(
            now.iter().filter(|(path, _)| path.parent() == folder).map(|(path, content)| (path.clone(), content.clone())),
        );
        Ok(())
    }
}

/// A machine: each component runs what its file said at its last restart.
struct Machine<F> {
    files: F,
    life: Life,
    path: PathBuf,
    running: Rc<RefCell<Option<Vec<u8>>>>,
    now: Rc<Cell<Time>>,
    /// How the component judges the new content.
    verdict: Health,
    /// Whether nothing can restart it.
    stuck: bool,
    /// What somebody makes of the file while the component is waited for.
    edit: Option<&'static [u8]>,
}

impl<F: Files + Clone> Host for Machine<F> {
    fn now(&self) -> Time {
        self.now.get()
    }

    fn restart(&mut self, _: Component) -> io::Result<()> {
        if self.stuck {
            return Err(io::Error::other("no such command"));
        }
        let (mut files, path, running) = (self.files.clone(), self.path.clone(), Rc::clone(&self.running));
        self.life.act(
            || {
                *running.borrow_mut() = files.read(&path)?;
                Ok(())
            },
            || (),
        )
    }

    fn health(&mut self, change: &Change) -> Health {
        if self.life.over() {
            return Health::Bad;
        }
        if *self.running.borrow() == change.content { self.verdict } else { Health::Bad }
    }

    fn pause(&mut self) {
        if let Some(edit) = self.edit {
            self.files.write(&self.path, edit).expect("a write");
        }
        self.now.set(self.now.get() + Duration::from_secs(10));
    }
}

/// A world that outlives its appliers.
struct World<F> {
    files: F,
    folder: PathBuf,
    change: Change,
    running: Rc<RefCell<Option<Vec<u8>>>>,
    now: Rc<Cell<Time>>,
    verdict: Health,
    stuck: bool,
    edit: Option<&'static [u8]>,
}

impl<F: Files + Clone> World<F> {
    fn new(mut files: F, root: &Path, old: Option<&[u8]>, new: Option<&[u8]>) -> World<F> {
        let path = root.join("manifests/kube-controller-manager.yaml");
        if let Some(old) = old {
            files.write(&path, old).expect("a world can be made");
        }
        files.sync_folder(&path).expect("a world can be made");
        World {
            files,
            folder: root.join("records"),
            change: Change { component: Component::ControllerManager, path, content: new.map(<[u8]>::to_vec), values: None },
            running: Rc::new(RefCell::new(old.map(<[u8]>::to_vec))),
            now: Rc::new(Cell::new(Time::from_secs(1_700_000_000))),
            verdict: Health::Good,
            stuck: false,
            edit: None,
        }
    }

    fn applier(&self, life: Life) -> Applier<Mortal<F>, Machine<F>> {
        let host = Machine {
            files: self.files.clone(),
            life: life.clone(),
            path: self.change.path.clone(),
            running: Rc::clone(&self.running),
            now: Rc::clone(&self.now),
            verdict: self.verdict,
            stuck: self.stuck,
            edit: self.edit,
        };
        Applier::new(self.folder.clone(), Mortal { files: self.files.clone(), life }, host)
    }

    fn restore(&self) -> Outcome {
        self.applier(Life::endless()).restore(Component::ControllerManager, "9", DEADLINE).expect("an outcome")
    }

    fn content(&self) -> Option<Vec<u8>> {
        self.files.clone().read(&self.change.path).expect("readable")
    }

    /// Checks that the state is exactly one of the two, that the component runs it, and that nothing is under way.
    fn check(&self, old: Option<&[u8]>, what: &str) {
        let content = self.content();
        assert!(content.as_deref() == old || content == self.change.content, "{what}: {content:?}");
        assert_eq!(*self.running.borrow(), content, "{what}: the component runs what its file says");
        let mut applier = self.applier(Life::endless());
        let record = applier.load(Component::ControllerManager).expect("a good record");
        assert!(record.is_none_or(|record| record.pending.is_none()), "{what}: nothing is under way");
        assert_eq!(self.files.clone().read(&aside(&self.change.path)).expect("readable"), None, "{what}: nothing lies about");
    }
}

fn on_disk(old: Option<&[u8]>, new: Option<&[u8]>) -> (tempfile::TempDir, World<Disk>) {
    let root = tempfile::tempdir().expect("a temporary folder");
    for folder in ["manifests", "records"] {
        std::fs::create_dir(root.path().join(folder)).expect("a folder");
    }
    let world = World::new(Disk, root.path(), old, new);
    (root, world)
}

type Content = Option<&'static [u8]>;

/// How long a change may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// From what to what: changed, made, removed.
const KINDS: [(Content, Content); 3] = [(Some(OLD), Some(NEW)), (None, Some(NEW)), (Some(OLD), None)];
const CUTS: [Cut; 3] = [Cut::Before, Cut::Middle, Cut::After];

/// Kills an applier at every operation; `then` goes on with the world until the change would have gone through.
fn kill_everywhere<F: Files + Clone>(make: impl Fn(usize) -> World<F>, then: impl Fn(&World<F>, &str)) -> usize {
    for operation in 1..100 {
        let mut finished = 0;
        for cut in CUTS {
            let world = make(operation);
            let life = Life::ending_at(operation, cut);
            let outcome = world.applier(life.clone()).apply(&world.change, "1", DEADLINE);
            finished += usize::from(outcome.is_ok() && !life.over());
            then(&world, &format!("killed {cut:?} operation {operation}"));
        }
        if finished == CUTS.len() {
            return operation - 1;
        }
    }
    panic!("never finished");
}

#[test]
fn killed_anywhere_and_started_again_it_is_the_old_or_the_new_state() {
    for (old, new) in KINDS {
        let folders = RefCell::new(Vec::new());
        let make = |_| {
            let (folder, world) = on_disk(old, new);
            folders.borrow_mut().push(folder);
            world
        };
        let operations = kill_everywhere(make, |world, what| {
            world.applier(Life::endless()).recover().expect("recovers");
            world.check(old, what);
        });
        assert!(operations >= 8, "record, file, restart, confirmation: {operations}");
    }
}

#[test]
fn killed_again_while_it_recovers_it_is_still_the_old_or_the_new_state() {
    for (old, new) in KINDS {
        for (second, cut) in (1..12).flat_map(|second| CUTS.map(|cut| (second, cut))) {
            let make = |_| World::new(Memory::default(), Path::new("/"), old, new);
            kill_everywhere(make, |world, what| {
                let _ = world.applier(Life::ending_at(second, cut)).recover();
                world.applier(Life::endless()).recover().expect("recovers");
                world.check(old, &format!("{what}, then {cut:?} operation {second}"));
            });
        }
    }
}

#[test]
fn after_a_power_cut_the_disk_may_forget_and_it_is_still_the_old_or_the_new_state() {
    for (old, new) in KINDS {
        let make = |_| World::new(Memory::default(), Path::new("/"), old, new);
        kill_everywhere(make, |world, what| {
            world.files.power_cut();
            // Components start with the machine, from the files that are left.
            *world.running.borrow_mut() = world.content();
            world.applier(Life::endless()).recover().expect("recovers");
            world.check(old, &format!("{what}, power cut"));
        });
    }
}

#[test]
fn what_is_not_confirmed_by_the_deadline_is_taken_back() {
    let make = |_| World::new(Memory::default(), Path::new("/"), Some(OLD), Some(NEW));
    kill_everywhere(make, |world, what| {
        let confirmed = {
            let record = world.applier(Life::endless()).load(Component::ControllerManager).expect("a good record");
            record.is_some_and(|record| record.pending.is_none() && record.last.as_deref() == Some(NEW))
        };
        world.now.set(world.now.get() + Duration::from_secs(121));
        world.applier(Life::endless()).recover().expect("recovers");
        world.check(Some(OLD), what);
        assert_eq!(world.content().as_deref(), Some(if confirmed { NEW } else { OLD }), "{what}");
    });
}

#[test]
fn a_component_that_is_never_healthy_gets_its_old_file_back_and_the_third_time_it_has_failed() {
    for verdict in [Health::Bad, Health::Waiting] {
        let mut world = World::new(Memory::default(), Path::new("/"), Some(OLD), Some(NEW));
        world.verdict = verdict;
        for times in 1..=REVERTS_MAX {
            let outcome = world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome");
            assert_eq!((outcome.failed(), &outcome), (times == REVERTS_MAX, &Outcome::Reverted(times)));
            world.check(Some(OLD), "reverted");
            assert_eq!(world.content().as_deref(), Some(OLD));
        }
        world.verdict = Health::Good;
        assert_eq!(world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome"), Outcome::Applied);
        assert_eq!(world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome"), Outcome::Unchanged);
    }
}

#[test]
fn what_somebody_else_has_changed_is_never_overwritten() {
    let world = World::new(Memory::default(), Path::new("/"), Some(OLD), Some(NEW));
    world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome");
    world.files.clone().write(&world.change.path, b"edited").expect("a write");
    let other = Change { content: Some(OLD.to_vec()), ..world.change.clone() };
    let foreign = Outcome::Foreign(world.change.path.clone());
    assert_eq!(world.applier(Life::endless()).apply(&other, "2", DEADLINE).expect("an outcome"), foreign);
    assert_eq!(world.restore(), foreign);
    let path = &world.change.path;
    assert!(world.applier(Life::endless()).is_foreign(Component::ControllerManager, path).expect("it can be read"));
    assert_eq!(world.content().as_deref(), Some(&b"edited"[..]));
}

#[test]
fn an_edit_between_write_and_deadline_is_never_overwritten() {
    let mut world = World::new(Memory::default(), Path::new("/"), Some(OLD), Some(NEW));
    (world.verdict, world.edit) = (Health::Waiting, Some(&b"edited"[..]));
    let foreign = Outcome::Foreign(world.change.path.clone());
    assert_eq!(world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome"), foreign);
    assert_eq!(world.content().as_deref(), Some(&b"edited"[..]));
    // Nothing is under way any more, and nothing is changed until the edit is gone.
    (world.verdict, world.edit) = (Health::Good, None);
    assert!(world.applier(Life::endless()).recover().expect("recovers").is_empty());
    assert_eq!(world.applier(Life::endless()).apply(&world.change, "2", DEADLINE).expect("an outcome"), foreign);
    assert_eq!(world.restore(), foreign);
    assert_eq!(world.content().as_deref(), Some(&b"edited"[..]));
}

#[test]
fn a_component_that_cannot_be_restarted_gets_its_old_file_back_at_once() {
    for (old, new) in KINDS {
        let mut world = World::new(Memory::default(), Path::new("/"), old, new);
        world.stuck = true;
        let mut applier = world.applier(Life::endless());
        assert_eq!(applier.apply(&world.change, "1", DEADLINE).expect("an outcome"), Outcome::Reverted(1));
        assert_eq!(applier.why(), "cannot restart the kube-controller-manager: no such command");
        assert_eq!(world.content().as_deref(), old);
        world.check(old, "not restarted");
        world.stuck = false;
        assert_eq!(world.applier(Life::endless()).apply(&world.change, "2", DEADLINE).expect("an outcome"), Outcome::Applied);
    }
}

#[test]
fn what_cannot_be_taken_back_now_is_taken_back_later() {
    let mut world = World::new(Memory::default(), Path::new("/"), Some(OLD), Some(NEW));
    world.applier(Life::ending_at(8, Cut::Before)).apply(&world.change, "1", DEADLINE).expect_err("it ends on the way");
    world.now.set(world.now.get() + Duration::from_secs(121));
    world.stuck = true;
    world.applier(Life::endless()).recover().expect_err("it may run with the new file: it must be restarted");
    world.stuck = false;
    let recovered = world.applier(Life::endless()).recover_one(Component::ControllerManager).expect("recovers");
    assert!(matches!(recovered, Some((id, Outcome::Reverted(_))) if id == "1"));
    world.check(Some(OLD), "later");
    assert_eq!(world.content().as_deref(), Some(OLD));
}

#[test]
fn a_file_with_nothing_of_ours_in_it_may_be_changed_by_anybody() {
    let mut world = World::new(Memory::default(), Path::new("/"), Some(OLD), Some(NEW));
    world.verdict = Health::Bad;
    let outcome = world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome");
    assert_eq!(outcome, Outcome::Reverted(1));
    world.files.clone().write(&world.change.path, b"edited").expect("a write");
    let path = &world.change.path;
    assert!(!world.applier(Life::endless()).is_foreign(Component::ControllerManager, path).expect("it can be read"));
    assert_eq!(world.restore(), Outcome::Unchanged);
    assert_eq!(world.content().as_deref(), Some(&b"edited"[..]), "not what it was before the change that was taken back");
    world.verdict = Health::Good;
    assert_eq!(world.applier(Life::endless()).apply(&world.change, "2", DEADLINE).expect("an outcome"), Outcome::Applied);
    world.restore();
    assert_eq!(world.content().as_deref(), Some(&b"edited"[..]));
}

#[test]
fn uninstalling_restores_the_original_byte_for_byte() {
    for (old, new) in KINDS {
        let (_folder, world) = on_disk(old, new);
        world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome");
        let again = Change { content: Some(b"a third state".to_vec()), ..world.change.clone() };
        assert_eq!(world.applier(Life::endless()).apply(&again, "3", DEADLINE).expect("an outcome"), Outcome::Applied);
        assert!(world.applier(Life::endless()).has_changed(Component::ControllerManager));
        world.restore();
        assert_eq!(world.content().as_deref(), old);
        assert_eq!(world.running.borrow().as_deref(), old);
        assert_eq!(std::fs::read_dir(&world.folder).expect("the records").count(), 0, "nothing is remembered");
    }
}

/// A manifest of the controller manager: of this version, with these further arguments.
fn manifest(version: &str, arguments: &str) -> Vec<u8> {
    let command = format!("[kube-controller-manager, --v=2{arguments}]");
    format!(
        "kind: Pod\nspec:\n  containers:\n  - name: kube-controller-manager\n    image: x:{version}\n    command: {command}\n"
    )
    .into_bytes()
}

const GRACE: &str = ", --node-monitor-grace-period=2m0s";

#[test]
fn a_file_that_an_upgrade_has_written_without_our_values_is_begun_anew() {
    let mut world =
        World::new(Memory::default(), Path::new("/"), Some(&manifest("1", "")[..]), Some(&manifest("1", GRACE)[..]));
    let component = Component::ControllerManager;
    world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome");
    let upgraded = manifest("2", "");
    world.files.clone().write(&world.change.path, &upgraded).expect("a write");
    let path = world.change.path.clone();
    let mut applier = world.applier(Life::endless());
    assert!(!applier.is_foreign(component, &path).expect("it can be read"));
    assert!(!applier.has_changed(component) && !applier.is_adoptable(component), "nothing of ours is there");
    assert_eq!(world.restore(), Outcome::Unchanged);
    assert_eq!(world.content().as_ref(), Some(&upgraded));
    world.change.content = Some(manifest("2", GRACE));
    assert_eq!(world.applier(Life::endless()).apply(&world.change, "2", DEADLINE).expect("an outcome"), Outcome::Applied);
    assert_eq!(world.restore(), Outcome::Applied);
    assert_eq!(world.content(), Some(upgraded), "before is the upgrade now");
}

#[test]
fn a_file_that_an_upgrade_has_written_with_our_values_is_ours_when_somebody_says_so() {
    let (before, ours) = (manifest("1", ", --node-monitor-grace-period=55s"), manifest("1", GRACE));
    let world = World::new(Memory::default(), Path::new("/"), Some(&before[..]), Some(&ours[..]));
    let component = Component::ControllerManager;
    world.applier(Life::endless()).apply(&world.change, "1", DEADLINE).expect("an outcome");
    let upgraded = manifest("2", GRACE);
    world.files.clone().write(&world.change.path, &upgraded).expect("a write");
    let mut applier = world.applier(Life::endless());
    assert!(applier.is_foreign(component, &world.change.path).expect("it can be read"));
    assert!(applier.is_adoptable(component) && applier.has_changed(component));
    assert_eq!(world.restore(), Outcome::Foreign(world.change.path.clone()));
    applier.adopt(component).expect("it is ours");
    assert!(!applier.is_foreign(component, &world.change.path).expect("it can be read") && !applier.is_adoptable(component));
    *world.running.borrow_mut() = Some(upgraded);
    assert_eq!(world.restore(), Outcome::Applied);
    let left = world.content().expect("a file");
    let wanted = manifest("2", ", --node-monitor-grace-period=55s");
    let read = |content: &[u8]| -> serde_json::Value { serde_saphyr::from_slice(content).expect("YAML") };
    assert_eq!(read(&left), read(&wanted), "what the upgrade wrote, with the argument from before");
    let edited = manifest("3", ", --node-monitor-grace-period=7s");
    world.files.clone().write(&world.change.path, &edited).expect("a write");
    assert!(!world.applier(Life::endless()).is_adoptable(component), "nothing is remembered");
}
