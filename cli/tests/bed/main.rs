//! A plane of several machines, as far as one machine can be several: agents of the real binary, each behind a link of its own
//! that can lose, delay and be cut. The clocks run faster than the world, so that minutes take seconds.
//!
//! Nothing here measures how quick the machine is: what must not happen before its time has a lower bound, what must happen
//! has all the time that a busy machine needs.

mod away;
mod bed;
mod failures;
mod rollout;
