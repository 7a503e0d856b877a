//! Which cluster a command that only reads is about: any that a kubeconfig leads to, or the plane of this machine.

use std::path::{Path, PathBuf};

use clap::Args;
use runtime::{Config, Kubeconfig};

use crate::config::DataDir;
use crate::error::Failure;

/// Which cluster.
#[derive(Args, Clone)]
pub(crate) struct ConnectArgs {
    /// Credentials [default: $KUBECONFIG, else those of the plane in the data directory, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    data_dir: DataDir,
}

impl ConnectArgs {
    /// Returns how to reach the API as `agent`, and where that stands.
    pub(crate) async fn config(&self, agent: &'static str) -> Result<(Config, String), Failure> {
        let hint = "name a kubeconfig with --kubeconfig, or start a plane with `lifesign up`";
        let bad = |source: &str, error: &dyn std::fmt::Display| Failure::usage(format!("{source}: {error}")).hint(hint);
        let file = |path: &Path| {
            let source = path.display().to_string();
            Kubeconfig::read(path).map(|read| (read, source.clone())).map_err(|error| bad(&source, &error))
        };
        let plane = self.data_dir.path().map(|dir| dir.join("kubeconfig")).ok().filter(|path| path.exists());
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config")).filter(|path| path.exists());
        let (kubeconfig, source) = match (&self.kubeconfig, Kubeconfig::from_env().map_err(|error| bad("$KUBECONFIG", &error))?)
        {
            (Some(path), _) => file(path)?,
            (None, Some(read)) => (read, "$KUBECONFIG".to_owned()),
            (None, None) => match plane.or(home) {
                Some(path) => file(&path)?,
                None => {
                    let config = Config::incluster().map_err(|error| bad("no kubeconfig is named or found", &error))?;
                    return Ok((config, "the service account of this pod".to_owned()));
                }
            },
        };
        let mut config = kubeconfig.config(self.context.as_deref()).await.map_err(|error| bad(&source, &error))?;
        config.user_agent = Some(agent.to_owned());
        Ok((config, source))
    }
}
