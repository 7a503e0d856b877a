//! From a host to a connection.

use std::net::{IpAddr, SocketAddr};

use probe::outcome::Cause;

use super::errno;
use super::socket::Socket;

/// Connects to a host, name or address; tries every address that the name has.
pub(super) async fn connect(host: &str, port: u16) -> Result<Socket, Cause> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return connect_to(&SocketAddr::new(ip, port)).await;
    }
    let mut failure = Cause::NameNotFound;
    for address in tokio::net::lookup_host((host, port)).await.map_err(|_| Cause::NameNotFound)? {
        match connect_to(&address).await {
            Ok(socket) => return Ok(socket),
            Err(cause) => failure = cause,
        }
    }
    Err(failure)
}

/// Connects to an address.
pub(super) async fn connect_to(address: &SocketAddr) -> Result<Socket, Cause> {
    Socket::connect(address).await.map_err(|error| Cause::Errno(errno::name(error)))
}
