//! What happens on a plane, told in plain lines: pods that start, become ready, fail, go.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Pod;
use machine::Time;
use runtime::{Clock, Informers, WatchEvent};
use tokio_util::sync::CancellationToken;

/// What was last said of a pod, and since when it is known.
struct KnownPod {
    state: String,
    since: Time,
}

/// Tells on stderr what becomes of pods, until told to stop.
pub(crate) async fn watch(informers: Informers, clock: Clock, stop: CancellationToken) {
    let mut pods = informers.follow::<Pod>();
    let mut known: BTreeMap<String, KnownPod> = BTreeMap::new();
    loop {
        let seen = tokio::select! {
            () = stop.cancelled() => return,
            seen = pods.next() => seen,
        };
        let now = clock.now();
        match seen {
            WatchEvent::ListBegins | WatchEvent::Synced => {}
            WatchEvent::Deleted(pod) => {
                if known.remove(&pod.view.metadata.key()).is_some() {
                    eprintln!("pod {}: gone", pod.view.metadata.key());
                }
            }
            WatchEvent::Applied(pod) => {
                let state = state(&pod.view);
                let key = pod.view.metadata.key();
                let entry = known.entry(key.clone()).or_insert(KnownPod { state: String::new(), since: now });
                if entry.state != state {
                    eprintln!("pod {key}: {state} ({} after it appeared)", span(now.since(entry.since)));
                    entry.state = state;
                }
            }
        }
    }
}

/// Returns what a person wants to know of a pod, in a few words.
fn state(pod: &Pod) -> String {
    if pod.metadata.deleting() {
        return "terminating".to_owned();
    }
    let waiting = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses).find_map(|status| {
        let waiting = status.state.waiting.as_ref()?;
        let quiet = matches!(waiting.reason.as_str(), "" | "ContainerCreating" | "PodInitializing");
        (!quiet).then(|| format!("{} {}", waiting.reason, waiting.message).trim().to_owned())
    });
    if let Some(waiting) = waiting {
        return waiting;
    }
    match pod.status.phase.as_str() {
        "Running" if pod.condition_true("Ready") => "ready".to_owned(),
        "Running" => "running, not ready".to_owned(),
        "" => "pending".to_owned(),
        phase => phase.to_lowercase(),
    }
}

fn span(span: Duration) -> String {
    if span < Duration::from_secs(10) { format!("{:.2} s", span.as_secs_f64()) } else { format!("{:.0} s", span.as_secs_f64()) }
}
