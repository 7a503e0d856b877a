//! What the machine is: for the Node object.

use std::path::Path;

/// What the machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineFacts {
    pub(crate) cpus: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) hostname: String,
    pub(crate) kernel: String,
    pub(crate) os_image: String,
    pub(crate) machine_id: String,
    pub(crate) boot_id: String,
}

impl MachineFacts {
    /// Reads them; what cannot be read stays empty. `disk`: a directory on the disk that pods write to.
    pub(crate) fn read(disk: &Path) -> MachineFacts {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let uname = rustix::system::uname();
        let space = rustix::fs::statvfs(disk).map(|stat| stat.f_blocks.saturating_mul(stat.f_frsize)).unwrap_or(0);
        MachineFacts {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory(&text("/proc/meminfo")),
            disk_bytes: space,
            hostname: uname.nodename().to_string_lossy().into_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
            os_image: os_image(&text("/etc/os-release")),
            machine_id: text("/etc/machine-id"),
            boot_id: text("/proc/sys/kernel/random/boot_id"),
        }
    }
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn os_image(release: &str) -> String {
    let line = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

/// Returns the name that Kubernetes has for the processor.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        assert_eq!(memory("MemFree: 1 kB\nMemTotal:       2048 kB\n"), 2 << 20);
        assert_eq!(memory("nonsense"), 0);
        assert_eq!(os_image("ID=x\nPRETTY_NAME=\"Some Linux 9\"\n"), "Some Linux 9");
    }

    #[test]
    fn this_machine_has_processors_and_memory() {
        let facts = MachineFacts::read(Path::new("/"));
        assert!(facts.cpus > 0 && facts.memory_bytes > 0 && !facts.kernel.is_empty(), "{facts:?}");
    }
}
