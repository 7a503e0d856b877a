//! How much work something takes, on a machine that has other things to do.

use std::time::Duration;

/// Returns the CPU time that this thread has used; unlike the time on the wall it says nothing about others.
pub fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells what threads do");
    let nanos = text.split(' ').next().and_then(|first| first.parse().ok()).expect("the first number is that of nanoseconds");
    Duration::from_nanos(nanos)
}

/// Does something and returns the CPU time that it took.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu_time();
    let done = work();
    (done, cpu_time().saturating_sub(before))
}
