//! A sync whose writes are under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machine::Time;

use crate::controller::ServiceKey;
use crate::index::SliceEvent;
use crate::index::entry::Draft;

/// A sync whose writes are under way: creates, then updates, then deletes, so that an endpoint that moves is never missing.
#[derive(Clone, Debug)]
pub(crate) struct PendingSync {
    pub(crate) service_uid: String,
    pub(crate) started_at: Time,
    pub(crate) trigger: Option<Time>,
    /// Writes that were sent and not answered.
    pub(crate) waiting: BTreeMap<u64, Sent>,
    /// Updates to send when the creates are answered.
    pub(crate) updates: Vec<Draft>,
    /// Deletes to send when the updates are answered, names and uids.
    pub(crate) deletes: Vec<(Arc<str>, String)>,
    /// Events of the Service's slices, to be judged at the end.
    pub(crate) events: Vec<SliceEvent>,
    /// Other Services that these events concern: their syncs do not begin before.
    pub(crate) holds: BTreeSet<ServiceKey>,
    /// Those of them that were due in the meantime.
    pub(crate) held: Vec<ServiceKey>,
    /// When the Service is due again.
    pub(crate) again: Option<Time>,
    /// The Service is gone or another one has its name: nothing more is sent.
    pub(crate) abandoned: bool,
    pub(crate) end: End,
    /// Successful writes.
    pub(crate) changes: usize,
}

/// A write that was sent.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Slice(Draft),
    Delete { name: Arc<str>, uid: String },
}

/// What went wrong so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    /// The first error that people should see.
    pub(crate) error: Option<String>,
    /// Slices that are not as they were seen, with the resourceVersion that was too old.
    pub(crate) stale: BTreeMap<String, String>,
    /// Something is not as it was seen, and that is known by now.
    pub(crate) again: bool,
    /// The namespace goes: nothing more is sent, and that is no error.
    pub(crate) over: bool,
}

impl End {
    /// Returns whether every write so far was done.
    pub(crate) fn good(&self) -> bool {
        self.error.is_none() && self.stale.is_empty() && !self.again && !self.over
    }
}
