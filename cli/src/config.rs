//! Where things are, and what the commands that run a plane have in common.

use std::path::{Path, PathBuf};

use clap::Args;
use runtime::files::claim_private_folder;
use runtime::{Client, Config, Kubeconfig, RequestError};

use crate::error::Failure;

/// Returns the data directory that is used when none is named.
pub(crate) fn default_data_dir() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state
        .map(|state| state.join("lifesign"))
        .ok_or_else(|| Failure::usage("neither XDG_STATE_HOME nor HOME is set").hint("name a directory with --data-dir"))
}

/// Which plane a command is about.
#[derive(Args, Clone)]
pub(crate) struct DataDir {
    /// Where the plane keeps its data [default: $XDG_STATE_HOME/lifesign]
    #[arg(long, value_name = "DIR", env = "LIFESIGN_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDir {
    /// Returns the directory, made if it is not there, which nobody else may enter.
    pub(crate) fn claim(&self) -> Result<PathBuf, Failure> {
        let path = self.path()?;
        claim_private_folder(&path, &["lock", "store.redb", "pki"]).map_err(|error| {
            Failure::usage(format!("{}: {error}", path.display())).hint("choose another directory with --data-dir")
        })?;
        Ok(path)
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        self.data_dir.clone().map_or_else(default_data_dir, Ok)
    }
}

/// The file in which a running plane says where it listens.
pub(crate) fn server_file(data_dir: &Path) -> PathBuf {
    data_dir.join("server")
}

/// Returns the clock of the process. Tests of what takes minutes make it run faster: `LIFESIGN_CLOCK_SPEED=10`.
pub(crate) fn clock() -> runtime::Clock {
    let speed = std::env::var("LIFESIGN_CLOCK_SPEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    runtime::Clock::faster(speed)
}

/// What the version of our own API server has in it.
pub(crate) const OWN_VERSION: &str = "+lifesign";

/// Reads how to reach an API as `who`; `hint` says where a kubeconfig comes from.
///
/// The name becomes the manager of the fields that a write without one sets.
pub(crate) async fn read_kubeconfig(path: &Path, who: &'static str, hint: &str) -> Result<Config, Failure> {
    let bad = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display())).hint(hint);
    let kubeconfig = Kubeconfig::read(path).map_err(|error| bad(&error))?;
    let config = kubeconfig.config(None).await.map_err(|error| bad(&error))?;
    Ok(named(config, who))
}

/// Returns how to reach an API as `who`: by a kubeconfig, or by the service account of the pod that this runs in.
///
/// The token of a service account is read again as it changes.
pub(crate) async fn connect(kubeconfig: Option<&Path>, who: &'static str, hint: &str) -> Result<Config, Failure> {
    match kubeconfig {
        Some(path) => read_kubeconfig(path, who, hint).await,
        None => {
            let config = Config::incluster().map_err(|error| {
                Failure::usage(format!("no --kubeconfig is given, and this is not a pod of a cluster: {error}")).hint(hint)
            })?;
            Ok(named(config, who))
        }
    }
}

/// Returns a configuration whose requests say who sends them.
fn named(mut config: Config, who: &'static str) -> Config {
    config.user_agent = Some(format!("{who}/{}", env!("CARGO_PKG_VERSION")));
    config
}

/// Returns why an address cannot be reached, from words that may begin with the same.
pub(crate) fn cause<'a>(address: &str, why: &'a str) -> &'a str {
    let rest = why.strip_prefix(address.trim_end_matches('/')).and_then(|rest| rest.strip_prefix(" cannot be reached: "));
    rest.unwrap_or(why)
}

/// Says that nobody answers at an address.
pub(crate) fn unreachable(address: &str, why: &dyn std::fmt::Display) -> Failure {
    let address = address.trim_end_matches('/');
    let why = why.to_string();
    let why = cause(address, &why);
    let hint = if why.contains("refused") {
        "is the plane running? `lifesign up` starts one; another kubeconfig is named with --kubeconfig"
    } else if why.contains("certificate") {
        "this kubeconfig is of another plane or an older one: `lifesign kubeconfig` prints the current one"
    } else {
        "is the plane running, and is this its kubeconfig?"
    };
    Failure::unreachable(format!("{address} cannot be reached: {why}")).hint(hint)
}

/// Returns which Kubernetes an API is; `address` is where, for people.
pub(crate) async fn api_version(client: &Client, address: &str) -> Result<String, Failure> {
    match runtime::request(client, http::Method::GET, "/version", &serde_json::Value::Null).await {
        Ok(version) => Ok(api::json::text(&version, &["gitVersion"]).to_owned()),
        Err(RequestError::Refused(refusal)) => Err(Failure::no(format!("{address} refuses: {}", refusal.message))),
        Err(error) => Err(unreachable(address, &error)),
    }
}
