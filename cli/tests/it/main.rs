//! End to end: the real binary, kubectl where it is installed, signals, crashes and limits.

mod kubectl;

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");
