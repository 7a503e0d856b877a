//! Attempts that wait for a free place: a node runs only so many at once.
//!
//! Waiting attempts begin in the order of their due instants, liveness before others at the same instant: a container that
//! hangs should not hang longer because the node is busy.

use std::collections::BTreeMap;

use api::ProbeType;
use machine::Time;

/// One kind of attempts with its limit.
#[derive(Clone, Debug)]
pub struct Lane<Work> {
    limit: usize,
    running: usize,
    waiting: BTreeMap<Rank, Work>,
    arrived: u64,
}

/// Due instant, then whether it is not liveness, then arrival.
type Rank = (Time, bool, u64);

/// The place of an attempt that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(Rank);

impl<Work> Lane<Work> {
    /// Returns an empty lane; at least one attempt can run.
    pub fn new(limit: usize) -> Lane<Work> {
        Lane { limit: limit.max(1), running: 0, waiting: BTreeMap::new(), arrived: 0 }
    }

    /// Adds an attempt. `probe` is `None` for one that belongs to a marker.
    pub fn push(&mut self, due: Time, probe: Option<ProbeType>, work: Work) -> Ticket {
        self.arrived += 1;
        let rank = (due, probe != Some(ProbeType::Liveness), self.arrived);
        self.waiting.insert(rank, work);
        Ticket(rank)
    }

    /// Takes out the attempt to begin now, if one waits and there is a place. Call [`done`](Lane::done) when it ends.
    pub fn begin(&mut self) -> Option<Work> {
        if self.running >= self.limit {
            return None;
        }
        let (_, work) = self.waiting.pop_first()?;
        self.running += 1;
        Some(work)
    }

    /// Gives back the place of an attempt that has ended.
    pub fn done(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Takes out an attempt that does not matter any more, unless it has begun.
    pub fn cancel(&mut self, ticket: Ticket) -> Option<Work> {
        self.waiting.remove(&ticket.0)
    }

    /// Returns how many attempts wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_begin_in_due_order_and_liveness_first() {
        let mut lane = Lane::new(1);
        let second = Time::from_secs(1);
        lane.push(second, Some(ProbeType::Readiness), "readiness");
        lane.push(second, None, "marker");
        lane.push(second, Some(ProbeType::Liveness), "liveness");
        let cancelled = lane.push(second, Some(ProbeType::Startup), "cancelled");
        lane.push(Time::ZERO, Some(ProbeType::Startup), "earlier");
        assert_eq!(lane.cancel(cancelled), Some("cancelled"));
        let mut order = Vec::new();
        while let Some(work) = lane.begin() {
            assert_eq!(lane.begin(), None, "more than one runs");
            order.push(work);
            lane.done();
        }
        assert_eq!(order, ["earlier", "liveness", "readiness", "marker"]);
        assert_eq!(lane.cancel(cancelled), None);
    }
}
