//! Events about writes that an API server refused: of the object that was to change, or of the owner of the one to be made.
//!
//! Whoever looks at the object sees why nothing happens to it, without the log of the controller.

use std::time::Duration;

use api::{Event, EventType, ObjectReference, Verb, Write};
use serde_json::Value;

use crate::{Client, requests};

/// An object that is not found in this time has no event.
const TIMEOUT: Duration = Duration::from_secs(5);
const REASON: &str = "WriteRefused";

/// A write that was refused, and what it was about.
pub(crate) struct Refused {
    object: ObjectReference,
    /// Where the object is found.
    path: String,
    message: String,
}

impl Refused {
    /// Returns what can be told about a write; `None`: there is no object, or it is an event itself.
    pub(crate) fn new(write: &Write, why: &str) -> Option<Refused> {
        if write.kind == "Event" {
            return None;
        }
        let name = if write.name.is_empty() { "" } else { &format!(" {:?}", write.name) };
        let message = format!("cannot {} {}{name}: {why}", write.verb.name(), write.kind);
        match &write.verb {
            Verb::Create(body) if write.subresource.is_empty() => {
                let object = owner(&body.to_json()?, &write.namespace)?;
                Some(Refused { object, path: String::new(), message })
            }
            _ => {
                let object = ObjectReference {
                    api_version: write.api_version(),
                    kind: write.kind.to_owned(),
                    namespace: write.namespace.clone(),
                    name: write.name.clone(),
                    ..ObjectReference::default()
                };
                Some(Refused { object, path: format!("{}/{}", write.collection(), write.name), message })
            }
        }
    }

    /// Returns what to say, once it is known which object it is about; `None`: it is not there.
    pub(crate) async fn event(mut self, client: &Client) -> Option<Event> {
        // `kubectl describe` shows the events of the very object.
        if self.object.uid.is_empty() {
            let found: Value = requests::get_opt(client, &self.path, TIMEOUT).await.ok()??;
            self.object.uid = found["metadata"]["uid"].as_str()?.to_owned();
        }
        Some(Event { object: self.object, type_: EventType::Warning, reason: REASON, message: self.message })
    }
}

/// Returns the controller of an object, else its first owner.
fn owner(object: &Value, namespace: &str) -> Option<ObjectReference> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true).or(owners.first())?;
    let mut reference: ObjectReference = serde_json::from_value(owner.clone()).ok()?;
    // A Node owns objects in a namespace and is in none; everybody else lives where what they own lives.
    reference.namespace = if reference.kind == "Node" { String::new() } else { namespace.to_owned() };
    Some(reference)
}
