//! The parts of `lifesign` that the tests of this package run as processes; users run `lifesign shim`.

use std::path::Path;
use std::process::ExitCode;

use processes::container::{self, Instance, ShimProgram};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["shim", "--terminal", "--", words @ ..] => {
            processes::interactive::become_command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>())
        }
        ["shim", spec] => processes::shim::run(Path::new(spec)),
        ["launch", dir, spec] => launch(dir, spec),
        _ => {
            eprintln!("usage: lifesign-processes-parts shim SPEC | launch DIR JSON");
            ExitCode::from(2)
        }
    }
}

/// Plays an agent: starts a container, says so, and waits for its end.
fn launch(dir: &str, spec: &str) -> ExitCode {
    let spec = serde_json::from_str(spec).expect("a spec");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let record = runtime.block_on(async {
        match container::launch(&ShimProgram::current(), dir, &spec).await.expect("a shim") {
            Instance::Running(running) => {
                println!("launched");
                running.wait().await.expect("an exit record")
            }
            Instance::Exited(record) => record,
        }
    });
    ExitCode::from(u8::try_from(record.exit_code).unwrap_or(u8::MAX))
}
