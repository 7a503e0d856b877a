//! The target ports of a Service, and whether its pods have them.

use api::service::ServicePort;
use api::{IntOrString, Pod, Service};
use serde_json::json;

use crate::answer::Finding;
use crate::words;

fn protocol(text: &str) -> &str {
    if text.is_empty() { "TCP" } else { text }
}

fn target(port: &ServicePort) -> IntOrString {
    match &port.target_port {
        Some(IntOrString::String(name)) if !name.is_empty() => IntOrString::String(name.clone()),
        Some(IntOrString::Int(number)) if *number > 0 => IntOrString::Int(*number),
        _ => IntOrString::Int(port.port),
    }
}

/// Says which ports lead where.
pub(crate) fn say(service: &Service) -> String {
    let ports: Vec<String> = service.spec.ports.iter().map(|port| format!("{} -> {}", port.port, target(port))).collect();
    words::some(&ports, 4)
}

fn containers(pod: &Pod) -> impl Iterator<Item = &api::pod::Container> {
    pod.spec.containers.iter().chain(pod.sidecars())
}

/// Returns the ports that pods declare, for people.
fn declared(pods: &[Pod]) -> Vec<String> {
    let mut found: Vec<String> = pods
        .iter()
        .flat_map(containers)
        .flat_map(|container| container.ports.iter().map(move |port| (container, port)))
        .map(|(container, port)| {
            let name = if port.name.is_empty() { String::new() } else { format!(" named {}", port.name) };
            format!("{}{name} ({}, {})", port.container_port, protocol(&port.protocol), container.name)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns whether a probe of the pod asks that port: then somebody is meant to listen.
fn probed(pod: &Pod, number: i64) -> bool {
    let is_it = |port: &IntOrString| *port == IntOrString::Int(number);
    let probes =
        containers(pod).flat_map(|container| [&container.readiness_probe, &container.startup_probe, &container.liveness_probe]);
    probes.flatten().any(|probe| {
        probe.http_get.as_ref().is_some_and(|http| is_it(&http.port))
            || probe.tcp_socket.as_ref().is_some_and(|tcp| is_it(&tcp.port))
            || probe.grpc.as_ref().is_some_and(|grpc| grpc.port == number)
    })
}

/// Returns the first port of a Service that none of these pods has, by what they declare.
///
/// A name must be declared. A number need not be, so it is wrong only if the pods declare others and nothing speaks for it.
pub(crate) fn undeclared(service: &Service, pods: &[Pod]) -> Option<Finding> {
    if pods.is_empty() {
        return None;
    }
    let name = &service.metadata.name;
    let short = format!("svc/{name}");
    let headless = service.spec.cluster_ip == "None";
    for (place, port) in service.spec.ports.iter().enumerate() {
        let (cause, what) = match target(port) {
            IntOrString::String(wanted) => {
                let named = |pod: &Pod, any: bool| {
                    containers(pod)
                        .flat_map(|container| &container.ports)
                        .any(|own| own.name == wanted && (any || protocol(&own.protocol) == protocol(&port.protocol)))
                };
                if pods.iter().any(|pod| named(pod, false)) {
                    continue;
                }
                if pods.iter().any(|pod| named(pod, true)) {
                    (
                        "PortProtocol",
                        format!(
                            "its port {} leads to {wanted:?} over {}, which its pods declare for another protocol",
                            port.port,
                            protocol(&port.protocol)
                        ),
                    )
                } else {
                    (
                        "PortName",
                        format!(
                            "its port {} leads to targetPort {wanted:?}, which no container of its pods declares",
                            port.port
                        ),
                    )
                }
            }
            IntOrString::Int(number) => {
                let all_declare = pods.iter().all(|pod| {
                    containers(pod)
                        .any(|container| container.ports.iter().any(|own| protocol(&own.protocol) == protocol(&port.protocol)))
                });
                let somebody = pods.iter().any(|pod| {
                    probed(pod, number)
                        || containers(pod).flat_map(|container| &container.ports).any(|own| own.container_port == number)
                });
                // Clients of a headless Service choose the port themselves.
                if headless || !all_declare || somebody {
                    continue;
                }
                (
                    "PortUndeclared",
                    format!(
                        "its port {} leads to targetPort {number}, which no container of its pods declares: nobody listens there, as far as can be seen",
                        port.port
                    ),
                )
            }
        };
        let own = declared(pods);
        let shown = if own.is_empty() { "no port at all".to_owned() } else { words::some(&own, 5) };
        let first = pods
            .iter()
            .flat_map(containers)
            .flat_map(|container| &container.ports)
            .find(|own| protocol(&own.protocol) == protocol(&port.protocol));
        let finding = Finding::new(cause, &short, what)
            .seen(&short, format!("spec.ports[{place}].targetPort"), target(port).to_string())
            .seen(format!("pod/{}", pods[0].metadata.name), "spec.containers[*].ports", shown);
        let namespace = &service.metadata.namespace;
        return Some(match first {
            Some(first) => {
                let to = if first.name.is_empty() { json!(first.container_port) } else { json!(first.name) };
                let patch = json!([{"op": "replace", "path": format!("/spec/ports/{place}/targetPort"), "value": to}]);
                finding.act(
                    format!("lead it to {to}, if that is meant"),
                    format!("kubectl -n {namespace} patch svc {name} --type=json -p '{patch}'"),
                )
            }
            None => finding.act(
                "declare the port by that name in the pod's template, or use its number",
                format!("kubectl -n {namespace} edit svc {name}"),
            ),
        });
    }
    None
}
