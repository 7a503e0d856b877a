//! `lifesign kubeconfig`: credentials of a running plane.

use apiserver::{Authority, Role, kubeconfig};
use clap::{Args, ValueEnum};

use crate::config::{DataDir, server_file};
use crate::error::Failure;
use crate::output;

/// Print the kubeconfig of a running plane
///
/// For example: export KUBECONFIG=$(mktemp); lifesign kubeconfig > $KUBECONFIG; kubectl get pods
#[derive(Args)]
pub(crate) struct KubeconfigArgs {
    #[command(flatten)]
    data_dir: DataDir,
    /// Whose credentials
    #[arg(long, value_enum, default_value_t = RoleName::Admin)]
    role: RoleName,
    /// Credentials of the agent of this node
    #[arg(long, value_name = "NAME", conflicts_with = "role")]
    node: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleName {
    /// May do everything
    Admin,
    /// May do everything but read secrets
    Controllers,
    /// May read everything but secrets
    Viewer,
}

impl KubeconfigArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let data_dir = self.data_dir.path()?;
        let path = server_file(&data_dir);
        let url = std::fs::read_to_string(&path).map_err(|_| {
            Failure::no(format!("no plane was ever started in {}", data_dir.display()))
                .hint("start one with `lifesign up` or `lifesign apiserver`, or name its directory with --data-dir")
        })?;
        let role = match (self.node, self.role) {
            (Some(node), _) => {
                if let Some(rule) = api::names::dns1123_subdomain(&node) {
                    return Err(Failure::usage(format!("--node {node:?}: {rule}")));
                }
                Role::Node(node)
            }
            (None, RoleName::Admin) => Role::Admin,
            (None, RoleName::Controllers) => Role::Controllers,
            (None, RoleName::Viewer) => Role::Viewer,
        };
        let authority = Authority::open(&data_dir).map_err(Failure::usage)?;
        let credentials = authority.client(&role).map_err(Failure::bug)?;
        output::print(kubeconfig(url.trim(), authority.certificate(), &role.user(), &credentials).as_bytes())
    }
}
