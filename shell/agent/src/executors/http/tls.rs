//! TLS without verification: a probe asks whether somebody is there, not who it is.

use std::io;
use std::sync::{Arc, OnceLock};

use probe::http::Tls;
use probe::outcome::Cause;
use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::executors::errno;
use crate::executors::pace::Paced;
use crate::executors::socket::Socket;

/// An encrypted connection.
pub(super) type TlsStream = tokio_rustls::client::TlsStream<Paced>;

/// Makes a connection an encrypted one.
pub(super) async fn handshake(socket: Socket, host: &str, tls: &Tls) -> Result<TlsStream, Cause> {
    // Of an address rustls sends no name.
    let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name).map_err(|_| Cause::Protocol(format!("{host:?} cannot be a TLS server name")))?;
    let stream = socket.into_tokio().map_err(|error| Cause::Errno(errno::name(error)))?;
    TlsConnector::from(config()).connect(name, stream).await.map_err(cause)
}

/// Says why an encrypted connection failed.
pub(super) fn cause(error: io::Error) -> Cause {
    match error.raw_os_error() {
        Some(number) => Cause::Errno(errno::name(Errno::from_raw_os_error(number))),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            Cause::Protocol("tls: the server closed the connection".to_owned())
        }
        None => Cause::Protocol(format!("tls: {error}")),
    }
}

/// Returns the one configuration of all probes.
fn config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let make = || {
        let mut config = runtime::tls_without_verification().with_no_client_auth();
        // Every attempt is a new acquaintance, as it is for a new client.
        config.resumption = Resumption::disabled();
        Arc::new(config)
    };
    CONFIG.get_or_init(make).clone()
}
