//! A Kubernetes-compatible API server for one machine.
//!
//! [`Server`] answers requests; [`Server::service`] is the same server without a socket, for our own controllers and for
//! tests; [`serve`] puts it behind TLS. What the answers are is decided in `registry`.

mod auth;
mod background;
mod backup;
mod catalog;
mod connections;
mod fair;
mod handlers;
mod hub;
mod intake;
mod kubeconfig;
mod listing;
mod load;
mod logs;
mod metrics;
mod negotiate;
mod pki;
mod pool;
mod renewal;
mod reply;
mod request;
mod serve;
mod server;
mod services;
mod settings;
mod signer;
mod store;
mod streams;
mod tunnel;

pub use auth::{PeerIdentity, certificate_identity};
pub use backup::{Backup, BackupError, PATH as BACKUP_PATH, Restored};
pub use kubeconfig::{is_current, kubeconfig};
pub use logs::AgentDialer;
pub use pki::{Authority, Credentials, PkiError, Role};
pub use renewal::{ShownCertificate, renew};
pub use reply::{Body, Reply};
pub use serve::{TlsError, serve, tls_config};

/// The TLS settings of a server.
pub type TlsServerConfig = rustls::ServerConfig;
pub use server::{InProcess, Parts, Server};
pub use settings::{Published, Settings, Tolerations};
pub use signer::Signer;
pub use store::{Fallback, FileStore, MemoryStore, Room, Store, StoreError};
