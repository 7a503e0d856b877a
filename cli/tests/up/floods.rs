//! Bodies that never end, answers that nobody reads, patches of ten thousand items: the plane takes a bounded amount of memory.

use std::time::{Duration, Instant};

use testkit::floods::{self, Flood, Target};

use crate::{PATIENCE, Up};

/// What the whole plane may take while somebody floods it.
const RESIDENT_MB_MAX: u64 = 256;

/// Lets one flood after the other come to a third of its full strength, and looks at the memory all the while. What one of them
/// leaves behind counts for the next.
fn resident_stays_bounded(names: &[&str]) {
    let up = Up::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(floods::prepare(&up.client, 20, 300));
    for name in names {
        let flood = Flood::named(name).expect("a flood of this name");
        let (target, enough) = (runtime.block_on(Target::of(&up.plane)), flood.enough / 3);
        let going = runtime.spawn(flood.begin(&target));
        let (begun, mut most) = (Instant::now(), 0);
        while target.done() < enough && begun.elapsed() < PATIENCE {
            most = most.max(floods::resident_mb(&up.plane));
            std::thread::sleep(Duration::from_millis(10));
        }
        most = most.max(floods::resident_mb(&up.plane));
        going.abort();
        assert!(target.done() >= enough, "{name}: {} of {enough}", target.done());
        assert!(most < RESIDENT_MB_MAX, "{name}: {most} MB");
        assert_eq!(up.text("/livez"), "ok", "{name}");
    }
}

#[test]
fn memory_is_bounded_however_bodies_come() {
    resident_stays_bounded(&["slow-bodies", "slow-bodies-http2", "bodies-of-strangers"]);
}

#[test]
fn memory_is_bounded_whatever_clients_ask_for() {
    resident_stays_bounded(&["unread-lists", "unread-small", "endless-line", "endless-answers"]);
}

#[test]
fn memory_is_bounded_whatever_is_patched() {
    resident_stays_bounded(&["strategic-merge", "json-patch-moves", "expressions"]);
}
