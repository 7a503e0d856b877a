//! The second scene: only the game knows which server may go, and a marker asks it.

use std::time::Instant;

use api::Pod;
use serde_json::{Value, json};

use super::plane::{DEPLOYMENTS, DemoPlane, MARKERS};
use super::screen::{Screen, span};
use super::wait::until;
use crate::error::Failure;

const LABEL: &str = "gameserver-idle";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Shows the scene.
pub(super) async fn show(plane: &DemoPlane, screen: &Screen) -> Result<(), Failure> {
    screen.heading(2, "The idle game server is scaled in first");
    let folder = plane.folder().join("game").display().to_string();
    plane.create(MARKERS, &marker()).await?;
    plane.create(DEPLOYMENTS, &servers(&folder)).await?;
    let mut names: Vec<String> = Vec::new();
    until::<Pod>(plane, "three idle game servers", |pods| {
        let idle = pods.values().filter(|pod| is(pod, "true")).map(|pod| pod.metadata.name.clone());
        names = idle.collect();
        screen.status(&format!("{} of 3 servers are marked as idle", names.len()));
        names.len() == 3
    })
    .await?;
    let busy = names[1].clone();
    screen.line(&format!("3 servers run and are marked {LABEL}=true; a match begins on {busy}"));
    let began = Instant::now();
    std::fs::write(format!("{folder}/{busy}/match"), b"").map_err(Failure::bug)?;
    until::<Pod>(plane, "a server that is not idle", |pods| pods.get(&busy).is_some_and(|pod| is(pod, "false"))).await?;
    screen.line(&format!("{} later it is marked {LABEL}=false, and deleting it is said to cost more", span(began.elapsed())));
    let began = Instant::now();
    plane.patch(&format!("{DEPLOYMENTS}/game-server"), &json!({"spec": {"replicas": 1}})).await?;
    let mut left: Vec<String> = Vec::new();
    until::<Pod>(plane, "one game server", |pods| {
        let running = pods.values().filter(|pod| pod.metadata.labels.contains_key(LABEL) && !pod.metadata.deleting());
        left = running.map(|pod| pod.metadata.name.clone()).collect();
        left.len() == 1
    })
    .await?;
    if left != [busy.clone()] {
        return Err(Failure::no(format!("{} is left, not {busy}", left.join(", "))));
    }
    screen.line(&format!(
        "scaled from 3 to 1: the two idle servers went within {}, the match on {busy} goes on",
        span(began.elapsed())
    ));
    plane.delete(&format!("{DEPLOYMENTS}/game-server")).await?;
    plane.delete(&format!("{MARKERS}/game-server")).await
}

fn is(pod: &Pod, idle: &str) -> bool {
    pod.metadata.labels.get(LABEL).is_some_and(|value| value == idle)
}

fn marker() -> Value {
    let policy =
        |state: &str, idle: &str, cost: &str| json!({"state": state, "labels": {LABEL: idle}, "annotations": {COST: cost}});
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PodProbeMarker", "metadata": {"name": "game-server"},
        "spec": {
            "selector": {"matchLabels": {"app": "game-server"}},
            "probes": [{
                "name": "Idle", "containerName": "server", "podConditionType": "game.io/idle",
                "probe": {
                    "exec": {"command": ["sh", "-c", "test ! -e \"$GAME_DIR/match\""]},
                    "periodSeconds": 1, "initialDelayMilliseconds": 0, "failureThreshold": 1,
                },
                "markerPolicy": [policy("Succeeded", "true", "-10"), policy("Failed", "false", "10")],
            }],
        },
    })
}

fn servers(folder: &str) -> Value {
    let script = "trap 'exit 0' TERM INT; mkdir -p \"$GAME_DIR\"; while :; do sleep 1 & wait $!; done";
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "game-server"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "game-server"}},
            "template": {
                "metadata": {"labels": {"app": "game-server"}},
                "spec": {"nodeName": "near", "terminationGracePeriodSeconds": 1, "containers": [{
                    "name": "server", "image": "none", "command": ["sh", "-c", script],
                    "env": [{"name": "GAME_DIR", "value": format!("{folder}/$(POD_NAME)")}],
                }]},
            },
        },
    })
}
