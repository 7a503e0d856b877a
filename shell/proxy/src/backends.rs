//! Where connections of one Service port may go, and which endpoint is next.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::EndpointSlice;
use api::service::ServicePort;
use endpoints::usable::{Address, Mode, Options, Policy, choose, port_number};

/// Clients that are remembered per port; on one machine they have few addresses.
const CLIENTS_MAX: usize = 4_096;

/// The usable endpoints of a Service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backends {
    /// Why they may be used.
    pub(super) mode: Mode,
    /// Their addresses.
    pub(super) addresses: Vec<SocketAddr>,
    /// How long a client stays with its endpoint.
    pub(super) affinity: Option<Duration>,
}

impl Backends {
    /// Chooses from the slices of a Service.
    pub(super) fn new<'a>(
        slices: impl Iterator<Item = &'a EndpointSlice>,
        port: &ServicePort,
        policy: Policy,
        node: &str,
        affinity: Option<Duration>,
    ) -> Backends {
        let number = |slice: &EndpointSlice| port_number(slice, &port.name, &port.protocol).and_then(|n| u16::try_from(n).ok());
        let with_port = slices.filter(|slice| number(slice).is_some());
        let options = Options { use_hints: true, ..Options::default() };
        let usable = choose(with_port, policy, node, "", options);
        let addresses = usable.endpoints.iter().filter_map(|(address, slice)| match address {
            Address::Ip(ip) => Some(SocketAddr::new(*ip, number(slice)?)),
            Address::Text(_) => None,
        });
        Backends { mode: usable.mode, addresses: addresses.collect(), affinity }
    }
}

/// Chooses endpoints in turn, or the one that a client had.
#[derive(Debug, Default)]
pub(super) struct Picker {
    next: AtomicUsize,
    clients: Mutex<BTreeMap<IpAddr, (SocketAddr, Instant)>>,
}

impl Picker {
    /// Returns the position of the endpoint to try first; the others follow in order.
    pub(super) fn first(&self, backends: &Backends, client: IpAddr, now: Instant) -> usize {
        if let Some(stay) = backends.affinity
            && let Some((address, seen)) = self.clients().get(&client)
            && now.saturating_duration_since(*seen) <= stay
            && let Some(position) = backends.addresses.iter().position(|other| other == address)
        {
            return position;
        }
        self.next.fetch_add(1, Ordering::Relaxed) % backends.addresses.len().max(1)
    }

    /// Remembers where a client is connected to.
    pub(super) fn connected(&self, backends: &Backends, client: IpAddr, address: SocketAddr, now: Instant) {
        let Some(stay) = backends.affinity else { return };
        let mut clients = self.clients();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&client) {
            clients.retain(|_, (_, seen)| now.saturating_duration_since(*seen) <= stay);
            let oldest = clients.iter().min_by_key(|(_, (_, seen))| *seen).map(|(client, _)| *client);
            if let Some(oldest) = oldest.filter(|_| clients.len() >= CLIENTS_MAX) {
                clients.remove(&oldest);
            }
        }
        clients.insert(client, (address, now));
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, BTreeMap<IpAddr, (SocketAddr, Instant)>> {
        self.clients.lock().expect("no code panics while it holds the clients")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn slice(name: &str, ports: Value, endpoints: &[(&str, [bool; 3], &str)]) -> EndpointSlice {
        let endpoint = |(address, [ready, serving, terminating], node): &(&str, [bool; 3], &str)| {
            let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
            json!({"addresses": [address], "conditions": conditions, "nodeName": node})
        };
        let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
        serde_json::from_value(
            json!({"metadata": {"name": name}, "addressType": "IPv4", "ports": ports, "endpoints": endpoints}),
        )
        .unwrap()
    }

    fn chosen(slices: &[EndpointSlice], policy: Policy) -> Vec<String> {
        let port = ServicePort { name: "http".into(), port: 80, ..ServicePort::default() };
        let backends = Backends::new(slices.iter(), &port, policy, "here", None);
        backends.addresses.iter().map(SocketAddr::to_string).collect()
    }

    const READY: [bool; 3] = [true, true, false];
    const DRAINING: [bool; 3] = [false, true, true];

    #[test]
    fn slices_without_the_port_are_skipped_and_others_have_their_own_number() {
        let slices = [
            slice("a", json!([{"name": "http", "port": 8080}]), &[("127.88.0.1", READY, "here")]),
            slice("b", json!([{"name": "http", "port": 9090}]), &[("127.88.0.2", READY, "there")]),
            slice("c", json!([{"name": "other", "port": 1}]), &[("127.88.0.3", READY, "here")]),
        ];
        assert_eq!(chosen(&slices, Policy::Cluster), ["127.88.0.1:8080", "127.88.0.2:9090"]);
        assert_eq!(chosen(&slices, Policy::Local), ["127.88.0.1:8080"]);
    }

    #[test]
    fn terminating_endpoints_are_used_when_nothing_is_ready() {
        let ports = json!([{"name": "http", "port": 8080}]);
        let mut slices = [slice("a", ports.clone(), &[("127.88.0.1", DRAINING, "here"), ("127.88.0.2", READY, "here")])];
        assert_eq!(chosen(&slices, Policy::Cluster), ["127.88.0.2:8080"]);
        slices[0] = slice("a", ports, &[("127.88.0.1", DRAINING, "here"), ("127.88.0.2", [false, false, false], "here")]);
        assert_eq!(chosen(&slices, Policy::Cluster), ["127.88.0.1:8080"]);
    }

    #[test]
    fn endpoints_take_turns_unless_a_client_stays() {
        let addresses: Vec<SocketAddr> = (1..=3).map(|host| SocketAddr::new([127, 88, 0, host].into(), 80)).collect();
        let mut backends = Backends { addresses, ..Backends::default() };
        let (picker, now) = (Picker::default(), Instant::now());
        let client: IpAddr = [127, 0, 0, 1].into();
        let turns: Vec<usize> = (0..4).map(|_| picker.first(&backends, client, now)).collect();
        assert_eq!(turns, [0, 1, 2, 0]);
        backends.affinity = Some(Duration::from_secs(10));
        picker.connected(&backends, client, backends.addresses[2], now);
        let later = now + Duration::from_secs(10);
        assert_eq!([picker.first(&backends, client, now), picker.first(&backends, client, later)], [2, 2]);
        let late = picker.first(&backends, client, later + Duration::from_millis(1));
        assert_eq!(late, 1, "its turn, not its memory");
        backends.addresses.remove(2);
        assert_eq!(picker.first(&backends, client, now), 1, "its endpoint is gone");
    }
}
