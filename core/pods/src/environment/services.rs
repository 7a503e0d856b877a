//! Service variables: `FRONT_END_SERVICE_HOST` and its kin.

use std::collections::BTreeMap;

/// Returns the variables of the Services that a pod sees.
///
/// `default/kubernetes` is always seen, the Services of the pod's namespace only with `links`; on the same name, the
/// pod's own namespace wins. Headless Services have no address and no variables.
pub(super) fn variables(namespace: &str, links: bool, services: &[api::Service]) -> BTreeMap<String, String> {
    let mut seen: BTreeMap<&str, &api::Service> = BTreeMap::new();
    for service in services {
        let own = links && service.metadata.namespace == namespace;
        let master = service.metadata.namespace == "default" && service.metadata.name == "kubernetes";
        let has_address = !matches!(service.spec.cluster_ip.as_str(), "" | "None");
        if has_address && (own || (master && !seen.contains_key("kubernetes"))) {
            seen.insert(&service.metadata.name, service);
        }
    }
    seen.values().flat_map(|service| of(service)).collect()
}

fn of(service: &api::Service) -> Vec<(String, String)> {
    let name = constant(&service.metadata.name);
    let host = service.spec.cluster_ip.as_str();
    let Some(first) = service.spec.ports.first() else { return Vec::new() };
    let url_host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let protocol = |port: &api::service::ServicePort| {
        if port.protocol.is_empty() { "tcp".to_owned() } else { port.protocol.to_ascii_lowercase() }
    };
    let url = |port: &api::service::ServicePort| format!("{}://{url_host}:{}", protocol(port), port.port);
    let mut found =
        vec![(format!("{name}_SERVICE_HOST"), host.to_owned()), (format!("{name}_SERVICE_PORT"), first.port.to_string())];
    for port in service.spec.ports.iter().filter(|port| !port.name.is_empty()) {
        found.push((format!("{name}_SERVICE_PORT_{}", constant(&port.name)), port.port.to_string()));
    }
    found.push((format!("{name}_PORT"), url(first)));
    for port in &service.spec.ports {
        let protocol = protocol(port);
        let prefix = format!("{name}_PORT_{}_{}", port.port, protocol.to_ascii_uppercase());
        found.push((prefix.clone(), url(port)));
        found.push((format!("{prefix}_PROTO"), protocol));
        found.push((format!("{prefix}_PORT"), port.port.to_string()));
        found.push((format!("{prefix}_ADDR"), host.to_owned()));
    }
    found
}

fn constant(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}
