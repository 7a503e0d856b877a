//! The objects of nodes: one writer, one request at a time, computed from the cache.

use std::time::Duration;

use api::marker::{NodePodProbe, PodProbe};
use api::{Verb, Write, WriteError};
use machine::Time;
use serde_json::json;

use super::{COALESCE, COALESCE_ENTRIES, Controller, Effect, RETRY, Target};
use crate::cache::{Changes, NodePodProbeAction};

/// What the controller remembers of a node.
#[derive(Default)]
pub(super) struct NodeWork {
    /// Whether the stored object was what it should be when last looked at, and nothing has changed since.
    pub(super) clean: bool,
    /// When the oldest change that is not written yet was seen.
    since: Option<Time>,
    failures: u32,
    /// No request before this instant.
    blocked_until: Option<Time>,
    /// The last request; it is repeated only after a while, should a server accept but not keep it.
    sent: Option<(NodePodProbeAction, Time)>,
}

impl Controller {
    pub(super) fn node_changed(&mut self, now: Time, name: String) {
        let work = self.node_work.entry(name.clone()).or_default();
        work.clean = false;
        work.since.get_or_insert(now);
        let at = (now + coalesce(self.cache.node_pod_probes.get(&name).map(|object| &**object)))
            .max(work.blocked_until.unwrap_or(now));
        self.nodes.schedule(name, at);
    }

    pub(super) fn run_node(&mut self, now: Time, name: String, effects: &mut Vec<Effect>) {
        let Some(action) = self.cache.action(&name) else { return self.node_clean(now, name) };
        let work = self.node_work.entry(name.clone()).or_default();
        if let Some((sent, again_at)) = &work.sent
            && *sent == action
            && now < *again_at
        {
            return self.nodes.schedule(name, *again_at);
        }
        let verb = match &action {
            NodePodProbeAction::Create(items) => Verb::Create(object(&name, items).into()),
            NodePodProbeAction::Update(items) => Verb::Merge(json!({"spec": {"podProbes": items}})),
            NodePodProbeAction::Delete => {
                let known = self.cache.node_pod_probes.get(&name);
                Verb::delete(known.map(|object| object.metadata.uid.clone()).unwrap_or_default())
            }
        };
        let since = work.since.take().unwrap_or(now);
        work.sent = Some((action, now + RETRY.after(work.failures + 1)));
        self.nodes.start(&name);
        let write = Write::to::<NodePodProbe>("", name.clone(), verb);
        effects.push(Effect::Write { target: Target::Node(name), write, since });
    }

    fn node_clean(&mut self, now: Time, name: String) {
        if self.cache.nodes.contains_key(&name) || self.cache.node_pod_probes.contains_key(&name) {
            self.node_work.insert(name.clone(), NodeWork { clean: true, ..NodeWork::default() });
        } else {
            self.node_work.remove(&name);
        }
        for marker in self.cache.markers_on(&name) {
            self.marker_changed(now, marker);
        }
    }

    pub(super) fn node_written(&mut self, now: Time, name: &str, error: Option<WriteError>, changes: &mut Changes) {
        let name = name.to_owned();
        self.nodes.finish(&name);
        let work = self.node_work.entry(name.clone()).or_default();
        let deleted = matches!(work.sent, Some((NodePodProbeAction::Delete, _)));
        let pause = coalesce(self.cache.node_pod_probes.get(&name).map(|object| &**object));
        work.failures = work.failures.saturating_add(1);
        let retry_at = match error {
            // Whether it took is found by looking again; what changed meanwhile is waited for as ever.
            None => work.since.map_or(now, |since| now.max(since + pause)),
            Some(_) => {
                work.sent = None;
                now + RETRY.after(work.failures)
            }
        };
        work.blocked_until = error.map(|_| retry_at);
        self.nodes.schedule(name.clone(), retry_at);
        if error == Some(WriteError::NotFound) || (deleted && error.is_none()) {
            self.cache.remove_node_pod_probe(&name, changes);
        }
    }
}

/// Returns how long changes to a node are gathered.
fn coalesce(object: Option<&NodePodProbe>) -> Duration {
    let parts = object.map_or(0, NodePodProbe::entries) / COALESCE_ENTRIES;
    COALESCE.saturating_mul(u32::try_from(parts).unwrap_or(u32::MAX).saturating_add(1))
}

fn object(name: &str, items: &[PodProbe]) -> serde_json::Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "NodePodProbe",
        "metadata": {"name": name},
        "spec": {"podProbes": items},
    })
}
