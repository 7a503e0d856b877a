//! Waiting for objects, but not for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::meta::Kind;
use runtime::{Scope, WatchEvent};
use serde::de::DeserializeOwned;

use super::plane::DemoPlane;
use crate::error::Failure;

/// What does not happen by then will not happen.
const WITHIN: Duration = Duration::from_secs(60);

/// Follows the objects of a kind by name until `done` says so; it is called after every change.
pub(super) async fn until<T: Kind + DeserializeOwned + Send + Sync + 'static>(
    plane: &DemoPlane,
    what: &str,
    mut done: impl FnMut(&BTreeMap<String, Arc<T>>) -> bool,
) -> Result<(), Failure> {
    let mut events = runtime::watch::<T>(plane.client(), Scope::namespace("default"));
    let mut known: BTreeMap<String, Arc<T>> = BTreeMap::new();
    let mut synced = false;
    let follow = async {
        loop {
            match events.next().await {
                WatchEvent::ListBegins => {}
                WatchEvent::Synced => synced = true,
                WatchEvent::Applied(object) => {
                    drop(known.insert(object.view.metadata().name.clone(), Arc::clone(&object.view)))
                }
                WatchEvent::Deleted(object) => drop(known.remove(&object.view.metadata().name)),
            }
            // Before that, what is missing may only not have been seen yet.
            if synced && done(&known) {
                return;
            }
        }
    };
    tokio::time::timeout(WITHIN, follow).await.map_err(|_| Failure::bug(format!("the demo waited in vain: {what}")))
}
