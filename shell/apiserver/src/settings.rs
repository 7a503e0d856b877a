//! What the operator chooses, and what can change while the server runs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::registry::Registry;

/// The settings of a server.
#[derive(Clone)]
pub struct Settings {
    /// The range of service addresses: network and prefix length.
    pub service_cidr: (Ipv4Addr, u8),
    /// Whether endpoint addresses may be loopback ones.
    pub allow_loopback_endpoints: bool,
    /// How long new pods tolerate a node that is not ready or unreachable; shared, so that a controller can change it.
    pub tolerations: Arc<Tolerations>,
    /// Whether components that are not part of this process act on what the server stores: a scheduler, controllers,
    /// kubelets.
    pub external_controllers: bool,
    /// What clients inside the plane find out about the server; without it nothing is published.
    pub published: Option<Published>,
    /// Metrics of the other parts of the process, told at `/metrics` as well.
    pub further_metrics: Option<Arc<Registry>>,
}

/// How the server is reached and known, as objects say it.
#[derive(Clone, Debug)]
pub struct Published {
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificate of its authority, as PEM: it signs the server's and the clients' certificates.
    pub authority: String,
}

impl Settings {
    /// Returns the range of service addresses.
    pub fn service_range(&self) -> registry::services::Range {
        registry::services::Range::new(self.service_cidr.0, self.service_cidr.1)
    }
}

/// How long new pods tolerate a node that is not ready, or unreachable.
pub struct Tolerations {
    not_ready: AtomicI64,
    unreachable: AtomicI64,
}

impl Default for Tolerations {
    fn default() -> Tolerations {
        Tolerations { not_ready: AtomicI64::new(300), unreachable: AtomicI64::new(300) }
    }
}

impl Tolerations {
    /// Returns the seconds: not ready, unreachable.
    pub fn get(&self) -> (i64, i64) {
        (self.not_ready.load(Ordering::Relaxed), self.unreachable.load(Ordering::Relaxed))
    }

    /// Sets the seconds: not ready, unreachable.
    pub fn set(&self, not_ready: i64, unreachable: i64) {
        self.not_ready.store(not_ready, Ordering::Relaxed);
        self.unreachable.store(unreachable, Ordering::Relaxed);
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            service_cidr: (Ipv4Addr::new(127, 96, 0, 0), 24),
            allow_loopback_endpoints: true,
            tolerations: Arc::new(Tolerations::default()),
            external_controllers: false,
            published: None,
            further_metrics: None,
        }
    }
}
