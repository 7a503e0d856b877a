//! For tests only: the vector runner, what it knows of the vector files, JSON differences, and the real binary.

#[cfg(feature = "plane")]
pub mod client;
pub mod diff;
#[cfg(feature = "plane")]
pub mod plane;
#[cfg(feature = "http")]
pub mod script;
pub mod table;
pub mod vectors;

pub use diff::{diff, same};
pub use vectors::{Suite, Verdict};
