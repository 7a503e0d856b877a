//! Probe attempts: one connection or one command each, one deadline, one [`Report`].
//!
//! What a target answers is judged by [`probe::outcome`] and [`probe::http`]; here it is only asked. How many attempts run at
//! once is the caller's business. A worker prepares its probe once per container instance and runs it for every attempt.

mod command;
mod errno;
mod grpc;
mod http;
mod knocker;
mod lookup;
mod pace;
mod runtime_command;
mod socket;
mod tcp;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use probe::http::Target;
use probe::outcome::{Cause, Report, unanswered};
use processes::container::Running;

pub use command::ExecProbe;
pub use grpc::GrpcProbe;
pub use http::HttpProbe;
pub use knocker::{KnockCounters, Knocked, Knocker};
pub use runtime_command::{RuntimeContainer, RuntimeExec};
pub use socket::Socket;
pub use tcp::TcpProbe;

/// An instance of a container, whoever runs it.
#[derive(Clone, Debug)]
pub enum Instance {
    /// A process of this agent.
    Process(Arc<Running>),
    /// A container of a container runtime.
    Runtime(RuntimeContainer),
}

impl Instance {
    /// Returns its ID.
    pub fn id(&self) -> &str {
        match self {
            Instance::Process(running) => running.id(),
            Instance::Runtime(container) => container.id(),
        }
    }

    fn exec(&self, action: &api::pod::ExecAction) -> Executor {
        match self {
            Instance::Process(running) => Executor::Exec(ExecProbe::new(action, running), Arc::clone(running)),
            Instance::Runtime(container) => Executor::RuntimeExec(RuntimeExec::new(action, container)),
        }
    }
}

/// The probe of a worker, ready to be carried out again and again.
#[derive(Clone, Debug)]
pub enum Executor {
    /// Runs a command in a container that is a process of ours.
    Exec(ExecProbe, Arc<Running>),
    /// Runs a command in a container of a container runtime.
    RuntimeExec(RuntimeExec),
    /// Sends a request.
    Http(HttpProbe),
    /// Opens a connection.
    Tcp(TcpProbe),
    /// Asks the gRPC health service.
    Grpc(GrpcProbe),
}

impl Executor {
    /// Prepares a probe of a container instance; `None`: it has no handler that we know.
    pub fn new(probe: &api::pod::Probe, target: &Target<'_>, host_network: bool, instance: &Instance) -> Option<Executor> {
        if let Some(action) = &probe.exec {
            Some(instance.exec(action))
        } else if let Some(action) = &probe.http_get {
            Some(Executor::Http(HttpProbe::new(action, target, host_network)))
        } else if let Some(action) = &probe.tcp_socket {
            Some(Executor::Tcp(TcpProbe::new(action, target)))
        } else {
            probe.grpc.as_ref().map(|action| Executor::Grpc(GrpcProbe::new(action, target)))
        }
    }

    /// Carries out one attempt, over the network on the connection that a knock has begun, if there is one. Dropped before its
    /// end, it leaves nothing behind.
    pub async fn run(&self, begun: Option<Socket>, timeout: Duration) -> Report {
        match self {
            Executor::Exec(probe, container) => probe.run(container, timeout).await,
            Executor::RuntimeExec(probe) => probe.run(timeout).await,
            Executor::Http(probe) => probe.run_on(begun, timeout).await,
            Executor::Tcp(probe) => probe.run_on(begun, timeout).await,
            Executor::Grpc(probe) => probe.run_on(begun, timeout).await,
        }
    }

    /// Returns what is asked, as an event names it: of a command the words of the spec, since values of variables may be secret.
    pub fn target(&self, probe: &api::pod::Probe) -> String {
        match self {
            Executor::Exec(..) | Executor::RuntimeExec(_) => {
                named_command(probe.exec.as_ref().map(|action| action.command.as_slice()).unwrap_or_default())
            }
            Executor::Http(http) => http.url().map_or_else(|| "GET".to_owned(), |url| format!("GET {url}")),
            Executor::Tcp(tcp) => format!("tcp {}", tcp.place()),
            Executor::Grpc(grpc) => grpc.address().map_or_else(|| "grpc".to_owned(), |address| format!("grpc {address}")),
        }
    }

    /// Returns the address that a network probe asks: for [`processes::listeners::owner`], if it is the pod's.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Executor::Exec(..) | Executor::RuntimeExec(_) => None,
            Executor::Http(probe) => probe.address(),
            Executor::Tcp(probe) => probe.address(),
            Executor::Grpc(probe) => probe.address(),
        }
    }
}

/// Returns a command as an event names it: whole scripts do not fit into one line.
fn named_command(command: &[String]) -> String {
    const SHOWN_MAX: usize = 100;
    let mut text = format!("exec {}", command.join(" ")).replace(char::is_control, " ");
    if text.len() > SHOWN_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_MAX));
        text.push_str("...");
    }
    text
}

/// Returns the address of a port of the pod.
fn pod_address(target: &Target<'_>, port: u16) -> Result<SocketAddr, Report> {
    let ip = target.pod_ip.and_then(|ip| ip.parse::<IpAddr>().ok());
    ip.map(|ip| SocketAddr::new(ip, port)).ok_or_else(|| unanswered(&Cause::NoPodIp, Duration::ZERO))
}
