//! What tasks write to the loop, and what others ask it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api::WriteError;
use machine::Time;
use pods::Input;
use probe::Report;
use processes::container::{Running, ShimProgram};
use serde_json::Value;
use tokio::sync::oneshot;

use super::attempts::AttemptOwner;
use super::source::Listed;
use crate::metrics::AgentCounts;

/// A message to the loop.
pub(crate) enum Message {
    /// A fact for the machine of a pod.
    Fact { pod: u64, input: Input },
    /// A container runs.
    Started { pod: u64, container: Arc<str>, running: Arc<Running>, at: Time },
    /// Something that somebody should be told about a pod.
    Warning { pod: u64, message: String },
    /// An attempt has ended.
    Attempt { owner: AttemptOwner, attempt: u32, report: Report, began: Time, ended: Time },
    /// A status write has ended, of a pod or of [`MARKERS`](super::MARKERS).
    Written { pod: u64, result: Result<(), WriteError> },
    /// The container runtime has answered, or has not.
    Listed(Box<Listed>),
    /// Somebody wants to know something.
    Ask(Ask),
}

/// A question to the loop.
pub(crate) enum Ask {
    /// Where the logs of a container are.
    Logs { namespace: String, pod: String, container: String, answer: oneshot::Sender<Option<PathBuf>> },
    /// The instance of a container that runs, and the helper of its commands.
    Instance { namespace: String, pod: String, container: String, answer: oneshot::Sender<Option<(Arc<Running>, ShimProgram)>> },
    /// The address of a pod that is there.
    Address { namespace: String, pod: String, answer: oneshot::Sender<Option<IpAddr>> },
    /// What every worker does; with `since`, only those with attempts that ended later, and only these attempts.
    Probes { since: Option<Time>, answer: oneshot::Sender<Value> },
    /// How many there are of everything.
    AgentCounts { answer: oneshot::Sender<AgentCounts> },
}
