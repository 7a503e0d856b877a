//! PodProbeMarkers and NodePodProbes as another admission may have stored them, through the controller and the agent.

use std::time::Duration;

use api::Pod;
use api::marker::{NodePodProbe, PodProbeMarker};
use machine::{Machine, Rng, Time};
use markers::agent::{self, Agent, ContainerNews, Finished, Runtime};
use markers::controller::{self, Controller, Object, Target, Watched};
use probe::{NodePolicy, Outcome};
use kinds::model;
use serde_json::Value;

use crate::objects::NOW;

/// Rounds of each machine: enough for retries, fast periods and texts that are held back.
const ROUNDS: usize = 200;

/// Takes `{"markers": [..], "pods": [..], "nodePodProbe": ..}` and lets both sides of markers live with it for a while.
pub fn markers(bytes: &[u8]) {
    let Ok(parsed) = model::json::parse(bytes) else { return };
    let object = &parsed.value["nodePodProbe"];
    let node: NodePodProbe = serde_json::from_value(object.clone()).unwrap_or_default();
    run_agent(node.clone());
    let list = |key: &str| parsed.value[key].as_array().cloned().unwrap_or_default();
    let markers = list("markers").into_iter().map(PodProbeMarker::from).map(|marker| Object::Marker(marker.into()));
    let pods = list("pods").into_iter().filter_map(|pod: Value| serde_json::from_value::<Pod>(pod).ok());
    let pods = pods.map(|pod| Object::Pod(pod.into()));
    let host = api::Node { metadata: node.metadata.clone(), ..api::Node::default() };
    run_controller(markers.chain(pods).chain([Object::Node(host.into()), Object::NodePodProbe(node.into())]).collect());
}

fn run_agent(node: NodePodProbe) {
    let mut agent = Agent::new(NodePolicy::default(), Rng::new(1));
    let (mut now, mut inputs) = (NOW, Vec::new());
    for item in &node.spec.pod_probes {
        for entry in &item.probes {
            inputs.push(agent::Input::Container(ContainerNews {
                uid: item.uid.clone(),
                name: entry.container_name.clone(),
                id: "c".to_owned(),
                runtime: Runtime::Running,
                started_at: Some(now),
                started: true,
            }));
        }
    }
    inputs.push(agent::Input::Spec(Box::new(node)));
    for round in 0..ROUNDS {
        let mut effects = Vec::new();
        agent.step(now, inputs.pop(), &mut effects);
        for effect in effects {
            match effect {
                agent::Effect::Launch(launch) => {
                    let outcomes = [Outcome::Success, Outcome::Failure, Outcome::Error];
                    inputs.push(agent::Input::Finished(Finished {
                        worker: launch.worker,
                        container_id: launch.container_id,
                        began: now,
                        outcome: outcomes[round % outcomes.len()],
                        message: "x".repeat(round * 50),
                    }));
                }
                agent::Effect::Write(_) => {
                    let result = if round % 3 == 0 { Err(api::WriteError::Failed) } else { Ok(()) };
                    inputs.push(agent::Input::Written(result));
                }
                _ => {}
            }
        }
        if inputs.is_empty() {
            let Some(next) = agent.deadline() else { break };
            assert!(next > now, "a deadline that was not acted upon");
            now = next;
        }
    }
}

fn run_controller(objects: Vec<Object>) {
    let mut controller = Controller::new();
    let mut inputs: Vec<controller::Input> = Watched::ALL.map(controller::Input::Synced).to_vec();
    inputs.extend(objects.into_iter().map(controller::Input::Applied));
    let mut now: Time = NOW;
    for round in 0..ROUNDS {
        let mut effects = Vec::new();
        controller.step(now, inputs.pop(), &mut effects);
        for effect in effects {
            if let controller::Effect::Write { target, .. } = effect {
                inputs.push(controller::Input::Written(target.clone(), answer(&target, round)));
            }
        }
        if inputs.is_empty() {
            let Some(next) = controller.deadline() else { break };
            now = next.max(now + Duration::from_micros(1));
        }
    }
}

/// Not every request succeeds.
fn answer(target: &Target, round: usize) -> Result<Option<Object>, api::WriteError> {
    match (target, round % 4) {
        (_, 1) => Err(api::WriteError::Failed),
        (Target::Pod(_), 2) => Err(api::WriteError::Invalid),
        (_, 3) => Err(api::WriteError::NotFound),
        _ => Ok(None),
    }
}
