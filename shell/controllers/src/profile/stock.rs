//! What is only seen of a stock cluster: mirrors of static pods, who leads among the controller managers, kubeadm's record, and whose
//! definition of the kind it is.

use api::Lease;
use api::config_node::{ANNOTATION_KUBEADM_ORIGINAL, ConfigNode};
use profiles::kubeadm::{Configuration, Kubeadm, KubeadmChange};
use profiles::openshift::{DEFINITION, KEY, RENDERED, is_ours};
use profiles::stock::{MirrorPod, StaticPods};
use runtime::{Client, Events, RequestError, Scope, WatchEvent, requests};
use serde_json::{Value, json};

use super::TIMEOUT;
use crate::context::Context;

/// Where the control plane of a kubeadm cluster is.
const NAMESPACE: &str = "kube-system";
/// The Lease of the controller managers.
const LEADER: &str = "kube-controller-manager";
const KUBEADM: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

/// What is followed on a stock cluster only.
pub(super) struct Watches {
    pods: Events<MirrorPod>,
    leader: Events<Lease>,
    synced: [bool; 2],
}

impl Watches {
    pub(super) fn start(context: &Context) -> Watches {
        let leader = Scope { namespace: NAMESPACE.to_owned(), fields: format!("metadata.name={LEADER}") };
        Watches {
            pods: context.informers.follow_in(Scope::namespace(NAMESPACE)),
            leader: context.informers.follow_in(leader),
            synced: [false; 2],
        }
    }

    /// Returns whether everything was seen once.
    pub(super) fn synced(&self) -> bool {
        self.synced == [true; 2]
    }

    /// Waits for the next thing that is seen, for ever where nothing is followed; returns whether it is news.
    pub(super) async fn next(watches: &mut Option<Watches>, known: &mut StaticPods) -> bool {
        let Some(Watches { pods, leader, synced }) = watches else { return std::future::pending().await };
        tokio::select! {
            seen = pods.next() => match seen {
                WatchEvent::ListBegins => false,
                WatchEvent::Synced => !std::mem::replace(&mut synced[0], true),
                WatchEvent::Applied(pod) => known.take(&pod.view),
                WatchEvent::Deleted(pod) => known.remove(&pod.view),
            },
            seen = leader.next() => match seen {
                WatchEvent::ListBegins => false,
                WatchEvent::Synced => !std::mem::replace(&mut synced[1], true),
                WatchEvent::Applied(lease) => known.take_leader(lease.spec.holder_identity.as_deref().unwrap_or_default()),
                WatchEvent::Deleted(_) => known.take_leader(""),
            },
        }
    }
}

/// Returns whether the definition of the kind is ours to write to: that of OpenShift is not. `None`: nobody could say; `before` is what was
/// found last.
pub(super) async fn definition_is_ours(context: &Context, before: Option<bool>) -> Option<bool> {
    match requests::get_opt::<Value>(&context.client, DEFINITION, TIMEOUT).await {
        Ok(Some(definition)) => {
            let ours = is_ours(&definition);
            if !ours && before != Some(false) {
                tracing::warn!("nodes.config.openshift.io is not ours: latency profiles are observed, nothing is written");
            }
            Some(ours)
        }
        Ok(None) => None,
        Err(error) => {
            tracing::debug!(%error, "the definition of nodes.config.openshift.io could not be read");
            None
        }
    }
}

/// Reads what the operators of OpenShift have rendered; what cannot be read is not known.
pub async fn read_rendered(client: &Client, known: &mut StaticPods) {
    for rendered in RENDERED {
        let Ok(Some(map)) = requests::get_opt::<Value>(client, &rendered.path(), TIMEOUT).await else { continue };
        if let Some(config) = map["data"][KEY].as_str().and_then(|text| serde_saphyr::from_str(text).ok()) {
            known.take_rendered(&rendered, &config);
        }
    }
}

/// Returns what kubeadm remembers, if there is something that may be read.
pub(super) async fn kubeadm(client: &Client, cluster: Option<&ConfigNode>) -> Option<Kubeadm> {
    let map = requests::get_opt::<Value>(client, KUBEADM, TIMEOUT).await.ok().flatten()?;
    let read = |text: &str| {
        let value = serde_saphyr::from_str(text).ok()?;
        Some(Configuration { text: text.to_owned(), value })
    };
    let original = cluster.and_then(|cluster| cluster.metadata.annotations.get(ANNOTATION_KUBEADM_ORIGINAL));
    let now = read(map["data"]["ClusterConfiguration"].as_str()?)?;
    Some(Kubeadm { now, original: original.and_then(|text| read(text)) })
}

/// Gives kubeadm something else to remember.
pub(super) async fn write_kubeadm(client: &Client, change: &KubeadmChange) -> Result<(), RequestError> {
    let text = match change {
        KubeadmChange::Text(text) => text.clone(),
        KubeadmChange::Value(value) => {
            serde_saphyr::to_string(value).map_err(|error| RequestError::Unreadable(error.to_string()))?
        }
    };
    let patch = json!({"data": {"ClusterConfiguration": text}});
    runtime::request(client, http::Method::PATCH, KUBEADM, &patch).await.map(drop)
}
