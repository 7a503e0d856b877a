//! Addresses of pods and Services: loopback ranges that no two planes of one machine use at the same time.
//!
//! A /24 is claimed by binding an abstract socket with its name: the kernel lets one process of the network namespace have
//! it, whatever its user, and takes it back when that process ends, however it ends. While pods run on without their agent,
//! their shims hold names below it, so nobody else takes the range from under them.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Where the range of a node's pods comes from.
pub const POD_RANGE: Cidr = Cidr { base: Ipv4Addr::new(127, 88, 0, 0), prefix: 13 };
/// Where the range of cluster IPs comes from.
pub const SERVICE_RANGE: Cidr = Cidr { base: Ipv4Addr::new(127, 96, 0, 0), prefix: 13 };

const PREFIX: &str = "lifesign/";
/// Nobody looks longer at who lives in a range, however busy the machine is.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// A range of IPv4 addresses such as `127.88.0.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    base: Ipv4Addr,
    prefix: u8,
}

/// A text that is no usable range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Not a range at all.
    #[error("{0:?} is not an address range; write for example 127.88.4.0/24")]
    Syntax(String),
    /// Not usable for loopback addresses.
    #[error("{0} cannot be used: the range must lie within 127.0.0.0/8, outside 127.0.0.0/24, and be between /16 and /30")]
    NotLoopback(Cidr),
}

impl Cidr {
    /// Parses a range that pods or Services of this machine can have.
    pub fn loopback(text: &str) -> Result<Cidr, CidrError> {
        let cidr: Cidr = text.parse()?;
        let [first, second, third, _] = cidr.base.octets();
        if first != 127 || (second, third) == (0, 0) || !(16..=30).contains(&cidr.prefix) {
            return Err(CidrError::NotLoopback(cidr));
        }
        Ok(cidr)
    }

    /// Returns the first address and the length of the prefix.
    pub fn parts(&self) -> (Ipv4Addr, u8) {
        (self.base, self.prefix)
    }

    /// Returns whether an address lies in the range.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        mask(u32::from(address), self.prefix) == u32::from(self.base)
    }

    /// Returns how many addresses the range has.
    fn size(&self) -> u32 {
        1 << (32 - u32::from(self.prefix))
    }

    /// Returns the addresses for use: not the first and the last.
    fn address(&self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.base) + 1 + index % (self.size() - 2))
    }

    /// Returns the /24 ranges that it covers, or the one that covers it.
    fn blocks(self) -> impl Iterator<Item = Cidr> {
        let first = mask(u32::from(self.base), 24);
        let count = (self.size() >> 8).max(1);
        (0..count).map(move |index| Cidr { base: Ipv4Addr::from(first + (index << 8)), prefix: 24 })
    }
}

fn mask(address: u32, prefix: u8) -> u32 {
    if prefix == 0 { 0 } else { address & (u32::MAX << (32 - u32::from(prefix))) }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.base, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;
    fn from_str(text: &str) -> Result<Cidr, CidrError> {
        let bad = || CidrError::Syntax(text.to_owned());
        let (base, prefix) = text.split_once('/').ok_or_else(bad)?;
        let (base, prefix): (Ipv4Addr, u8) = (base.parse().map_err(|_| bad())?, prefix.parse().map_err(|_| bad())?);
        if prefix > 32 || mask(u32::from(base), prefix) != u32::from(base) {
            return Err(bad());
        }
        Ok(Cidr { base, prefix })
    }
}

/// Why a range could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Somebody has it.
    #[error("{0} is in use by another lifesign on this machine; choose another range or stop that one")]
    InUse(Cidr),
    /// Nothing is free.
    #[error("every /24 of {0} is in use by another lifesign on this machine")]
    Exhausted(Cidr),
    /// The kernel refused.
    #[error("cannot claim an address range")]
    Socket(#[source] io::Error),
}

/// A claimed range; given back when dropped.
#[derive(Debug)]
pub struct Claim {
    cidr: Cidr,
    _locks: Vec<UnixDatagram>,
}

impl Claim {
    /// Claims the first free /24 of a range.
    pub fn first_free(range: Cidr) -> Result<Claim, ClaimError> {
        for block in range.blocks() {
            match Claim::of(block, |_| false) {
                Err(ClaimError::InUse(_)) => {}
                other => return other,
            }
        }
        Err(ClaimError::Exhausted(range))
    }

    /// Claims exactly this range; `own` says which container instances found in it are the caller's to adopt.
    pub fn of(cidr: Cidr, own: impl Fn(&str) -> bool) -> Result<Claim, ClaimError> {
        Claim::within(cidr, own, Duration::ZERO)
    }

    /// Claims the range that own pods run in: a stranger has it only while he looks at who lives there, and that passes.
    pub fn return_to(cidr: Cidr, own: impl Fn(&str) -> bool) -> Result<Claim, ClaimError> {
        Claim::within(cidr, own, LOOK_MAX)
    }

    fn within(cidr: Cidr, own: impl Fn(&str) -> bool, patience: Duration) -> Result<Claim, ClaimError> {
        let mut locks = Vec::new();
        let strangers = |block| holders(block).map(|found| found.iter().any(|id| !own(id))).map_err(ClaimError::Socket);
        for block in cidr.blocks() {
            // Before the lock too: whoever looks for a free range should not be in the way of the agent that comes back.
            if strangers(block)? {
                return Err(ClaimError::InUse(cidr));
            }
            match bind_within(&block.to_string(), patience) {
                Ok(lock) => locks.push(lock),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(ClaimError::InUse(cidr)),
                Err(error) => return Err(ClaimError::Socket(error)),
            }
            // After the lock: a shim is started only by a holder of the lock.
            if strangers(block)? {
                return Err(ClaimError::InUse(cidr));
            }
        }
        Ok(Claim { cidr, _locks: locks })
    }

    /// Returns the range.
    pub fn cidr(&self) -> Cidr {
        self.cidr
    }
}

/// Keeps a range from being claimed by strangers while a container instance lives in it; called by its shim.
pub(crate) fn hold(range: &str, id: &str) -> io::Result<UnixDatagram> {
    let cidr: Cidr = range.parse().map_err(io::Error::other)?;
    let block = cidr.blocks().next().expect("a range has at least one block");
    bind(&format!("{block}/{id}"))
}

/// Binds a name, as soon as nobody else has it.
fn bind_within(name: &str, patience: Duration) -> io::Result<UnixDatagram> {
    let until = Instant::now() + patience;
    loop {
        match bind(name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound,
        }
    }
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{PREFIX}{name}"))?)?;
    // It is a name, nothing is sent to it.
    socket.shutdown(std::net::Shutdown::Both)?;
    Ok(socket)
}

/// Returns the container instances that live in a /24.
fn holders(block: Cidr) -> io::Result<Vec<String>> {
    let names = std::fs::read_to_string("/proc/net/unix")?;
    let start = format!("@{PREFIX}{block}/");
    Ok(names.lines().filter_map(|line| line.split_ascii_whitespace().nth(7)?.strip_prefix(&start)).map(str::to_owned).collect())
}

/// Gives out the addresses of a claimed range.
///
/// An address that was given back is the last to be given out again: connections and slices may still remember it.
#[derive(Debug)]
pub struct Pool {
    claim: Claim,
    used: BTreeSet<Ipv4Addr>,
    next: u32,
}

impl Pool {
    /// Starts with nothing given out.
    pub fn new(claim: Claim) -> Pool {
        Pool { claim, used: BTreeSet::new(), next: 0 }
    }

    /// Returns the range.
    pub fn cidr(&self) -> Cidr {
        self.claim.cidr
    }

    /// Gives out an address; `None`: all are in use.
    pub fn allocate(&mut self) -> Option<Ipv4Addr> {
        let count = self.cidr().size() - 2;
        for _ in 0..count {
            let address = self.cidr().address(self.next);
            self.next = (self.next + 1) % count;
            if self.used.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// Marks an address as given out, for a pod or Service found at the start; false: not of this range, or taken.
    pub fn reserve(&mut self, address: Ipv4Addr) -> bool {
        let cidr = self.cidr();
        let (first, last) = (cidr.address(0), cidr.address(cidr.size() - 3));
        (first..=last).contains(&address) && self.used.insert(address)
    }

    /// Takes an address back.
    pub fn release(&mut self, address: Ipv4Addr) {
        self.used.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block in a corner of 127/8 that no plane takes by itself; another run of these tests has other blocks.
    fn block(index: u8) -> Cidr {
        let run = std::process::id();
        let (second, third) = (200 + run % 40, run / 40 % 16 * 16);
        let base = Ipv4Addr::new(127, u8::try_from(second).unwrap(), u8::try_from(third).unwrap() + index, 0);
        Cidr { base, prefix: 24 }
    }

    #[test]
    fn whoever_looks_for_a_free_range_does_not_keep_an_agent_from_coming_back_to_its_own() {
        let block = block(10);
        let _shim = hold(&block.to_string(), "mine").unwrap();
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| (0..300).for_each(|_| drop(Claim::of(block, |_| false))));
            while !looking.is_finished() {
                Claim::return_to(block, |id| id == "mine").unwrap();
            }
        });
    }

    #[test]
    fn ranges_are_checked() {
        assert_eq!(Cidr::loopback("127.88.4.0/24").unwrap().to_string(), "127.88.4.0/24");
        for bad in ["", "127.88.4.0", "127.88.4.1/24", "127.88.4.0/33", "::1/64"] {
            assert!(matches!(Cidr::loopback(bad), Err(CidrError::Syntax(_))), "{bad}");
        }
        for bad in ["10.0.0.0/24", "127.0.0.0/24", "127.0.0.0/16", "127.88.0.0/13", "127.88.4.0/31"] {
            assert!(matches!(Cidr::loopback(bad), Err(CidrError::NotLoopback(_))), "{bad}");
        }
        assert_eq!(POD_RANGE.blocks().count(), 2048);
        assert_eq!(POD_RANGE.blocks().last().unwrap().to_string(), "127.95.255.0/24");
        assert_eq!(Cidr::loopback("127.88.4.128/25").unwrap().blocks().next().unwrap().to_string(), "127.88.4.0/24");
    }

    #[test]
    fn a_range_is_claimed_once_and_given_back() {
        let claim = Claim::of(block(1), |_| false).unwrap();
        assert!(matches!(Claim::of(block(1), |_| true), Err(ClaimError::InUse(_))));
        drop(claim);
        assert!(Claim::of(block(1), |_| false).is_ok());
    }

    #[test]
    fn the_first_free_block_is_found() {
        let range = Cidr { prefix: 23, ..block(4) };
        let first = Claim::first_free(range).unwrap();
        let second = Claim::first_free(range).unwrap();
        assert_eq!((first.cidr(), second.cidr()), (block(4), block(5)));
        assert!(matches!(Claim::first_free(range), Err(ClaimError::Exhausted(_))));
        drop(first);
        assert_eq!(Claim::first_free(range).unwrap().cidr(), block(4));
    }

    #[test]
    fn a_range_with_running_pods_is_taken_only_by_their_owner() {
        let pod = hold(&block(8).to_string(), "some-instance").unwrap();
        assert!(matches!(Claim::of(block(8), |_| false), Err(ClaimError::InUse(_))));
        assert!(Claim::of(block(8), |id| id == "some-instance").is_ok());
        drop(pod);
        assert!(Claim::of(block(8), |_| false).is_ok());
    }

    #[test]
    fn addresses_are_reused_last() {
        let range = Cidr { prefix: 29, ..block(9) };
        let at = |host: u32| Ipv4Addr::from(u32::from(range.base) + host);
        let mut pool = Pool::new(Claim::of(range, |_| false).unwrap());
        assert!(pool.reserve(at(2)));
        assert!(!pool.reserve(at(2)), "taken");
        assert!(!pool.reserve(at(7)), "the last address is not used");
        assert!(!pool.reserve(at(9)), "another range");
        let first: Vec<Ipv4Addr> = (0..3).filter_map(|_| pool.allocate()).collect();
        assert_eq!(first, [at(1), at(3), at(4)]);
        pool.release(at(3));
        let rest: Vec<Option<Ipv4Addr>> = (0..4).map(|_| pool.allocate()).collect();
        assert_eq!(rest, [Some(at(5)), Some(at(6)), Some(at(3)), None]);
    }
}
