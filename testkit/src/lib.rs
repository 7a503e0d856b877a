//! For tests only: the vector runner, what it knows of the vector files, JSON differences, odd objects, and the real binary.

#[cfg(feature = "plane")]
pub mod client;
pub mod diff;
pub mod effort;
#[cfg(feature = "plane")]
pub mod floods;
#[cfg(feature = "plane")]
pub mod kubectl;
#[cfg(feature = "plane")]
pub mod large;
#[cfg(feature = "plane")]
pub mod link;
#[cfg(feature = "plane")]
pub mod load;
pub mod needs;
#[cfg(feature = "odd")]
pub mod odd;
#[cfg(feature = "plane")]
pub mod plane;
#[cfg(feature = "http")]
pub mod script;
pub mod table;
pub mod vectors;

pub use diff::{diff, same};
pub use vectors::{Case, Suite, Verdict};

/// Returns how many inputs a property looks at: `quick`, unless `PROPTEST_CASES` asks for a longer run.
///
/// Give it to `ProptestConfig::with_cases`, which does not look at the environment.
pub fn cases(quick: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(quick)
}
