//! TCP and gRPC, and which port a probe means.

use std::time::Duration;

use api::IntOrString;
use api::pod::ContainerPort;

use super::{Cause, Report, TargetOutput, unanswered};

/// Judges a TCP attempt: connected is enough, even if the peer closes at once.
pub fn tcp(connected: Result<(), &Cause>, timeout: Duration) -> Report {
    match connected {
        Ok(()) => Report::success(),
        Err(cause) => unanswered(cause, timeout),
    }
}

/// What a gRPC server answered to `grpc.health.v1.Health/Check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcAnswer {
    /// The name of the status code of the call, for example `OK`.
    pub code: Box<str>,
    /// The name of the serving status, for example `NOT_SERVING`; empty if the call failed.
    pub status: Box<str>,
    /// What the server said about a call that failed.
    pub detail: Box<str>,
}

/// Judges a gRPC attempt. A connection that was refused fails at once: dialling on would make a short period meaningless.
pub fn grpc(answer: Result<GrpcAnswer, &Cause>, service: &str, timeout: Duration) -> Report {
    let GrpcAnswer { code, status, detail } = match answer {
        Ok(answer) => answer,
        Err(cause) => return unanswered(cause, timeout),
    };
    match (&*code, &*status) {
        ("OK", "SERVING") => Report::success().with(TargetOutput::Grpc(status)),
        ("OK", _) => Report::failure(format!("service {service:?} is {status}")).with(TargetOutput::Grpc(status)),
        ("UNIMPLEMENTED", _) => Report::failure("the server does not implement grpc.health.v1.Health"),
        _ => Report::failure(format!("health check of service {service:?} failed with {code}: {detail}")),
    }
}

/// Returns the port that a number or name means: the number, this container's first port of that name, or a text that is
/// a number. Anything else is the spec's fault: a failure.
pub fn resolve_port(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, Report> {
    match port {
        IntOrString::Int(number) => port_number(*number),
        IntOrString::String(name) => match ports.iter().find(|port| !name.is_empty() && port.name == *name) {
            Some(port) => port_number(port.container_port),
            None => match name.parse::<i64>() {
                Ok(number) => port_number(number),
                Err(_) => Err(Report::failure(format!("the container has no port named {name:?}"))),
            },
        },
    }
}

/// Returns a port number, or a failure if it is not one.
pub fn port_number(number: i64) -> Result<u16, Report> {
    u16::try_from(number)
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| Report::failure(format!("port {number} is not between 1 and 65535")))
}
