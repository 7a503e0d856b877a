//! The cases of the API server against kube-apiserver. What is known to differ is in [`differences`](crate::differences).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use testkit::script::{self, Answer, Case, Clients, Request};
use testkit::{Suite, Verdict, table};

use crate::bed::Bed;
use crate::{NO_CLUSTER, differences};

/// Runs every case of every file that speaks of Kubernetes.
pub(crate) fn run(bed: Option<&Bed>) -> ExitCode {
    let files = table::files_of("lifesign-apiserver");
    let suite = files.into_iter().fold(Suite::again().threads(8), |suite, file| {
        let kubeconfig = bed.map(|bed| bed.kubeconfig().to_owned());
        let there = kubeconfig.is_some();
        let left_out = move |case: &Case| if there { differences::reason(file, case) } else { Some(NO_CLUSTER) };
        suite.file_but(file, left_out, move |case: Case| check(kubeconfig.clone().ok_or(NO_CLUSTER)?, &case))
    });
    suite.run()
}

fn check(kubeconfig: PathBuf, case: &Case) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let server = Cluster(Clients::new(&kubeconfig)?);
    // Other runs may have left something with the same name.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let unique = format!("{:05}{:x}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id());
    runtime.block_on(script::run(&server, case, &unique))
}

struct Cluster(Clients);

impl script::Server for Cluster {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Answer, String>> {
        let clients = self.0.clone();
        Box::pin(async move { clients.send(request).await })
    }

    fn restart(&self, _kill: bool, _gates: BTreeMap<String, bool>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Err("a cluster is not restarted by a case".to_owned()) })
    }
}
