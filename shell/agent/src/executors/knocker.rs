//! Knocks: bare connections to targets that refuse them, one loop for all that wait, no task and hardly a descriptor for each.
//!
//! When and how often is said by [`probe::Knocks`]. On one machine the kernel refuses at once, and the socket can be used for the
//! next target; so a refused knock is two system calls. Whoever owns a [`Knocker`] polls
//! [`next`](Knocker::next) beside everything else, which is why a knock cannot race with an attempt at the same target.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use machine::Time;
use probe::knocks::{PATIENCE, interval};
use probe::{Knock, Knocks};
use prometheus_client::metrics::counter::Counter;
use runtime::Clock;
use rustix::io::Errno;

use super::socket::{Connecting, Socket};

/// Knocks that are carried out before others on this thread get a turn.
const BATCH: usize = 32;
/// A wake-up costs more than a knock: knocks that are due within so much of the interval share one.
const SHARED_PART: u32 = 10;
/// No knock waits longer than this for others.
const SHARED_MAX: Duration = Duration::from_millis(5);

/// How knocks ended, for `lifesign_probe_knocks_total`.
#[derive(Clone, Debug, Default)]
pub struct KnockCounters {
    /// Nobody listens yet.
    pub refused: Counter,
    /// Somebody does.
    pub accepted: Counter,
    /// Nobody answered in time.
    pub unanswered: Counter,
    /// Anything else.
    pub failed: Counter,
}

/// How knocking at a target ended.
#[derive(Debug)]
pub enum Knocked {
    /// Somebody listens.
    Accepted {
        /// The connection, for the attempt.
        socket: Socket,
        /// When.
        at: Time,
    },
    /// Nobody answered, or something else went wrong.
    Failed,
}

/// Knocks at every target that waits; `Key` says whose it is.
#[derive(Debug)]
pub struct Knocker<Key> {
    clock: Clock,
    knocks: Knocks<Key>,
    targets: BTreeMap<Key, Target>,
    /// Knocks that the kernel has not decided yet.
    open: BTreeMap<Key, Open>,
    /// Unconnected sockets, of IPv4 and of IPv6, for the next knock.
    spare: [Option<Socket>; 2],
    /// Not before this are others knocked at.
    pause_until: Time,
    counters: KnockCounters,
}

#[derive(Debug)]
struct Target {
    address: SocketAddr,
    knock: u32,
    refused: u64,
}

#[derive(Debug)]
struct Open {
    socket: Socket,
    until: Time,
}

impl<Key: Clone + Ord> Knocker<Key> {
    /// Returns one that knocks at nobody.
    pub fn new(clock: Clock, counters: KnockCounters) -> Knocker<Key> {
        let (targets, open) = (BTreeMap::new(), BTreeMap::new());
        let pause_until = Time::from_micros(i64::MIN);
        Knocker { clock, knocks: Knocks::default(), targets, open, spare: [None, None], pause_until, counters }
    }

    /// Begins to knock, as a worker has asked for.
    pub fn begin(&mut self, key: Key, address: SocketAddr, knock: &Knock) {
        self.stop(&key);
        self.knocks.begin(key.clone(), knock.started_at, knock.from, knock.until);
        self.targets.insert(key, Target { address, knock: knock.knock, refused: 0 });
    }

    /// Ends it. Returns how many knocks were refused, and the connection that is being made, if there is one.
    pub fn stop(&mut self, key: &Key) -> (u64, Option<Socket>) {
        self.knocks.stop(key);
        let refused = self.targets.remove(key).map_or(0, |target| target.refused);
        (refused, self.open.remove(key).map(|open| open.socket))
    }

    /// Returns how many knocks at a target were refused since it began.
    pub fn refused(&self, key: &Key) -> u64 {
        self.targets.get(key).map_or(0, |target| target.refused)
    }

    /// Returns how many targets wait.
    pub fn waiting(&self) -> usize {
        self.knocks.len()
    }

    /// Knocks until it ends at some target, which does not wait any more then. Returns whose it is, the number of its
    /// [`Knock`], how many were refused, and what came of the last one. May be dropped and called again.
    pub async fn next(&mut self) -> (Key, u32, u64, Knocked) {
        loop {
            if self.pause_until <= self.clock.now() {
                for _ in 0..BATCH {
                    let now = self.clock.now();
                    let Some(key) = self.knocks.next(now) else { break };
                    if let Some(ended) = self.knock(now, &key) {
                        return self.end(key, ended);
                    }
                }
                let now = self.clock.now();
                if self.knocks.deadline().is_some_and(|at| at <= now) {
                    tokio::task::yield_now().await;
                    continue;
                }
                let share = interval(self.knocks.len(), Duration::ZERO) / SHARED_PART;
                self.pause_until = now + share.min(SHARED_MAX);
            }
            let (clock, deadline) = (self.clock.clone(), self.deadline());
            let decided = tokio::select! {
                biased;
                key = std::future::poll_fn(|context| self.poll_open(context)) => Some(key),
                () = clock.sleep_until(deadline) => None,
            };
            if let Some((key, ended)) = self.settle(decided) {
                return self.end(key, ended);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        let patience = self.open.values().map(|open| open.until).min();
        [self.knocks.deadline().map(|at| at.max(self.pause_until)), patience].into_iter().flatten().min()
    }

    fn end(&mut self, key: Key, ended: Knocked) -> (Key, u32, u64, Knocked) {
        let number = self.targets.get(&key).map_or(0, |target| target.knock);
        let (refused, _) = self.stop(&key);
        (key, number, refused, ended)
    }

    /// Knocks once; returns what ends knocking at the target.
    fn knock(&mut self, now: Time, key: &Key) -> Option<Knocked> {
        let address = self.targets.get(key)?.address;
        let spare = self.spare[usize::from(address.is_ipv6())].take();
        let reused = spare.is_some();
        let mut connecting = Connecting::begin(spare, &address);
        if reused && matches!(&connecting, Connecting::Failed(error, _) if *error != Errno::CONNREFUSED) {
            // Not every kernel lets a socket that was refused connect again.
            connecting = Connecting::begin(None, &address);
        }
        self.take(now, key, address, connecting)
    }

    fn take(&mut self, now: Time, key: &Key, address: SocketAddr, connecting: Connecting) -> Option<Knocked> {
        match connecting {
            Connecting::Done(socket) => {
                self.counters.accepted.inc();
                return Some(Knocked::Accepted { socket, at: now });
            }
            Connecting::Open(socket) => {
                let until = self.open.get(key).map_or(now + PATIENCE, |open| open.until);
                self.open.insert(key.clone(), Open { socket, until });
            }
            Connecting::Failed(Errno::CONNREFUSED, socket) => {
                self.spare[usize::from(address.is_ipv6())] = socket.filter(Socket::is_unregistered);
                self.counters.refused.inc();
                if let Some(target) = self.targets.get_mut(key) {
                    target.refused += 1;
                }
                self.knocks.refused(now, key);
            }
            Connecting::Failed(..) => {
                self.counters.failed.inc();
                return Some(Knocked::Failed);
            }
        }
        None
    }

    /// Returns a knock that the kernel has decided.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Key> {
        for (key, open) in &mut self.open {
            if open.socket.poll_writable(context).is_ready() {
                return Poll::Ready(key.clone());
            }
        }
        Poll::Pending
    }

    /// Looks at a knock that was decided, or whose patience is over; returns what ends knocking at its target.
    fn settle(&mut self, decided: Option<Key>) -> Option<(Key, Knocked)> {
        let now = self.clock.now();
        let Some(key) = decided else {
            let key = self.open.iter().find(|(_, open)| open.until <= now).map(|(key, _)| key.clone())?;
            self.counters.unanswered.inc();
            return Some((key, Knocked::Failed));
        };
        let address = self.targets.get(&key)?.address;
        let Open { socket, until } = self.open.remove(&key)?;
        let connecting = Connecting::begin(Some(socket), &address);
        if let Connecting::Open(socket) = connecting {
            self.open.insert(key, Open { socket, until });
            return None;
        }
        self.take(now, &key, address, connecting).map(|ended| (key, ended))
    }
}
