//! When the attempts of one worker are due: a grid of instants that wake-up latency cannot shift.
//!
//! The rules are those of every probe that we run, of containers and of markers: the next attempt is one period after the
//! due instant of the last one, but the target always gets some rest after an attempt; an attempt that overruns moves the
//! grid. What an outcome means is decided elsewhere.
//!
//! Invariant: at most one attempt runs, and none is handed out before it is due.

use std::time::Duration;

use machine::Time;

/// The longest pause that a target gets between the end of one attempt and the next.
const REST_MAX: Duration = Duration::from_millis(100);
/// A second look comes this long after the first attempt was due.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Returns the pause that a target gets after an attempt: a tenth of the period in whole milliseconds, at most 100 ms.
pub fn rest(period: Duration) -> Duration {
    if period >= REST_MAX * 10 {
        return REST_MAX;
    }
    Duration::from_millis(u64::try_from(period.as_millis() / 10).unwrap_or(0))
}

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Unlike that of every other recent attempt of this schedule.
    pub id: u32,
    /// The instant it was scheduled for; it may have begun later.
    pub due: Time,
    place: Place,
}

/// What an attempt is to the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is one of its instants.
    Grid,
    /// A second look before this instant, which it does not shift.
    Look { grid: Time },
    /// It took the connection that a knock opened, while this attempt waited.
    Knock { waiting: Waiting },
}

/// An attempt that waits for its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    due: Time,
    /// For a second look: the next instant of the grid.
    look: Option<Time>,
}

impl Attempt {
    /// Returns whether this is a second look.
    pub fn is_look(&self) -> bool {
        matches!(self.place, Place::Look { .. })
    }

    /// Returns whether this attempt is not one of the grid: its failure does not count.
    pub fn is_extra(&self) -> bool {
        self.place != Place::Grid
    }
}

/// When the next attempt is due, or which one runs.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    state: RunState,
    launched: u32,
    last_due: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
enum RunState {
    #[default]
    Idle,
    Waiting(Waiting),
    Running(Attempt),
}

impl Schedule {
    /// Sets the first attempt of a container instance; what was scheduled or running is forgotten.
    pub fn start(&mut self, due: Time) {
        self.wait(due, None);
        self.last_due = None;
    }

    fn wait(&mut self, due: Time, look: Option<Time>) {
        self.state = RunState::Waiting(Waiting { due, look });
    }

    /// Forgets what is scheduled or running; returns the attempt that ran, which may be cancelled.
    pub fn stop(&mut self) -> Option<u32> {
        let running = self.running();
        self.state = RunState::Idle;
        self.last_due = None;
        running.map(|attempt| attempt.id)
    }

    /// Returns when the next attempt is due; `None` while one runs or nothing is scheduled.
    pub fn due(&self) -> Option<Time> {
        match self.state {
            RunState::Waiting(waiting) => Some(waiting.due),
            RunState::Idle | RunState::Running(_) => None,
        }
    }

    /// Returns the attempt that runs.
    pub fn running(&self) -> Option<Attempt> {
        match self.state {
            RunState::Running(attempt) => Some(attempt),
            RunState::Idle | RunState::Waiting(_) => None,
        }
    }

    /// Hands out the attempt that is due, if one is.
    pub fn launch(&mut self, now: Time) -> Option<Attempt> {
        let RunState::Waiting(Waiting { due, look }) = self.state else { return None };
        if due > now {
            return None;
        }
        Some(self.run(due, look.map_or(Place::Grid, |grid| Place::Look { grid })))
    }

    /// Hands out an attempt for a connection that was accepted at `at`: an extra one, or the one that was due by then.
    pub fn launch_accepted(&mut self, at: Time) -> Option<Attempt> {
        match self.state {
            RunState::Waiting(waiting) if at < waiting.due => Some(self.run(at, Place::Knock { waiting })),
            _ => self.launch(at),
        }
    }

    fn run(&mut self, due: Time, place: Place) -> Attempt {
        self.launched = self.launched.wrapping_add(1);
        let attempt = Attempt { id: self.launched, due, place };
        self.state = RunState::Running(attempt);
        self.last_due = Some(due);
        attempt
    }

    /// Returns the id of the attempt that was handed out last.
    pub fn last_id(&self) -> u32 {
        self.launched
    }

    /// Takes back an attempt that has completed; `None` if it is not the one that runs. Nothing is scheduled then.
    pub fn finish(&mut self, id: u32) -> Option<Attempt> {
        let attempt = self.running().filter(|attempt| attempt.id == id)?;
        self.state = RunState::Idle;
        Some(attempt)
    }

    /// Schedules the attempt after `attempt`, which completed now. Returns whether that one overran and moved the grid.
    pub fn follow(&mut self, now: Time, attempt: Attempt, period: Duration) -> bool {
        let grid = match attempt.place {
            Place::Look { grid } => grid,
            Place::Grid | Place::Knock { .. } => attempt.due + period,
        };
        let rested = now + rest(period);
        self.wait(grid.max(rested), None);
        rested > grid
    }

    /// Schedules what waited while `attempt`, which completed now, had the connection of a knock: the target gets its rest, and
    /// a second look that would come no earlier than the grid is left out. Returns whether `attempt` was such a one.
    pub fn resume(&mut self, now: Time, attempt: Attempt, period: Duration) -> bool {
        let Place::Knock { waiting } = attempt.place else { return false };
        let rested = now + rest(period);
        match waiting {
            Waiting { due, look: Some(grid) } if due.max(rested) < grid => self.wait(due.max(rested), Some(grid)),
            Waiting { due, look } => self.wait(look.unwrap_or(due).max(rested), None),
        }
        true
    }

    /// Schedules a second look after `attempt`, which completed now, if there is time for one before the next instant of
    /// the grid. Returns whether it did.
    pub fn look_again(&mut self, now: Time, attempt: Attempt, period: Duration) -> bool {
        let grid = attempt.due + period;
        let due = (attempt.due + LOOK_AFTER).max(now + rest(period));
        if period <= LOOK_AFTER || due >= grid {
            return false;
        }
        self.wait(due, Some(grid));
        true
    }

    /// Applies a new period to the attempt that waits: it comes one period after the last one, if that is earlier.
    pub fn shorten(&mut self, period: Duration) {
        if let (RunState::Waiting(Waiting { due, look: None }), Some(last)) = (self.state, self.last_due) {
            self.wait(due.min(last + period), None);
        }
    }
}

/// Equal outcomes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<Kind> {
    kind: Option<Kind>,
    length: u32,
}

impl<Kind> Default for Run<Kind> {
    fn default() -> Run<Kind> {
        Run { kind: None, length: 0 }
    }
}

impl<Kind: Copy + PartialEq> Run<Kind> {
    /// Counts one more outcome; returns how many of its kind there are in a row now.
    pub fn count(&mut self, kind: Kind) -> u32 {
        self.length = if self.kind == Some(kind) { self.length.saturating_add(1) } else { 1 };
        self.kind = Some(kind);
        self.length
    }

    /// Forgets the run.
    pub fn reset(&mut self) {
        *self = Run::default();
    }
}

#[cfg(test)]
mod tests;
