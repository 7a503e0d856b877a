//! The cluster that is looked at.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::json;
use machine::Time;
use runtime::{Client, RequestError, requests};
use serde_json::Value;

use crate::config::{api_version, read_kubeconfig};
use crate::error::Failure;

/// A request that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the Lease of OpenKruise's manager may be without a renewal before it does not count.
const KRUISE_LEASE: Duration = Duration::from_secs(60);
/// How OpenKruise calls its admission.
const KRUISE_WEBHOOK: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kruise-validating-webhook-configuration";

/// A cluster that answers.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// Which Kubernetes it is, for example `v1.36.4`.
    pub(super) version: String,
}

impl Cluster {
    /// Reaches the cluster of a kubeconfig.
    pub(super) async fn reach(kubeconfig: Option<&Path>) -> Result<Cluster, Failure> {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        let path = kubeconfig.map(Path::to_owned).or_else(home);
        let hint = "name a kubeconfig with --kubeconfig";
        let path = path.ok_or_else(|| Failure::usage("neither KUBECONFIG nor HOME is set").hint(hint))?;
        let config = read_kubeconfig(&path, "lifesign", hint).await?;
        let address = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(Failure::usage)?;
        let version = api_version(&client, &address).await?;
        Ok(Cluster { client, version })
    }

    /// Returns an object or a list; `None`: it is not there.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>, RequestError> {
        requests::get_opt(&self.client, path, TIMEOUT).await
    }

    /// Returns the items of a list; none where there is no such kind.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>, RequestError> {
        let list = self.get(path).await?.unwrap_or_default();
        Ok(json::items(&list, &["items"]).to_vec())
    }

    /// Returns how OpenKruise shows that it runs the markers, if it does.
    pub(super) async fn kruise(&self, now: Time) -> Result<Option<String>, RequestError> {
        let leases = self.list("/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dkruise-manager").await?;
        let fresh = leases.iter().find(|lease| {
            let renewed = json::text(lease, &["spec", "renewTime"]);
            api::Timestamp::parse(renewed).is_ok_and(|renewed| now.since(renewed.0) < KRUISE_LEASE)
        });
        if let Some(lease) = fresh {
            return Ok(Some(format!("the Lease {}/kruise-manager is renewed", json::text(lease, &["metadata", "namespace"]))));
        }
        let webhooks = self.get(KRUISE_WEBHOOK).await?.unwrap_or_default();
        let judges = |webhook: &Value| {
            let rules = json::items(webhook, &["rules"]).iter();
            rules.flat_map(|rule| json::items(rule, &["resources"])).any(|resource| resource == "podprobemarkers")
        };
        let found = json::items(&webhooks, &["webhooks"]).iter().any(judges);
        Ok(found.then(|| "its webhook validates podprobemarkers".to_owned()))
    }
}
