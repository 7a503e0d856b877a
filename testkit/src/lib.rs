//! For tests only: the vector runner, what it knows of the vector files, and JSON differences.

pub mod diff;
#[cfg(feature = "http")]
pub mod script;
pub mod table;
pub mod vectors;

pub use diff::{diff, same};
pub use vectors::{Suite, Verdict};
