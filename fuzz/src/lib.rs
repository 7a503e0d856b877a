//! What the fuzz targets do with bytes: everything that the API server and the
//! admission webhook do before something is stored.
//!
//! A panic is a finding, and so is a broken law: what was accepted can be written back unchanged, defaulting settles, a
//! patch keeps JSON JSON. Each function is one target; nothing here needs a fuzzer, so a finding is a unit test away.

mod definitions;
mod markers;
mod objects;
mod reviews;
mod texts;

pub use self::markers::markers;
pub use definitions::definition;
pub use objects::{object, patch, protobuf};
pub use reviews::review;
pub use texts::text;
