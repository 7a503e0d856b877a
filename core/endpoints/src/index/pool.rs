//! Values that many objects have alike, each kept once.
//!
//! The pods of one workload have the same labels and ports and are selected by the same Services. Kept once, they take the
//! memory of one pod, and whether two pods agree is seen without reading them.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Values that are shared by those who have them.
#[derive(Clone, Debug)]
pub(crate) struct Pool<T: Ord>(BTreeSet<Arc<T>>);

impl<T: Ord> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(BTreeSet::new())
    }
}

impl<T: Ord> Pool<T> {
    /// Returns the value that everybody shares who has this one.
    pub(crate) fn share(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.0.get(&value) {
            return Arc::clone(known);
        }
        self.0.insert(Arc::clone(&value));
        value
    }

    /// Takes a value back; it is forgotten with the last one who had it.
    pub(crate) fn release(&mut self, value: Arc<T>) {
        if Arc::strong_count(&value) == 2 {
            self.0.remove(&value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_as_long_as_somebody_has_it() {
        let mut pool = Pool::default();
        let first = pool.share(Arc::new("web".to_owned()));
        let second = pool.share(Arc::new("web".to_owned()));
        assert!(Arc::ptr_eq(&first, &second));
        pool.release(first);
        assert_eq!(pool.0.len(), 1);
        pool.release(second);
        assert_eq!(pool.0.len(), 0);
    }
}
