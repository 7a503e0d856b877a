//! Where a Service listens: a pure function of the Service.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use api::Service;
use api::service::ServicePort;
use endpoints::usable::Policy;

/// How long a client stays with its endpoint where the Service does not say; Kubernetes default.
const AFFINITY_SECONDS: i64 = 10_800;

/// What a Service needs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Its listeners.
    pub(super) listeners: Vec<Planned>,
    /// What cannot be served, for people.
    pub(super) unsupported: Vec<String>,
}

/// A listener.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// The port that it is for.
    pub(super) port: ServicePort,
    /// Which endpoints count.
    pub(super) policy: Policy,
}

/// Returns what a Service needs. Only loopback addresses can be listened on; others are somebody else's business.
pub(super) fn plan(service: &Service) -> Plan {
    let mut plan = Plan::default();
    let cluster_ip = service.spec.cluster_ip.parse::<IpAddr>().ok().filter(IpAddr::is_loopback);
    let Some(cluster_ip) = cluster_ip.filter(|_| service.spec.type_ != "ExternalName") else { return plan };
    let on_node = matches!(service.spec.type_.as_str(), "NodePort" | "LoadBalancer");
    let internal = if service.spec.internal_traffic_policy == "Local" { Policy::Local } else { Policy::Cluster };
    for port in &service.spec.ports {
        if !matches!(port.protocol.as_str(), "" | "TCP") {
            plan.unsupported.push(format!(
                "Port {} is not served: the service proxy carries TCP only, not {}; connect to the pods directly",
                name(port),
                port.protocol
            ));
            continue;
        }
        let mut add = |ip, number, policy| {
            if let Some(number) = u16::try_from(number).ok().filter(|number| *number != 0) {
                plan.listeners.push(Planned { address: SocketAddr::new(ip, number), port: port.clone(), policy });
            }
        };
        add(cluster_ip, port.port, internal);
        if on_node && let Some(number) = port.node_port {
            add(Ipv4Addr::LOCALHOST.into(), number, Policy::Cluster);
        }
    }
    plan
}

/// Returns how long a client stays with its endpoint; `None`: not at all.
pub(super) fn affinity(service: &Service) -> Option<Duration> {
    let config = service.spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds);
    (service.spec.session_affinity == "ClientIP")
        .then(|| Duration::from_secs(seconds.unwrap_or(AFFINITY_SECONDS).max(0).unsigned_abs()))
}

/// Returns the name of a port for people and annotations: its number if it has none.
pub(super) fn name(port: &ServicePort) -> String {
    if port.name.is_empty() { port.port.to_string() } else { port.name.clone() }
}

/// Returns where a port is served that may not be bound where it should be; `None`: nowhere else.
pub(super) fn moved(address: SocketAddr) -> Option<SocketAddr> {
    (address.port() < 1024).then(|| SocketAddr::new(address.ip(), address.port() + 10_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "d"}, "spec": spec})).unwrap()
    }

    fn addresses(spec: Value) -> Vec<String> {
        plan(&service(spec)).listeners.iter().map(|listener| format!("{} {:?}", listener.address, listener.policy)).collect()
    }

    #[test]
    fn every_tcp_port_of_a_loopback_address_listens() {
        let ports =
            json!([{"name": "http", "port": 80}, {"name": "admin", "port": 8080, "protocol": "TCP", "nodePort": 30001}]);
        assert_eq!(
            addresses(json!({"clusterIP": "127.96.0.1", "ports": ports})),
            ["127.96.0.1:80 Cluster", "127.96.0.1:8080 Cluster"]
        );
        let node = json!({"type": "NodePort", "clusterIP": "127.96.0.1", "internalTrafficPolicy": "Local", "ports": ports});
        assert_eq!(addresses(node), ["127.96.0.1:80 Local", "127.96.0.1:8080 Local", "127.0.0.1:30001 Cluster"]);
        for nobody in ["None", "", "10.96.0.1"] {
            assert_eq!(addresses(json!({"clusterIP": nobody, "ports": ports})), Vec::<String>::new(), "{nobody}");
        }
        let alias = json!({"type": "ExternalName", "clusterIP": "127.96.0.1", "ports": ports});
        assert_eq!(addresses(alias), Vec::<String>::new());
    }

    #[test]
    fn other_protocols_are_named() {
        let ports = json!([{"port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}]);
        let plan = plan(&service(json!({"clusterIP": "127.96.0.1", "ports": ports})));
        assert_eq!(plan.listeners.len(), 1);
        assert!(plan.unsupported[0].starts_with("Port 53 is not served"), "{:?}", plan.unsupported);
    }

    #[test]
    fn affinity_lasts_three_hours_unless_told() {
        assert_eq!(affinity(&service(json!({}))), None);
        assert_eq!(affinity(&service(json!({"sessionAffinity": "ClientIP"}))), Some(Duration::from_secs(10_800)));
        let reported =
            service(json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}));
        assert_eq!(affinity(&reported), Some(Duration::from_secs(5)));
    }

    #[test]
    fn only_ports_that_need_a_privilege_move() {
        assert_eq!(moved("127.96.0.1:80".parse().unwrap()), Some("127.96.0.1:10080".parse().unwrap()));
        assert_eq!(moved("127.96.0.1:1024".parse().unwrap()), None);
    }
}
