//! How many connections were carried, by Service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts connections; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Mutex<BTreeMap<String, u64>>>);

impl Connections {
    /// Returns the counts so far, by namespace and name of the Service.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.lock().clone()
    }

    pub(crate) fn count(&self, service: &str) {
        let mut counts = self.lock();
        match counts.get_mut(service) {
            Some(count) => *count += 1,
            None => drop(counts.insert(service.to_owned(), 1)),
        }
    }

    pub(crate) fn forget(&self, service: &str) {
        self.lock().remove(service);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().expect("nobody panics while counting")
    }
}
