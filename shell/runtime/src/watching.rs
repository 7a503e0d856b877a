//! Watching a kind: what is there, what changes, and what to forget, across reconnects.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt};
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;

use crate::object::Obj;

/// What a watcher is told.
#[derive(Clone, Debug)]
pub enum Seen<T> {
    /// The object is new or another than before.
    Applied(Box<Obj<T>>),
    /// The object is gone.
    Deleted(Box<Obj<T>>),
    /// Everything has been told once; after a reconnect it is said again.
    Synced,
}

/// Watches a kind for ever, reconnecting with back-off.
///
/// Objects that vanished while the connection was away are told as deleted, so whoever follows the stream never keeps
/// what no longer exists. An error of the connection is logged and retried, never told: the view stays as it was.
pub fn watch<T>(api: Api<Obj<T>>, config: watcher::Config) -> impl Stream<Item = Seen<T>> + Send
where
    T: api::Kind + Clone + DeserializeOwned + Send + Sync + 'static,
{
    let events = watcher::watcher(api, config).default_backoff();
    let state = Known { objects: BTreeMap::new(), fresh: None };
    events
        .scan(state, |known, event| {
            let told = match event {
                Ok(event) => known.take(event),
                Err(error) => {
                    tracing::warn!(kind = T::KIND, %error, "watch interrupted; trying again");
                    Vec::new()
                }
            };
            std::future::ready(Some(futures::stream::iter(told)))
        })
        .flatten()
}

/// What was told, to find out what is missing after a reconnect.
struct Known<T> {
    objects: BTreeMap<String, Obj<T>>,
    /// The objects of a list that is being told.
    fresh: Option<BTreeMap<String, Obj<T>>>,
}

impl<T: api::Kind + Clone> Known<T> {
    fn take(&mut self, event: Event<Obj<T>>) -> Vec<Seen<T>> {
        match event {
            Event::Init => {
                self.fresh = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(fresh) = &mut self.fresh {
                    fresh.insert(key(&object), object.clone());
                }
                vec![Seen::Applied(Box::new(object))]
            }
            Event::InitDone => {
                let fresh = self.fresh.take().unwrap_or_default();
                let before = std::mem::replace(&mut self.objects, fresh);
                let gone = before.into_iter().filter(|(key, _)| !self.objects.contains_key(key));
                gone.map(|(_, object)| Seen::Deleted(Box::new(object))).chain([Seen::Synced]).collect()
            }
            Event::Apply(object) => {
                self.objects.insert(key(&object), object.clone());
                vec![Seen::Applied(Box::new(object))]
            }
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
                vec![Seen::Deleted(Box::new(object))]
            }
        }
    }
}

fn key<T>(object: &Obj<T>) -> String {
    let metadata = &object.metadata;
    format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}
