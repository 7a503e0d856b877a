//! TCP probes: connected is enough.

use std::net::SocketAddr;
use std::time::Duration;

use api::pod::TcpSocketAction;
use probe::http::Target;
use probe::outcome::{self, Cause, Report, Tries};
use processes::lag::Deadline;

use super::socket::Socket;
use super::{lookup, pod_address};

/// The TCP probe of a worker.
#[derive(Clone, Debug)]
pub struct TcpProbe {
    /// Where it goes, or why it cannot.
    place: Result<Place, Report>,
}

#[derive(Clone, Debug)]
enum Place {
    Address(SocketAddr),
    Name(String, u16),
}

impl TcpProbe {
    /// Prepares the probe of a container; a spec that cannot be carried out fails at every attempt.
    pub fn new(action: &TcpSocketAction, target: &Target<'_>) -> TcpProbe {
        let place = outcome::resolve_port(&action.port, target.ports).and_then(|port| {
            Ok(match action.host.trim_matches(['[', ']']) {
                "" => Place::Address(pod_address(target, port)?),
                host => match host.parse() {
                    Ok(ip) => Place::Address(SocketAddr::new(ip, port)),
                    Err(_) => Place::Name(host.to_owned(), port),
                },
            })
        });
        TcpProbe { place }
    }

    /// Returns the address that it asks, if no name has to be looked up.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.place {
            Ok(Place::Address(address)) => Some(*address),
            _ => None,
        }
    }

    /// Returns where it connects to, for people.
    pub fn place(&self) -> String {
        match &self.place {
            Ok(Place::Address(address)) => address.to_string(),
            Ok(Place::Name(name, port)) => format!("{name}:{port}"),
            Err(_) => String::new(),
        }
    }

    /// Carries out one attempt.
    pub async fn run(&self, timeout: Duration) -> Report {
        self.run_on(None, timeout).await
    }

    /// Carries out one attempt, on a connection that a knock has begun.
    pub async fn run_on(&self, mut begun: Option<Socket>, timeout: Duration) -> Report {
        let place = match &self.place {
            Ok(place) => place,
            Err(report) => return report.clone(),
        };
        let mut deadline = Deadline::after(timeout);
        let mut tries = Tries::default();
        loop {
            let connected = tokio::select! {
                biased;
                connected = place.visit(begun.take()) => connected,
                lag = deadline.passed() => Err(Cause::TimedOut { lag }),
            };
            let report = outcome::tcp(connected.as_ref().copied(), timeout);
            if !tries.again(&report) {
                return report;
            }
        }
    }
}

impl Place {
    /// Connects and closes.
    async fn visit(&self, begun: Option<Socket>) -> Result<(), Cause> {
        match self {
            Place::Address(address) => lookup::connect_to(begun, address).await?.close(),
            Place::Name(host, port) => lookup::connect(None, host, *port).await?.close(),
        }
        Ok(())
    }
}
