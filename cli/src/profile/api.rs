//! The API that a command about profiles speaks to: that of a plane on this machine, or that of a kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::config_node::{ANNOTATION_APPLIED_PROFILE, ConfigNode};
use clap::Args;
use http::Method;
use profiles::Profile;
use profiles::openshift::{DEFINITION, is_ours};
use runtime::{Client, RequestError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::config::{DataDir, OWN_VERSION, api_version, read_kubeconfig, unreachable};
use crate::error::Failure;

/// Where the one object is.
const CLUSTERS: &str = "/apis/config.openshift.io/v1/nodes";
pub(super) const CLUSTER: &str = "/apis/config.openshift.io/v1/nodes/cluster";

/// How long a new plane may take to prepare its control plane for a profile before its node joins all the same.
const PREPARED_WITHIN: Duration = Duration::from_secs(10);

/// Asks for a profile on a plane that starts. Where no node is registered yet the way is direct, and the control plane is waited for, so that the
/// first node begins with the heartbeat of the profile.
pub(crate) async fn ask_at_start(client: &Client, profile: Profile) -> Result<(), Failure> {
    let api = Api { client: client.clone(), address: "this plane".to_owned() };
    api.change(json!({"spec": {"workerLatencyProfile": profile.name()}})).await?;
    if !api.list::<Value>("/api/v1/nodes").await?.is_empty() {
        return Ok(());
    }
    let prepared = async {
        let mut events = runtime::watch::<ConfigNode>(client, runtime::Scope::default());
        loop {
            if let runtime::WatchEvent::Applied(object) = events.next().await
                && object
                    .view
                    .metadata
                    .annotations
                    .get(ANNOTATION_APPLIED_PROFILE)
                    .is_some_and(|applied| applied == profile.name())
            {
                return;
            }
        }
    };
    if tokio::time::timeout(PREPARED_WITHIN, prepared).await.is_err() {
        tracing::warn!(%profile, "the profile is not in force yet; the node begins as usual");
    }
    Ok(())
}

/// Which API.
#[derive(Args, Clone)]
pub(super) struct ApiArgs {
    /// Credentials [default: those of the plane in the data directory]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(super) kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    data_dir: DataDir,
}

impl ApiArgs {
    /// Returns a client.
    pub(super) async fn client(&self) -> Result<Api, Failure> {
        match &self.kubeconfig {
            Some(path) => Api::of(path).await,
            None => Api::of(&self.data_dir.path()?.join("kubeconfig")).await,
        }
    }
}

/// A client of an API.
pub(super) struct Api {
    pub(super) client: Client,
    /// Where it is, for people.
    address: String,
}

impl Api {
    /// Returns a client of the API that a kubeconfig names.
    pub(super) async fn of(kubeconfig: &Path) -> Result<Api, Failure> {
        let hint = "start a plane with `lifesign up`, or name a kubeconfig with --kubeconfig";
        let config = read_kubeconfig(kubeconfig, "lifesign", hint).await?;
        let address = config.cluster_url.to_string();
        Ok(Api { client: Client::try_from(config).map_err(Failure::usage)?, address })
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value, RequestError> {
        runtime::request(&self.client, method, path, body).await
    }

    /// Returns whether this is an API of ours, and not that of a stock cluster.
    pub(super) async fn is_own(&self) -> Result<bool, Failure> {
        Ok(api_version(&self.client, &self.address).await?.contains(OWN_VERSION))
    }

    /// Returns an object or a list; `None`: it is not there.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.call(Method::GET, path, &Value::Null).await {
            Ok(value) => serde_json::from_value(value).map(Some).map_err(|error| Failure::no(format!("{path}: {error}"))),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Returns the object `cluster`; a missing one wants nothing.
    pub(super) async fn cluster(&self) -> Result<ConfigNode, Failure> {
        Ok(self.get(CLUSTER).await?.unwrap_or_default())
    }

    /// Returns the items of a list.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let list: Value = self.get(path).await?.unwrap_or_default();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let read = |item| serde_json::from_value(item).map_err(|error| Failure::no(format!("{path}: {error}")));
        items.into_iter().map(read).collect()
    }

    /// Changes an object.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> Result<Value, RequestError> {
        self.call(Method::PATCH, path, patch).await
    }

    /// Fails where the kind is somebody else's, as on OpenShift: nothing is written there.
    pub(super) async fn must_be_ours(&self) -> Result<(), Failure> {
        if self.is_own().await? {
            return Ok(());
        }
        match self.get::<Value>(DEFINITION).await? {
            Some(definition) if !is_ours(&definition) => {
                let why =
                    "nodes.config.openshift.io of this cluster is not managed by lifesign: profiles are only observed here";
                Err(Failure::no(why)
                    .hint("on OpenShift its own operators apply profiles; `lifesign profile status` and `plan` only read"))
            }
            _ => Ok(()),
        }
    }

    /// Changes the object `cluster`; one that is missing is made, one of somebody else's kind is left alone.
    pub(super) async fn change(&self, patch: Value) -> Result<ConfigNode, Failure> {
        self.must_be_ours().await?;
        let answer = match self.call(Method::PATCH, CLUSTER, &patch).await {
            Err(error) if error.code() == Some(404) => {
                let mut object = json!({
                    "apiVersion": "config.openshift.io/v1", "kind": "Node", "metadata": {"name": "cluster"}, "spec": {},
                });
                for part in ["spec", "metadata"] {
                    for (name, value) in patch[part].as_object().into_iter().flatten() {
                        object[part][name] = value.clone();
                    }
                }
                match self.call(Method::POST, CLUSTERS, &object).await {
                    // The plane, which has just started, was faster.
                    Err(error) if error.code() == Some(409) => self.call(Method::PATCH, CLUSTER, &patch).await,
                    made => made,
                }
            }
            answer => answer,
        };
        let object = answer.map_err(|error| self.failure(error))?;
        serde_json::from_value(object).map_err(|error| Failure::no(format!("{CLUSTER}: {error}")))
    }

    fn failure(&self, error: RequestError) -> Failure {
        match error {
            error if error.code() == Some(404) => {
                Failure::no("this API has no nodes.config.openshift.io").hint("only a Lifesign plane and OpenShift have them")
            }
            RequestError::Refused(refusal) => Failure::no(&refusal.message),
            error => unreachable(&self.address, &error),
        }
    }
}
