//! The first scene: containers are ready when they listen, not when the next second is over.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use api::Pod;
use serde_json::{Value, json};

use super::plane::{DemoPlane, PODS};
use super::screen::{Screen, span, spread};
use super::wait::until;
use crate::error::Failure;

/// Shows the scene.
pub(super) async fn show(plane: &DemoPlane, screen: &Screen) -> Result<(), Failure> {
    let servers = if plane.speed() > 1 { 2 } else { 6 };
    screen.heading(1, "Ready when it listens");
    screen.line(&format!(
        "{servers} servers that begin to listen at odd moments; every one has a readiness probe with periodSeconds: 1"
    ));
    let pods: Vec<(String, &str, u64)> = (0..servers)
        .flat_map(|index| ["near", "plain"].map(|node| (format!("{node}-{index}"), node, 700 + 137 * index)))
        .collect();
    let create = async {
        for (name, node, listen_after_ms) in &pods {
            plane.create(PODS, &server(plane, name, node, *listen_after_ms)).await?;
        }
        Ok(())
    };
    // Followed from the beginning: what is seen late looks late.
    let mut ready: BTreeMap<String, SystemTime> = BTreeMap::new();
    let follow = until::<Pod>(plane, "servers that are ready", |seen| {
        for name in pods.iter().map(|(name, ..)| name) {
            if seen.get(name).is_some_and(|pod| pod.condition_true("Ready")) {
                ready.entry(name.clone()).or_insert_with(SystemTime::now);
            }
        }
        screen.status(&format!("{} of {} are ready", ready.len(), pods.len()));
        ready.len() == pods.len()
    });
    tokio::try_join!(create, follow)?;
    for (node, words) in [("near", "Lifesign"), ("plain", "asked once a second")] {
        let mut spans = Vec::new();
        for (name, seen) in ready.iter().filter(|(name, _)| name.starts_with(node)) {
            let log = plane.text(&format!("{PODS}/{name}/log")).await?;
            let listened =
                listened_at(&log).ok_or_else(|| Failure::bug(format!("{name} does not say when it listened: {log}")))?;
            spans.push(seen.duration_since(listened).unwrap_or_default());
        }
        let (median, worst) = spread(&mut spans).ok_or_else(|| Failure::bug("no server was asked"))?;
        let (median, worst) = (span(median), span(worst));
        screen.line(&format!("{words:<20} ready {median:>7} after it listened (median), {worst:>7} at worst"));
    }
    for (name, ..) in &pods {
        plane.delete(&format!("{PODS}/{name}")).await?;
    }
    Ok(())
}

fn server(plane: &DemoPlane, name: &str, node: &str, listen_after_ms: u64) -> Value {
    let after = format!("{listen_after_ms}ms");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "server", "image": "none", "command": plane.command(["serve", "--port", "8080", "--listen-after", &after]),
            "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
        }]},
    })
}

/// Reads when a server listened: it prints `LISTEN` and microseconds.
fn listened_at(log: &str) -> Option<SystemTime> {
    let micros = log.lines().find_map(|line| line.split_once("LISTEN ")?.1.trim().parse().ok())?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_server_says_when_it_listened() {
        assert_eq!(listened_at("x\nLISTEN 1000000\n"), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1)));
        assert_eq!(listened_at("LISTEN soon"), None);
    }
}
