//! Working only while leading: the loop around [`leader::Election`].

use std::future::Future;
use std::time::Duration;

use api::{Lease, Verb, Write, WriteError};
use kube::Client;
use leader::{Effect, Election, Input, Settings};
use machine::{Machine, Rng, Time};
use runtime::{Clock, Fence, objects, perform};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A request that has no answer by then never gets one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where the lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, or ended by itself.
    Stopped,
    /// Leadership was lost: the process should end and be started again as a follower.
    Lost,
}

/// Waits until this process leads, then works until told to stop or until leadership is lost; gives it up at the end.
///
/// The work is given a client that sends nothing once leadership is lost. Lost leadership drops the work where it is: nobody
/// waits for a request that may no longer be sent.
pub async fn lead<T, F: Future<Output = T>>(
    client: Client,
    clock: Clock,
    place: Place,
    settings: Settings,
    rng: Rng,
    stop: CancellationToken,
    work: impl FnOnce(Client, CancellationToken) -> F,
) -> (Ended, Option<T>) {
    let mut election = Election::new(clock.now(), settings, rng);
    let fence = Fence::new(clock.clone());
    let mut requests = JoinSet::new();
    let mut work = Some(work);
    let work_stop = CancellationToken::new();
    let mut working = std::pin::pin!(None::<F>);
    let mut effects = Vec::new();
    let (ended, output) = loop {
        let input = tokio::select! {
            biased;
            () = stop.cancelled() => break (Ended::Stopped, None),
            Some(answered) = requests.join_next() => Some(answered.expect("a request does not panic")),
            () = clock.sleep_until(election.deadline()) => None,
            output = running(working.as_mut()) => break (Ended::Stopped, Some(output)),
        };
        let before = election.leader().map(str::to_owned);
        election.step(clock.now(), input, &mut effects);
        if let Some(leader) = election.leader().filter(|leader| before.as_deref() != Some(leader)) {
            tracing::info!(lease = place.name, leader, "leader");
        }
        if let Some(until) = election.leads_until() {
            fence.open_until(until);
        }
        let mut lost = false;
        for effect in effects.drain(..) {
            match effect {
                Effect::Read => drop(requests.spawn(read(client.clone(), place.clone()))),
                Effect::Write(lease) => drop(requests.spawn(write(client.clone(), place.clone(), lease))),
                Effect::Lead => working.set(work.take().map(|work| work(fence.client(&client), work_stop.clone()))),
                Effect::Lost => lost = true,
            }
        }
        if lost {
            fence.close();
            working.set(None);
            return (Ended::Lost, None);
        }
    };
    work_stop.cancel();
    let output = match output {
        // Nobody else may act before this has ended, so leadership is given up after it. Without a renewal it ends anyway.
        None if working.is_some() => tokio::select! {
            output = running(working.as_mut()) => Some(output),
            () = clock.sleep_until(election.leads_until()) => None,
        },
        output => output,
    };
    fence.close();
    working.set(None);
    requests.shutdown().await;
    release(client, place, election, clock.now()).await;
    (ended, output)
}

/// Gives leadership up, so that others need not wait until the lease expires.
async fn release(client: Client, place: Place, election: Election, now: Time) {
    let Some(lease) = election.release(now) else { return };
    let name = place.name.clone();
    match write(client, place, lease).await {
        Input::Written(_) => tracing::info!(lease = name, "leadership given up"),
        _ => {
            tracing::warn!(lease = name, "leadership could not be given up: another instance leads when the lease has expired")
        }
    }
}

/// Polls work that may not have begun.
async fn running<T, F: Future<Output = T>>(mut work: std::pin::Pin<&mut Option<F>>) -> T {
    match work.as_mut().as_pin_mut() {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

async fn read(client: Client, place: Place) -> Input {
    let leases = objects::<Lease>(&client, &place.namespace);
    match tokio::time::timeout(TIMEOUT, leases.get_opt(&place.name)).await {
        Ok(Ok(lease)) => Input::Seen(lease.map(|lease| Box::new(lease.view))),
        Ok(Err(error)) => failed(&place, &error),
        Err(_) => failed(&place, &"no answer"),
    }
}

async fn write(client: Client, place: Place, lease: Box<Lease>) -> Input {
    let first = lease.metadata.resource_version.is_empty();
    let mut object = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": place.name, "namespace": place.namespace},
    });
    object["spec"] = serde_json::to_value(&lease.spec).expect("a lease is plain data");
    for (field, time) in [("acquireTime", lease.spec.acquire_time), ("renewTime", lease.spec.renew_time)] {
        if let Some(time) = time {
            object["spec"][field] = time.micro().into();
        }
    }
    if !first {
        object["metadata"]["resourceVersion"] = lease.metadata.resource_version.clone().into();
    }
    // A patch with a version is refused when the object has another one by now.
    let verb = if first { Verb::Create(object) } else { Verb::Merge(object) };
    let request = Write::to::<Lease>(place.namespace.clone(), place.name.clone(), verb);
    match tokio::time::timeout(TIMEOUT, perform(&client, &request)).await {
        Ok(Ok(stored)) => match serde_json::from_value(stored.unwrap_or_default()) {
            Ok(stored) => Input::Written(stored),
            Err(error) => failed(&place, &error),
        },
        // Somebody was faster, which is what elections are about.
        Ok(Err(WriteError::Conflict | WriteError::AlreadyExists)) => Input::Failed,
        Ok(Err(error)) => failed(&place, &error),
        Err(_) => failed(&place, &"no answer"),
    }
}

fn failed(place: &Place, error: &dyn std::fmt::Display) -> Input {
    tracing::warn!(lease = place.name, %error, "the lease of the leader could not be read or written");
    Input::Failed
}
