//! Addresses and node ports of Services: handed out once, given back when the Service goes.
//!
//! The cluster IP of a Service never changes while its range is the server's. A range that another plane took meanwhile
//! cannot be used any more: then, and only then, its Services get addresses of the new range.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use api::json;
use api::status::Status;
use kinds::builtin::service::{cluster_ip, set_cluster_ip};
use registry::state::Snapshot;
use serde_json::Value;

use crate::server::Server;

/// The node ports that Kubernetes hands out.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// What is free, and what is taken.
pub(crate) struct ServicePool {
    network: u32,
    size: u32,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<i64>,
}

impl ServicePool {
    /// Returns the pool of a range, less what the stored Services have.
    pub(crate) fn new((network, prefix): &(Ipv4Addr, u8), snapshot: &Snapshot) -> ServicePool {
        let size = 1u32.checked_shl(32 - u32::from(*prefix)).unwrap_or(u32::MAX);
        let pool = ServicePool { network: u32::from(*network) & !(size - 1), size, taken: Mutex::default() };
        for (_, stored) in snapshot.range(&registry::state::prefix("", "services", ""), None) {
            pool.take(&stored.object());
        }
        pool
    }

    /// Takes what a Service has.
    pub(crate) fn take(&self, service: &Value) {
        let mut taken = self.taken.lock().expect("no code panics while it holds the pool");
        let (address, ports) = held(service);
        taken.addresses.extend(address);
        taken.ports.extend(ports);
    }

    /// Gives back what a Service had.
    pub(crate) fn give_back(&self, service: &Value) {
        let mut taken = self.taken.lock().expect("no code panics while it holds the pool");
        let (address, ports) = held(service);
        if let Some(address) = address {
            taken.addresses.remove(&address);
        }
        for port in ports {
            taken.ports.remove(&port);
        }
    }

    /// Gives back the address that a Service had, not its ports.
    fn forget_address(&self, service: &Value) {
        if let (Some(address), _) = held(service) {
            self.cancel(Some(Ipv4Addr::from(address)), &[]);
        }
    }

    /// Reserves a free address; `None`: all are taken.
    pub(crate) fn reserve_address(&self) -> Option<Ipv4Addr> {
        let mut taken = self.taken.lock().expect("no code panics while it holds the pool");
        // The first address names the network, the last one is for broadcasts.
        let free = (1..self.size - 1).map(|offset| self.network + offset).find(|address| !taken.addresses.contains(address))?;
        taken.addresses.insert(free);
        Some(Ipv4Addr::from(free))
    }

    /// Reserves free node ports, as many as asked for if there are so many.
    pub(crate) fn reserve_ports(&self, count: usize) -> Vec<i64> {
        let mut taken = self.taken.lock().expect("no code panics while it holds the pool");
        let free: Vec<i64> = NODE_PORTS.filter(|port| !taken.ports.contains(port)).take(count).collect();
        taken.ports.extend(&free);
        free
    }

    /// Gives back a reservation that was not used.
    pub(crate) fn cancel(&self, address: Option<Ipv4Addr>, ports: &[i64]) {
        let mut taken = self.taken.lock().expect("no code panics while it holds the pool");
        if let Some(address) = address {
            taken.addresses.remove(&u32::from(address));
        }
        for port in ports {
            taken.ports.remove(port);
        }
    }
}

impl Server {
    /// Gives an address of the server's range to every Service whose address `lost` says is of no use any more; returns
    /// how many there were.
    pub async fn move_services(&self, lost: impl Fn(Ipv4Addr) -> bool) -> Result<usize, Status> {
        let catalog = self.catalog();
        let kind = catalog.find("", "v1", "services").expect("a built-in kind");
        let mut moved = 0;
        for (_, stored) in self.0.hub.snapshot().range(&registry::state::prefix("", "services", ""), None) {
            let service = stored.object();
            if !cluster_ip(&service).and_then(|address| address.parse().ok()).is_some_and(&lost) {
                continue;
            }
            let exhausted = || Status::internal("no free address is left for the Services of the former range");
            let address = self.0.services.reserve_address().ok_or_else(exhausted)?.to_string();
            let renumbered = |current: &registry::state::Stored| {
                let mut service = current.object();
                set_cluster_ip(&mut service, &address);
                Ok(service)
            };
            self.set_object(kind, &stored.index.namespace, &stored.index.name, false, renumbered).await?;
            self.0.services.forget_address(&service);
            moved += 1;
        }
        Ok(moved)
    }
}

fn held(service: &Value) -> (Option<u32>, Vec<i64>) {
    let address = json::text(service, &["spec", "clusterIP"]).parse::<Ipv4Addr>().ok().map(u32::from);
    let ports = json::items(service, &["spec", "ports"]).iter().filter_map(|port| json::int(port, &["nodePort"])).collect();
    (address, ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_is_handed_out_once() {
        let pool = ServicePool::new(&(Ipv4Addr::new(127, 96, 3, 0), 29), &Snapshot::default());
        pool.take(&json!({"spec": {"clusterIP": "127.96.3.2"}}));
        let mut all = Vec::new();
        while let Some(address) = pool.reserve_address() {
            all.push(address.octets()[3]);
        }
        assert_eq!(all, [1, 3, 4, 5, 6]);
        pool.give_back(&json!({"spec": {"clusterIP": "127.96.3.4"}}));
        assert_eq!(pool.reserve_address().unwrap().octets()[3], 4);
        assert_eq!(pool.reserve_ports(2), [30_000, 30_001]);
        pool.cancel(None, &[30_000]);
        assert_eq!(pool.reserve_ports(1), [30_000]);
    }
}
