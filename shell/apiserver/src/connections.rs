//! Who is connected: caps in total and of each address, and who goes when there are too many.
//!
//! Everybody begins as a stranger, and is known from the first request that says who it is. When there are too many, a
//! stranger goes to make room for the one that comes: of those that have sent nothing yet the one that has been there longest, else
//! of the others. So whoever holds thousands of connections open pushes out its own, and who asks for something, an
//! administrator or a health check, gets an answer from the same address. Known clients are never pushed out.

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
    strangers: BTreeMap<u64, Stranger>,
    /// The strangers in the order in which they go.
    order: BTreeSet<Place>,
    order_of_address: BTreeMap<IpAddr, BTreeSet<Place>>,
}

/// A place in the order in which strangers go: who has sent nothing first, then by age.
type Place = (bool, u64);

struct Stranger {
    address: IpAddr,
    has_spoken: bool,
    leave: CancellationToken,
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
    /// Says that the other end has sent something.
    pub(crate) fn has_spoken(&self) {
        self.connections.open().has_spoken(self.number);
    }

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
            order: BTreeSet::new(),
            order_of_address: BTreeMap::new(),
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
        open.add_stranger(number, Stranger { address, has_spoken: false, leave: leave.clone() });
        Some(Connection { connections: self.clone(), number, address, leave })
    }
}

impl Open {
    /// Lets strangers go until one more fits: of the address that has too many, else of all.
    fn make_room(&mut self, address: IpAddr) {
        let of_address = self.order_of_address.get(&address);
        let crowded = of_address.map_or(0, BTreeSet::len) >= self.caps.strangers_of_address
            || self.of_address.get(&address).is_some_and(|count| *count >= self.caps.of_address);
        if crowded && let Some((_, next)) = of_address.and_then(BTreeSet::first).copied() {
            self.send_away(next);
        }
        if (self.strangers.len() >= self.caps.strangers || self.all >= self.caps.all)
            && let Some((_, next)) = self.order.first().copied()
        {
            self.send_away(next);
        }
    }

    /// Keeps a stranger that asks for something longer than those that do not. At most half of an address's strangers are kept so,
    /// else whoever comes next would have to go before it can ask.
    fn has_spoken(&mut self, number: u64) {
        let Some(mut stranger) = self.forget_stranger(number) else { return };
        stranger.has_spoken = true;
        let address = stranger.address;
        self.add_stranger(number, stranger);
        let of_address = &self.order_of_address[&address];
        let mut spoken = of_address.range((true, 0)..);
        if let Some((_, oldest)) = spoken.next().copied()
            && spoken.count() >= self.caps.strangers_of_address.div_ceil(2)
        {
            self.send_away(oldest);
        }
    }

    fn send_away(&mut self, number: u64) {
        if let Some(stranger) = self.forget_stranger(number) {
            stranger.leave.cancel();
            self.uncount(stranger.address);
        }
    }

    fn add_stranger(&mut self, number: u64, stranger: Stranger) {
        self.order.insert((stranger.has_spoken, number));
        self.order_of_address.entry(stranger.address).or_default().insert((stranger.has_spoken, number));
        self.strangers.insert(number, stranger);
    }

    fn forget_stranger(&mut self, number: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&number)?;
        self.order.remove(&(stranger.has_spoken, number));
        if let Some(places) = self.order_of_address.get_mut(&stranger.address) {
            places.remove(&(stranger.has_spoken, number));
            if places.is_empty() {
                self.order_of_address.remove(&stranger.address);
            }
        }
        Some(stranger)
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
            open.all == 0
                && open.of_address.is_empty()
                && open.strangers.is_empty()
                && open.order.is_empty()
                && open.order_of_address.is_empty()
        );
    }

    #[test]
    fn who_has_sent_something_outlasts_those_who_have_not() {
        let all = Connections::new(Caps { strangers: 8, ..CAPS });
        let mut held = vec![all.enter(address(1)).unwrap()];
        held[0].visitor().has_spoken();
        held.extend((0..9).filter_map(|_| all.enter(address(1))));
        let left: Vec<usize> = (0..10).filter(|n| !held[*n].leave.is_cancelled()).collect();
        assert_eq!(left, [0, 8, 9]);
        // Those who speak and then stay do not keep others out either.
        held[8].visitor().has_spoken();
        held[9].visitor().has_spoken();
        let left: Vec<usize> = (0..10).filter(|n| !held[*n].leave.is_cancelled()).collect();
        assert_eq!(left, [8, 9]);
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
