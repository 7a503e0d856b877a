//! New cluster IPs for the Services of a range that is lost.
//!
//! The cluster IP of a Service never changes while its range is the server's. A range that another plane took meanwhile
//! cannot be used any more: then, and only then, its Services get addresses of the new range.

use std::net::Ipv4Addr;

use api::status::Status;
use kinds::builtin::service::{clear_cluster_ip, cluster_ip};
use registry::state::Stored;

use crate::server::Server;

impl Server {
    /// Gives an address of the server's range to every Service whose address `lost` says is of no use any more; returns
    /// how many there were.
    pub async fn move_services(&self, lost: impl Fn(Ipv4Addr) -> bool) -> Result<usize, Status> {
        let catalog = self.catalog();
        let kind = catalog.find("", "v1", "services").expect("a built-in kind");
        let mut moved = 0;
        for (_, stored) in self.0.hub.snapshot().range(&registry::state::prefix("", "services", ""), None) {
            if !cluster_ip(&stored.object()).and_then(|address| address.parse().ok()).is_some_and(&lost) {
                continue;
            }
            // The commit gives a free one to a Service without.
            let renumbered = |current: &Stored| {
                let mut service = current.object();
                clear_cluster_ip(&mut service);
                Ok(service)
            };
            self.set_object(kind, &stored.index.namespace, &stored.index.name, (None, false), renumbered).await?;
            moved += 1;
        }
        Ok(moved)
    }
}
