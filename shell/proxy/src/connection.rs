//! One connection: find an endpoint that takes it, then carry bytes both ways until both sides are done.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::backends::{Backends, Picker};
use crate::drain::{Drains, Open};

/// An endpoint on this machine answers at once; one that does not has no room.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Carries a connection to an endpoint; a client that nobody takes is reset.
pub(super) async fn carry(
    mut client: TcpStream,
    peer: SocketAddr,
    backends: watch::Receiver<Arc<Backends>>,
    picker: Arc<Picker>,
    drains: Drains,
) {
    let Some((mut server, _open)) = connect(peer.ip(), backends, &picker, &drains).await else {
        reset(&client);
        return;
    };
    // Whoever proxies must not delay: small answers wait for nothing.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    if tokio::io::copy_bidirectional(&mut client, &mut server).await.is_err() {
        // What broke on one side must not look like a good end on the other.
        reset(&client);
        reset(&server);
    }
}

/// Connects to the next endpoint, and to those after it while they refuse.
async fn connect(
    client: IpAddr,
    mut backends: watch::Receiver<Arc<Backends>>,
    picker: &Picker,
    drains: &Drains,
) -> Option<(TcpStream, Open)> {
    let mut refused = BTreeSet::new();
    loop {
        let now = Arc::clone(&backends.borrow_and_update());
        let count = now.addresses.len();
        let first = picker.first(&now, client, Instant::now());
        let address = (0..count).map(|step| now.addresses[(first + step) % count]).find(|other| !refused.contains(other))?;
        let open = drains.open(address.ip());
        if backends.has_changed().unwrap_or(false) {
            // It may be on its way out, and have been told that nobody comes any more.
            continue;
        }
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(server)) => {
                picker.connected(&now, client, address, Instant::now());
                return Some((server, open));
            }
            Ok(Err(_)) | Err(_) => drop(refused.insert(address)),
        }
    }
}

/// Makes the close of a connection a reset.
fn reset(stream: &TcpStream) {
    // A socket that is broken already needs none.
    let _ = stream.set_zero_linger();
}
