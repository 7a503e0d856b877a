//! Who is connected: caps in total and of each address, and who goes when there are too many.
//!
//! Everybody begins as a stranger, and is known from the first request that says who it is. When there are too many, the
//! stranger that has been there longest goes to make room for the one that comes: whoever holds thousands of connections
//! open pushes out its own, and an administrator gets in. Known clients are never pushed out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    pub(crate) all: usize,
    pub(crate) of_address: usize,
    pub(crate) strangers: usize,
    pub(crate) strangers_of_address: usize,
}

/// The caps where there are files enough.
const CAPS: Caps = Caps { all: 10_000, of_address: 4_000, strangers: 1_000, strangers_of_address: 500 };

impl Caps {
    /// Returns the caps of a process that may open `files` files: connections take half of them, the store, pods and probes
    /// need the rest.
    pub(crate) fn of(files: u64) -> Caps {
        let half = usize::try_from(files / 2).unwrap_or(usize::MAX).max(8);
        Caps {
            all: CAPS.all.min(half),
            of_address: CAPS.of_address.min(half),
            strangers: CAPS.strangers.min(half / 2),
            strangers_of_address: CAPS.strangers_of_address.min(half / 4),
        }
    }
}

/// The open connections; clones are the same.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Mutex<Open>>);

struct Open {
    caps: Caps,
    /// Rises with every connection, so that the lowest is the oldest.
    next: u64,
    of_address: BTreeMap<IpAddr, usize>,
    all: usize,
    strangers: BTreeMap<u64, (IpAddr, CancellationToken)>,
    strangers_of_address: BTreeMap<IpAddr, BTreeSet<u64>>,
}

/// One connection; dropping it makes room.
pub(crate) struct Connection {
    connections: Connections,
    number: u64,
    address: IpAddr,
    /// Cancelled when the connection must go.
    pub(crate) leave: CancellationToken,
}

/// A connection as its requests see it.
#[derive(Clone)]
pub(crate) struct Visitor {
    connections: Connections,
    number: u64,
    activity: watch::Sender<usize>,
}

/// Counts a request as going on.
pub(crate) struct Activity(watch::Sender<usize>);

impl Drop for Activity {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl Visitor {
    /// Says that somebody known is at the other end.
    pub(crate) fn make_known(&self) {
        let mut open = self.connections.open();
        open.forget_stranger(self.number);
    }

    /// Says that a request begins; it ends when the activity is dropped.
    pub(crate) fn begin(&self) -> Activity {
        self.activity.send_modify(|open| *open += 1);
        Activity(self.activity.clone())
    }

    /// Returns when no request has been going on for a while.
    pub(crate) async fn idle(&self, known_after: Duration, stranger_after: Duration) {
        let mut activity = self.activity.subscribe();
        loop {
            if activity.wait_for(|open| *open == 0).await.is_err() {
                return;
            }
            let after = if self.is_stranger() { stranger_after } else { known_after };
            if tokio::time::timeout(after, activity.changed()).await.is_err() {
                return;
            }
        }
    }

    fn is_stranger(&self) -> bool {
        self.connections.open().strangers.contains_key(&self.number)
    }
}

impl Connections {
    pub(crate) fn new(caps: Caps) -> Connections {
        Connections(Arc::new(Mutex::new(Open {
            caps,
            next: 0,
            of_address: BTreeMap::new(),
            all: 0,
            strangers: BTreeMap::new(),
            strangers_of_address: BTreeMap::new(),
        })))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().expect("no code panics while it holds the connections")
    }

    /// Takes a connection in, letting an older stranger go if there are too many; `None`: there is no room.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<Connection> {
        let mut open = self.open();
        open.make_room(address);
        let caps = open.caps;
        if open.all >= caps.all || open.of_address.get(&address).is_some_and(|count| *count >= caps.of_address) {
            return None;
        }
        let (number, leave) = (open.next, CancellationToken::new());
        open.next += 1;
        open.all += 1;
        *open.of_address.entry(address).or_default() += 1;
        open.strangers.insert(number, (address, leave.clone()));
        open.strangers_of_address.entry(address).or_default().insert(number);
        Some(Connection { connections: self.clone(), number, address, leave })
    }
}

impl Open {
    /// Lets strangers go until one more fits: of the address that has too many, else the oldest of all.
    fn make_room(&mut self, address: IpAddr) {
        let of_address = |open: &Open| open.strangers_of_address.get(&address).map_or(0, BTreeSet::len);
        let crowded = |open: &Open| {
            of_address(open) >= open.caps.strangers_of_address
                || open.of_address.get(&address).is_some_and(|count| *count >= open.caps.of_address)
        };
        if crowded(self)
            && let Some(oldest) = self.strangers_of_address.get(&address).and_then(BTreeSet::first).copied()
        {
            self.send_away(oldest);
        }
        if (self.strangers.len() >= self.caps.strangers || self.all >= self.caps.all)
            && let Some(oldest) = self.strangers.keys().next().copied()
        {
            self.send_away(oldest);
        }
    }

    fn send_away(&mut self, number: u64) {
        if let Some((address, leave)) = self.forget_stranger(number) {
            leave.cancel();
            self.uncount(address);
        }
    }

    fn forget_stranger(&mut self, number: u64) -> Option<(IpAddr, CancellationToken)> {
        let (address, leave) = self.strangers.remove(&number)?;
        if let Some(numbers) = self.strangers_of_address.get_mut(&address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.strangers_of_address.remove(&address);
            }
        }
        Some((address, leave))
    }

    fn uncount(&mut self, address: IpAddr) {
        self.all -= 1;
        if let Some(count) = self.of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
    }
}

impl Connection {
    /// Returns the connection as its requests see it.
    pub(crate) fn visitor(&self) -> Visitor {
        Visitor { connections: self.connections.clone(), number: self.number, activity: watch::Sender::new(0) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Whoever was sent away is not counted any more.
        if !self.leave.is_cancelled() {
            let mut open = self.connections.open();
            open.forget_stranger(self.number);
            open.uncount(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { all: 8, of_address: 5, strangers: 4, strangers_of_address: 3 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn gone(connections: &[Connection]) -> Vec<bool> {
        connections.iter().map(|connection| connection.leave.is_cancelled()).collect()
    }

    #[test]
    fn the_oldest_stranger_of_a_crowded_address_makes_room() {
        let all = Connections::new(CAPS);
        let mut held: Vec<Connection> = (0..5).map(|_| all.enter(address(1)).unwrap()).collect();
        assert_eq!(gone(&held), [true, true, false, false, false]);
        held.push(all.enter(address(2)).unwrap());
        held.push(all.enter(address(3)).unwrap());
        assert_eq!(gone(&held)[2..], [true, false, false, false, false], "four strangers at most, whoever they are");
        held.clear();
        let open = all.open();
        assert!(
            open.all == 0 && open.of_address.is_empty() && open.strangers.is_empty() && open.strangers_of_address.is_empty()
        );
    }

    #[test]
    fn who_is_known_stays() {
        let all = Connections::new(CAPS);
        let known: Vec<Connection> =
            (0..4).map(|_| all.enter(address(1)).unwrap()).inspect(|c| c.visitor().make_known()).collect();
        let stranger = all.enter(address(1)).unwrap();
        let next = all.enter(address(1)).unwrap();
        assert!(stranger.leave.is_cancelled() && !next.leave.is_cancelled());
        next.visitor().make_known();
        assert!(all.enter(address(1)).is_none(), "an address full of known clients has no room");
        assert!(gone(&known).iter().all(|gone| !gone));
        assert!(all.enter(address(2)).is_some());
    }

    #[test]
    fn caps_leave_files_for_others() {
        assert_eq!(Caps::of(1 << 20), super::CAPS);
        let few = Caps::of(1024);
        assert!(few.all <= 512 && few.strangers < few.all && few.strangers_of_address < few.strangers);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_nothing_has_gone_on_for_a_while() {
        let (known_after, stranger_after) = (Duration::from_secs(100), Duration::from_secs(10));
        let all = Connections::new(CAPS);
        let connection = all.enter(address(1)).unwrap();
        let visitor = connection.visitor();
        let started = tokio::time::Instant::now();
        visitor.idle(known_after, stranger_after).await;
        assert_eq!(started.elapsed(), stranger_after);
        visitor.make_known();
        let activity = visitor.begin();
        let idle = visitor.idle(known_after, stranger_after);
        let busy = async {
            tokio::time::sleep(Duration::from_secs(1_000)).await;
            drop(activity);
        };
        tokio::join!(idle, busy);
        assert_eq!(started.elapsed(), stranger_after + Duration::from_secs(1_000) + known_after);
    }
}
