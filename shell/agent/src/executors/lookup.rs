//! From a host to a connection.

use std::net::{IpAddr, SocketAddr};

use probe::outcome::Cause;

use super::errno;
use super::socket::Socket;

/// Connects to a host, name or address; tries every address that the name has.
///
/// `begun`: a socket that has begun to connect to the address.
pub(super) async fn connect(begun: Option<Socket>, host: &str, port: u16) -> Result<Socket, Cause> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return connect_to(begun, &SocketAddr::new(ip, port)).await;
    }
    let mut failure = Cause::NameNotFound;
    for address in tokio::net::lookup_host((host, port)).await.map_err(|_| Cause::NameNotFound)? {
        match connect_to(None, &address).await {
            Ok(socket) => return Ok(socket),
            Err(cause) => failure = cause,
        }
    }
    Err(failure)
}

/// Connects to an address.
pub(super) async fn connect_to(begun: Option<Socket>, address: &SocketAddr) -> Result<Socket, Cause> {
    Socket::connect(begun, address).await.map_err(|error| Cause::Errno(errno::name(error)))
}
