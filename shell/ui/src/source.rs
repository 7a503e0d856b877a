//! Feeds a board: objects from informers, attempts from agents, counts from the proxy of this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::config_node::NAME;
use api::{ConfigNode, EndpointSlice, Kind, Lease, Node, Pod, PodProbeMarker, Service};
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, stream};
use runtime::{Client, Events, Informers, Scope, WatchEvent, requests};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use view::{EventObject, Fact, Origin};

use crate::AskAgent;
use crate::agents::Agents;
use crate::shared::Shared;

/// Where nodes have their Leases.
const LEASES: &str = "kube-node-lease";
/// How often agents and the proxy are asked while somebody looks.
const PERIOD: Duration = Duration::from_secs(1);
/// How often the API is asked whether it answers while somebody looks.
const HEALTH_PERIOD: Duration = Duration::from_secs(2);
/// Who has not answered by then does not.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Where facts come from.
pub struct Source {
    /// The API.
    pub client: Client,
    /// The informers of this process.
    pub informers: Informers,
    /// How agents are asked.
    pub ask_agent: AskAgent,
    /// Agents beside those that nodes name, as `http://ADDR:PORT`.
    pub agents: Vec<String>,
    /// Connections that the proxy of this process has carried; `None`: it has no proxy.
    pub connections: Option<Arc<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>>,
    /// The grace of the node lifecycle controller of this process where no profile says otherwise; `None`: it has none.
    pub default_grace: Option<Duration>,
}

/// Feeds the board until told to stop.
pub async fn follow(source: Source, shared: Shared, stop: CancellationToken) {
    let agents = Agents::named(&source.agents);
    if let Some(grace) = source.default_grace {
        shared.apply(Origin::Listed, Fact::DefaultGrace(grace));
    }
    let mut facts = watched(&source).await;
    let polls = poll(&source, &shared, &agents);
    let health = check_health(&source.client, &shared);
    let feed = async {
        while let Some((seen, fact)) = facts.next().await {
            match &fact {
                Fact::Node(node) => agents.see(node),
                Fact::NodeGone(name) => agents.gone(name),
                _ => {}
            }
            shared.apply(seen, fact);
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = feed => {}
        () = polls => {}
        () = health => {}
    }
}

type Facts = SelectAll<BoxStream<'static, (Origin, Fact)>>;

/// Follows every kind that there is.
async fn watched(source: &Source) -> Facts {
    let informers = &source.informers;
    let mut all = SelectAll::new();
    all.push(facts(informers.follow::<Pod>(), Fact::Pod, Fact::PodGone));
    all.push(facts(informers.follow::<Service>(), Fact::Service, Fact::ServiceGone));
    all.push(facts(informers.follow::<EndpointSlice>(), Fact::Slice, Fact::SliceGone));
    all.push(facts(informers.follow::<Node>(), Fact::Node, Fact::NodeGone));
    all.push(facts(informers.follow::<EventObject>(), Fact::Event, Fact::EventGone));
    let leases = informers.follow_in::<Lease>(Scope::namespace(LEASES));
    all.push(facts(leases, Fact::Lease, |key| Fact::LeaseGone(key.rsplit('/').next().unwrap_or_default().to_owned())));
    if is_served::<PodProbeMarker>(&source.client).await {
        all.push(facts(informers.follow::<PodProbeMarker>(), Fact::Marker, Fact::MarkerGone));
    }
    if is_served::<ConfigNode>(&source.client).await {
        let cluster = informers.follow_in::<ConfigNode>(Scope::fields(format!("metadata.name={NAME}")));
        all.push(facts(cluster, Fact::Cluster, |_| Fact::ClusterGone));
    }
    all
}

/// Returns whether an API has a kind; one that does not answer is asked by its informer.
async fn is_served<T: Kind>(client: &Client) -> bool {
    let path = format!("{}?limit=1", api::write::collection::<T>(""));
    let found = requests::get_opt::<Value>(client, &path, HEALTH_TIMEOUT).await;
    !matches!(found, Ok(None))
}

/// Turns what an informer says into facts; what comes after the first list happens as it is told.
fn facts<T>(
    events: Events<T>,
    there: impl Fn(Arc<T>) -> Fact + Send + 'static,
    gone: impl Fn(String) -> Fact + Send + 'static,
) -> BoxStream<'static, (Origin, Fact)>
where
    T: Kind + DeserializeOwned + Send + Sync + 'static,
{
    let mut seen = Origin::Listed;
    let fact = move |event: WatchEvent<T>| match event {
        WatchEvent::Applied(object) => Some((seen, there(object.view))),
        WatchEvent::Deleted(object) => Some((seen, gone(object.view.metadata().key()))),
        // A later list tells what happened meanwhile: nobody knows when.
        WatchEvent::ListBegins => {
            seen = Origin::Listed;
            None
        }
        WatchEvent::Synced => {
            seen = Origin::Live;
            None
        }
    };
    events.map(fact).filter_map(std::future::ready).boxed()
}

/// Asks agents and the proxy while somebody looks.
async fn poll(source: &Source, shared: &Shared, agents: &Agents) {
    loop {
        shared.viewed().await;
        let asked = agents.due().into_iter().map(|(name, address, since)| async move {
            let path =
                since.map_or_else(|| "/debug/probes".to_owned(), |since| format!("/debug/probes?since={}", since.as_micros()));
            let answer = (source.ask_agent)(address.clone(), path).await;
            (name, address, answer)
        });
        // Many nodes are asked a few at a time.
        let mut answers = stream::iter(asked).buffer_unordered(8);
        while let Some((name, address, answer)) = answers.next().await {
            match answer {
                Ok(answer) => shared.apply(Origin::Live, Fact::Report(agents.answered(&name, &answer))),
                Err(error) => tracing::debug!(node = name, address, error, "the agent does not answer"),
            }
        }
        if let Some(connections) = &source.connections {
            shared.apply(Origin::Live, Fact::Connections(connections()));
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Asks the API whether it answers while somebody looks: what is shown may be old.
async fn check_health(client: &Client, shared: &Shared) {
    loop {
        shared.viewed().await;
        let answer = requests::read(client, "/version", HEALTH_TIMEOUT).await;
        shared.set_unanswered(answer.err().map(|error| error.to_string()));
        tokio::time::sleep(HEALTH_PERIOD).await;
    }
}
