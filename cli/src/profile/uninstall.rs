//! `lifesign profile uninstall`: everything as if nobody had ever asked for a profile.

use std::time::Duration;

use api::Node;
use api::config_node::{ANNOTATION_PAUSED, ANNOTATION_RETRY};
use clap::Args;
use profiles::Target;
use profiles::steps::NodeSteps;
use serde_json::{Value, json};

use super::api::{Api, ApiArgs, CLUSTER};
use super::rollout::GraceArgs;
use super::set::wait_for;
use crate::block_on;
use crate::error::Failure;

/// From look to look at what agents say.
const LOOK: Duration = Duration::from_secs(1);

/// Restore the state before the first profile
///
/// Asks for no profile, takes back a pause, and waits until every value that was written for a profile is gone: heartbeats,
/// grace and tolerations are then what the components have built in, and on a Kubernetes cluster every file is as it was before. The way
/// there is as safe as that to a profile.
#[derive(Args)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = api::duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    grace: GraceArgs,
}

/// Returns what of ours is left on a node, and what stands in the way; whether that was given up.
fn left_on(node: &Node, generation: &str) -> Option<(String, bool)> {
    let steps = NodeSteps::read(node);
    let answer = steps.answer.as_ref()?;
    let changed = answer.components.iter().filter(|(_, state)| state.changed);
    let mut given_up = false;
    let changed = changed.map(|(component, state)| {
        given_up |= steps.has_failed(*component, generation) || !state.able;
        let asked = steps.handed.as_ref().is_some_and(|handed| handed.component == *component);
        let last = Some(&answer.message).filter(|_| asked && steps.result().is_some());
        let why = [Some(&state.message), last].into_iter().flatten().find(|why| !why.is_empty());
        why.map_or_else(|| component.name().to_owned(), |why| format!("{}: {why}", component.name()))
    });
    let changed = changed.collect::<Vec<_>>();
    (!changed.is_empty()).then(|| (format!("{} ({})", node.metadata.name, changed.join(", ")), given_up))
}

/// Waits until the agents of a stock cluster have given back every file as it was, and says who has not yet and why.
async fn files_are_given_back(api: &Api, generation: &str) {
    let mut printed = String::new();
    loop {
        // The API server is one of those that are given back: it may be away.
        if let Ok(nodes) = api.list::<Node>("/api/v1/nodes").await {
            let left: Vec<(String, bool)> = nodes.iter().filter_map(|node| left_on(node, generation)).collect();
            if left.is_empty() {
                return;
            }
            let hint = if left.iter().any(|(_, given_up)| *given_up) { "; `lifesign profile retry` tries again" } else { "" };
            let text = left.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(", ");
            if text != printed {
                eprintln!("files of ours are left on {text}{hint}");
                printed = text;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl UninstallArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let api = self.api.client().await?;
            if api.get::<Value>(CLUSTER).await?.is_none() {
                eprintln!("nothing to restore: nobody has ever asked for a profile");
                return Ok(());
            }
            let patch = json!({
                "metadata": {"annotations": {ANNOTATION_PAUSED: null, ANNOTATION_RETRY: null}},
                "spec": {"workerLatencyProfile": null},
            });
            let cluster = api.change(patch).await?;
            let generation = profiles::status::generation(&cluster.metadata);
            // Later the API server may be away for a moment.
            let (own, began) = (api.is_own().await?, tokio::time::Instant::now());
            wait_for(&api, Target::Empty, &cluster, self.timeout, &self.grace).await?;
            if !own {
                let left = self.timeout.saturating_sub(began.elapsed());
                let given_back = tokio::time::timeout(left, files_are_given_back(&api, &generation)).await;
                given_back
                    .map_err(|_| Failure::no("some files are not given back yet").hint("look at `lifesign profile status`"))?;
            }
            eprintln!("restored: no value of a profile is left");
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_says_why() {
        let node = |answer: Value| -> Node {
            let annotations = json!({"lifesign.dev/applied-step": answer.to_string()});
            serde_json::from_value(json!({"metadata": {"name": "n0", "annotations": annotations}})).unwrap()
        };
        let edited = "/x.yaml was changed by somebody else";
        let answer = |able: bool| {
            json!({"version": "1", "components": {"kubelet": {"able": true, "changed": false},
                "kube-apiserver": {"able": able, "changed": true, "message": if able { "" } else { edited }}}})
        };
        assert_eq!(left_on(&node(answer(true)), "1"), Some(("n0 (kube-apiserver)".to_owned(), false)));
        assert_eq!(left_on(&node(answer(false)), "1"), Some((format!("n0 (kube-apiserver: {edited})"), true)));
        assert_eq!(left_on(&node(json!({"version": "1"})), "1"), None);
    }
}
