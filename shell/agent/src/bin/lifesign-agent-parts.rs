//! The parts of `lifesign` that the tests of this package run as processes; users run `lifesign shim` and `lifesign serve`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use agent::serve::{self, Protocol, ServeConfig};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["shim", "--terminal", "--", words @ ..] => {
            processes::interactive::become_command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>())
        }
        ["shim", spec] => processes::shim::run(Path::new(spec)),
        ["serve", protocol, port, listen_after_ms, drain_ms] => {
            let number = |text: &str| text.parse().expect("a number");
            let protocol = match *protocol {
                "tcp" => Protocol::Tcp,
                "grpc" => Protocol::Grpc,
                _ => Protocol::Http,
            };
            serve(ServeConfig {
                address: ServeConfig::default_address(),
                port: port.parse().expect("a port"),
                protocol,
                listen_after: Duration::from_millis(number(listen_after_ms)),
                drain: Duration::from_millis(number(drain_ms)),
                ..ServeConfig::default()
            })
        }
        _ => {
            eprintln!("usage: lifesign-agent-parts shim SPEC | serve http|tcp|grpc PORT LISTEN_AFTER_MS DRAIN_MS");
            ExitCode::from(2)
        }
    }
}

fn serve(config: ServeConfig) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match runtime.block_on(serve::run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("serve: {error}");
            ExitCode::FAILURE
        }
    }
}
