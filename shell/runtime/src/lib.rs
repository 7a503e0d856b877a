//! What every shell needs: the clock and the loop that drives a machine.

mod clock;
mod drive;

pub use clock::Clock;
pub use drive::drive;
