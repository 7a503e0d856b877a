//! Whose socket answers a probe of a pod: the kernel is asked once for all attempts that want to know at the same time.
//!
//! Asking is dear (every process and every socket of the machine), and a pod may have a hundred probes that succeed for the
//! first time at once. What is known is forgotten whenever a container of the pod starts or ends.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use processes::container::Running;
use processes::listeners::{Owner, answers, owner};
use processes::procfs::family;
use tokio::sync::Mutex;

/// The containers of a pod that run, and who is known to answer where.
#[derive(Default)]
pub(super) struct PortOwners {
    known: RwLock<CachedOwners>,
    /// Looks that have begun.
    looks: AtomicU64,
    /// Held by whoever looks; what the last look saw.
    last: Mutex<Option<Lookup>>,
}

#[derive(Clone, Default)]
struct CachedOwners {
    running: Vec<Arc<Running>>,
    /// Ports where the pod itself answers.
    ports: BTreeSet<u16>,
    changes: u64,
}

struct Lookup {
    number: u64,
    address: SocketAddr,
    changes: u64,
    seen: Option<Owner>,
}

impl PortOwners {
    /// Changes which containers run.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Arc<Running>>)) {
        let mut known = self.known.write().expect("nothing panics while it is held");
        change(&mut known.running);
        known.ports.clear();
        known.changes += 1;
    }

    fn known(&self) -> std::sync::RwLockReadGuard<'_, CachedOwners> {
        self.known.read().expect("nothing panics while it is held")
    }

    /// Returns who answers on an address of the pod, just after something answered there; `None`: the kernel does not tell.
    pub(super) async fn owner(&self, address: SocketAddr) -> Option<Owner> {
        let before = self.looks.load(Ordering::SeqCst);
        if self.known().ports.contains(&address.port()) {
            return Some(Owner::Pod);
        }
        let mut last = self.last.lock().await;
        let CachedOwners { running, ports, changes } = self.known().clone();
        if ports.contains(&address.port()) {
            return Some(Owner::Pod);
        }
        // A look that began after the answer came is as good as one of our own.
        if let Some(look) =
            last.as_ref().filter(|look| look.number > before && look.address == address && look.changes == changes)
        {
            return look.seen;
        }
        let number = self.looks.fetch_add(1, Ordering::SeqCst) + 1;
        let look = move || look(address, &running);
        let seen = tokio::task::spawn_blocking(look).await.ok().and_then(Result::ok);
        *last = Some(Lookup { number, address, changes, seen });
        let mut known = self.known.write().expect("nothing panics while it is held");
        if seen == Some(Owner::Pod) && known.changes == changes {
            known.ports.insert(address.port());
        }
        seen
    }
}

/// Looks at the first process of each container and what is below it, which listens nearly always, and at all the others only if
/// it does not: a look at every process of the machine takes milliseconds, and the pod is waited for.
fn look(address: SocketAddr, running: &[Arc<Running>]) -> std::io::Result<Owner> {
    let (ip, port) = (address.ip(), address.port());
    let first: BTreeSet<i32> = running.iter().map(|running| running.main_process()).collect();
    let below = || first.iter().flat_map(|process| family(*process)).collect();
    if answers(ip, port, &first) || answers(ip, port, &below()) {
        return Ok(Owner::Pod);
    }
    owner(ip, port, &running.iter().flat_map(|running| running.processes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn those_who_ask_while_somebody_looks_share_the_next_look() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port_owners, address) = (PortOwners::default(), listener.local_addr().unwrap());
        // So few that all of them ask before the first one is answered.
        let seen = futures::future::join_all((0..20).map(|_| port_owners.owner(address))).await;
        assert_eq!(seen, [Some(Owner::Another); 20], "the pod has no process at all");
        assert_eq!(
            port_owners.looks.load(Ordering::SeqCst),
            2,
            "that of the first, which had begun, and one for all the others"
        );
        assert_eq!(port_owners.owner(address).await, Some(Owner::Another));
        assert_eq!(port_owners.looks.load(Ordering::SeqCst), 3, "a later answer may be another's");
    }

    #[tokio::test]
    async fn what_is_known_is_forgotten_when_a_container_starts_or_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port_owners, address) = (PortOwners::default(), listener.local_addr().unwrap());
        port_owners.known.write().unwrap().ports.insert(address.port());
        assert_eq!(port_owners.owner(address).await, Some(Owner::Pod));
        assert_eq!(port_owners.looks.load(Ordering::SeqCst), 0);
        port_owners.change(|_| {});
        assert_eq!(port_owners.owner(address).await, Some(Owner::Another));
    }
}
