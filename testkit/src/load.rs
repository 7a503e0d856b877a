//! Requests to a server while something is done with it: how many were lost?

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CLIENTS: usize = 4;
/// 200 requests per second of all clients.
const PAUSE: Duration = Duration::from_millis(20);
/// A quick change must not end before there were requests to lose, also of clients that come after it.
const ENOUGH: usize = 100;

/// Sends one request and returns whether it was answered with 200.
pub fn answers_ok(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(" 200 "))
    };
    ask().unwrap_or(false)
}

/// Sends 200 requests per second while something is done; returns how many there were and how many failed.
pub fn while_done(address: SocketAddr, work: impl FnOnce()) -> (usize, usize) {
    let (stop, sent, failed) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) || sent.load(Ordering::Relaxed) < ENOUGH {
                    sent.fetch_add(1, Ordering::Relaxed);
                    if !answers_ok(address) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(PAUSE);
                }
            });
        }
        // Also when the work fails: clients that go on for ever would hide it.
        let done = catch_unwind(AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            sent.fetch_max(ENOUGH, Ordering::Relaxed);
            resume_unwind(panic);
        }
    });
    (sent.into_inner(), failed.into_inner())
}
