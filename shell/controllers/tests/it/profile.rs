//! Latency profiles on a paused clock: the safe order of a rollout, with this test in the place of the agent.

use std::time::Duration;

use controllers::profile::Config;
use serde_json::{Value, json};

use crate::support::Paused;

const CLUSTER: &str = "/apis/config.openshift.io/v1/nodes/cluster";

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"][format!("lifesign.dev/{name}")].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_grace_is_longer_before_any_node_beats_slower() {
    let plane = Paused::start(|config| {
        config.node_lifecycle = Some(nodes::monitor::Config::default());
        config.profile = Some(Config { options: profiles::rollout::Options::default(), tolerations: None, apply: true });
    })
    .await;
    plane.node("n").await;
    plane.until(CLUSTER, "made", |cluster| !cluster.is_null()).await;
    plane.patch(CLUSTER, json!({"spec": {"workerLatencyProfile": "MediumUpdateAverageReaction"}})).await;
    // The agent does what its Node asks for, and its Lease shows it.
    let agent = async {
        let mut seconds = 40;
        loop {
            let node = plane.get("/api/v1/nodes/n").await;
            if annotation(&node, "node-status-update-frequency") == "20s" {
                let grace = annotation(&plane.get(CLUSTER).await, "node-monitor-grace-period").to_owned();
                assert_eq!(grace, "2m0s", "the grace comes first");
                seconds = 80;
            }
            plane.beat("n", seconds).await;
            tokio::time::sleep(Duration::from_secs(seconds / 4)).await;
        }
    };
    let rollout = async {
        let applied = |cluster: &Value| annotation(cluster, "applied-profile") == "MediumUpdateAverageReaction";
        let (cluster, _) = plane.until(CLUSTER, "in force", applied).await;
        assert_eq!(annotation(&cluster, "node-monitor-grace-period"), "2m0s");
        assert_eq!(annotation(&cluster, "default-unreachable-toleration-seconds"), "60");
        assert_eq!(annotation(&plane.get("/api/v1/nodes/n").await, "node-status-update-frequency"), "20s");
    };
    tokio::select! {
        () = agent => {}
        () = rollout => {}
    }
}
