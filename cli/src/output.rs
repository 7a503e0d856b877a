//! Data on stdout; talk goes to stderr.

use std::io::{ErrorKind, Write};

use crate::error::Failure;

/// Prints data. A reader that has gone away, as `head` does, is no error.
pub(crate) fn print(data: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(data).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::bug(format!("cannot write to stdout: {error}"))),
        _ => Ok(()),
    }
}
