//! What is logged, where, and in which colours.

use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;

/// How much is logged.
#[derive(Args, Clone, Default)]
pub(crate) struct LogArgs {
    /// Log more to stderr: -v what changes, -vv every attempt, -vvv everything
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Log this, for example info or apiserver=debug [default: $RUST_LOG]
    #[arg(long, value_name = "FILTER", env = "LIFESIGN_LOG")]
    log: Option<String>,
}

impl LogArgs {
    /// Returns what the environment asks for, for commands without flags of their own.
    pub(crate) fn from_environment() -> LogArgs {
        LogArgs { verbose: 0, log: std::env::var("LIFESIGN_LOG").ok() }
    }

    /// Sends logs to stderr; `level` is what is logged if nobody asks for anything.
    pub(crate) fn start(&self, level: &str) {
        let environment = std::env::var("RUST_LOG").ok();
        let filter = filter(self.log.as_deref(), self.verbose, environment.as_deref(), level);
        // What cannot be read is not what was asked for; the level is a safe guess.
        let filter = EnvFilter::try_new(&filter).unwrap_or_else(|_| EnvFilter::new(level));
        // A second call (tests in one process) keeps the first subscriber.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(has_colour(&std::io::stderr()))
            .with_target(false)
            .try_init();
    }
}

/// Returns whether a stream shows colours: a terminal does, unless `NO_COLOR` is set to anything.
pub(crate) fn has_colour(stream: &impl std::io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Chooses what is logged: the flag, -v, the environment, the level, in this order.
fn filter(flag: Option<&str>, verbose: u8, environment: Option<&str>, level: &str) -> String {
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let more = match verbose {
        0 => None,
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    };
    given(flag).or_else(|| given(more)).or_else(|| given(environment)).unwrap_or_else(|| level.to_owned())
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn the_flag_goes_before_v_before_the_environment_before_the_level() {
        assert_eq!(filter(Some("debug"), 1, Some("trace"), "warn"), "debug");
        assert_eq!(filter(Some(""), 1, Some("trace"), "warn"), "info");
        assert_eq!(filter(None, 0, Some("trace"), "warn"), "trace");
        assert_eq!(filter(None, 0, Some(""), "warn"), "warn");
        assert_eq!(filter(None, 2, None, "warn"), "debug");
    }
}
