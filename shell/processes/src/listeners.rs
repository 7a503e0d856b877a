//! Who listens on an address: a process of the pod, or somebody else.
//!
//! All pods of a machine share its network, and a server on 0.0.0.0 answers on every loopback address. A probe of one pod could
//! so be answered by another, or by a stranger; the kernel knows whose socket it was.

mod diag;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a probe fails with when its answer came from elsewhere.
pub const ANSWERED_BY_ANOTHER: &str = "answered by another process; bind $POD_IP";

/// Whose socket answers on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process of the pod.
    Pod,
    /// Some other process.
    Another,
    /// Nobody listens any more.
    Nobody,
}

/// Returns whether one of these processes is known to answer on an address. A quick look, for the usual case; if it says no,
/// only [`owner`] knows.
pub fn answers(address: IpAddr, port: u16, processes: &BTreeSet<i32>) -> bool {
    let Ok(Some(inode)) = diag::listening(address, port) else { return false };
    let inode = BTreeSet::from([inode]);
    processes.iter().any(|pid| holds(*pid, &inode).unwrap_or(false))
}

/// Returns who answers on an address; `processes` are those of the pod.
pub fn owner(address: IpAddr, port: u16, processes: &BTreeSet<i32>) -> io::Result<Owner> {
    if answers(address, port, processes) {
        return Ok(Owner::Pod);
    }
    // Several sockets may share the address, and not every kernel answers the quick question: its tables have them all.
    let mut sockets = parse(&std::fs::read_to_string("/proc/net/tcp")?, port);
    // Without IPv6 there is no such file, and no such socket.
    sockets.extend(parse(&std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default(), port));
    let answering = answering(address, &sockets);
    if answering.is_empty() {
        return Ok(Owner::Nobody);
    }
    let mut hidden = false;
    for pid in processes {
        match holds(*pid, &answering) {
            Ok(true) => return Ok(Owner::Pod),
            Ok(false) => {}
            Err(error) => hidden |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    // A process of the pod that does not let us look may be the one: the pod is not to suffer for that.
    Ok(if hidden { Owner::Pod } else { Owner::Another })
}

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    address: IpAddr,
    inode: u64,
}

/// Parses a table of the kernel; keeps sockets that listen on `port`.
fn parse(table: &str, port: u16) -> Vec<Listener> {
    let listener = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (address, local_port) = fields.nth(1)?.split_once(':')?;
        // 0A: listening.
        if fields.nth(1)? != "0A" || u16::from_str_radix(local_port, 16).ok()? != port {
            return None;
        }
        Some(Listener { address: parse_address(address)?, inode: fields.nth(5)?.parse().ok()? })
    };
    table.lines().skip(1).filter_map(listener).collect()
}

/// Parses an address: words of four bytes in the machine's own order, as hexadecimal numbers.
fn parse_address(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    let words = text.len() / 8;
    for index in 0..words {
        let word = u32::from_str_radix(text.get(8 * index..8 * index + 8)?, 16).ok()?;
        bytes.get_mut(4 * index..4 * index + 4)?.copy_from_slice(&word.to_ne_bytes());
    }
    match words {
        1 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        4 => Some(Ipv6Addr::from(bytes).to_canonical()),
        _ => None,
    }
}

/// Returns the inodes of the sockets that the kernel would choose: on the address itself, else on all of its kind, else on all.
fn answering(address: IpAddr, sockets: &[Listener]) -> BTreeSet<u64> {
    let all_of_kind: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    for wanted in [address, all_of_kind, Ipv6Addr::UNSPECIFIED.into()] {
        let found: BTreeSet<u64> =
            sockets.iter().filter(|socket| socket.address == wanted).map(|socket| socket.inode).collect();
        if !found.is_empty() {
            return found;
        }
    }
    BTreeSet::new()
}

/// Returns whether a process has one of the sockets open.
fn holds(pid: i32, inodes: &BTreeSet<u64>) -> io::Result<bool> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        // Closed between our two looks.
        let Ok(target) = std::fs::read_link(entry?.path()) else { continue };
        let inode = target.to_str().and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        if inode.is_some_and(|inode: u64| inodes.contains(&inode)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn listen(address: &str) -> (TcpListener, u16) {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    fn own() -> BTreeSet<i32> {
        BTreeSet::from([i32::try_from(std::process::id()).unwrap()])
    }

    #[test]
    fn a_socket_on_the_address_itself_has_an_owner() {
        let pod: IpAddr = "127.201.0.9".parse().unwrap();
        let (listener, port) = listen("127.201.0.9");
        assert_eq!(owner(pod, port, &own()).unwrap(), Owner::Pod);
        assert!(answers(pod, port, &own()) && !answers(pod, port, &BTreeSet::from([1 << 22])));
        assert_eq!(owner(pod, port, &BTreeSet::from([1 << 22])).unwrap(), Owner::Another);
        assert_eq!(owner("127.201.0.10".parse().unwrap(), port, &own()).unwrap(), Owner::Nobody);
        drop(listener);
        assert_eq!(owner(pod, port, &own()).unwrap(), Owner::Nobody);
    }

    #[test]
    fn a_socket_on_all_addresses_answers_for_the_pod() {
        let pod: IpAddr = "127.201.0.11".parse().unwrap();
        let (_listener, port) = listen("0.0.0.0");
        assert_eq!(owner(pod, port, &own()).unwrap(), Owner::Pod);
        assert_eq!(owner(pod, port, &BTreeSet::new()).unwrap(), Owner::Another);
    }

    #[test]
    fn the_most_exact_socket_answers() {
        let pod: IpAddr = "127.0.0.5".parse().unwrap();
        let at = |address: &str, inode| Listener { address: address.parse().unwrap(), inode };
        let sockets = [at("::", 1), at("0.0.0.0", 2), at("127.0.0.5", 3), at("127.0.0.6", 4)];
        assert_eq!(answering(pod, &sockets), BTreeSet::from([3]));
        assert_eq!(answering(pod, &sockets[..2]), BTreeSet::from([2]));
        assert_eq!(answering(pod, &sockets[..1]), BTreeSet::from([1]));
        assert_eq!(answering("::1".parse().unwrap(), &sockets), BTreeSet::from([1]));
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let word = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let mapped = format!("{}{}{}{}", word([0; 4]), word([0; 4]), word([0, 0, 255, 255]), word([127, 0, 0, 5]));
        let table = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: {}:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1 0\n\
             1: {}:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000  1000        0 778 1 0\n\
             2: {mapped}:1F90 {:032}:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 779 1 0\n\
             torn",
            word([127, 0, 0, 5]),
            word([127, 0, 0, 5]),
            0
        );
        let address: IpAddr = "127.0.0.5".parse().unwrap();
        assert_eq!(parse(&table, 8080), [Listener { address, inode: 777 }, Listener { address, inode: 779 }]);
        assert_eq!(parse(&table, 8081), []);
    }
}
