//! The real kubectl, where there is one.

use std::io::Write;
use std::process::Command;

/// Returns whether kubectl is installed. If not, it says aloud that something is skipped.
pub fn is_installed() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output().is_ok_and(|output| output.status.success());
    if !found {
        // Past the capture of the test harness: who runs the tests must see it.
        let _ = writeln!(std::io::stderr(), "skipped: kubectl is not installed");
    }
    found
}
