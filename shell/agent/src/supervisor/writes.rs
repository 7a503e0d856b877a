//! Status writes that wait for a free place: those that change whether a pod is ready go first, then in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Write;

use super::Supervisor;
use super::containers::AgentContext;
use super::messages::Message;

/// Status writes.
pub(super) struct Writes {
    limit: usize,
    running: usize,
    serial: u64,
    /// Urgent ones first, then by arrival.
    waiting: BTreeMap<(bool, u64), (u64, Box<Write>)>,
}

impl Writes {
    pub(super) fn new(limit: usize) -> Writes {
        Writes { limit, running: 0, serial: 0, waiting: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, pod: u64, write: Box<Write>, urgent: bool) {
        self.serial += 1;
        self.waiting.insert((!urgent, self.serial), (pod, write));
    }

    fn begin(&mut self) -> Option<(u64, Box<Write>)> {
        if self.running >= self.limit {
            return None;
        }
        let (_, write) = self.waiting.pop_first()?;
        self.running += 1;
        Some(write)
    }

    pub(super) fn done(&mut self) {
        self.running -= 1;
    }
}

impl Supervisor {
    /// Begins the writes for which there is a place.
    pub(super) fn begin_writes(&mut self) {
        while let Some((pod, write)) = self.writes.begin() {
            self.context.spawn(send(Arc::clone(&self.context), pod, write));
        }
    }
}

async fn send(context: Arc<AgentContext>, pod: u64, write: Box<Write>) {
    // The answer is not read: the watch tells it. That it failed was said.
    let result = context.writer.perform(&write).await.map(drop).map_err(Into::into);
    context.send(Message::Written { pod, result }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Pod, Verb};

    #[test]
    fn what_changes_readiness_goes_first_and_places_are_limited() {
        let write = || Box::new(Write::to::<Pod>("d", "p", Verb::Merge(serde_json::Value::Null)));
        let mut writes = Writes::new(2);
        writes.push(1, write(), false);
        writes.push(2, write(), true);
        writes.push(3, write(), true);
        let mut next = || writes.begin().map(|(pod, _)| pod);
        assert_eq!((next(), next(), next()), (Some(2), Some(3), None));
        writes.done();
        assert_eq!(writes.begin().map(|(pod, _)| pod), Some(1));
    }
}
