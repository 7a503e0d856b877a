//! Leader election around real work, on a paused clock: who leads writes, and nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver::Server;
use controllers::leading::{Ended, Place, lead};
use http::{Method, Request};
use leader::Settings;
use machine::{Rng, Time};
use registry::authz::Identity;
use runtime::{Body, Client, Clock};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::memory_server;

/// How long a slow API takes to hear a request.
const DELAY: Duration = Duration::from_secs(20);

/// A write of the work that reached the server.
#[derive(Clone, Debug)]
struct Arrived {
    at: Time,
    who: &'static str,
}

/// A way to the server that can become slow.
#[derive(Clone)]
struct Link {
    server: Server,
    clock: Clock,
    who: &'static str,
    slow: Arc<AtomicBool>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

impl Link {
    fn client(&self) -> Client {
        let (link, inner) = (self.clone(), Client::new(self.server.service(Identity::internal(self.who))));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (link, inner) = (link.clone(), inner.clone());
            async move {
                if link.slow.load(Ordering::Relaxed) {
                    tokio::time::sleep(DELAY).await;
                }
                if request.uri().path().ends_with("/configmaps/work") {
                    link.arrived.lock().unwrap().push(Arrived { at: link.clock.now(), who: link.who });
                }
                inner.send(request).await.map_err(tower::BoxError::from)
            }
        });
        Client::new(service)
    }
}

/// Work that hears no order to stop: it writes once a second for ever, from a task that nobody holds.
async fn stubborn(client: Client) {
    tokio::spawn(async move {
        loop {
            let client = client.clone();
            tokio::spawn(async move {
                let patch = json!({"data": {"a": "b"}});
                let _ = runtime::request(&client, Method::PATCH, "/api/v1/namespaces/default/configmaps/work", &patch).await;
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    std::future::pending().await
}

fn candidate(link: &Link, seed: u64, stop: &CancellationToken) -> tokio::task::JoinHandle<(Ended, Option<()>)> {
    let place = Place { namespace: "kube-system".to_owned(), name: "test".to_owned() };
    let settings = Settings::new(link.who);
    let (client, clock, stop) = (link.client(), link.clock.clone(), stop.clone());
    tokio::spawn(lead(client, clock, place, settings, Rng::new(seed), stop, |client, _| stubborn(client)))
}

#[tokio::test(start_paused = true)]
async fn no_write_leaves_after_the_lease_is_lost() {
    let clock = Clock::starting_at(Time::from_secs(1_000));
    let server = memory_server(clock.clone()).await;
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let link = |who| {
        let (server, clock, arrived) = (server.clone(), clock.clone(), Arc::clone(&arrived));
        Link { server, clock, who, slow: Arc::default(), arrived }
    };
    let (first, second) = (link("first"), link("second"));
    let work = json!({"metadata": {"name": "work"}});
    runtime::request(&first.client(), Method::POST, "/api/v1/namespaces/default/configmaps", &work).await.unwrap();
    let stop = CancellationToken::new();
    let leading = candidate(&first, 1, &stop);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let waiting = candidate(&second, 2, &stop);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let writers = |arrived: &[Arrived]| arrived.iter().map(|write| write.who).collect::<Vec<_>>();
    let before = writers(&arrived.lock().unwrap());
    assert!(before.len() >= 9 && before.iter().all(|who| *who == "first"), "{before:?}");

    first.slow.store(true, Ordering::Relaxed);
    let (slow_since, written) = (clock.now(), before.len());
    let (ended, output) = leading.await.unwrap();
    let lost_at = clock.now();
    assert_eq!((ended, output), (Ended::Lost, None));
    assert!(lost_at.since(slow_since) <= Settings::new("").renew_deadline, "{lost_at} {slow_since}");
    // Longer than every request that was under way would have taken to arrive.
    tokio::time::sleep(DELAY * 3).await;
    let after = arrived.lock().unwrap()[written..].to_vec();
    assert!(after.iter().all(|write| write.who == "second" && write.at > lost_at), "{lost_at} {after:?}");
    assert!(after.len() > 30, "the second one works: {after:?}");
    stop.cancel();
    let (ended, _) = waiting.await.unwrap();
    assert_eq!(ended, Ended::Stopped);
}

#[tokio::test(start_paused = true)]
async fn who_stops_gives_the_lease_up_and_the_next_one_does_not_wait() {
    let clock = Clock::starting_at(Time::from_secs(1_000));
    let server = memory_server(clock.clone()).await;
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let link = |who| {
        let (server, clock, arrived) = (server.clone(), clock.clone(), Arc::clone(&arrived));
        Link { server, clock, who, slow: Arc::default(), arrived }
    };
    let (first, second) = (link("first"), link("second"));
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let leading = candidate(&first, 1, &stop_first);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let waiting = candidate(&second, 2, &stop_second);
    tokio::time::sleep(Duration::from_secs(3)).await;
    stop_first.cancel();
    let (ended, output) = leading.await.unwrap();
    // The work does not hear the order; it is dropped before the lease may be another's.
    assert_eq!((ended, output), (Ended::Stopped, None));
    let given_up = clock.now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let arrived = arrived.lock().unwrap().clone();
    let begun = arrived.iter().find(|write| write.who == "second").expect("the second one leads").at;
    assert!(arrived.iter().all(|write| write.who == "second" || write.at <= given_up), "{given_up} {arrived:?}");
    assert!(begun.since(given_up) < Duration::from_secs(15), "{begun} {given_up}");
    stop_second.cancel();
    waiting.await.unwrap();
}
