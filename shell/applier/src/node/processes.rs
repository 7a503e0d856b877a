//! Processes of the machine, found by the name of their program; with the process namespace of the host these are all of them.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
}

/// Returns the process whose program has this name; of several the one that was started first.
pub(crate) fn find(proc: &Path, program: &str) -> Option<Process> {
    let entries = std::fs::read_dir(proc).ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<Process> = pids.filter_map(|pid| read(proc, pid)).filter(|process| process.is(program)).collect();
    found.sort_by_key(|process| process.pid);
    found.into_iter().next()
}

fn read(proc: &Path, pid: i32) -> Option<Process> {
    let bytes = std::fs::read(proc.join(pid.to_string()).join("cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(Process { pid, command: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect() })
}

impl Process {
    fn is(&self, program: &str) -> bool {
        self.command.first().is_some_and(|word| PathBuf::from(word).file_name().is_some_and(|name| name == program))
    }

    /// Asks the process to end.
    pub(crate) fn terminate(&self) -> std::io::Result<()> {
        let pid = Pid::from_raw(self.pid).ok_or(std::io::ErrorKind::NotFound)?;
        match kill_process(pid, Signal::TERM) {
            // It has ended meanwhile.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => other.map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_program_and_not_by_its_arguments() {
        let root = tempfile::tempdir().unwrap();
        for (pid, cmdline) in [("7", "/usr/bin/kubelet\0--config=/c\0"), ("5", "sh\0kubelet\0"), ("9", "kubelet\0"), ("x", "")]
        {
            std::fs::create_dir(root.path().join(pid)).unwrap();
            std::fs::write(root.path().join(pid).join("cmdline"), cmdline).unwrap();
        }
        let found = find(root.path(), "kubelet").unwrap();
        assert_eq!((found.pid, found.command), (7, vec!["/usr/bin/kubelet".to_owned(), "--config=/c".to_owned()]));
        assert_eq!(find(root.path(), "kube-apiserver"), None);
    }
}
