//! Commands of the machine, run from inside a pod whose image has nothing but our binary: in the root of the machine, with its programs.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where the programs of a machine are; the environment of a pod says nothing about that.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// From look to look at a command that runs.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the words that run a command line in the root of the machine. A root that is not our own is entered by this binary itself: there is
/// no shell and no chroot(1) beside it.
fn words(root: &Path, command: &str) -> Vec<OsString> {
    let shell = ["/bin/sh", "-c", command].map(OsString::from);
    if root == Path::new("/") {
        return shell.into();
    }
    let enter = ["/proc/self/exe".into(), "shim".into(), "--root".into(), root.into(), "--".into()];
    enter.into_iter().chain(shell).collect()
}

/// Runs a command line in the root of the machine; one that is not over in time is ended.
pub(crate) fn run(root: &Path, command: &str, timeout: Duration) -> io::Result<()> {
    let words = words(root, command);
    let mut child = Command::new(&words[0]).args(&words[1..]).env("PATH", PATH).stdin(Stdio::null()).spawn()?;
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other(format!("{command}: not over after {} s", timeout.as_secs())));
            }
            None => std::thread::sleep(LOOK),
        }
    };
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{command}: {status}"))) }
}

/// Enters a root and becomes a command there.
pub fn become_command(root: &Path, words: &[String]) -> io::Result<Infallible> {
    rustix::process::chroot(root)?;
    std::env::set_current_dir("/")?;
    Err(Command::new(&words[0]).args(&words[1..]).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_where_the_programs_of_the_machine_are() {
        let text =
            |root: &str| words(Path::new(root), "systemctl restart kubelet").join(&OsString::from(" ")).into_string().unwrap();
        assert_eq!(text("/"), "/bin/sh -c systemctl restart kubelet");
        assert_eq!(text("/host"), "/proc/self/exe shim --root /host -- /bin/sh -c systemctl restart kubelet");
    }

    #[test]
    fn a_command_that_fails_or_hangs_says_so() {
        let root = Path::new("/");
        let minute = Duration::from_secs(60);
        run(root, "exit 0", minute).unwrap();
        assert!(run(root, "exit 3", minute).unwrap_err().to_string().contains("exit status: 3"));
        let error = run(root, "exec sleep 60", Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "exec sleep 60: not over after 0 s");
    }
}
