//! A link that a test can make bad: a TCP proxy with delay, loss and cuts.
//!
//! Loss is what packet loss does to TCP: nothing is lost for good, but what follows waits for the retransmission, longer each
//! time it is lost again. A cut link passes nothing in either direction and says so to nobody: connections hang, as they do
//! when a cable is pulled. When it is mended they go on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The first retransmission of a lost segment comes after this, as with TCP; each further one after twice the time.
const RETRANSMIT: Duration = Duration::from_millis(200);
/// The same for the first segment of a connection.
const RETRANSMIT_FIRST: Duration = Duration::from_millis(500);

/// A link to one server.
pub struct Link {
    address: SocketAddr,
    state: Arc<LinkState>,
}

struct LinkState {
    delay_us: AtomicU64,
    /// Parts of a million.
    loss: AtomicU64,
    random: AtomicU64,
    cut: Mutex<bool>,
    mended: Condvar,
    over: AtomicBool,
}

impl Link {
    /// Opens a good link to a server on this machine; `seed` decides what is lost.
    pub fn open(server: SocketAddr, seed: u64) -> std::io::Result<Link> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(LinkState {
            delay_us: AtomicU64::new(0),
            loss: AtomicU64::new(0),
            random: AtomicU64::new(seed.wrapping_mul(2).wrapping_add(1)),
            cut: Mutex::new(false),
            mended: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.over.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&shared)) else { continue };
                std::thread::spawn(move || carry(stream, server, &state));
            }
        });
        Ok(Link { address, state })
    }

    /// Returns where the near end of the link is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes everything take this long, in each direction.
    pub fn set_delay(&self, delay: Duration) {
        self.state.delay_us.store(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Loses this part of the segments: 0.1 is one in ten.
    pub fn set_loss(&self, part: f64) {
        self.state.loss.store((part * 1e6) as u64, Ordering::Relaxed);
    }

    /// Cuts the link: nothing passes, and nobody is told.
    pub fn cut(&self) {
        *self.state.cut.lock().expect("no code panics while it holds the link") = true;
    }

    /// Mends a cut link.
    pub fn mend(&self) {
        *self.state.cut.lock().expect("no code panics while it holds the link") = false;
        self.state.mended.notify_all();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        self.mend();
        // Wakes the listener, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

impl LinkState {
    /// Draws whether a segment is lost.
    fn lost(&self) -> bool {
        let step = |seed: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| Some(step(seed))).unwrap_or_default();
        (drawn >> 33) % 1_000_000 < self.loss.load(Ordering::Relaxed)
    }

    /// Waits as long as a segment is under way.
    fn travel(&self, mut retransmit: Duration) {
        while self.lost() {
            std::thread::sleep(retransmit);
            retransmit *= 2;
        }
        std::thread::sleep(Duration::from_micros(self.delay_us.load(Ordering::Relaxed)));
        let mut cut = self.cut.lock().expect("no code panics while it holds the link");
        while *cut {
            cut = self.mended.wait(cut).expect("no code panics while it holds the link");
        }
    }
}

/// Carries one connection in both directions until either end closes it.
fn carry(near: TcpStream, server: SocketAddr, state: &Arc<LinkState>) {
    state.travel(RETRANSMIT_FIRST);
    let Ok(far) = TcpStream::connect(server) else { return };
    let (Ok(near_in), Ok(far_in)) = (near.try_clone(), far.try_clone()) else { return };
    let back = Arc::clone(state);
    let answers = std::thread::spawn(move || pump(far_in, near, &back));
    pump(near_in, far, state);
    let _ = answers.join();
}

fn pump(mut from: TcpStream, mut to: TcpStream, state: &LinkState) {
    let mut segment = [0; 16 * 1024];
    while let Ok(count) = from.read(&mut segment) {
        if count == 0 {
            break;
        }
        state.travel(RETRANSMIT);
        if to.write_all(&segment[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
