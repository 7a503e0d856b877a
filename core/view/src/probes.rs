//! The probes that a pod has, as its spec says: what is asked, how often.

use api::pod::{Container, Probe};
use api::{FeatureGates, HandlerKind, IntOrString, Pod, ProbeType};
use probe::timing::{Defaults, Progress, SubSecondProbePolicy, Timing, handler_of};
use serde::Serialize;

use crate::nodes::millis;
use crate::pods::cut;
use crate::strips;

/// A probe of a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeRow {
    /// The key of its strip.
    pub key: String,
    /// The container.
    pub container: String,
    /// `Startup`, `Readiness` or `Liveness`.
    pub probe: String,
    /// What is asked: `GET :8080/ready`.
    pub asks: String,
    /// The period once it is ready, in milliseconds.
    pub period_ms: u64,
    /// For one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Failures in a row that act.
    pub failure_threshold: u32,
    /// It was moved from the kubelet to an agent of ours.
    pub moved: bool,
}

/// Returns the probes of a pod.
pub(crate) fn of(pod: &Pod) -> Vec<ProbeRow> {
    // An annotation that cannot be read moves nothing; admission and `why` say so.
    let moved = api::moved::moved_probes(pod).unwrap_or_default();
    let containers = pod.sidecars().chain(&pod.spec.containers);
    let mut rows = Vec::new();
    for container in containers {
        let own = [
            (ProbeType::Startup, container.startup_probe.as_ref()),
            (ProbeType::Readiness, container.readiness_probe.as_ref()),
            (ProbeType::Liveness, container.liveness_probe.as_ref()),
        ];
        rows.extend(own.into_iter().filter_map(|(type_, probe)| Some(row(pod, container, type_, probe?, false))));
        rows.extend(moved.get(&container.name).map(|probe| row(pod, container, ProbeType::Readiness, probe, true)));
    }
    rows
}

fn row(pod: &Pod, container: &Container, type_: ProbeType, probe: &Probe, moved: bool) -> ProbeRow {
    let (timing, _) = Timing::of(probe, Some(type_), &FeatureGates::default(), &Defaults::CONTAINER);
    let settled = Progress { reached_success: true, is_success: true };
    let key = (pod.metadata.uid.clone(), container.name.clone(), type_.name().to_owned());
    ProbeRow {
        key: strips::text(&key),
        container: container.name.clone(),
        probe: type_.name().to_owned(),
        asks: cut(&asks(probe)),
        period_ms: millis(timing.period(SubSecondProbePolicy::default(), settled)),
        timeout_ms: millis(timing.timeout),
        failure_threshold: timing.failure_threshold,
        moved,
    }
}

fn asks(probe: &Probe) -> String {
    let port = |port: &IntOrString| port.to_string();
    match handler_of(probe) {
        Some(HandlerKind::Exec) => probe.exec.as_ref().map_or_else(String::new, |exec| exec.command.join(" ")),
        Some(HandlerKind::HttpGet) => probe.http_get.as_ref().map_or_else(String::new, |get| {
            let scheme = if get.scheme == "HTTPS" { "https " } else { "" };
            format!("GET {scheme}{}:{}{}", get.host, port(&get.port), get.path)
        }),
        Some(HandlerKind::TcpSocket) => {
            probe.tcp_socket.as_ref().map_or_else(String::new, |tcp| format!("TCP {}:{}", tcp.host, port(&tcp.port)))
        }
        Some(HandlerKind::Grpc) => {
            let grpc = probe.grpc.clone().unwrap_or_default();
            format!("gRPC :{} {}", grpc.port, grpc.service).trim_end().to_owned()
        }
        None => String::new(),
    }
}
