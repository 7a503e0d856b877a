//! The one clock of a process.
//!
//! Instants follow the monotonic clock, anchored to wall time, so that deadlines are true spans and timestamps mean
//! something to people. When the two differ by more than a second (suspend, clock step) the anchor moves, forwards only:
//! an instant is never earlier than one that was handed out before.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use machine::Time;
use tokio::time::Instant;

/// How far wall time may run ahead of the monotonic clock before the anchor moves.
const TOLERANCE: Duration = Duration::from_secs(1);

/// The clock of a process; clones share one anchor.
#[derive(Clone, Debug)]
pub struct Clock(Arc<Mutex<Anchor>>);

#[derive(Debug)]
struct Anchor {
    at: Instant,
    time: Time,
    /// Whether wall time is looked at; not when a test's clock is paused and jumps, or runs faster than the world.
    follow_wall: bool,
    /// How many seconds of this clock pass in a second of the world; 1 but in tests.
    speed: u32,
}

impl Clock {
    /// Returns the clock of the real world.
    pub fn system() -> Clock {
        Clock(Arc::new(Mutex::new(Anchor { at: Instant::now(), time: wall(), follow_wall: true, speed: 1 })))
    }

    /// Returns a clock that starts now and runs `speed` times as fast as the world, for tests of what takes minutes.
    pub fn faster(speed: u32) -> Clock {
        match speed {
            0 | 1 => Clock::system(),
            speed => Clock(Arc::new(Mutex::new(Anchor { at: Instant::now(), time: wall(), follow_wall: false, speed }))),
        }
    }

    /// Returns a clock that starts at `time` and follows tokio's clock alone, for tests that pause it.
    pub fn starting_at(time: Time) -> Clock {
        Clock(Arc::new(Mutex::new(Anchor { at: Instant::now(), time, follow_wall: false, speed: 1 })))
    }

    /// Returns the instant.
    pub fn now(&self) -> Time {
        let mut anchor = self.0.lock().expect("no code panics while it holds the anchor");
        let elapsed = anchor.time + anchor.at.elapsed() * anchor.speed;
        if anchor.follow_wall {
            let wall = wall();
            if wall.since(elapsed) > TOLERANCE {
                *anchor = Anchor { at: Instant::now(), time: wall, follow_wall: true, speed: 1 };
                return wall;
            }
        }
        elapsed
    }

    /// Waits until `deadline`, for ever if there is none.
    pub async fn sleep_until(&self, deadline: Option<Time>) {
        let Some(deadline) = deadline else { return std::future::pending().await };
        let speed = self.0.lock().expect("no code panics while it holds the anchor").speed;
        tokio::time::sleep(deadline.since(self.now()) / speed).await;
    }
}

fn wall() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_moves_with_tokio() {
        let clock = Clock::starting_at(Time::from_secs(100));
        clock.sleep_until(Some(Time::from_secs(3700))).await;
        assert_eq!(clock.now(), Time::from_secs(3700));
        clock.sleep_until(Some(Time::from_secs(5))).await;
        assert_eq!(clock.now(), Time::from_secs(3700), "a deadline in the past does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_faster_clock_makes_time_short() {
        let (clock, began) = (Clock::faster(10), Instant::now());
        let hour = clock.now() + Duration::from_secs(3600);
        clock.sleep_until(Some(hour)).await;
        assert!(clock.now() >= hour && began.elapsed() < Duration::from_secs(361), "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn the_system_clock_never_goes_back() {
        let clock = Clock::system();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
