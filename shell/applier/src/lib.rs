//! Changes of the files of a stock cluster's components: confirmed as healthy, or undone byte for byte.
//!
//! A latency profile lives on a stock cluster in a kubelet drop-in and in arguments of static pods. Each change is
//! *commit-confirmed*: it is recorded with everything that undoing it needs, then written, the component is restarted, and only
//! a component that proves healthy before the deadline confirms it. Whoever finds an unconfirmed record, also after a crash or
//! a reboot and without an API server, finishes the change or takes it back. The invariant: outside of a running change the
//! file is exactly the old or exactly the new one, and the component was restarted after it became so.
//!
//! - [`change`]: what is to be changed;
//! - [`record`]: what is remembered on disk;
//! - [`files`]: the few operations on files, each of which a test can interrupt;
//! - [`Applier`]: the order of everything;
//! - `node`: the files and processes of a real node;
//! - [`agent`]: takes steps from the controllers, and answers.

pub mod agent;
pub mod change;
pub mod files;
mod node;
mod record;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::Time;
use profiles::steps::Component;

pub use change::Change;
pub use files::{Disk, Files};
use node::files::with_settings;
pub use node::host::NodePlace;
pub use node::root::become_command;
use record::{Pending, Record};

/// A change that is taken back this often in a row has failed; it is not for the applier to try for ever.
pub const REVERTS_MAX: u32 = 3;

/// How a component is after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Healthy, and the values that it really uses are the new ones.
    Good,
    /// Not yet.
    Waiting,
    /// It never will be: it refuses the file, or something overrides the values.
    Bad,
}

/// The machine that the components run on.
pub trait Host {
    /// Returns the time of the wall: deadlines must outlive a reboot.
    fn now(&self) -> Time;
    /// Makes a component read its files again: `systemctl restart kubelet`; the kubelet itself restarts a static pod.
    fn restart(&mut self, component: Component) -> io::Result<()>;
    /// Returns how a component is. Told the change, to compare the values in use with the ones written.
    fn health(&mut self, change: &Change) -> Health;
    /// Waits a moment before the next look.
    fn pause(&mut self);
    /// Returns what stood in the way of health last.
    fn why(&self) -> String {
        String::new()
    }
    /// Returns whether nobody waits any more: what is under way is left to the next applier.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Whether a component must be restarted after its file is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    Needed,
    /// It was not restarted with the new file either.
    IfPossible,
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file was as wanted already.
    Unchanged,
    /// The new file is there and its component is healthy.
    Applied,
    /// The old file is there again; so often in a row by now.
    Reverted(u32),
    /// Somebody else has changed the file: it is left alone.
    Foreign(PathBuf),
}

impl Outcome {
    /// Returns whether it is time to give up: the reason `ApplyFailed`.
    pub fn failed(&self) -> bool {
        matches!(self, Outcome::Reverted(times) if *times >= REVERTS_MAX)
    }
}

/// Why a change could neither be finished nor be taken back yet; [`Applier::recover`] goes on from here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file.
    #[error("{}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// A component could not be restarted.
    #[error("cannot restart the {}", component.name())]
    Restart {
        /// Which one.
        component: Component,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// What was remembered cannot be read; nothing is touched then.
    #[error("{} is damaged", .0.display())]
    Record(PathBuf),
    /// The applier was told to stop; the change is still under way.
    #[error("told to stop")]
    Stopped,
}

/// Changes files of components of one machine.
pub struct Applier<F, H> {
    /// Where records are: never inside a manifest directory, where a backup would be run as a second pod.
    folder: PathBuf,
    files: F,
    host: H,
    /// What made it give up the last change, if that was not the health of the component.
    failure: String,
}

impl<F: Files, H: Host> Applier<F, H> {
    /// Returns an applier that remembers in `folder`. Call [`Applier::recover`] before anything else.
    pub fn new(folder: impl Into<PathBuf>, files: F, host: H) -> Applier<F, H> {
        Applier { folder: folder.into(), files, host, failure: String::new() }
    }

    /// Returns the machine.
    pub fn host(&mut self) -> &mut H {
        &mut self.host
    }

    /// Returns why the last change was taken back.
    pub fn why(&self) -> String {
        if self.failure.is_empty() { self.host.why() } else { self.failure.clone() }
    }

    /// Makes a change that has so long to prove healthy, and returns when it is confirmed or taken back; `id` says which step it is.
    pub fn apply(&mut self, change: &Change, id: &str, deadline: Duration) -> Result<Outcome, Error> {
        let current = self.read(&change.path)?;
        let mut record = match self.load(change.component)? {
            Some(record) if record.holds_something() && !record.is_replaced(change.component, current.as_deref()) => record,
            // Nothing of ours is there: whatever the file is now is what it was before.
            earlier => {
                let reverted = earlier.map_or(0, |record| record.reverted);
                Record { reverted, ..Record::new(change.path.clone(), current.clone()) }
            }
        };
        if record.path != change.path || record.last != current {
            return Ok(Outcome::Foreign(change.path.clone()));
        }
        if current == change.content {
            return Ok(Outcome::Unchanged);
        }
        let deadline = self.host.now() + deadline;
        record.pending = Some(Pending { new: change.content.clone(), deadline, id: id.to_owned(), values: change.values });
        self.save(change.component, &record)?;
        // From here on the file may be another one: whatever goes wrong, it is taken back.
        let written = self.replace(&change.path, change.content.as_deref());
        self.finish(change, record, deadline, written)
    }

    /// Restarts a component whose new file is there, and confirms the change or takes it back: also where the component cannot be
    /// restarted at all.
    fn finish(
        &mut self,
        change: &Change,
        mut record: Record,
        deadline: Time,
        written: Result<(), Error>,
    ) -> Result<Outcome, Error> {
        self.failure.clear();
        let error = match written.and_then(|()| self.restart(change.component)) {
            Ok(()) => return self.confirm(change, record, deadline),
            Err(error) => error,
        };
        self.failure = runtime::chain(&error);
        record.reverted += 1;
        // One that could not be restarted still runs with the old file.
        let restart = if matches!(error, Error::Restart { .. }) { Restart::IfPossible } else { Restart::Needed };
        self.revert(change.component, record, restart)
    }

    /// Waits for a component that was restarted with its new file, and confirms the change or takes it back.
    fn confirm(&mut self, change: &Change, mut record: Record, deadline: Time) -> Result<Outcome, Error> {
        let component = change.component;
        let healthy = loop {
            match self.host.health(change) {
                Health::Good => break true,
                Health::Bad => break false,
                Health::Waiting if self.host.is_stopped() => return Err(Error::Stopped),
                Health::Waiting if self.host.now() >= deadline => break false,
                Health::Waiting => self.host.pause(),
            }
        };
        if !healthy {
            record.reverted += 1;
            return self.revert(component, record, Restart::Needed);
        }
        record.last = change.content.clone();
        (record.pending, record.reverted) = (None, 0);
        self.save(component, &record)?;
        tracing::info!(component = component.name(), file = %change.path.display(), "change confirmed");
        Ok(Outcome::Applied)
    }

    /// Takes a change back, unless somebody has edited the file since: that is never overwritten.
    fn revert(&mut self, component: Component, mut record: Record, restart: Restart) -> Result<Outcome, Error> {
        let pending = record.pending.take();
        let current = self.read(&record.path)?;
        if let Some(pending) = pending.filter(|pending| current != pending.new && current != record.last) {
            // What was edited is what we wrote: as long as it is there, the file is not as somebody wants it.
            record.last = pending.new;
            self.save(component, &record)?;
            return Ok(Outcome::Foreign(record.path));
        }
        tracing::warn!(component = component.name(), file = %record.path.display(), "change taken back");
        self.replace(&record.path, record.last.as_deref())?;
        match self.restart(component) {
            Err(error) if restart == Restart::IfPossible => {
                tracing::warn!(error = runtime::chain(&error), "the component goes on as it is")
            }
            done => done?,
        }
        self.save(component, &record)?;
        Ok(Outcome::Reverted(record.reverted))
    }

    /// Finishes or takes back what was under way when the applier ended, and tells what became of it.
    pub fn recover(&mut self) -> Result<Vec<(Component, String, Outcome)>, Error> {
        let mut outcomes = Vec::new();
        for component in Component::ALL {
            outcomes.extend(self.recover_one(component)?.map(|(id, outcome)| (component, id, outcome)));
        }
        Ok(outcomes)
    }

    /// The same for one component; `None`: nothing was under way.
    pub fn recover_one(&mut self, component: Component) -> Result<Option<(String, Outcome)>, Error> {
        let Some(mut record) = self.load(component)? else { return Ok(None) };
        self.tidy(&record.path)?;
        let Some(pending) = record.pending.clone() else { return Ok(None) };
        let (current, id) = (self.read(&record.path)?, pending.id.clone());
        let outcome = if current == pending.new && self.host.now() < pending.deadline {
            let change = Change { component, path: record.path.clone(), content: pending.new, values: pending.values };
            self.finish(&change, record, pending.deadline, Ok(()))?
        } else {
            // An applier that ended before it wrote says nothing about the component.
            record.reverted += u32::from(current == pending.new);
            self.failure = "an agent ended before it was proven, and its deadline is over".to_owned();
            // Also when the old file is there: nobody knows whether the component was restarted since.
            self.revert(component, record, Restart::Needed)?
        };
        Ok(Some((id, outcome)))
    }

    /// Restores the file of a component as it was before the first change, unless somebody else has changed it since.
    pub fn restore(&mut self, component: Component, id: &str, deadline: Duration) -> Result<Outcome, Error> {
        let Some(record) = self.load(component)? else { return Ok(Outcome::Unchanged) };
        let current = self.read(&record.path)?;
        if !record.holds_something() || record.is_replaced(component, current.as_deref()) {
            self.remove(&self.record_path(component))?;
            return Ok(Outcome::Unchanged);
        }
        let change = Change { component, path: record.path.clone(), content: record.original.clone(), values: None };
        let outcome = self.apply(&change, id, deadline)?;
        if matches!(outcome, Outcome::Applied | Outcome::Unchanged) {
            self.remove(&self.record_path(component))?;
        }
        Ok(outcome)
    }

    /// Returns whether the file of a component is not as the last change left it, or another one than then.
    pub fn is_foreign(&mut self, component: Component, path: &Path) -> Result<bool, Error> {
        let Some(record) = self.load(component)?.filter(Record::holds_something) else { return Ok(false) };
        let current = self.read(path)?;
        // Whatever a change is about to make of it is ours.
        let pending = record.pending.as_ref().is_some_and(|pending| pending.new == current);
        let other = record.last != current && !pending && !record.is_replaced(component, current.as_deref());
        Ok(record.path != path || other)
    }

    /// Returns whether somebody has written the file of a component anew with our values in it, as an upgrade does that knows them.
    pub fn is_adoptable(&mut self, component: Component) -> bool {
        self.adopted(component).is_ok_and(|record| record.is_some())
    }

    /// Makes such a file ours again. What is there before the first change is then this file with the values from before.
    pub fn adopt(&mut self, component: Component) -> Result<(), Error> {
        match self.adopted(component)? {
            Some(record) => self.save(component, &record),
            None => Ok(()),
        }
    }

    fn adopted(&mut self, component: Component) -> Result<Option<Record>, Error> {
        let Some(record) = self.load(component)?.filter(|record| record.holds_something() && record.pending.is_none()) else {
            return Ok(None);
        };
        let current = self.read(&record.path)?;
        if current == record.last {
            return Ok(None);
        }
        let original = with_settings(component, current.as_deref(), record.last.as_deref(), record.original.as_deref());
        Ok(original.map(|original| Record { original: Some(original), last: current, ..record }))
    }

    /// Returns whether a change of a component is neither confirmed nor taken back; [`Applier::recover_one`] goes on with it.
    pub fn is_pending(&mut self, component: Component) -> bool {
        matches!(self.load(component), Ok(Some(record)) if record.pending.is_some())
    }

    /// Returns whether something of ours is in the files of a component.
    pub fn has_changed(&mut self, component: Component) -> bool {
        let Ok(Some(record)) = self.load(component) else { return false };
        let current = self.read(&record.path).ok().flatten();
        record.last != record.original && !record.is_replaced(component, current.as_deref())
    }

    fn restart(&mut self, component: Component) -> Result<(), Error> {
        self.host.restart(component).map_err(|source| Error::Restart { component, source })
    }

    fn record_path(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{}.json", component.name()))
    }

    fn load(&mut self, component: Component) -> Result<Option<Record>, Error> {
        let path = self.record_path(component);
        match self.read(&path)? {
            None => Ok(None),
            Some(bytes) => Record::decode(&bytes).map(Some).ok_or(Error::Record(path)),
        }
    }

    fn save(&mut self, component: Component, record: &Record) -> Result<(), Error> {
        self.replace(&self.record_path(component), Some(&record.encode()))
    }

    fn read(&mut self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        self.files.read(path).map_err(|source| Error::File { path: path.to_owned(), source })
    }

    fn remove(&mut self, path: &Path) -> Result<(), Error> {
        let done = self.files.remove(path).and_then(|()| self.files.sync_folder(path));
        done.map_err(|source| Error::File { path: path.to_owned(), source })
    }

    /// Makes a file have this content, or be absent: whole or not at all, and durable on return.
    fn replace(&mut self, path: &Path, content: Option<&[u8]>) -> Result<(), Error> {
        let Some(content) = content else { return self.remove(path) };
        let aside = aside(path);
        let done = self
            .files
            .write(&aside, content)
            .and_then(|()| self.files.rename(&aside, path))
            .and_then(|()| self.files.sync_folder(path));
        done.map_err(|source| Error::File { path: path.to_owned(), source })
    }

    /// Removes what an interrupted replacement has left.
    fn tidy(&mut self, path: &Path) -> Result<(), Error> {
        self.remove(&aside(path))
    }
}

/// Returns where a file is prepared: beside its place, so that a rename does; with a dot, so that no kubelet takes it.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.lifesign"))
}
