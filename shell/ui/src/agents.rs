//! Which nodes have an agent of ours, and up to when each has told its attempts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use api::Node;
use machine::Time;
use serde_json::Value;
use view::{AgentReport, agent_address};

#[derive(Default)]
pub(crate) struct Agents(Mutex<BTreeMap<String, KnownAgent>>);

struct KnownAgent {
    address: String,
    /// The newest attempt that it has told.
    until: Option<Time>,
}

impl Agents {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KnownAgent>> {
        self.0.lock().expect("no code panics while it holds the agents")
    }

    /// Returns agents that are asked whatever nodes there are, by their addresses.
    pub(crate) fn named(addresses: &[String]) -> Agents {
        let agent = |address: &String| (address.clone(), KnownAgent { address: address.clone(), until: None });
        Agents(Mutex::new(addresses.iter().map(agent).collect()))
    }

    pub(crate) fn see(&self, node: &Node) {
        let name = &node.metadata.name;
        match agent_address(node) {
            None => drop(self.lock().remove(name)),
            Some(address) => {
                let mut known = self.lock();
                // One that moved has been started again, and tells everything that it knows.
                if known.get(name).is_none_or(|agent| agent.address != address) {
                    known.insert(name.clone(), KnownAgent { address, until: None });
                }
            }
        }
    }

    pub(crate) fn gone(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Returns whom to ask, and since when.
    pub(crate) fn due(&self) -> Vec<(String, String, Option<Time>)> {
        self.lock().iter().map(|(name, agent)| (name.clone(), agent.address.clone(), agent.until)).collect()
    }

    /// Takes an answer.
    pub(crate) fn answered(&self, name: &str, answer: &Value) -> Arc<AgentReport> {
        let report = AgentReport::read(answer);
        if let Some(agent) = self.lock().get_mut(name) {
            agent.until = agent.until.max(report.until);
        }
        Arc::new(report)
    }
}
