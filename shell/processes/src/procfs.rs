//! The processes of a container, as /proc shows them.
//!
//! A process belongs to an instance if it is below its shim (a child subreaper: whoever forks twice or opens a session of
//! its own comes back to it) or carries the marker of the instance in its environment (commands that the agent ran in the
//! container, and what they left behind). Only a process that clears its environment in such a command escapes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use crate::state::{COMMAND_MARKER, MARKER, ProcessId};

/// One line of `/proc/PID/stat`, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Its group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
    /// Whether it has ended and waits for its parent to notice.
    pub zombie: bool,
}

impl Stat {
    /// Parses `/proc/PID/stat`; the name of the program may hold anything, so it ends at the last parenthesis.
    fn parse(text: &str) -> Option<Stat> {
        let (head, tail) = (text.split(' ').next()?, text.rsplit_once(") ")?.1);
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Stat {
            pid: head.parse().ok()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            start_ticks: fields.get(19)?.parse().ok()?,
            zombie: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

/// Returns what /proc says of a process; `None`: it is gone.
pub fn stat(pid: i32) -> Option<Stat> {
    Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the signals that this process ignores, a bit for each, from the first.
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the identity of a running process.
pub fn identify(pid: i32) -> Option<ProcessId> {
    stat(pid).map(|stat| ProcessId { pid, start_ticks: stat.start_ticks })
}

/// Returns whether a process still runs: the same one, not a later one with its number, and not a zombie.
pub fn is_running(id: ProcessId) -> bool {
    stat(id.pid).is_some_and(|stat| stat.start_ticks == id.start_ticks && !stat.zombie)
}

/// Returns all processes that can be seen.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

/// Returns everything below a process, itself left out, zombies left out.
pub fn below(root: i32) -> BTreeSet<i32> {
    descendants(root, &all())
}

/// Returns a process and what is below it, without a look at any other process. Children may be missing: not every kernel
/// tells them, and whoever opens a session of its own and loses its parent is below somebody else.
pub fn family(root: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for task in std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().filter_map(Result::ok) {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            next.extend(children.filter(|pid| found.insert(*pid)));
        }
    }
    found
}

fn descendants(root: i32, all: &[Stat]) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<&Stat>> = BTreeMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = BTreeSet::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            // A list read while processes come and go may hold a number twice; a cycle must not hang us.
            if found.insert(child.pid) {
                next.push(child.pid);
            }
        }
    }
    found.remove(&root);
    found.retain(|pid| all.iter().any(|stat| stat.pid == *pid && !stat.zombie));
    found
}

/// Returns the processes of an instance: below its shim, or marked. `shim`: `None` if it is dead.
pub fn of_instance(shim: Option<i32>, id: &str) -> BTreeSet<i32> {
    let all = all();
    let mut found = shim.map(|shim| descendants(shim, &all)).unwrap_or_default();
    add_marked(&all, &format!("{MARKER}={id}"), shim, &mut found);
    found
}

/// Returns the processes of a command: below its first process, in its group, or marked, however often they forked or
/// opened a session of their own.
fn of_command(leader: i32, id: &str) -> BTreeSet<i32> {
    let all = all();
    let mut found = descendants(leader, &all);
    found.extend(all.iter().filter(|stat| stat.group == leader && !stat.zombie).map(|stat| stat.pid));
    add_marked(&all, &format!("{COMMAND_MARKER}={id}"), None, &mut found);
    found
}

/// Adds the processes that have an entry in their environment; never this one, nor `shim`.
fn add_marked(all: &[Stat], entry: &str, shim: Option<i32>, found: &mut BTreeSet<i32>) {
    let own = std::process::id();
    for stat in all.iter().filter(|stat| !stat.zombie) {
        if Some(stat.pid) == shim || u32::try_from(stat.pid) == Ok(own) || found.contains(&stat.pid) {
            continue;
        }
        if carries(stat, entry.as_bytes()) {
            found.insert(stat.pid);
        }
    }
}

/// Returns whether a process has an entry in its environment.
fn carries(stat: &Stat, entry: &[u8]) -> bool {
    // In the middle of becoming another program it has none for a moment; threads of the kernel, children of process 2, never.
    for _ in 0..5 {
        // Not ours to read, or gone meanwhile: not ours to kill.
        let Ok(environment) = std::fs::read(format!("/proc/{}/environ", stat.pid)) else { return false };
        if !environment.is_empty() || stat.parent == 2 || stat.pid == 2 {
            return environment.split(|byte| *byte == 0).any(|found| found == entry);
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    false
}

/// Kills every process of an instance and returns when none is left; `shim` is never killed.
///
/// Blocks, usually for a few milliseconds. The caller's own children are reaped on the way if `reap` says so.
pub(crate) fn kill_instance(shim: Option<i32>, id: &str, reap: bool) {
    loop {
        let found = of_instance(shim, id);
        if found.is_empty() {
            return;
        }
        let handles: Vec<OwnedFd> = found.iter().filter_map(|pid| open(*pid).ok()).collect();
        for pid in &found {
            // Gone meanwhile is as good as killed.
            let _ = signal(*pid, Signal::KILL);
        }
        await_end(&handles);
        while reap && matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    }
}

/// Kills a command with everything that it started, and returns when all of it is dead; `leader` is its first process.
///
/// Blocks, usually for a few milliseconds; a process that is stuck in the kernel is not waited for.
pub(crate) fn kill_command(leader: i32, id: &str) {
    for _ in 0..10 {
        let found = of_command(leader, id);
        if found.is_empty() {
            return;
        }
        let handles: Vec<OwnedFd> = found.iter().filter_map(|pid| open(*pid).ok()).collect();
        // At once, so that nobody can be born meanwhile; then those that left the group. Gone meanwhile is as good as killed.
        let _ = signal_group(leader, Signal::KILL);
        for pid in &found {
            let _ = signal(*pid, Signal::KILL);
        }
        await_end(&handles);
    }
}

/// Waits until the processes have ended, but not for ever: one may be stuck in the kernel.
fn await_end(handles: &[OwnedFd]) {
    let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    for handle in handles {
        // An error only makes the next round come sooner.
        let _ = rustix::event::poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&patience));
    }
}

/// Returns a handle that becomes readable when the process ends.
pub fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends a signal to one process.
pub fn signal(pid: i32, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

/// Sends a signal to a whole process group.
pub fn signal_group(group: i32, signal: Signal) -> io::Result<()> {
    // 0 would be our own group, 1 would be everybody.
    let group = Pid::from_raw(group).filter(|group| !group.is_init()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process_group(group, signal)?)
}

/// Returns the path of a program as the C library would find it, or the error that running it would give.
///
/// Looking it up here lets the standard library start it without copying our page tables.
pub fn find_program(program: &str, search: Option<&str>, working_dir: Option<&Path>) -> Result<std::path::PathBuf, io::Error> {
    use std::os::unix::fs::PermissionsExt;
    if program.contains('/') {
        return Ok(program.into());
    }
    let mut denied = false;
    for folder in search.unwrap_or("/bin:/usr/bin").split(':') {
        let folder = if folder.is_empty() { Path::new(".") } else { Path::new(folder) };
        let candidate = working_dir.map_or_else(|| folder.to_owned(), |base| base.join(folder)).join(program);
        match std::fs::metadata(&candidate) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(_) => denied = true,
            Err(_) => {}
        }
    }
    let errno = if denied && !program.is_empty() { rustix::io::Errno::ACCESS } else { rustix::io::Errno::NOENT };
    Err(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_hold_anything() {
        let text = "42 (a) b (c)) S 7 42 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.group, stat.session, stat.start_ticks), (42, 7, 42, 3, 98765));
        assert!(!stat.zombie);
        assert_eq!(Stat::parse("42 (a"), None);
    }

    #[test]
    fn this_process_is_seen_and_is_itself() {
        let own = i32::try_from(std::process::id()).unwrap();
        let id = identify(own).unwrap();
        assert!(is_running(id));
        assert!(!is_running(ProcessId { start_ticks: id.start_ticks + 1, ..id }));
        assert!(all().iter().any(|stat| stat.pid == own));
    }

    #[test]
    fn a_family_is_a_process_and_its_children() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let seen = family(own);
        assert_eq!(family(pid), BTreeSet::from([pid]));
        child.kill().unwrap();
        child.wait().unwrap();
        // Some kernels are built without it.
        if Path::new("/proc/thread-self/children").exists() {
            assert!(seen.contains(&own) && seen.contains(&pid), "{seen:?}");
        }
    }

    #[test]
    fn descendants_survive_a_torn_list() {
        let stat = |pid, parent| Stat { pid, parent, group: 0, session: 0, start_ticks: 0, zombie: pid == 4 };
        let all = [stat(2, 1), stat(3, 2), stat(4, 3), stat(5, 9), stat(1, 3)];
        assert_eq!(descendants(1, &all), BTreeSet::from([2, 3]));
    }

    #[test]
    fn programs_are_found_as_the_c_library_finds_them() {
        assert!(find_program("sh", Some("/nowhere:/bin"), None).is_ok());
        assert_eq!(find_program("sh", Some("/nowhere"), None).unwrap_err().raw_os_error(), Some(2));
        assert_eq!(find_program("passwd", Some("/etc"), None).unwrap_err().raw_os_error(), Some(13));
        assert_eq!(find_program("./x/y", None, None).unwrap(), Path::new("./x/y"));
    }
}
