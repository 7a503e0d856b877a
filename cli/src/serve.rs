//! `lifesign serve`: a small server for examples and tests.

use std::net::IpAddr;
use std::time::Duration;

use agent::serve::{Protocol, ServeConfig};
use clap::Args;

use crate::block_on;
use crate::error::Failure;

/// Run a small HTTP, HTTPS, TCP or gRPC test server
///
/// For examples and tests: a server that starts late, drains, or fails on request. Prints `LISTEN <epoch microseconds>`
/// when it listens.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Where to listen [default: $POD_IP, else all addresses]
    #[arg(long, value_name = "ADDR")]
    address: Option<IpAddr>,
    /// The port; 0 picks a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Begin to listen this long after the start
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = api::duration::parse)]
    listen_after: Duration,
    /// Go on serving this long after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = api::duration::parse)]
    drain: Duration,
    /// Fail this long after beginning to listen: HTTP 503, gRPC NOT_SERVING, TCP refused
    #[arg(long, value_name = "DURATION", value_parser = api::duration::parse)]
    fail_after: Option<Duration>,
    /// Answer HTTP requests with this status
    #[arg(long, value_name = "CODE", default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..=599))]
    status: u16,
    /// Print a line per connection, CONNECTION, and per request, REQUEST <path>
    #[arg(long)]
    log: bool,
    /// Speak HTTPS, with a certificate made at the start
    #[arg(long, conflicts_with_all = ["tcp", "grpc"])]
    tls: bool,
    /// Accept and close TCP connections instead of speaking HTTP
    #[arg(long, conflicts_with = "grpc")]
    tcp: bool,
    /// Serve the gRPC health service instead of HTTP
    #[arg(long)]
    grpc: bool,
}

impl ServeArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let protocol = match (self.tls, self.tcp, self.grpc) {
            (true, ..) => Protocol::Https,
            (_, true, _) => Protocol::Tcp,
            (_, _, true) => Protocol::Grpc,
            _ => Protocol::Http,
        };
        let config = ServeConfig {
            address: self.address.unwrap_or_else(ServeConfig::default_address),
            port: self.port,
            protocol,
            listen_after: self.listen_after,
            drain: self.drain,
            fail_after: self.fail_after,
            status: self.status,
            log: self.log,
        };
        let place = format!("{}:{}", config.address, config.port);
        block_on(async {
            agent::serve::run(config).await.map_err(|error| {
                Failure::usage(format!("cannot listen on {place}: {error}")).hint("choose another with --address and --port")
            })
        })
    }
}
