//! Listening with a queue that a burst of clients does not overflow.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Connections that the kernel keeps until they are accepted. With the usual 128 a client of a burst waits a second for its second try.
const BACKLOG: u32 = 4_096;

/// Listens on an address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of an earlier process that linger must not keep a new one from its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    #[tokio::test]
    async fn a_burst_waits_in_the_queue() {
        let listener = super::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody accepts. A client beyond the queue would wait for its second try, a second later.
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(30)).unwrap();
        let began = std::time::Instant::now();
        let held: Vec<TcpStream> = (0..400).map(connect).collect();
        assert_eq!(held.len(), 400);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}
