//! The last scene: a node falls silent. Is it gone, or only far away? And how to wait longer, safely.

use std::time::{Duration, Instant};

use api::{Node, Pod};
use runtime::{Scope, WatchEvent};
use rustix::process::Signal;
use serde_json::json;

use super::plane::{DemoPlane, PODS};
use super::screen::{Screen, span};
use super::wait::until;
use crate::error::Failure;

/// The node takes its grace, and half of it for a busy machine.
const WITHIN: Duration = Duration::from_secs(90);

/// A node that has fallen silent.
pub(super) struct Silence {
    since: Instant,
}

/// Lets the agent of a node fall silent; its pod goes on.
pub(super) async fn begin(plane: &DemoPlane) -> Result<Silence, Failure> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "distant"},
        "spec": {"nodeName": "far", "terminationGracePeriodSeconds": 1, "containers": [
            {"name": "app", "image": "none", "command": ["sleep", "600"]},
        ]},
    });
    plane.create(PODS, &pod).await?;
    until::<Pod>(plane, "the pod of the far node", |pods| pods.get("distant").is_some_and(|pod| pod.condition_true("Ready")))
        .await?;
    plane.signal("far", Signal::STOP)?;
    Ok(Silence { since: Instant::now() })
}

impl Silence {
    /// Shows the scene.
    pub(super) async fn show(self, plane: &DemoPlane, screen: &Screen) -> Result<(), Failure> {
        screen.heading(4, "A node falls silent");
        screen.line(&format!(
            "{} ago the agent of node far was suspended, as if its link were cut; its pod goes on",
            span(self.since.elapsed())
        ));
        self.until_ready_is(plane, screen, "Unknown").await?;
        let unknown = self.since.elapsed();
        until::<Pod>(plane, "a pod that is marked", |pods| pods.get("distant").is_some_and(|pod| !pod.condition_true("Ready")))
            .await?;
        screen.line(&format!(
            "{} after its last sign the node is Unknown (Default waits 40 s, looked at every 5 s)",
            span(unknown)
        ));
        screen
            .line("its pod is marked not ready, so that no traffic goes there; nothing is evicted before 300 s more are over");
        plane.signal("far", Signal::CONT)?;
        let back = Instant::now();
        self.until_ready_is(plane, screen, "True").await?;
        let took = back.elapsed();
        let mut restarts = 0;
        until::<Pod>(plane, "a pod that is ready again", |pods| {
            let Some(pod) = pods.get("distant").filter(|pod| pod.condition_true("Ready")) else { return false };
            restarts = pod.status.container_statuses.iter().map(|status| status.restart_count).sum();
            true
        })
        .await?;
        screen
            .line(&format!("the link is back: the node is Ready {} later, its pod too, with {restarts} restarts", span(took)));
        let plan = plane.ask(&["profile", "plan", "--to", "MediumUpdateAverageReaction"]).await?;
        screen.line(
            "for bad links there are latency profiles; `lifesign profile plan` shows the way to one, planned from this plane:",
        );
        plan.lines().for_each(|line| screen.line(&format!("  {line}")));
        Ok(())
    }

    /// Waits until the condition Ready of the node has a status.
    async fn until_ready_is(&self, plane: &DemoPlane, screen: &Screen, status: &str) -> Result<(), Failure> {
        let mut nodes = runtime::watch::<Node>(plane.client(), Scope::fields("metadata.name=far".to_owned()));
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        let follow = async {
            loop {
                tokio::select! {
                    seen = nodes.next() => {
                        if let WatchEvent::Applied(node) = seen
                            && node.view.ready() == Some(status)
                        {
                            return;
                        }
                    }
                    _ = tick.tick() => screen.status(&format!("node far: {:.1} s since it was suspended", self.since.elapsed().as_secs_f64())),
                }
            }
        };
        tokio::time::timeout(WITHIN, follow).await.map_err(|_| Failure::bug(format!("node far never became {status}")))
    }
}
