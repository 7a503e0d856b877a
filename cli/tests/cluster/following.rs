//! Follows objects by watch, also over restarts of the API server. Whoever comes back is told how everything is now, so that what a watch
//! missed meanwhile shows by the transition times of conditions.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::Value;
use testkit::client::{Client, Protocol};
use tokio::sync::oneshot;

use crate::bed::Bed;

/// Follows until it is dropped.
pub(crate) struct Follower {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Follower {
    /// Tells each object of a list that changes, on a thread of its own; `path` ends in a question mark or `&`.
    pub(crate) fn start(bed: &Bed, path: &str, mut take: impl FnMut(&Value) + Send + 'static) -> Follower {
        let (kubeconfig, path) = (bed.kubeconfig().to_owned(), format!("{path}watch=1"));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let follow = async {
                    loop {
                        let client = Client::new(&kubeconfig, Protocol::Http1).unwrap();
                        follow(&client, &path, &mut take).await;
                        // The API server is away.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                };
                tokio::select! {
                    () = follow => {}
                    _ = stopped => {}
                }
            });
        });
        Follower { stop: Some(stop), thread: Some(thread) }
    }
}

/// Follows until the connection ends.
async fn follow(client: &Client, path: &str, take: &mut impl FnMut(&Value)) {
    let request = http::Request::get(path).body(http_body_util::Full::default()).unwrap();
    let Ok(answer) = client.send(request).await else { return };
    let (mut body, mut text) = (answer.into_body(), Vec::new());
    while let Some(Ok(frame)) = body.frame().await {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice::<Value>(&line) {
                take(&event);
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
