//! What happens on a plane, in plain lines on stderr: pods that start, become ready, fail, go; and what is warned about.

mod lines;

use std::sync::{Arc, Mutex, PoisonError};

use api::Pod;
use api::meta::{Kind, ObjectMeta, Scope as KindScope};
use runtime::{Client, Clock, Informers, Scope, WatchEvent};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use lines::Lines;

/// The lines of a plane; clones share what is known.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Lines>>);

impl Progress {
    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        // Lines are whole after every call; who panicked elsewhere changes nothing about them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says from now on nothing that is only a consequence of stopping; returns how many pods run.
    pub(crate) fn stopping(&self) -> usize {
        let mut lines = self.lines();
        lines.stop();
        lines.running().count()
    }

    /// Returns the pods that run, as they are named in lines.
    pub(crate) fn running(&self) -> Vec<String> {
        self.lines().running().map(str::to_owned).collect()
    }

    /// Tells what becomes of pods, and what is warned about, until told to stop.
    pub(crate) async fn watch(self, informers: Informers, client: Client, clock: Clock, stop: CancellationToken) {
        let mut pods = informers.follow::<Pod>();
        let mut warnings = runtime::watch::<Warning>(&client, Scope::fields("type=Warning".to_owned()));
        // Those of the last time are not news.
        let mut is_news = false;
        loop {
            let deadline = self.lines().deadline();
            let printed: Vec<String> = tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep_until(deadline) => self.lines().due(clock.now()),
                seen = pods.next() => match seen {
                    WatchEvent::ListBegins | WatchEvent::Synced => Vec::new(),
                    WatchEvent::Deleted(pod) => self.lines().gone(&pod.view).into_iter().collect(),
                    WatchEvent::Applied(pod) => self.lines().pod(clock.now(), &pod.view).into_iter().collect(),
                },
                seen = warnings.next() => match seen {
                    WatchEvent::Synced => {
                        is_news = true;
                        Vec::new()
                    }
                    WatchEvent::Applied(event) if is_news => {
                        let Warning { involved_object, reason, message, .. } = &*event.view;
                        self.lines().warning(clock.now(), involved_object, reason, message).into_iter().collect()
                    }
                    WatchEvent::ListBegins | WatchEvent::Applied(_) | WatchEvent::Deleted(_) => Vec::new(),
                },
            };
            printed.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// The part of an Event that a line is made of.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Warning {
    metadata: ObjectMeta,
    #[serde(default)]
    involved_object: api::ObjectReference,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl Kind for Warning {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Event";
    const PLURAL: &'static str = "events";
    const SCOPE: KindScope = KindScope::Namespaced;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}
