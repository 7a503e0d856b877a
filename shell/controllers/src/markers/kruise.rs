//! Beside OpenKruise: two controllers of the same objects would undo each other's work, so ours waits while kruise-manager leads.

use std::collections::BTreeSet;
use std::time::Duration;

use api::event::EventType;
use api::write::reference;
use api::{Event, Lease};
use runtime::{Client, requests};
use serde::Deserialize;
use serde_json::Value;

use super::Metrics;
use crate::context::Context;

/// How often it is looked whether kruise-manager still leads.
const AGAIN: Duration = Duration::from_secs(30);
/// A request that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The Leases of leaders of OpenKruise, in whichever namespace.
const LEASES: &str = "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dkruise-manager";
/// What admits the markers of OpenKruise.
const WEBHOOKS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kruise-validating-webhook-configuration";
/// Somebody else takes care of markers.
const MARKERS_LEFT: &str = "MarkersLeftToKruise";

#[derive(Default, Deserialize)]
#[serde(default)]
struct List {
    items: Vec<Lease>,
}

/// Waits until kruise-manager does not lead; says once that it does.
pub(super) async fn wait_until_gone(context: &Context, metrics: &Metrics) {
    let mut recorded = false;
    while let Some(lease) = leads(context).await {
        metrics.kruise_leads(true);
        if !std::mem::replace(&mut recorded, true) {
            let meta = &lease.metadata;
            let message = "kruise-manager leads on this cluster: the marker controller of lifesign does not start beside it; \
                           switch its feature gate PodProbeMarkerGate off, or run lifesign without markers";
            tracing::warn!(lease = meta.key(), "{message}");
            let object = reference::<Lease>(&meta.namespace, &meta.name, &meta.uid);
            let message = message.to_owned();
            context.events.record(Event { object, type_: EventType::Warning, reason: MARKERS_LEFT, message });
        }
        context.clock.sleep_until(Some(context.clock.now() + AGAIN)).await;
    }
    metrics.kruise_leads(false);
}

/// Returns the Lease of a kruise-manager that leads. What cannot be read is taken to be absent: most clusters have no OpenKruise.
async fn leads(context: &Context) -> Option<Lease> {
    let list = requests::get_opt::<List>(&context.client, LEASES, TIMEOUT).await.ok().flatten().unwrap_or_default();
    let now = context.clock.now();
    if let Some(lease) = list.items.into_iter().find(|lease| markers::kruise_leads(lease, now)) {
        return Some(lease);
    }
    let webhooks = requests::get_opt::<Value>(&context.client, WEBHOOKS, TIMEOUT).await.ok().flatten()?;
    let mut lease = Lease::default();
    "kruise-manager".clone_into(&mut lease.metadata.name);
    markers::kruise_admits(&webhooks).then_some(lease)
}

/// Says which fields the installed definitions would lose; returns those of a probe in a NodePodProbe.
pub(super) async fn missing_fields(client: &Client) -> BTreeSet<String> {
    let mut pruned = BTreeSet::new();
    for name in ["podprobemarkers.apps.kruise.io", "nodepodprobes.apps.kruise.io"] {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let Ok(Some(definition)) = requests::get_opt::<Value>(client, &path, TIMEOUT).await else { continue };
        for field in markers::missing_fields(&definition) {
            tracing::warn!(definition = name, field, "the installed definition does not know this field: it is not written");
        }
        if name.starts_with("nodepodprobes") {
            pruned = markers::pruned_probe_fields(&definition);
        }
    }
    pruned
}
