//! The contract between cores and shells: [`Time`], [`Machine`] a seeded [`Rng`], and the two collections that controllers share.
//!
//! A core decides and never acts: it takes `now` as an argument and returns what must be done as data. A shell acts and
//! never decides. Everything here is plain arithmetic, so a test or the simulator can drive a core through hours in
//! microseconds.

mod back_off;
mod bucket;
mod groups;
mod rng;
mod time;
mod work_queue;

pub use back_off::{BackOff, Failures};
pub use bucket::Bucket;
pub use groups::Groups;
pub use rng::Rng;
pub use time::Time;
pub use work_queue::WorkQueue;

/// A decision maker with memory and deadlines.
///
/// A shell calls [`step`](Machine::step) for every fact and whenever [`deadline`](Machine::deadline) has passed, then
/// performs the effects in order. Calling `step` early, late or twice is harmless: each call does what is due at `now`.
pub trait Machine {
    /// A fact from outside.
    type Input;
    /// Something that must be done outside.
    type Effect;

    /// Takes one fact (`None`: the deadline has passed) and appends what must be done.
    fn step(&mut self, now: Time, input: Option<Self::Input>, effects: &mut Vec<Self::Effect>);

    /// When to call [`step`](Machine::step) again if nothing happens before; `None`: not until the next fact.
    fn deadline(&self) -> Option<Time>;
}
