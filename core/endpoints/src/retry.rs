//! When a failed sync is tried again: later each time, and not too many of all Services at once.

use std::time::Duration;

use machine::{BackOff, Bucket};

/// The delays of a Service whose syncs fail; Kubernetes. A Service is never given up.
pub const RETRY: BackOff = BackOff { first: Duration::from_secs(1), last: Duration::from_secs(1000) };

/// Returns what limits the retries of all Services together: a hundred at once, ten each second; Kubernetes.
pub fn bucket() -> Bucket {
    Bucket::new(100, Duration::from_millis(100))
}
