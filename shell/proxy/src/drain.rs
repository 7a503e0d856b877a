//! The drain handshake: whether everybody who sends traffic knows that a pod is on its way out.
//!
//! A pod is drained when every slice that lists it shows it as terminating, or none lists it, and the connections that the
//! proxy of this node had opened to it before have ended; for those it waits a moment only. The proxy hands slices on after it
//! has acted on them, so nothing new is sent to a pod that is told to be drained.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::endpointslice::Endpoint;
use api::{EndpointSlice, Pod};
use runtime::{Informers, WatchEvent};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long connections that were open already are waited for: requests are short, idle connections are not.
const QUIET_WAIT: Duration = Duration::from_millis(250);

/// What is known of slices and open connections; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Drains(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<DrainState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct DrainState {
    /// Every slice was seen once; before, nobody knows who lists a pod.
    synced: bool,
    slices: BTreeMap<Key, Arc<EndpointSlice>>,
    /// How many copies in slices each pod has, and how many of them show it as terminating.
    pods: BTreeMap<Listed, usize>,
    open: BTreeMap<IpAddr, usize>,
}

/// Namespace and name.
type Key = (String, String);

/// A pod in a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    pod: Key,
    uid: String,
    terminating: bool,
}

impl Drains {
    /// Follows the slices of an API by itself, for an agent without a proxy.
    pub async fn follow(self, informers: Informers, stop: CancellationToken) {
        let mut events = informers.follow::<EndpointSlice>();
        while let Some(seen) = stop.run_until_cancelled(events.next()).await {
            self.see(&seen);
        }
    }

    /// Takes what a watch of slices tells.
    pub(crate) fn see(&self, seen: &WatchEvent<EndpointSlice>) {
        match seen {
            WatchEvent::Applied(slice) => self.apply(&slice.view),
            WatchEvent::Deleted(slice) => self.delete(&slice.view),
            WatchEvent::ListBegins => {}
            WatchEvent::Synced => self.state().synced = true,
        }
        self.0.changed.notify_waiters();
    }

    fn apply(&self, slice: &Arc<EndpointSlice>) {
        let mut state = self.state();
        let before = state.slices.insert(key(slice), Arc::clone(slice));
        // Most changes are of readiness, which does not matter here.
        if before.as_deref().is_some_and(|before| lists_the_same(before, slice)) {
            return;
        }
        for listed in listed(slice) {
            *state.pods.entry(listed).or_default() += 1;
        }
        before.iter().for_each(|before| state.forget(before));
    }

    fn delete(&self, slice: &EndpointSlice) {
        let mut state = self.state();
        let before = state.slices.remove(&key(slice));
        before.iter().for_each(|before| state.forget(before));
    }

    /// Waits until nothing new is sent to a pod that is being deleted. It may be for ever: the caller has a limit.
    pub async fn drained(&self, pod: &Pod) {
        let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        self.until(|state| state.synced && !state.takes_traffic(&key, &pod.metadata.uid)).await;
        let addresses: Vec<IpAddr> = pod.status.pod_ips.iter().filter_map(|address| api::ip::parse(&address.ip)).collect();
        let quiet = self.until(|state| addresses.iter().all(|address| !state.open.contains_key(address)));
        // A client that keeps its connection is not waited for longer: it will be told by the pod.
        let _ = tokio::time::timeout(QUIET_WAIT, quiet).await;
    }

    async fn until(&self, holds: impl Fn(&DrainState) -> bool) {
        loop {
            // Registered before the look, so that no change in between is missed.
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if holds(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// Counts a connection to an address until the returned value is dropped.
    pub(crate) fn open(&self, address: IpAddr) -> Open {
        *self.state().open.entry(address).or_default() += 1;
        Open { drains: self.clone(), address }
    }

    fn state(&self) -> MutexGuard<'_, DrainState> {
        self.0.state.lock().expect("no code panics while it holds the state")
    }
}

/// Returns the pods of a slice.
fn listed(slice: &EndpointSlice) -> impl Iterator<Item = Listed> {
    slice.endpoints.iter().filter_map(|endpoint| {
        let target = endpoint.target_ref.as_ref().filter(|target| target.kind == "Pod")?;
        let namespace = if target.namespace.is_empty() { &slice.metadata.namespace } else { &target.namespace };
        Some(Listed {
            pod: (namespace.clone(), target.name.clone()),
            uid: target.uid.clone(),
            terminating: endpoint.conditions.is_terminating(),
        })
    })
}

/// Returns whether two states of a slice have the same pods, terminating or not.
fn lists_the_same(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    let same = |(a, b): (&Endpoint, &Endpoint)| {
        a.conditions.is_terminating() == b.conditions.is_terminating() && a.target_ref == b.target_ref
    };
    a.endpoints.len() == b.endpoints.len() && a.endpoints.iter().zip(&b.endpoints).all(same)
}

impl DrainState {
    fn forget(&mut self, slice: &EndpointSlice) {
        for listed in listed(slice) {
            if let Some(count) = self.pods.get_mut(&listed) {
                *count -= 1;
                if *count == 0 {
                    self.pods.remove(&listed);
                }
            }
        }
    }

    /// Returns whether a slice lists the very pod and does not show it as terminating.
    fn takes_traffic(&self, pod: &Key, uid: &str) -> bool {
        // Slices that people write may leave the uid out.
        [uid, ""]
            .iter()
            .any(|uid| self.pods.contains_key(&Listed { pod: pod.clone(), uid: (*uid).to_owned(), terminating: false }))
    }
}

/// A connection that is open, or being opened.
#[derive(Debug)]
pub(crate) struct Open {
    drains: Drains,
    address: IpAddr,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.drains.state();
        if let Some(count) = state.open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.address);
                drop(state);
                self.drains.0.changed.notify_waiters();
            }
        }
    }
}

fn key(slice: &EndpointSlice) -> Key {
    (slice.metadata.namespace.clone(), slice.metadata.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use runtime::Obj;
    use serde_json::json;
    use std::time::Instant;

    fn slice(name: &str, conditions: serde_json::Value) -> Obj<EndpointSlice> {
        let endpoint = json!({
            "addresses": ["127.88.0.1"], "conditions": conditions,
            "targetRef": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "u"},
        });
        Obj::from_json(&json!({"metadata": {"name": name, "namespace": "d"}, "endpoints": [endpoint]})).unwrap()
    }

    fn pod(uid: &str) -> Pod {
        let status = json!({"podIPs": [{"ip": "127.88.0.1"}]});
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "d", "uid": uid}, "status": status})).unwrap()
    }

    fn is_drained(drains: &Drains, pod: &Pod) -> bool {
        drains.drained(pod).now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_pod_is_drained_when_every_slice_says_so() {
        let drains = Drains::default();
        assert!(!is_drained(&drains, &pod("u")), "nothing is known yet");
        drains.see(&WatchEvent::Applied(slice("a", json!({"ready": true}))));
        drains.see(&WatchEvent::Applied(slice("b", json!({"ready": true}))));
        drains.see(&WatchEvent::Synced);
        assert!(!is_drained(&drains, &pod("u")));
        assert!(is_drained(&drains, &pod("another")), "no slice lists this one");
        drains.see(&WatchEvent::Applied(slice("a", json!({"ready": false, "serving": true, "terminating": true}))));
        assert!(!is_drained(&drains, &pod("u")), "the other slice does not say so");
        drains.see(&WatchEvent::Deleted(slice("b", json!({}))));
        assert!(is_drained(&drains, &pod("u")));
    }

    #[tokio::test]
    async fn connections_that_were_open_are_waited_for_a_moment() {
        let drains = Drains::default();
        drains.see(&WatchEvent::Synced);
        let kept = drains.open("127.88.0.1".parse().unwrap());
        let begun = Instant::now();
        drains.drained(&pod("u")).await;
        assert!(begun.elapsed() >= QUIET_WAIT);
        let (pod, _other) = (pod("u"), drains.open("127.88.0.2".parse().unwrap()));
        let mut waiting = std::pin::pin!(drains.drained(&pod));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(kept);
        assert!(futures::poll!(&mut waiting).is_ready());
    }
}
