//! Counts streams that last as long as their client likes: a client that leaks them is told, instead of taking the server
//! down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::status::Status;

/// The open streams of one kind, by identity; clones count together.
#[derive(Clone)]
pub(crate) struct Streams {
    what: &'static str,
    of_one_max: usize,
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// One open stream; dropping it makes room for another.
pub(crate) struct Place {
    streams: Streams,
    user: String,
}

impl Streams {
    /// Returns a count of at most `of_one_max` streams of one identity; `what` is what messages call them.
    pub(crate) fn new(what: &'static str, of_one_max: usize) -> Streams {
        Streams { what, of_one_max, counts: Arc::default() }
    }

    pub(crate) fn open(&self, user: &str) -> Result<Place, Status> {
        let mut counts = self.counts.lock().expect("no code panics while it holds the counts");
        let count = counts.entry(user.to_owned()).or_default();
        if *count >= self.of_one_max {
            let what = self.what;
            return Err(Status::too_many_requests(format!("user {user:?} has {count} {what} open already; close some first")));
        }
        *count += 1;
        Ok(Place { streams: self.clone(), user: user.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.streams.counts.lock().expect("no code panics while it holds the counts");
        if let Some(count) = counts.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.user);
            }
        }
    }
}
