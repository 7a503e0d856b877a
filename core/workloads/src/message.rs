//! What the machines are told and what they want done.

use std::sync::Arc;

use api::{Deployment, Event, Pod, PodDisruptionBudget, ReplicaSet, Write, WriteFailure};

/// An object of one of the kinds that these controllers watch.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod.
    Pod(Arc<Pod>),
    /// A ReplicaSet.
    ReplicaSet(Arc<ReplicaSet>),
    /// A Deployment.
    Deployment(Arc<Deployment>),
    /// A PodDisruptionBudget.
    Budget(Arc<PodDisruptionBudget>),
}

/// A kind that these controllers watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Pods.
    Pods,
    /// ReplicaSets.
    ReplicaSets,
    /// Deployments.
    Deployments,
    /// PodDisruptionBudgets.
    Budgets,
}

/// A request, as its answer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A fact. Objects of kinds that a machine does not watch are ignored by it.
#[derive(Clone, Debug)]
pub enum Input {
    /// A list of everything of a kind begins; what it does not name by its end is gone.
    ListStarted(Watched),
    /// The list is complete. Nothing is written before every kind was listed once.
    ListEnded(Watched),
    /// An object is new or has changed; telling the same again is harmless.
    Applied(Object),
    /// An object is gone; its last version.
    Deleted(Object),
    /// A request was answered; every one must be, also when its connection broke. With success: the object as the server
    /// returned it, none for a deletion.
    Answered(WriteId, Result<Option<Object>, WriteFailure>),
}

/// What must be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a request and tell how it ended with [`Input::Answered`]. Those of one step may be sent at the same time.
    Write(WriteId, Write),
    /// Write an event.
    Event(Event),
}
