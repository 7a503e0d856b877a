//! Working only while leading: the loop around [`leader::Election`].

use std::future::Future;
use std::time::Duration;

use api::{Lease, Verb, Write};
use leader::{Effect, Election, Input, Settings};
use machine::{Rng, Time};
use runtime::{Answers, Client, Clock, Fence, Metrics, Shell, Writer, requests};
use tokio_util::sync::CancellationToken;

/// Whom managedFields name.
const MANAGER: &str = "lifesign-leader-election";
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
    // Whatever the work sends and reads, the lease is renewed beside it.
    let own = client.separate();
    let mut election = Election::new(clock.now(), settings, rng);
    let fence = Fence::new(clock.clone());
    let writer = Writer::new(own.clone(), clock.clone(), MANAGER, Metrics::default());
    let leads = CancellationToken::new();
    let mut shell = ElectionShell {
        client: own.clone(),
        writer: writer.clone(),
        place: place.clone(),
        fence: fence.clone(),
        leads: leads.clone(),
        leader: None,
        lost: false,
    };
    let work_stop = CancellationToken::new();
    let mut working = Box::pin(async {
        leads.cancelled().await;
        work(fence.client(&client), work_stop.clone()).await
    });
    let output = tokio::select! {
        biased; // the election first: it says whether there may be work at all
        () = runtime::drive(&mut election, &clock, &stop, futures::stream::pending(), &mut shell) => None,
        output = &mut working => Some(output),
    };
    if shell.lost {
        fence.close();
        return (Ended::Lost, None);
    }
    work_stop.cancel();
    let output = match output {
        // Nobody else may act before this has ended, so leadership is given up after it. Without a renewal it ends anyway.
        None if leads.is_cancelled() => tokio::select! {
            output = &mut working => Some(output),
            () = clock.sleep_until(election.leads_until()) => None,
        },
        output => output,
    };
    fence.close();
    drop(working);
    release(writer, own, place, election, clock.now()).await;
    (Ended::Stopped, output)
}

/// Reads and writes the lease, and opens the fence for as long as we lead.
struct ElectionShell {
    client: Client,
    writer: Writer,
    place: Place,
    fence: Fence,
    leads: CancellationToken,
    leader: Option<String>,
    lost: bool,
}

impl Shell<Election> for ElectionShell {
    fn perform(&mut self, _: &Election, effect: Effect, answers: &mut Answers<Input>) {
        match effect {
            Effect::Read => drop(answers.spawn(read(self.client.clone(), self.place.clone()))),
            Effect::Write(lease) => {
                drop(answers.spawn(write(self.writer.clone(), self.client.clone(), self.place.clone(), lease)));
            }
            Effect::Lead => self.leads.cancel(),
            Effect::Lost => {
                self.fence.close();
                self.lost = true;
            }
        }
    }

    fn stepped(&mut self, election: &Election) {
        if let Some(until) = election.leads_until() {
            self.fence.open_until(until);
        }
        if election.leader() != self.leader.as_deref() {
            self.leader = election.leader().map(str::to_owned);
            if let Some(leader) = &self.leader {
                tracing::info!(lease = self.place.name, leader, "leader");
            }
        }
    }

    fn is_over(&self) -> bool {
        self.lost
    }
}

/// Gives leadership up, so that others need not wait until the lease expires.
async fn release(writer: Writer, client: Client, place: Place, election: Election, now: Time) {
    let Some(lease) = election.release(now) else { return };
    let name = place.name.clone();
    match write(writer, client, place, lease).await {
        Input::Written(_) => tracing::info!(lease = name, "leadership given up"),
        _ => {
            tracing::warn!(lease = name, "leadership could not be given up: another instance leads when the lease has expired")
        }
    }
}

async fn read(client: Client, place: Place) -> Input {
    let path = api::write::object::<Lease>(&place.namespace, &place.name);
    match requests::get_opt::<Lease>(&client, &path, TIMEOUT).await {
        Ok(lease) => Input::Seen(lease.map(Box::new)),
        Err(error) => failed(&place, &error),
    }
}

async fn write(writer: Writer, client: Client, place: Place, lease: Box<Lease>) -> Input {
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
    let verb = if first { Verb::Create(object.into()) } else { Verb::Merge(object) };
    let request = Write::to::<Lease>(place.namespace.clone(), place.name.clone(), verb);
    match writer.perform_with(&client, &request, TIMEOUT).await {
        Ok(stored) => stored.read().map_or(Input::Failed, Input::Written),
        // Somebody was faster, which is what elections are about; everything else was said.
        Err(_) => Input::Failed,
    }
}

fn failed(place: &Place, error: &dyn std::fmt::Display) -> Input {
    tracing::warn!(lease = place.name, %error, "the lease of the leader could not be read");
    Input::Failed
}
